#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Latency and CPU time of lull's halt policies and of KVM's own polling on the same guests, interleaved, medians.
set -eu
cd "$(dirname "$0")/../.."
n=${REPETITIONS:-5}
mkdir -p build/bench
gcc -O2 -o build/bench/halts tests/bench/halts.c

measure() { # title, events, guest, cmdline, cpus, affinity
	title=$1
	shift
	echo
	echo "$title"
	build/bench/halts "$n" "$@" "user/none=user:none" "user/kvm 200 us=user:kvm" "user/cost=user:cost" \
		"kernel/none=kernel:none" "kernel/kvm 200 us=kernel:kvm"
}

uname -sr
grep -m1 'model name' /proc/cpuinfo
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
measure "IPI ping-pong, 2 vCPUs on 2 CPUs, per hop" 4000 build/guests/bench_pingpong.elf "rounds=2000" 2 0:1
measure "1 kHz timer, 1 vCPU, per tick" 2000 build/guests/bench_timer.elf "ticks=2000 us=1000" 1 0
measure "idle at 10 ticks a second, 1 vCPU, per tick" 50 build/guests/bench_timer.elf "ticks=50 us=100000" 1 0

# That is mostly noise where a few per cent are to be seen: with and without, in turn on one guest.
gcc -O2 -o build/bench/idle tests/bench/idle.c build/liblull.a -luring -lfdt -lpthread
echo
echo "idle at 10 ticks a second, 1 vCPU, $((n * 8)) times 3 s each in turn on one guest"
build/bench/idle build/guests/bench_timer.elf "ticks=1000000 us=100000" 0 cost $((n * 8)) 3
