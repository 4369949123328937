#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154 # set in lib.sh
# A Debian that writes, and lull killed at random moments: nothing that was acknowledged may be lost, the journal must be
# enough for the file system. $1: who owns the interrupt controllers. $2: how often. $3: seed.
. /io/lib.sh
disk=/dev/nvme0n1
chip=$1 times=${2:-20} seed=${3:-1}

next=1 round=0 absent=0
: >/tmp/acks
mkdir -p /mnt
while [ $round -lt "$times" ]; do
	round=$((round + 1))
	guest lull run --stats table --cpus 2 --mem 256M --irqchip "$chip" --console stdio --serial file=/tmp/ttyS0 \
		--initrd /guest/initrd-io --disk "path=$disk" \
		--cmdline "console=ttyS0 loglevel=5 panic=-1 root=/dev/vda init=/usr/local/sbin/lull-crash record=$next" $kernel
	left=2000
	until grep -q '^ACK' /tmp/hvc0 || ! running || [ $left = 0 ]; do
		usleep 100000
		left=$((left - 1))
	done
	if ! grep -q '^ACK' /tmp/hvc0; then
		# That is not what is tried here, and an emulated CPU can be the reason: README.md.
		kill -HUP $lull
		wait $lull
		counts
		absent=$((absent + 1))
		echo "# round $round: the guest did not come up"
		round=$((round - 1))
		[ $absent -le 3 ] && continue
		fail "$absent guests did not come up"
		break
	fi
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	usleep $((seed / 16 % 3000000))
	kill -KILL $lull
	wait $lull 2>/dev/null
	grep '^FAIL' /tmp/ttyS0 && failures=$((failures + 1))
	# hvc0 ends its lines as a terminal does; the last one may be half a line.
	tr -d '\r' </tmp/hvc0 | sed -n '/^ACK .* '$next'$/p' >/tmp/new
	cat /tmp/new >>/tmp/acks
	mount -t ext4 $disk /mnt || { fail "round $round: mount"; break; }
	records check /mnt/var/records /tmp/acks >/tmp/check || fail "round $round: $(head -n 3 /tmp/check | tr '\n' ' ')"
	umount /mnt
	/usr/sbin/e2fsck -fn $disk >/tmp/fsck 2>&1 || { fail "round $round: fsck: $(tr '\n' ' ' </tmp/fsck)"; break; }
	echo "# round $round: $(wc -l </tmp/new) acknowledged in it; $(tail -n 1 /tmp/check)" | tee /dev/ttyS0
	# Whatever was written and not acknowledged is below this.
	next=$(($(tail -n 1 /tmp/new | cut -d' ' -f2) + 1000))
done
[ $round = "$times" ] && ok "$times times killed"
verdict
