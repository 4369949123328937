#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154 # set in lib.sh
# A Debian from its disk, all the way up, at work, and down; by a user who is not root. $1: who owns the interrupt
# controllers. $2: bytes each way through each network.
. /io/lib.sh
disk=/dev/nvme0n1
chip=$1 bytes=${2:-8388608}

[ -b $disk ] || fail "no $disk"
rm -f /tmp/work.img
truncate -s 64M /tmp/work.img
chmod 666 $disk /tmp/work.img /dev/kvm /dev/net/tun
make_tap 1000
# passt gives its guest the address of this interface; what the guest sends to the gateway comes to our loopback.
ip link set lo up
ip addr add 10.88.0.1/24 dev dummy0 && ip link set dummy0 up && ip route add default via 10.88.0.254 ||
	fail "no way out for passt"

guest su user -c "exec lull run --cpus 2 --mem 512M --irqchip $chip --console stdio --serial file=/tmp/ttyS0 --stats table \
	--initrd /guest/initrd-io --disk path=$disk,serial=root-1 --disk path=/tmp/work.img,serial=work-2 \
	--net tap=vm0 --net 'passt=-t 7002,mtu=1500' --cmdline 'console=ttyS0 console=hvc0 loglevel=5 panic=-1 net.ifnames=0 systemd.show_status=no root=/dev/vda' \
	$kernel"
began=$(cut -d. -f1 /proc/uptime)
login() {
	await /tmp/hvc0 'lull login:' 480 || return
	ok "login prompt after $(($(cut -d. -f1 /proc/uptime) - began)) s"
	type root
	await /tmp/hvc0 'Password:' 60 || return
	type lull
	await /tmp/hvc0 'root@lull:' 60 || return
	ok "login on hvc0"
	# A shell without a prompt and a line editor: what is printed begins its line.
	type 'PS1= exec sh'
	type 'PS1=; echo "[$((6 * 7))]"'
	await /tmp/hvc0 '\[42\]' 60 || return
	type systemctl is-system-running --wait
	await /tmp/hvc0 '^\(running\|degraded\)' 120
	if grep -q '^degraded' /tmp/hvc0; then
		type systemctl --failed --no-pager
		fail "not all units run"
	fi
}
network() { # network INTERFACE MINE ADDRESS
	pump listen 7000 "$bytes" >/tmp/pump 2>&1 &
	local pump=$!
	type lull-work net "$1" "$2" "$3" 7000 "$bytes"
	await /tmp/hvc0 "^WORK end of net $1" 1500
	kill $pump 2>/dev/null
	sed "s/^/$1: host: /" /tmp/pump
	grep -q 'all of them right' /tmp/pump || fail "$1: the host did not receive all"
}
work() {
	type lull-work disk
	await /tmp/hvc0 '^WORK end of disk' 600 || return
	network eth0 10.77.0 10.77.0.1 || return
	network eth1 10.88.0.1 10.88.0.254 || return
	type lull-work in 7002 65536
	usleep 3000000
	pump connect 127.0.0.1 7002 65536 >/tmp/pump 2>&1 || fail "into passt: $(cat /tmp/pump)"
	await /tmp/hvc0 '^WORK end of in' 60
}
if login; then
	work
	grep '^WORK ok\|^pump' /tmp/hvc0
	sed -n 's/^WORK FAIL/FAIL/p' /tmp/hvc0
	grep -q '^WORK FAIL' /tmp/hvc0 && failures=$((failures + 1))
	type poweroff
	ended 0 180
else
	kill -HUP $lull
fi
clean $disk
drop_tap
ip addr del 10.88.0.1/24 dev dummy0
counts
verdict
