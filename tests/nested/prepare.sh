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
	for pair in cpio=cpio xz=xz-utils modinfo=kmod mke2fs=e2fsprogs ip=iproute2 passt=passt musl-gcc=musl-tools; do
		PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%=*}" >/dev/null || missing+=" ${pair#*=}"
	done
	busybox_static || missing+=" busybox-static"
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
	[ -e "$out/vmlinuz-$name" ] && [ -e "$out/modules/$name/dummy.ko" ] && [ -e "$out/guest-modules/$name/virtio_balloon.ko" ] &&
		[ -e "$out/guest-modules/$name/vmw_vsock_virtio_transport.ko" ] && [ -e "$out/guest-modules/$name/virtio_blk.ko" ] &&
		[ -e "$out/bench-modules/$name/vhost_vsock.ko" ] && return

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
	take_modules "$dir/root" "$out/modules/$name" kvm-amd tun dummy
	take_modules "$dir/root" "$out/guest-modules/$name" virtio_mmio virtio_balloon vmw_vsock_virtio_transport virtio_blk \
		virtio_net virtio-rng
	take_modules "$dir/root" "$out/bench-modules/$name" vhost_vsock
	cp "$dir"/root/boot/vmlinuz-* "$out/vmlinuz-$name.tmp"
	mv "$out/vmlinuz-$name.tmp" "$out/vmlinuz-$name"
	echo "$image $(dpkg-deb -f "$dir"/*.deb Version)" >"$out/vmlinuz-$name.version"
	rm -rf "$dir"
}

# These modules and all they depend on, unpacked, with the order of insmod in `load`.
take_modules() { # take_modules TREE DESTINATION MODULE...
	local tree=$1 dest=$2 mod
	shift 2
	rm -rf "$dest" && mkdir -p "$dest"
	module_order=""
	for mod in "$@"; do add_module "$tree" "$dest" "$mod"; done
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
	[ "$out/guest.cpio" -nt "$here/init/guest" ] && [ "$out/guest.cpio" -nt "$here/kexec.c" ] && return
	local tree=$out/tree.guest
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev}
	cp /bin/busybox "$tree/bin/busybox"
	musl-gcc -static -Os -Wall -Wextra -Werror "$here/kexec.c" -o "$tree/bin/kexec" || die "kexec.c does not compile"
	ln -s busybox "$tree/bin/sh"
	cp "$here/init/guest" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/guest.cpio"
	rm -rf "$tree"
}

# What a guest with devices needs besides: modules, and a program. Goes behind the other archive.
make_guest_devices() { # make_guest_devices KERNEL
	local tree=$out/tree.devices cpio=$out/guest-$1.cpio
	[ "$cpio" -nt "$here/vsock.c" ] && [ "$cpio" -nt "$out/guest.cpio" ] && [ "$cpio" -nt "$out/guest-modules/$1/load" ] &&
		[ "$cpio" -nt "$out/pump" ] && return
	rm -rf "$tree" && mkdir -p "$tree"/{bin,modules}
	cp "$out/guest-modules/$1"/* "$tree/modules/"
	make -s -C "$root" build/sysinclude/.done
	musl-gcc -O2 -static -isystem "$root/build/sysinclude" -D_GNU_SOURCE "$here/vsock.c" -o "$tree/bin/vsock"
	cp "$out/pump" "$tree/bin/"
	pack "$tree" "$cpio"
	cat "$out/guest.cpio" >>"$cpio"
	rm -rf "$tree"
}

make_host() {
	[ "$out/host.cpio" -nt "$here/init/host" ] && [ "$out/host.cpio" -nt "$out/guest.cpio" ] &&
		[ "$out/host.cpio" -nt "$out/guest-6.1.cpio" ] && [ "$out/host.cpio" -nt "$out/guest-6.12.cpio" ] &&
		[ "$out/host.cpio" -nt "$out/vmlinuz-6.1" ] && [ "$out/host.cpio" -nt "$out/vmlinuz-6.12" ] && return
	local tree=$out/tree.host
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev,tmp,modules,guest}
	cp /bin/busybox "$tree/bin/busybox"
	ln -s busybox "$tree/bin/sh"
	cp -r "$out"/modules/* "$tree/modules/"
	cp "$out"/vmlinuz-6.1 "$out"/vmlinuz-6.12 "$tree/guest/"
	cp "$out/guest.cpio" "$tree/guest/initrd"
	cp "$out/guest-6.1.cpio" "$tree/guest/initrd-6.1"
	cp "$out/guest-6.12.cpio" "$tree/guest/initrd-6.12"
	cp "$here/init/host" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/host.cpio"
	rm -rf "$tree"
}

# What the scenario with a balloon needs beside the rest: its own guest with the driver, and the script that looks at it.
make_balloon() {
	local tree=$out/tree.balloon newest
	newest=$(ls -t "$here"/init/balloon "$here"/balloon/* "$here"/prepare.sh "$out"/guest-modules/*/load | head -n 1)
	[ "$out/balloon.cpio" -nt "$newest" ] && return
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev,modules}
	cp /bin/busybox "$tree/bin/busybox"
	ln -s busybox "$tree/bin/sh"
	cp -r "$out"/guest-modules/6.12 "$tree/modules/"
	cp "$here/init/balloon" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/balloon-guest.cpio"

	rm -rf "$tree" && mkdir -p "$tree/balloon"
	mv "$out/balloon-guest.cpio" "$tree/balloon/initrd"
	cp "$here"/balloon/test.sh "$tree/balloon/"
	pack "$tree" "$out/balloon.cpio"
	rm -rf "$tree"
}

# A program, or several, with the libraries they need.
take_programs() { # take_programs TREE PROGRAM...
	local tree=$1 file
	shift
	for file in "$@" $(ldd "$@" | grep -o '/[^ :)]*' | sort -u); do
		mkdir -p "$tree$(dirname "$file")"
		cp -L "$file" "$tree$(dirname "$file")/"
	done
}

# Programs that guests and the emulated host both have.
make_programs() {
	local name
	for name in pump records; do
		[ "$out/$name" -nt "$here/io/$name.c" ] && continue
		make -s -C "$root" build/sysinclude/.done
		musl-gcc -static -O2 -Wall -Wextra -isystem "$root/build/sysinclude" -D_GNU_SOURCE -o "$out/$name" "$here/io/$name.c" ||
			die "$name.c does not compile"
	done
}

# passt of another Debian, with its own C library, before the one of this Debian in the path.
take_other_passt() { # take_other_passt TREE
	if [ "$(cat "$out/passt/suite" 2>/dev/null)" != "$PASST_SUITE" ]; then
		fetch_debs "$out/passt" "$PASST_SUITE" '^$' passt libc6
		echo "$PASST_SUITE" >"$out/passt/suite"
	fi
	mkdir -p "$1/opt"
	cp -r "$out/passt" "$1/opt/passt"
	cat >"$1/bin/passt" <<-'END'
		#!/bin/sh
		exec /opt/passt/usr/lib64/ld-linux-x86-64.so.2 --library-path /opt/passt/usr/lib/x86_64-linux-gnu /opt/passt/usr/bin/passt "$@"
	END
	chmod 755 "$1/bin/passt"
}

# What scenarios with disks and networks need beside the rest: the guest's initramfs with drivers, what drives such a
# guest in the emulated host, and programs for both.
make_io() {
	local tree=$out/tree.io newest
	newest=$(ls -t "$here"/init/io "$here"/io/* "$here"/prepare.sh "$out"/guest-modules/*/load | head -n 1)
	[ "$(cat "$out/io.suite" 2>/dev/null)" = "passt ${PASST_SUITE:-}" ] && [ "$out/io.cpio" -nt "$newest" ] &&
		[ "$out/io-guest.cpio" -nt "$newest" ] && return
	rm -rf "$tree" && mkdir -p "$tree"/{bin,proc,sys,dev,tmp,mnt,modules,root,etc}
	cp /bin/busybox "$out/pump" "$out/records" "$tree/bin/"
	ln -s busybox "$tree/bin/sh"
	cp -r "$out"/guest-modules/* "$tree/modules/"
	cp "$here/init/io" "$tree/init" && chmod 755 "$tree/init"
	pack "$tree" "$out/io-guest.cpio"

	rm -rf "$tree" && mkdir -p "$tree"/{bin,guest,io,etc}
	cp "$out/io-guest.cpio" "$tree/guest/initrd-io"
	cp "$out/pump" "$out/records" "$tree/bin/"
	cp "$here"/io/*.sh "$tree/io/"
	# /usr/sbin is not in the path of the emulated host: busybox has its own mke2fs and ip.
	take_programs "$tree" /usr/sbin/mke2fs /usr/sbin/e2fsck /usr/sbin/ip "$(command -v passt)"
	if [ -n "${PASST_SUITE:-}" ]; then take_other_passt "$tree"; fi
	cp /etc/mke2fs.conf "$tree/etc/"
	printf '%s\n' 'root:x:0:0::/:/bin/sh' 'user:x:1000:1000::/:/bin/sh' >"$tree/etc/passwd"
	printf '%s\n' 'root:x:0:' 'user:x:1000:' >"$tree/etc/group"
	pack "$tree" "$out/io.cpio"
	echo "passt ${PASST_SUITE:-}" >"$out/io.suite"
	rm -rf "$tree"
}

# Packages of another suite, unpacked in DIR and not installed.
fetch_debs() { # fetch_debs DIR SUITE SKIP PACKAGE...: and what they need that is not here, except names that match SKIP
	local tree=$1 suite=$2 skip=$3 dir=$out/apt mirror names deb
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	shift 3
	mirror=$(apt-cache policy | awk '$3 == "bookworm/main" { print $2; exit }')
	if [ -z "$mirror" ]; then
		apt_update_once
		mirror=$(apt-cache policy | awk '$3 == "bookworm/main" { print $2; exit }')
	fi
	[ -n "$mirror" ] || die "no bookworm/main among the apt sources"
	[ -e $keyring ] && keyring="[signed-by=$keyring]" || keyring=''

	rm -rf "$dir" "$tree" && mkdir -p "$dir"/{lists/partial,cache/archives/partial,deb} "$tree"
	printf 'deb %s %s %s main\n' "$keyring" "$mirror" bookworm "$keyring" "$mirror" "$suite" >"$dir/sources.list"
	local apt="-o Dir::Etc::sourcelist=$dir/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$dir/lists
		-o Dir::Cache=$dir/cache -o APT::Sandbox::User=root -o Debug::NoLocking=1 -qq"
	echo "prepare: fetching $* from $suite into ${tree#"$root/"}"
	# shellcheck disable=SC2086 # lists of words
	{
		apt-get $apt update || die "apt-get update of $suite failed"
		names=$(apt-get $apt -s -t "$suite" --no-install-recommends install "$@" |
			awk -v skip="$skip" '$1 == "Inst" && $2 !~ skip { print $2 }')
		[ -n "$names" ] || die "$*: nothing to fetch from $suite"
		(cd "$dir/deb" && apt-get $apt -t "$suite" download $names) || die "download of $* failed"
	}
	for deb in "$dir"/deb/*.deb; do dpkg -x "$deb" "$tree"; done
	rm -rf "$dir"
}

# QEMU 10 from backports: Debian 12's own does not do for this (see README.md). Leaves $out/qemu-system, a wrapper.
fetch_qemu() {
	[ -e "$out/qemu-system" ] && return
	local tree=$out/qemu lib
	fetch_debs "$tree" bookworm-backports '^(qemu-system-gui|qemu-system-modules-|qemu-block-extra|qemu-utils)' qemu-system-x86
	lib=$tree/usr/lib/x86_64-linux-gnu
	cat >"$out/qemu-system.tmp" <<-END
		#!/bin/sh
		export LD_LIBRARY_PATH=$lib:$lib/pulseaudio:$tree/lib/x86_64-linux-gnu
		exec $tree/usr/bin/qemu-system-x86_64 -L $tree/usr/share/qemu -L $tree/usr/share/seabios "\$@"
	END
	chmod 755 "$out/qemu-system.tmp"
	"$out/qemu-system.tmp" --version >/dev/null || die "the QEMU in $tree does not run"
	mv "$out/qemu-system.tmp" "$out/qemu-system"
}

# The same QEMU for the inside of the emulated host, with its libraries and the firmware of the
# microvm machine: the yardstick.
make_qemu() {
	local qemu=$out/qemu/usr/bin/qemu-system-x86_64 tree=$out/tree.qemu file libs
	[ "$out/qemu.cpio" -nt "$out/qemu-system" ] && return
	rm -rf "$tree" && mkdir -p "$tree/usr/bin"
	cp "$qemu" "$tree/usr/bin/"
	libs=$(sed -n "s/^export LD_LIBRARY_PATH=//p" "$out/qemu-system")
	for file in $(LD_LIBRARY_PATH=$libs ldd "$qemu" | grep -o "/[^ ]*") \
		"$out/qemu"/usr/share/{seabios,qemu}/{bios-microvm.bin,qboot.rom,linuxboot_dma.bin,kvmvapic.bin,pvh.bin}; do
		[ -e "$file" ] || continue
		mkdir -p "$tree$(dirname "${file#"$out/qemu"}")"
		cp -L "$file" "$tree${file#"$out/qemu"}"
	done
	pack "$tree" "$out/qemu.cpio"
	rm -rf "$tree"
	"$out/qemu-system" --version | head -n 1 >"$out/qemu.version"
}

case ${1:-} in
'') ;;
--refresh) rm -rf "$out"/vmlinuz-* "$out/modules" "$out/guest-modules" "$out"/*.cpio "$out/qemu-system" "$out/baseline" "$out/passt" ;;
*) die "usage: prepare.sh [--refresh]" ;;
esac

mkdir -p "$out"
install_tools
for pair in $kernels; do
	fetch_kernel "${pair%%=*}" "${pair#*=}"
done
fetch_qemu
make_programs
make_guest
make_guest_devices 6.1
make_guest_devices 6.12
make_host
make_balloon
make_qemu
make_io
