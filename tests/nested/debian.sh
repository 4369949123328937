#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/nested/debian/debian.img, a small Debian with ext4 that run.sh --debian boots: debootstrap once, by package name from
# the mirror that apt uses here, the image again whenever what this project puts into it has changed. Needs root.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${NESTED_BUILD:-$root/build/nested}/debian
nested=${out%/debian}
packages=systemd-sysv,udev,dbus,fio,e2fsprogs,iproute2,kmod
size=640M

die() { echo "debian: $*" >&2; exit 1; }

# The distribution that the rig's QEMU and kernels come from.
make_tree() {
	[ -e "$out/tree/usr/bin/fio" ] && [ "$(cat "$out/packages" 2>/dev/null)" = "$packages" ] && return
	local mirror
	[ "$(id -u)" = 0 ] || die "debootstrap needs root"
	"$root/tests/install-deps.sh" debian
	mirror=$(apt-cache policy | awk '$3 == "bookworm/main" { print $2; exit }')
	[ -n "$mirror" ] || die "no bookworm/main among the apt sources"
	echo "debian: debootstrap, about a minute"
	rm -rf "$out/tree" "$out/new" && mkdir -p "$out"
	debootstrap --variant=minbase --include=$packages bookworm "$out/new" "$mirror" >"$out/debootstrap.log" 2>&1 ||
		{ tail -n 20 "$out/debootstrap.log"; die "debootstrap failed, see $out/debootstrap.log"; }
	rm -rf "$out"/new/usr/share/{doc,man,locale,info} "$out"/new/var/cache/apt/* "$out"/new/var/lib/apt/lists/*
	mv "$out/new" "$out/tree"
	echo "$packages" >"$out/packages"
}

make_image() {
	local tree=$out/tree newest
	newest=$(ls -t "$here"/io/debian/* "$here"/debian.sh "$nested/pump" "$nested/records" | head -n 1)
	[ "$out/debian.img" -nt "$newest" ] && [ "$out/debian.img" -nt "$out/packages" ] && return
	cp "$nested/pump" "$nested/records" "$here"/io/debian/lull-* "$tree/usr/local/sbin/"
	chmod 755 "$tree"/usr/local/sbin/*
	echo lull >"$tree/etc/hostname"
	echo '/dev/vda / ext4 defaults 0 1' >"$tree/etc/fstab"
	printf '[Match]\nName=eth*\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n' >"$tree/etc/systemd/network/eth.network"
	chroot "$tree" systemctl -q enable systemd-networkd
	echo root:lull | chroot "$tree" chpasswd
	rm -f "$out/new.img"
	truncate -s $size "$out/new.img"
	/usr/sbin/mke2fs -q -F -t ext4 -d "$tree" "$out/new.img" || die "mke2fs failed"
	mv "$out/new.img" "$out/debian.img"
}

make_tree
make_image
