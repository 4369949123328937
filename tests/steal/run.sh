#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Steal time and the preempted flag on a host that has more to do than CPUs. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${SECONDS_BUSY:-10}
cpu=0
n=0

tap() { # tap STATUS TITLE DETAIL
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2${3:+ # $3}"; fi
}

make -s build/liblull.a build/lull guests || { echo "not ok 1 - lull builds"; exit 1; }
mkdir -p build/steal-test
if gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Iinclude tests/steal/test_overcommit.c build/liblull.a \
	-lfdt -luring -lpthread -o build/steal-test/overcommit; then
	build/steal-test/overcommit build/guests/steal_spin.elf $cpu "$seconds" > build/steal-test/tap
	sed '/^1\.\./d' build/steal-test/tap
	n=$(grep -Ec '^(not )?ok' build/steal-test/tap)
	[ "$n" = 7 ] || tap 1 "the test program ran to its end"
else
	tap 1 "the test program compiles"
fi

# One CPU works where a busy loop works as well, the other watches it.
preempted() { # preempted MODE
	taskset -c $cpu sh -c 'while :; do :; done' &
	hog=$!
	out=$(timeout -k 2 60 build/lull run --cpus 2 --mem 64M --cpu-affinity "0-1:$cpu" --steal-time "$1" --debug-exit raw \
		--timeout 50 -p 'apic=x2apic seconds=3 want=1' build/guests/preempted.elf </dev/null 2>&1)
	status=$?
	kill $hog
	wait $hog 2>/dev/null
	tap $status "$1: a preempted CPU is marked, a working one never" "$(echo "$out" | tail -n 1)"
	echo "# $out"
}
# Steal time is on, so the flag's thread and the event exist, and nothing of it may ever wake up.
idle() { # idle POLICY
	build/lull run --cpus 1 --mem 64M --steal-time vmm --serial null --halt-poll "$1" -p do=idle build/guests/steal_spin.elf \
		</dev/null >/dev/null 2>&1 &
	pid=$!
	sleep 3
	before=$(cat /proc/$pid/task/*/status | awk '/ctxt_switches:/ { n += $2 } END { print n }')
	sleep 10
	after=$(cat /proc/$pid/task/*/status | awk '/ctxt_switches:/ { n += $2 } END { print n }')
	threads=$(cat /proc/$pid/task/*/comm | sort | tr '\n' ' ')
	kill -9 $pid
	wait $pid 2>/dev/null
	[ -n "$before" ] && [ "$before" = "$after" ]
	tap $? "vmm: an idle guest with steal time switches no context in 10 s" "from $before to $after; $threads"
}

if build/lull doctor | grep -q '^ok.*steal time'; then
	preempted vmm
	preempted hybrid
	idle none
else
	tap 0 "preemption is marked # SKIP perf events cannot be used here"
fi
echo "1..$n"
