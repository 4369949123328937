#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Power cuts: the emulated host is killed at a random moment while a Debian writes on it, so that everything is lost that
# lull has not told the host to keep. Kept must be whatever the guest's kernel was told is safe. Minutes: each cut is two
# boots of the emulated host and one of the guest. TAP.
#
#   tests/nested/power-cut.sh [CUTS [SEED]]     5 cuts by default
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${NESTED_BUILD:-$root/build/nested}
work=$build/power-cut
cuts=${1:-5}
seed=${2:-$RANDOM}
RANDOM=$seed
echo "# seed $seed"

rig() { # rig OPTION...: into $work/out
	"$here/run.sh" --image "$work/disk.img" "$@" >"$work/out" 2>&1
}

"$here/prepare.sh" && "$here/debian.sh" || exit 1
rm -rf "$work" && mkdir -p "$work"
cp --sparse=always "$build/debian/debian.img" "$work/disk.img"
: >"$work/acks"
first=1 failed=0
for ((n = 1; n <= cuts; n++)); do
	chip=user
	[ $((n % 2)) = 0 ] && chip=kernel
	why=''
	rig --limit 300 --cut "$((RANDOM % 4000))" --cmd "exec sh /io/cut.sh $chip $first"
	tr -d '\r' <"$build/run/host1/data" | sed -n '/^ACK [0-9]* '$first'$/p' >"$work/new"
	last=$(tail -n 1 "$work/new" | cut -d' ' -f2)
	[ -n "$last" ] || why="nothing was acknowledged: $(tail -n 3 "$work/out" | tr '\n' ' ')"
	cat "$work/new" >>"$work/acks"
	rig --limit 300 --file "$work/acks" --cmd "exec sh /io/cut.sh check /files/acks" ||
		why+=" $(grep -a 'FAIL\|lost\|not ok' "$work/out" | head -n 4 | tr '\n' ' ')"
	if [ -z "$why" ]; then
		echo "ok $n - power cut, irqchip $chip: $(grep -a '^records:' "$work/out"), $(wc -l <"$work/new") of them new"
	else
		failed=$((failed + 1))
		echo "not ok $n - power cut, irqchip $chip:$why"
	fi
	first=$((${last:-$first} + 1000))
done
echo "1..$cuts"
[ $failed = 0 ]
