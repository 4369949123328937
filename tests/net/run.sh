#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Networks and consoles from end to end: the guests net_echo and console_echo, and a peer, a tap or passt. TAP. Needs /dev/kvm;
# taps need root, or user namespaces and access to /dev/net/tun.
set -u
cd "$(dirname "$0")/../.." || exit 1
lull=build/lull guests=build/guests
tmp=$(mktemp -d) || exit 1
children=()
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	[ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT

if ! [ -w /dev/kvm ]; then
	echo "1..0 # SKIP no access to /dev/kvm"
	exit 0
fi
make -s $lull guests && gcc -std=gnu11 -O2 -Wall -Wextra -D_GNU_SOURCE tests/net/peer.c -o "$tmp/peer" ||
	{ echo "not ok 1 - build"; exit 1; }

n=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
not_ok() { # not_ok TITLE WHY
	n=$((n + 1))
	echo "not ok $n - $1"
	echo "# $2"
	tail -n 20 "$tmp"/lull.err "$tmp"/peer.out 2>/dev/null | sed 's/^/# /'
}
verdict() { # verdict TITLE WHY: no WHY is well
	if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$2"; fi
}

guest() { # guest NAME OPTION...: in the background, as $!
	local name=$1
	shift
	"$lull" run --serial null --debug-exit raw --timeout 100 "$@" "$guests/$name.elf" >"$tmp/lull.out" 2>"$tmp/lull.err" </dev/null &
	children+=($!)
}
await() { # await COMMAND...: up to 10 seconds
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	return 1
}
said() { grep -q -- "$1" "$tmp/lull.err"; }

# ---- a socket ----

# The peer ends with its verdict, the guest with its own.
with_peer() { # with_peer TITLE OPTIONS -- PEER ARGUMENT...
	local title=$1 options=() peer lull_rc peer_rc why=
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	rm -f "$tmp/s"
	"$tmp/peer" "$1" "$tmp/s" "${@:2}" >"$tmp/peer.out" 2>&1 &
	peer=$!
	children+=("$peer")
	await test -S "$tmp/s"
	guest net_echo --net "socket=$tmp/s,name=blue" "${options[@]}"
	wait $!
	lull_rc=$?
	wait $peer
	peer_rc=$?
	[ $lull_rc = 0 ] || why="the guest ended with $lull_rc; "
	[ $peer_rc = 0 ] || why+="the peer ended with $peer_rc"
	[ -z "$why" ] || { not_ok "$title" "$why"; return; }
	ok "$title ($(tail -n 1 "$tmp/peer.out"))"
}

for chip in user kernel; do
	with_peer "socket: 100000 frames back and forth, irqchip $chip" --irqchip $chip -- frames 100000
	with_peer "socket: one frame at a time, irqchip $chip" --irqchip $chip -- frames 2000 window 1
done
with_peer "socket: a peer that reads nothing for two seconds loses nothing" -- frames 20000 late 2000
with_peer "socket: the link goes down with its peer" --cmdline link=down -- die 500
said "net blue: its other end has gone; the guest's link is down" && ok "socket: a line says so and names the device" ||
	not_ok "socket: a line says so and names the device" "it does not"

# A peer that never reads costs no time of ours.
rm -f "$tmp/s"
"$tmp/peer" hold "$tmp/s" 4000 >"$tmp/peer.out" 2>&1 &
children+=($!)
await test -S "$tmp/s"
guest net_echo --net "socket=$tmp/s" --cmdline link=down
pid=$!
sleep 2
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || echo 0; }
before=$(ticks)
sleep 1
spent=$(($(ticks) - before))
wait $pid
rc=$?
why=
[ $spent -le 5 ] || why="$spent ticks of CPU time in a second; "
[ $rc = 0 ] || why+="the guest ended with $rc"
verdict "socket: a peer that never reads costs no CPU time, and its end is noticed" "$why"

"$lull" run --net "socket=$tmp/none" "$guests/net_echo.elf" >"$tmp/lull.out" 2>"$tmp/lull.err"
rc=$?
why=
[ $rc = 126 ] && said "net socket $tmp/none: nobody listens there" || why="exit code $rc"
verdict "socket: where nobody listens there is a line and code 126" "$why"

# ---- a tap, in a network namespace of our own ----

tap_test() { # runs in the namespace; prints what is wrong
	ip link set lo up
	guest net_echo --net "tap=vm0$1" "${@:2}"
	local pid=$! rc
	await ip link show vm0 || { echo "there is no vm0"; return; }
	ip addr add 192.0.2.1/24 dev vm0
	ping -q -c 200 -i 0.005 -s 1400 -W 5 192.0.2.2 >"$tmp/ping" 2>&1 || echo "ping: $(tail -n 2 "$tmp/ping")"
	grep -q ' 0% packet loss' "$tmp/ping" || echo "pings were lost: $(grep loss "$tmp/ping")"
	"$tmp/peer" end 192.0.2.2
	wait $pid
	rc=$?
	[ $rc = 0 ] || echo "the guest ended with $rc"
	[ -e /sys/class/net/vm0 ] || ! ip link show vm0 >/dev/null 2>&1 || echo "vm0 is still there"
}
tap_gone() {
	guest net_echo --net tap=vm0 --cmdline link=down
	local pid=$! rc
	await ip link show vm0
	ip addr add 192.0.2.1/24 dev vm0
	ping -q -c 3 -i 0.1 -W 5 192.0.2.2 >/dev/null 2>&1 || echo "no answer to ping"
	ip link del vm0
	wait $pid
	rc=$?
	[ $rc = 0 ] || echo "the guest ended with $rc"
	said 'net tap vm0: its other end has gone' || echo "no line names the device"
}
tap_kept() {
	ip tuntap add keep0 mode tap && ip link set keep0 up
	guest net_echo --net tap=keep0
	local pid=$!
	ip addr add 192.0.2.1/24 dev keep0
	ping -q -c 3 -i 0.1 -W 5 192.0.2.2 >/dev/null 2>&1 || echo "no answer to ping"
	"$tmp/peer" end 192.0.2.2
	wait $pid
	ip link show keep0 >/dev/null 2>&1 || echo "keep0 is gone"
}
# Functions of ours run there.
namespace() { unshare --map-root-user --net "$BASH" -c "$(declare -f); lull=$lull guests=$guests tmp=$tmp children=(); $*"; }

no_tap=
command -v ip >/dev/null || no_tap="no ip command"
command -v ping >/dev/null || no_tap="no ping command"
namespace 'ip tuntap add x mode tap' 2>/dev/null || no_tap=${no_tap:-"no tap can be made here"}
tap() { # tap TITLE COMMAND...
	local title=$1
	shift
	if [ -n "$no_tap" ]; then skip "$title" "$no_tap"; return; fi
	verdict "$title" "$(namespace "$*" 2>&1)"
}
tap "tap: 200 pings, irqchip user" tap_test "''"
tap "tap: 200 pings, irqchip kernel" tap_test "''" --irqchip kernel
tap "tap: 200 pings through one of two pairs of queues" tap_test ",queues=2,mtu=1500"
tap "tap: 200 pings through a polling vCPU" tap_test "''" --halt-poll fixed:200000
tap "tap: one that is deleted takes the link down" tap_gone
tap "tap: a persistent one stays" tap_kept

# ---- passt ----

passt='passt=-4 -a 192.0.2.2 -n 24 -g 192.0.2.1 -u 7007:7'
if ! command -v passt >/dev/null; then
	skip "passt: 500 datagrams" "no passt"
	skip "passt: its end is noticed" "no passt"
	skip "passt: none is left behind" "no passt"
else
	guest net_echo --net "$passt" --cmdline announce=1
	pid=$!
	await pgrep -P $pid passt
	passt_pid=$(pgrep -P $pid passt)
	why=
	"$tmp/peer" udp 7007 500 >"$tmp/peer.out" 2>&1 || why="the peer failed"
	verdict "passt: 500 datagrams ($(tail -n 1 "$tmp/peer.out"))" "$why"
	kill -HUP $pid # at once; SIGTERM would ask the guest first, SIGQUIT is ignored in the background of a script
	wait $pid
	why=
	! kill -0 "$passt_pid" 2>/dev/null || why="process $passt_pid still runs"
	verdict "passt: none is left behind" "$why"

	guest net_echo --net "$passt" --cmdline 'announce=1 link=down'
	pid=$!
	await pgrep -P $pid passt
	sleep 0.3
	pkill -KILL -P $pid passt
	wait $pid
	rc=$?
	why=
	[ $rc = 0 ] || why="the guest ended with $rc; "
	said 'net passt: its other end has gone' || why+="no line names the device; "
	said 'net passt: the process was ended by signal 9' || why+="no line says how it ended"
	verdict "passt: its end is noticed" "$why"
fi

# ---- a console ----

console() { # console TITLE OPTION...: 100 kB to the guest and back
	local title=$1 rc why=
	shift
	tr -d '\001\004' </dev/urandom | head -c 100000 >"$tmp/in"
	printf '\004' >>"$tmp/in"
	{ printf E; cat "$tmp/in"; } >"$tmp/want"
	"$lull" run --console stdio --debug-exit raw --timeout 100 "$@" "$guests/console_echo.elf" <"$tmp/in" >"$tmp/out" 2>"$tmp/lull.err"
	rc=$?
	[ $rc = 0 ] || why="the guest ended with $rc; "
	cmp -s "$tmp/want" "$tmp/out" || why+="$(stat -c %s "$tmp/out") bytes came back that are not those that went in"
	verdict "$title" "$why"
}
console "console: 100 kB back and forth, irqchip user" --irqchip user
console "console: 100 kB back and forth, irqchip kernel" --irqchip kernel

# A reader that takes its time misses nothing.
"$lull" run --console stdio --debug-exit raw --timeout 100 "$guests/console_echo.elf" <"$tmp/in" 2>"$tmp/lull.err" |
	{ sleep 0.1; cat; } >"$tmp/out"
why=
cmp -s "$tmp/want" "$tmp/out" || why="$(stat -c %s "$tmp/out") bytes came back that are not those that went in"
verdict "console: a slow reader misses nothing" "$why"

echo "1..$n"
