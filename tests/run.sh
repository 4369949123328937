#!/bin/bash
# Runs suites of tests, counts their tests and says in the end what failed and what was skipped.
#
#   tests/run.sh unit BINARY...   these cmocka programs
#   tests/run.sh all              everything there is
#   tests/run.sh quick            the same without sanitizers, fuzzing and the nested rig
#   tests/run.sh NAME...          only these suites of the table below
#
# A suite is a command that prints TAP. One that crashes, takes too long or prints no test has failed, under its own name.
# Whole output is kept in build/test-logs/.
set -u
shopt -s nullglob
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
export LC_ALL=C
logs=build/test-logs

# name | needs | seconds at most | command. A suite that needs kvm is skipped where there is no /dev/kvm, and must run
# where there is.
suites='
build    |     |  600 | build
unit     |     |  300 | unit
asan     |     |  900 | unit address,undefined
tsan     |     |  900 | unit thread
model    |     |  300 | tests/model/run.sh
tables   |     |  120 | tests/tables.sh
guests   | kvm |  900 | tests/guests/run.sh
cli      | kvm |  600 | tests/cli/run.sh
hostile  | kvm |  600 | tests/hostile/run.sh
lib      | kvm |  600 | tests/lib/run.sh
net      | kvm |  600 | tests/net/run.sh
disk     | kvm |  300 | tests/disk/kill.py
vsock    | kvm |  300 | tests/vsock/run.sh
balloon  | kvm |  300 | tests/balloon/run.sh
kernel_halt | kvm | 600 | tests/kernel_halt/run.sh
steal    | kvm |  600 | tests/steal/run.sh
guest_idle | kvm | 600 | tests/guest_idle/run.sh
fuzz     |     | 1200 | tests/fuzz/run.sh
nested   |     | 1800 | tests/nested/run.sh
lint     |     |  900 | .ci/lint.sh
'
quick='build unit model tables guests cli hostile lib net disk vsock balloon kernel_halt guest_idle lint'

build() {
	if make -s -j2 WERROR=1 all unit; then echo "ok 1 - make all unit"; else echo "not ok 1 - make all unit"; fi
}

# Builds the unit tests, maybe with a sanitizer, and runs each on its own.
unit() {
	local bins=() src
	make -s -j2 WERROR=1 ${1:+SAN=$1} unit || { echo "not ok - make ${1:+SAN=$1} unit"; return; }
	for src in tests/unit/test_*.c; do
		bins+=("$(make -s ${1:+SAN=$1} print-H)/unit/$(basename "$src" .c)")
	done
	binaries "${bins[@]}"
}

export ASAN_OPTIONS=detect_stack_use_after_return=0 CMOCKA_MESSAGE_OUTPUT=TAP

# The TAP of each program with its name in front of each test; a crash or a time-out is one more failed test.
binaries() {
	local bin name reason rc out=$logs/binary.out
	for bin in "$@"; do
		name=${bin##*/}
		timeout -k 5 120 "$bin" >"$out" 2>&1 </dev/null
		rc=$?
		reason=$(why $rc "$out")
		if [ -z "$reason" ] && ! grep -q '^not ok' "$out"; then
			sed -nE "s/^ok [0-9]+( -)? /ok - $name: /p" "$out"
		else
			sed -E "s/^((not )?ok) [0-9]+( -)? /\\1 - $name: /; /^1\\.\\./d" "$out"
			[ -z "$reason" ] || echo "not ok - $name: $reason"
		fi
	done
}

# What else is wrong with a suite than its failed tests: nothing, or a text.
why() { # why RC OUTPUT
	case $1 in
	124 | 137) echo "timed out"; return ;;
	esac
	awk -v rc="$1" '
		/^(not )?ok( |$)/ || /^skip / { tests++ }
		/^not ok( |$)/ && !/# *SKIP/ { failed++ }
		/^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; planned = 1; if (/# *SKIP/) tests++ }
		END {
			if (planned && plan > tests) print "ended after " tests + 0 " of " plan " tests (exit code " rc ")"
			else if (!tests) print "printed no test (exit code " rc ")"
			else if (rc != 0 && rc != 77 && !failed) print "exit code " rc " with no failed test"
		}' "$2"
}

# Prints PASSED FAILED SKIPPED of a suite's output.
verdict() { # verdict OUTPUT
	awk '
		/# *SKIP/ && /^((not )?ok|1\.\.)/ { s++; next }
		/^ok( |$)/ { p++ }
		/^not ok( |$)/ { f++ }
		/^skip / { s++ }
		END { print p + 0, f + 0, s + 0 }' "$1"
}

passed=0 failed=0 skipped=0 kvm_ran=0 failures=() skips=()

count() { # count NAME NEEDS RC OUTPUT SECONDS
	local p f s reason line text
	reason=$(why "$3" "$4")
	read -r p f s < <(verdict "$4")
	[ -z "$reason" ] || f=$((f + 1))
	if [ "$2" = kvm ]; then
		kvm_ran=$((kvm_ran + p + f))
		if [ $((p + f)) = 0 ] && [ -z "$reason" ]; then
			reason="no test ran though there is /dev/kvm"
			f=$((f + 1))
		fi
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	text="$p passed"
	[ "$s" = 0 ] || text+=", $s skipped"
	[ "$f" = 0 ] || text+=", $f FAILED"
	printf '%-12s %-36s %4d s\n' "$1" "$text" "$5"
	if [ "$f" != 0 ]; then failures+=("$1|$reason|$4"); fi
	while IFS= read -r line; do
		skips+=("$1: $line")
	done < <(sed -nE 's/^(not )?ok [0-9]* ?(- )?//; /# *SKIP/ { s/^1\.\.0//; s/ *# *SKIP:? */ /; p }; s/^skip //p' "$4")
}

suite() { # suite NAME NEEDS SECONDS COMMAND...
	local name=$1 needs=$2 limit=$3 out=$logs/$1.log start=$SECONDS rc
	shift 3
	if [ "$needs" = kvm ] && [ ! -e /dev/kvm ]; then
		echo "1..0 # SKIP the whole suite: no /dev/kvm" >"$out"
		count "$name" '' 0 "$out" 0
		return
	fi
	if [[ $1 == */* ]] && [ ! -x "$1" ]; then
		echo "$1 is missing" >"$out"
		rc=127
	else
		# Shell functions are suites too: run them in a shell that can be timed out. Signals are as at a terminal,
		# whoever started us.
		export -f build unit binaries why
		export logs
		timeout -k 10 "$limit" env --default-signal=HUP,INT,QUIT,TERM,PIPE bash -c 'shopt -s nullglob; "$@"' suite "$@" >"$out" 2>&1 </dev/null
		rc=$?
	fi
	count "$name" "$needs" $rc "$out" $((SECONDS - start))
}

mkdir -p "$logs"
case ${1:-} in
unit)
	if [[ ${2:-} == */* ]]; then
		shift
		start=$SECONDS
		binaries "$@" >"$logs/unit.log"
		count unit '' 0 "$logs/unit.log" $((SECONDS - start))
		set -- none
	fi
	;;
all) set -- ;;
quick) read -ra list <<<"$quick"; set -- "${list[@]}" ;;
'' | -*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

known=' none '
while IFS='|' read -r name needs limit command; do
	read -r name <<<"$name"
	[ -n "$name" ] || continue
	known+="$name "
	if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
	read -r needs <<<"$needs"
	read -ra words <<<"$command"
	suite "$name" "$needs" "$((limit))" "${words[@]}"
done <<<"$suites"
for name in "$@"; do
	[[ $known == *" $name "* ]] || { echo "run.sh: there is no suite $name" >&2; exit 2; }
done

for entry in "${failures[@]}"; do
	IFS='|' read -r name reason out <<<"$entry"
	printf '\n==== %s%s ====\n' "$name" "${reason:+: $reason}"
	grep -v '^ok ' "$out"
done
if [ ${#skips[@]} -gt 0 ]; then
	printf '\nskipped:\n'
	printf '  %s\n' "${skips[@]}"
fi
echo
[ ! -e /dev/kvm ] || [ $# -gt 0 ] || echo "tests on /dev/kvm: $kvm_ran"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
