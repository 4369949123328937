#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# vsock from end to end: the guests vsock_echo and vsock_hostile, and a peer at the host's sockets. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
lull=build/lull guests=build/guests
tmp=$(mktemp -d) || exit 1
sock=$tmp/v
children=()
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	[ ${#children[@]} = 0 ] || kill -HUP "${children[@]}" 2>/dev/null
	wait
	rm -rf "$tmp"
}
trap cleanup EXIT

if ! [ -w /dev/kvm ]; then
	echo "1..0 # SKIP no access to /dev/kvm"
	exit 0
fi
make -s $lull guests && gcc -std=gnu11 -O2 -Wall -Wextra -D_GNU_SOURCE tests/vsock/peer.c -o "$tmp/peer" ||
	{ echo "not ok 1 - build"; exit 1; }

n=0
verdict() { # verdict TITLE WHY: no WHY is well
	n=$((n + 1))
	if [ -z "$2" ]; then echo "ok $n - $1"; return; fi
	echo "not ok $n - $1"
	echo "# $2"
	tail -n 20 "$tmp"/lull.err "$tmp"/peer.out 2>/dev/null | sed 's/^/# /'
}
guest() { # guest NAME OPTION...: in the background, as $pid
	local name=$1
	shift
	"$lull" run --serial null --debug-exit raw --timeout 20 --vsock "cid=3,socket=$sock" "$@" "$guests/$name.elf" \
		>"$tmp/lull.out" 2>"$tmp/lull.err" </dev/null &
	pid=$!
	children+=("$pid")
	await test -S "$sock"
}
await() { # await COMMAND...: up to 10 seconds
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	return 1
}
why=
peer() { # peer COMMAND ARGUMENT...: a program of the host; adds to $why
	"$tmp/peer" "$1" "$sock" "${@:2}" >>"$tmp/peer.out" 2>&1 || why+="peer $* failed; "
}
ends() { # ends TITLE: the guest, by a connection; then there is no file any more
	local rc
	peer end
	wait $pid
	rc=$?
	[ $rc = 0 ] || why+="the guest ended with $rc; "
	[ ! -e "$sock" ] || why+="the socket's file is still there; "
	[ ! -s "$tmp/lull.err" ] || why+="lull complains; "
	verdict "$1" "$why"
	why=
	: >"$tmp/peer.out"
}
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || echo 0; }

for chip in user kernel; do
	guest vsock_echo --irqchip $chip
	peer echo 200 500 1
	peer echo 100 20000 10
	ends "host to guest: 200 connections one by one, 100 of 20 kB ten at a time, irqchip $chip"

	guest vsock_echo --irqchip $chip
	peer echo 2000 1000 2000
	ends "host to guest: 2000 connections at once, irqchip $chip"

	: >"$tmp/serve.out"
	"$tmp/peer" serve "${sock}_5000" 1000 5 >"$tmp/serve.out" 2>&1 &
	server=$!
	await test -S "${sock}_5000"
	guest vsock_echo --irqchip $chip --cmdline 'calls=1000 port=5000' --stats "$tmp/stats"
	wait $pid
	rc=$?
	[ $rc = 0 ] || why="the guest ended with $rc; "
	wait $server || why+="the server failed: $(tail -n 1 "$tmp/serve.out"); "
	grep -q '"vsock":{"connections":0,"opened":1000,"refused":[0-9]*,"resets":0,"to_guest":1500000,"from_guest":1500000,' "$tmp/stats" ||
		why+="the statistics are wrong: $(grep -o '"vsock":{[^}]*}' "$tmp/stats")"
	verdict "guest to host: 1000 connections, 200 at a time, with half close, to a listener with a backlog of 5, irqchip $chip" "$why"
	why=

	guest vsock_echo --irqchip $chip
	peer die 20
	peer echo 100 5000 10
	ends "20 connections of a process that is killed, irqchip $chip"
done

# Who does not read costs no time of ours, and stops nobody else.
guest vsock_echo
"$tmp/peer" never "$sock" 2500 >>"$tmp/peer.out" 2>&1 &
never=$!
await grep -q waits "$tmp/peer.out"
before=$(ticks)
sleep 1
spent=$(($(ticks) - before))
[ $spent -le 5 ] || why+="$spent ticks of CPU time in a second; "
wait $never || why+="peer never failed; "
ends "a host that never reads: others work, and then nothing is lost"

guest vsock_echo
peer sink
peer refused 55
ends "a guest that never reads: others work; a port without anybody refuses"

guest vsock_echo --on-reboot restart --cmdline restart=1
peer restart
wait $pid
rc=$?
[ $rc = 0 ] || why+="the guest ended with $rc; "
[ ! -e "$sock" ] || why+="the socket's file is still there"
verdict "a reset of the machine cuts connections, keeps the socket, and the next driver is told" "$why"
why=

guest vsock_echo
"$tmp/peer" hold "$sock" >"$tmp/hold.out" 2>&1 &
hold=$!
await grep -q open "$tmp/hold.out"
kill -HUP $pid
wait $pid
wait $hold
grep -q cut "$tmp/hold.out" || why="the host's end stays open; "
[ ! -e "$sock" ] || why+="the socket's file is still there"
verdict "the end of the machine ends its connections" "$why"
why=

# ---- a driver that breaks the rules ----

for chip in user kernel; do
	guest vsock_hostile --irqchip $chip
	wait $pid
	rc=$?
	[ $rc = 0 ] || why="the guest ended with $rc; "
	lines=$(wc -l <"$tmp/lull.err")
	[ "$lines" -ge 2 ] && [ "$lines" -le 24 ] || why+="$lines lines in the log"
	verdict "a driver that breaks the rules, irqchip $chip" "$why"
	why=
done

# ---- what cannot be opened ----

refuses() { # refuses TITLE TEXT VSOCK: exit code 126 and one line with the text
	local rc
	"$lull" run --serial null --vsock "$3" "$guests/vsock_echo.elf" >"$tmp/lull.out" 2>"$tmp/lull.err" </dev/null
	rc=$?
	[ $rc = 126 ] || why="exit code $rc; "
	grep -qF -- "$2" "$tmp/lull.err" && [ "$(wc -l <"$tmp/lull.err")" = 1 ] || why+="it does not say '$2' in one line"
	verdict "$1" "$why"
	why=
}
guest vsock_echo
refuses "a path where somebody listens" "vsock socket $sock: in use by process $pid" "cid=4,socket=$sock"
kill -KILL $pid
wait $pid 2>/dev/null
[ -S "$sock" ] || why="no file was left to find"
guest vsock_echo
await "$tmp/peer" refused "$sock" 55
ends "a file that a killed lull left is replaced"
touch "$tmp/file"
refuses "a path where a file is" "vsock socket $tmp/file: exists and is not a socket" "cid=4,socket=$tmp/file"
refuses "a directory that is not there" "vsock socket $tmp/no/v: No such file or directory" "cid=4,socket=$tmp/no/v"
refuses "a reserved cid" "vsock: cid '2': give a number from 3" "cid=2,socket=$sock"
refuses "no path" "vsock 'cid=3': socket is missing" "cid=3"

echo "1..$n"
