#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154 # set in lib.sh
# For tests/nested/power-cut.sh, which kills this whole host in the middle. $1: who owns the interrupt controllers, or `check`.
# $2: first record | file with what was acknowledged.
. /io/lib.sh
disk=/dev/nvme0n1
mkdir -p /mnt

if [ "$1" = check ]; then
	mount -t ext4 $disk /mnt || fail "mount"
	if [ -s "$2" ]; then records check /mnt/var/records "$2" || fail "acknowledged records are lost"; fi
	umount /mnt
	/usr/sbin/e2fsck -fn $disk >/tmp/fsck 2>&1 || fail "fsck: $(tr '\n' ' ' </tmp/fsck)"
	[ $failures = 0 ]
	exit
fi
guest lull run --cpus 2 --mem 256M --irqchip "$1" --console stdio --serial file=/tmp/ttyS0 --initrd /guest/initrd-io \
	--disk "path=$disk" --cmdline "console=ttyS0 loglevel=5 panic=-1 root=/dev/vda init=/usr/local/sbin/lull-crash record=$2" $kernel
# Each acknowledgement at once to the rig, on the way that results go.
tail -f /tmp/hvc0 | while read -r line; do echo "$line" >/dev/ttyS1; done
