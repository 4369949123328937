#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How late the preempted flag is, with one and with three busy loops beside a vCPU on one CPU, with and without the right
# to real-time priority, in turn; and what watching costs a thread that goes to sleep. RUNS=5 SECONDS_EACH=10 CPU=0.
set -eu
cd "$(dirname "$0")/../.."
runs=${RUNS:-5} each=${SECONDS_EACH:-10} cpu=${CPU:-0}
make -s build/host/liball.a guests
mkdir -p build/bench
for program in preempted steal_cost; do
	gcc -std=gnu11 -O2 -D_GNU_SOURCE -Wall -Wextra -Iinclude -Ivmm -Idevices tests/bench/$program.c build/host/liball.a \
		-lfdt -luring -lpthread -o build/bench/$program
done
echo "host: $(uname -r), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg), perf_event_paranoid $(cat /proc/sys/kernel/perf_event_paranoid)"
ordinary=(setpriv --bounding-set -sys_nice --inh-caps -sys_nice)
for ((i = 0; i < runs; i++)); do
	for hogs in 1 3; do
		[ "$(id -u)" != 0 ] || echo "real-time $(build/bench/preempted build/guests/steal_spin.elf "$each" $hogs "$cpu" vmm)"
		if [ "$(id -u)" = 0 ]; then set -- "${ordinary[@]}"; else set --; fi
		echo "ordinary  $("$@" build/bench/preempted build/guests/steal_spin.elf "$each" $hogs "$cpu" vmm)"
	done
done
echo "load $(cut -d' ' -f1-3 /proc/loadavg); a sleep and a wake-up on one CPU:"
build/bench/steal_cost "$cpu"
