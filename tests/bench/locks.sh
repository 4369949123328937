#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the preempted flag is worth to locks of a guest: passes per second with and without it, in turn, medians; with two
# virtual CPUs per CPU and without overcommit. Exit code 1 when it is worth less than docs/halt-engine.md promises.
# RUNS=7 MS=1500 CPUS=0,1 POLICY=cost. QUICK=1: one CPU only, as TAP.
set -eu
cd "$(dirname "$0")/../.."
runs=${RUNS:-7} ms=${MS:-1500} policy=${POLICY:-cost} quick=${QUICK:-}
cpus=${CPUS:-0,1}
one=${cpus%,*} two=${cpus#*,}
out=build/bench/locks
mkdir -p build/bench
: >$out

run() { # run SETUP LOCK FLAG VCPUS AFFINITY
	local text
	text=$(build/lull run --cpus "$4" --mem 64M --cpu-affinity "$5" --steal-time vmm --halt-poll "$policy" --debug-exit raw \
		--timeout 60 -p "apic=x2apic cpus=$4 ms=$ms lock=$2 flag=$3" build/guests/locks.elf </dev/null) || {
		echo "locks: lock=$2 flag=$3 on $5 ended with $?: $text" >&2
		exit 2
	}
	echo "$1 $2 $3 $(sed -n 's/^throughput //p' <<<"$text")" >>$out
}

locks='mutex queue'
[ -n "$quick" ] || {
	locks='spin mutex queue'
	uname -sr
	grep -m1 'model name' /proc/cpuinfo
	echo "load before: $(cut -d' ' -f1-3 /proc/loadavg); --halt-poll $policy, $runs runs of $ms ms each"
}
for ((i = 0; i < runs; i++)); do
	for lock in $locks; do
		for flag in 0 1; do
			run 2:1 "$lock" $flag 2 "$one:$one"
			[ -z "$quick" ] || continue
			run 4:2 "$lock" $flag 4 "$one:$two:$one:$two"
			run 2:2 "$lock" $flag 2 "$one:$two"
		done
	done
done

# A ratio is the median of the ratios of neighbouring runs: what else the host does changes slowly.
awk -v quick="$quick" '
function median(v, n,   i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
{
	key = $1 " " $2
	if (!(key in n)) order[++keys] = key
	if ($3 == 0) { n[key]++; plain[key, n[key]] = $4 } else flag[key, n[key]] = $4
}
END {
	if (!quick) printf "%-8s %-8s %12s %12s %8s\n", "vCPU:CPU", "lock", "without", "with flag", "ratio"
	for (k = 1; k <= keys; k++) {
		key = order[k]
		split(key, part, " ")
		for (i = 1; i <= n[key]; i++) { a[i] = plain[key, i]; b[i] = flag[key, i]; r[i] = b[i] / a[i] }
		ratio = median(r, n[key])
		least = part[2] == "spin" ? 0 : quick ? 1.1 : part[1] == "2:2" ? 0.95 : 1.3
		bad = ratio < least
		failed += bad
		if (quick) printf "%sok - %s: passes with the preempted flag are at least %.1f times those without # %.2f\n", bad ? "not " : "", part[2], least, ratio
		else printf "%-8s %-8s %12d %12d %8.2f%s\n", part[1], part[2], median(a, n[key]), median(b, n[key]), ratio, bad ? "  BELOW " least : ""
	}
	exit failed > 0
}' $out
