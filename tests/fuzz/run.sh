#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - builds the libFuzzer targets and runs each for FUZZ_SECONDS (60).
# run.sh DIR SECONDS TARGET... - runs each target of DIR for SECONDS, twice as many at once as there are CPUs.
# TAP on stdout; a failure prints the report, and the input stays in DIR/<target>.crash-*.
set -u
if [ $# -eq 0 ]; then
	cd "$(dirname "$0")/../.." || exit 1
	exec make -s fuzz-run "FUZZ_SECONDS=${FUZZ_SECONDS:-60}"
fi
dir=$1 seconds=$2
shift 2
one() {
	name=$1
	mkdir -p "$dir/corpus/$name"
	if "$dir/$name" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=20000 -print_final_stats=1 \
		-artifact_prefix="$dir/$name." "$dir/corpus/$name" "$dir/seeds/$name" >"$dir/$name.log" 2>&1; then
		echo "ok - $name # $(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$name.log") inputs"
		return 0
	fi
	echo "not ok - $name # see $dir/$name.log"
	grep -v '^#[0-9]' "$dir/$name.log" | tail -40 | sed 's/^/# /'
	return 1
}
if [ "${FUZZ_ONE:-}" != "" ]; then
	one "$1"
	exit
fi
echo "1..$#"
export FUZZ_ONE=1
printf '%s\n' "$@" | xargs -n 1 -P "$((2 * $(nproc)))" "$0" "$dir" "$seconds"
