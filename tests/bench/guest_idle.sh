#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who should poll, the guest or its host? Two loops between two CPUs under the guest's ways to idle and lull's ways to halt,
# interleaved, medians. REPETITIONS=5 AFFINITY=0:1 (0:0: both on one CPU) LIMIT=200000, in ns, of the guest's windows. On a
# host with other work: chrt -f 1 tests/bench/guest_idle.sh; each run takes less than a second.
set -eu
cd "$(dirname "$0")/../.."
n=${REPETITIONS:-5}
affinity=${AFFINITY:-0:1}
limit=${LIMIT:-200000}
limits="poll_threshold_ns=$limit guest_halt_poll_ns=$limit"
mkdir -p build/bench
gcc -O2 -o build/bench/halts tests/bench/halts.c

measure() { # title, events, words
	echo
	echo "$1"
	build/bench/halts "$n" "$2" build/guests/idle_loops.elf "apic=x2apic $limits $3" 2 "$affinity" \
		"halt / none=user:none" "halt / kvm 200 us=user:kvm" "halt / cost=user:cost" "smart / none=user:none+idle=smart" \
		"smart / cost=user:cost+idle=smart" "haltpoll / none=user:none+idle=haltpoll" \
		"haltpoll / cost=user:cost+idle=haltpoll" "poll / none=user:none+idle=poll"
}

uname -sr
grep -m1 'model name' /proc/cpuinfo
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg); guest's idle= / --halt-poll, CPUs $affinity, $limits"
measure "ping-pong, per hop" 1000 "work=pingpong rounds=500"
measure "request and response, 20 us of work, 100 us of thinking, per request" 500 "work=rr rounds=500 serve=20 think=100"
