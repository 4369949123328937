#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154 # set in lib.sh
# One guest, a disk with ext4, one to be discarded, a tap, random numbers and two consoles. $1: who owns the interrupt
# controllers. $2: bytes through the network.
. /io/lib.sh

rm -f /tmp/root.img /tmp/work.img
truncate -s 64M /tmp/root.img
truncate -s 4M /tmp/work.img
/usr/sbin/mke2fs -q -F -t ext4 /tmp/root.img || fail mke2fs
make_tap 0
pump listen 7000 "${2:-2097152}" >/tmp/pump &
pump=$!
guest lull run --cpus 2 --mem 256M --irqchip "$1" --timeout 220 --console stdio --serial file=/tmp/ttyS0 --initrd /guest/initrd-io \
	--disk path=/tmp/root.img,serial=root-1 --disk path=/tmp/work.img,serial=work-2 --net tap=vm0 --stats table \
	--cmdline "console=ttyS0 loglevel=5 panic=-1 lull.bytes=${2:-2097152}" $kernel
if await /tmp/ttyS0 "^GUEST ready" 150; then
	grep '^FAIL' /tmp/ttyS0 && failures=$((failures + 1))
	await /tmp/hvc0 'login:' 30 && type root && await /tmp/hvc0 '[#$] ' 30 && type 'echo "[$((6 * 7))]"; touch /tmp/done' &&
		await /tmp/hvc0 '\[42\]' 30 && ok "login on hvc0"
fi
ended 0 40
kill $pump 2>/dev/null
grep 'wrong\|ended' /tmp/pump && failures=$((failures + 1))
grep received /tmp/pump || fail "nothing was received: $(cat /tmp/pump)"
clean /tmp/root.img
[ "$(du -k /tmp/work.img | cut -f1)" = 0 ] || fail "discarded blocks still take room"
drop_tap
counts
verdict
