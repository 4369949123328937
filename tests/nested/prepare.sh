#!/bin/bash
# Makes build/nested/: stock kernels, modules, and the parts of the two initramfs
# archives that do not depend on lull. Quick when everything is there already;
# `prepare.sh --refresh` asks the package archive again for newer kernels.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${NESTED_BUILD:-$root/build/nested}

# Short name of a kernel here, and the Debian package that always names the newest one.
kernels="6.1=linux-image-cloud-amd64 6.12=linux-image-6.12-cloud-amd64"

die() { echo "prepare: $*" >&2; exit 1; }

apt_updated=
apt_update_once() {
	[ -n "$apt_updated" ] && return
	apt_updated=1
	echo "prepare: apt-get update"
	apt-get -qq update || die "apt-get update failed"
}

install_tools() {
	local missing="" pair
	for pair in qemu-system-x86_64=qemu-system-x86 cpio=cpio xz=xz-utils modinfo=kmod cc=gcc; do
		PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%=*}" >/dev/null || missing+=" ${pair#*=}"
	done
	busybox_static || missing+=" busybox-static"
	[ -e /usr/include/linux/kvm.h ] || missing+=" linux-libc-dev"
	[ -e /usr/include/stdio.h ] || missing+=" libc6-dev"
	[ -z "$missing" ] && return
	echo "prepare: installing$missing"
	[ "$(id -u)" = 0 ] || die "install these packages first:$missing"
	apt_update_once
	# shellcheck disable=SC2086 # a list of words
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null ||
		die "apt-get install$missing failed"
}

# The dynamic busybox package has the same path but would not run in an initramfs.
busybox_static() {
	[ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1
}

# The meta package depends on exactly one versioned image package.
resolve_image() {
	apt-cache depends "$1" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}

fetch_kernel() {
	local name=$1 meta=$2 image dir=$out/deb/$1
	[ -e "$out/vmlinuz-$name" ] && [ -e "$out/modules/$name/load" ] && return

	image=$(resolve_image "$meta")
	if [ -z "$image" ]; then
		apt_update_once
		image=$(resolve_image "$meta")
	fi
	[ -n "$image" ] || die "$meta: no image package found (is bookworm-security among the apt sources?)"

	echo "prepare: fetching $image"
	rm -rf "$dir" && mkdir -p "$dir"
	# A stale package index names versions the archive has dropped: refresh it once.
	if ! (cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download "$image"); then
		apt_update_once
		image=$(resolve_image "$meta")
		(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download "$image") || die "$image: download failed"
	fi
	dpkg -x "$dir"/*.deb "$dir/root" || die "$image: cannot unpack"
	take_modules "$name" "$dir/root"
	cp "$dir"/root/boot/vmlinuz-* "$out/vmlinuz-$name.tmp"
	mv "$out/vmlinuz-$name.tmp" "$out/vmlinuz-$name"
	echo "$image $(dpkg-deb -f "$dir"/*.deb Version)" >"$out/vmlinuz-$name.version"
	rm -rf "$dir"
}

# kvm-amd and all it depends on, unpacked, with the order of insmod in `load`.
take_modules() {
	local name=$1 tree=$2 dest=$out/modules/$1
	rm -rf "$dest" && mkdir -p "$dest"
	module_order=""
	add_module "$tree" "$dest" kvm-amd
	echo "$module_order" >"$dest/load.tmp"
	mv "$dest/load.tmp" "$dest/load"
}

add_module() {
	local tree=$1 dest=$2 mod=$3 file dep
	[[ " $module_order " == *" $mod "* ]] && return
	file=$(find "$tree" -path '*/lib/modules/*' -name "${mod//_/[-_]}.ko*" -print -quit)
	[ -n "$file" ] || die "module $mod not in the kernel package"
	case $file in
	*.xz) xz -dc "$file" >"$dest/$mod.ko" ;;
	*) cp "$file" "$dest/$mod.ko" ;;
	esac
	for dep in $(PATH=$PATH:/usr/sbin:/sbin modinfo -F depends "$dest/$mod.ko" | tr ',' ' '); do
		add_module "$tree" "$dest" "$dep"
	done
	module_order="${module_order:+$module_order }$mod"
}

pack() { # pack DIRECTORY ARCHIVE
	(cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) >"$2.tmp"
	mv "$2.tmp" "$2"
}

# Redone when an init script is newer than the archive.
make_guest() {
	[ "$out/guest.cpio" -nt "$here/init/guest" ] && return
	local tree=$out/tree.guest
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev}
	cp /bin/busybox "$tree/bin/busybox"
	ln -s busybox "$tree/bin/sh"
	cp "$here/init/guest" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/guest.cpio"
	rm -rf "$tree"
}

make_host() {
	[ "$out/host.cpio" -nt "$here/init/host" ] && [ "$out/host.cpio" -nt "$here/hold_kvm.c" ] &&
		[ "$out/host.cpio" -nt "$out/guest.cpio" ] &&
		[ "$out/host.cpio" -nt "$out/vmlinuz-6.1" ] && [ "$out/host.cpio" -nt "$out/vmlinuz-6.12" ] && return
	local tree=$out/tree.host
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev,tmp,modules,guest}
	cp /bin/busybox "$tree/bin/busybox"
	ln -s busybox "$tree/bin/sh"
	cp -r "$out"/modules/* "$tree/modules/"
	cp "$out"/vmlinuz-6.1 "$out"/vmlinuz-6.12 "$tree/guest/"
	cp "$out/guest.cpio" "$tree/guest/initrd"
	cc -O2 -Wall -static -o "$tree/bin/hold_kvm" "$here/hold_kvm.c" || die "cannot compile hold_kvm.c"
	cp "$here/init/host" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/host.cpio"
	rm -rf "$tree"
}

# QEMU with its libraries and the firmware of the microvm machine: the yardstick.
make_qemu() {
	local qemu tree=$out/tree.qemu file version
	qemu=$(command -v qemu-system-x86_64)
	version=$("$qemu" --version | head -n 1)
	[ -e "$out/qemu.cpio" ] && [ "$(cat "$out/qemu.version" 2>/dev/null)" = "$version" ] && return
	rm -rf "$tree" && mkdir -p "$tree/usr/bin"
	cp "$qemu" "$tree/usr/bin/"
	for file in $(ldd "$qemu" | grep -o '/[^ ]*') \
		/usr/share/seabios/bios-microvm.bin /usr/share/qemu/{bios-microvm.bin,qboot.rom,linuxboot_dma.bin,kvmvapic.bin,pvh.bin}; do
		[ -e "$file" ] || continue
		mkdir -p "$tree$(dirname "$file")"
		cp -L "$file" "$tree$file"
	done
	pack "$tree" "$out/qemu.cpio"
	rm -rf "$tree"
	echo "$version" >"$out/qemu.version"
}

case ${1:-} in
'') ;;
--refresh) rm -rf "$out"/vmlinuz-* "$out/modules" "$out"/*.cpio "$out/baseline" ;;
*) die "usage: prepare.sh [--refresh]" ;;
esac

mkdir -p "$out"
install_tools
for pair in $kernels; do
	fetch_kernel "${pair%%=*}" "${pair#*=}"
done
make_guest
make_host
make_qemu
