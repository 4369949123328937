# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2034 # for those who include it
# What the scripts in this folder share. They run in the emulated host: start lull with `guest`, talk with the guest's
# hvc0, say `ok` or `FAIL`, and exit with `verdict`.

kernel=/guest/vmlinuz-6.12
failures=0

ok() { echo "ok $*"; }
fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

# hvc0 is lull's standard output and input, ttyS0 is /tmp/ttyS0.
guest() { # guest OPTION...
	rm -f /tmp/in /tmp/ttyS0
	mkfifo /tmp/in
	exec 4<>/tmp/in
	: >/tmp/hvc0
	: >/tmp/ttyS0
	chmod 666 /tmp/ttyS0
	"$@" <&4 >/tmp/hvc0 2>/tmp/lull.err &
	lull=$!
}
type() { echo "$*" >&4; }

running() { kill -0 "$lull" 2>/dev/null; }

# Until the file has a line with that; without the guest there is nothing to wait for.
await() { # await FILE PATTERN SECONDS
	local left=$(($3 * 10))
	until grep -q "$2" "$1"; do
		left=$((left - 1))
		if [ $left -lt 0 ] || ! running; then
			grep -q "$2" "$1" && return
			fail "no '$2' within $3 s in $1"
			return 1
		fi
		usleep 100000
	done
}

# The guest has ended by itself, and with that code.
ended() { # ended CODE SECONDS
	local left=$(($2 * 10)) rc
	while running; do
		left=$((left - 1))
		[ $left -ge 0 ] || { fail "the guest does not end"; kill -HUP "$lull"; break; }
		usleep 100000
	done
	wait "$lull"
	rc=$?
	[ $rc = "$1" ] || fail "lull ended with $rc, expected $1: $(head -n 3 /tmp/lull.err | tr '\n' ' ')"
}

# Unmounted properly and without a fault.
clean() { # clean IMAGE
	if /usr/sbin/e2fsck -fn "$1" >/tmp/fsck 2>&1 && ! grep -q 'journal recovery' /tmp/fsck; then
		ok "fsck $1: $(tail -n 1 /tmp/fsck)"
	else
		fail "fsck $1: $(tr '\n' ' ' </tmp/fsck)"
	fi
}

# A tap for the user, with an address here and one for whoever asks by DHCP.
make_tap() { # make_tap USER-ID
	/usr/sbin/ip tuntap add vm0 mode tap user "$1" && ip addr add 10.77.0.1/24 dev vm0 && ip link set vm0 up || fail "no tap"
	mkdir -p /var/lib/misc
	: >/var/lib/misc/udhcpd.leases
	printf '%s\n' 'start 10.77.0.10' 'end 10.77.0.19' 'interface vm0' 'option subnet 255.255.255.0' 'option lease 3600' >/tmp/udhcpd.conf
	udhcpd -f /tmp/udhcpd.conf >/tmp/udhcpd.log 2>&1 &
	udhcpd=$!
}
drop_tap() {
	kill $udhcpd
	wait $udhcpd 2>/dev/null
	ip link del vm0
}

# What the devices cost, as far as counts tell.
counts() {
	sed 's/^/# /' /tmp/lull.err
}

verdict() {
	echo "---- hvc0"
	cat /tmp/hvc0
	echo "---- ttyS0"
	cat /tmp/ttyS0
	[ $failures = 0 ]
	exit
}
