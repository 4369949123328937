#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An idle guest (HLT with interrupts on, no timer) causes no wakeup of any thread of lull's over ten seconds. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${SECONDS_IDLE:-10}

switches() { # of every thread of a process
	cat /proc/"$1"/task/*/status | awk '/ctxt_switches:/ { n += $2 } END { print n }'
}

start() { # irqchip cpus
	build/lull run --irqchip "$1" --cpus "$2" --mem 64M --serial null build/guests/idle.elf < /dev/null > /dev/null 2>&1 &
}

start user 1
user1=$!
start user 4
user4=$!
start kernel 1
kernel1=$!
start kernel 4
kernel4=$!
sleep 5 # booted, and the kernel backend's look for a dead guest has come to rest
before="$(switches $user1) $(switches $user4) $(switches $kernel1) $(switches $kernel4)"
sleep "$seconds"
after="$(switches $user1) $(switches $user4) $(switches $kernel1) $(switches $kernel4)"
kill -9 $user1 $user4 $kernel1 $kernel4
n=0
for name in user-1cpu user-4cpu kernel-1cpu kernel-4cpu; do
	n=$((n + 1))
	b=$(echo "$before" | cut -d' ' -f$n)
	a=$(echo "$after" | cut -d' ' -f$n)
	if [ -n "$b" ] && [ "$a" = "$b" ]; then
		echo "ok $n - idle guest, $name: no context switch in $seconds s"
	else
		echo "not ok $n - idle guest, $name: no context switch in $seconds s # from $b to $a"
	fi
done
