#!/bin/bash
# Tests the command: options, exit codes, signals, terminal. First with a library that only pretends (stub_lull.c), which
# needs no KVM, then the real binary with guests of a few bytes. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/cli
lull=${LULL:-build/lull}
cc=${CC:-gcc}
number=0 failures=0
unset COLUMNS

# ------------------------------------------------------------------------------ helpers

# check NAME COMMAND...: one test; what the command prints is shown when it fails.
check() {
	local name=$1 result
	shift
	number=$((number + 1))
	if result=$("$@" 2>&1); then
		echo "ok $number - $name"
	else
		failures=$((failures + 1))
		echo "not ok $number - $name"
		printf '%s\n' "$result" | sed 's/^/# /'
	fi
}

skip() { # skip NAME WHY
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

# run CODE COMMAND...: the exit code is CODE; output in $out/stdout and $out/stderr.
run() {
	local want=$1 rc
	shift
	timeout -k 1 20 "$@" >"$out/stdout" 2>"$out/stderr" </dev/null
	rc=$?
	[ "$rc" = "$want" ] && return
	echo "exit code $rc, expected $want: $*"
	tail -n 20 "$out/stdout" "$out/stderr"
	return 1
}

stdout_has() { grep -qe "$1" "$out/stdout" || { echo "stdout lacks '$1':"; cat "$out/stdout"; return 1; }; }
stderr_has() { grep -qe "$1" "$out/stderr" || { echo "stderr lacks '$1':"; cat "$out/stderr"; return 1; }; }
silent() { [ ! -s "$out/$1" ] || { echo "unexpected $1:"; cat "$out/$1"; return 1; }; }

code() { # code CODE PATTERN COMMAND...: and stderr has the pattern; with an empty one it has nothing
	local want=$1 pattern=$2
	shift 2
	run "$want" "$@" || return
	if [ -n "$pattern" ]; then stderr_has "$pattern"; else silent stderr; fi
}

refused() { # refused PATTERN COMMAND...: 126, nothing on stdout, one line "lull: thing: found; do" on stderr
	local pattern=$1
	shift
	run 126 "$@" && silent stdout && stderr_has "$pattern" || return
	awk '!/^lull: .*: .*; / { bad = 1 } { print } END { exit bad || NR != 1 }' "$out/stderr"
}

cannot() { # cannot PATTERN COMMAND...: the same in the words of the library: one line "lull: ..."
	local pattern=$1
	shift
	run 126 "$@" && silent stdout && stderr_has "$pattern" || return
	awk '!/^lull: / { bad = 1 } { print } END { exit bad || NR != 1 }' "$out/stderr"
}

prints() { # prints PATTERN COMMAND...: 0, on stdout, nothing on stderr
	local pattern=$1
	shift
	run 0 "$@" && stdout_has "$pattern" && silent stderr
}

# signals CODE PATTERN "SIGNALS" COMMAND...: sends the signals, once it said "guest runs" or, without that, at once.
signals() {
	local want=$1 pattern=$2 list=$3 pid rc i
	shift 3
	: >"$out/stdout"
	env --default-signal=INT,QUIT,HUP,TERM "$@" >"$out/stdout" 2>"$out/stderr" </dev/null &
	pid=$!
	if [ -n "$pattern" ]; then
		for ((i = 0; i < 100; i++)); do
			if grep -q "guest runs" "$out/stdout"; then break; fi
			sleep 0.05
		done
	else
		sleep 0.3
	fi
	for i in $list; do
		kill "-$i" $pid
		sleep 0.2
	done
	wait $pid 2>/dev/null
	rc=$?
	[ "$rc" = "$want" ] || { echo "exit code $rc, expected $want"; cat "$out/stderr"; return 1; }
	[ -z "$pattern" ] || stderr_has "$pattern"
}

# Context switches and run time of all threads of a process.
activity() {
	grep -h ctxt_switches "/proc/$1/task"/*/status
	cut -d' ' -f14,15 "/proc/$1/task"/*/stat
}

# idle COMMAND...: sleeps all the time, with the standard input that it has.
idle() {
	local pid before after i result=1
	"$@" >"$out/stdout" 2>"$out/stderr" &
	pid=$!
	sleep 0.5
	for ((i = 0; i < 10 && result; i++)); do
		before=$(activity $pid)
		sleep 1
		after=$(activity $pid)
		if [ -n "$before" ] && [ "$before" = "$after" ]; then result=0; fi
	done
	[ $result = 0 ] || printf '%s\n-- later --\n%s\n' "$before" "$after"
	kill -HUP $pid
	wait $pid 2>/dev/null
	return $result
}

idle_closed() { idle "$@" <&-; }
idle_null() { idle "$@" </dev/null; }
idle_pipe() { idle "$@" < <(exec true); }

# pty "STEP;STEP..." COMMAND...
pty() {
	local script=$1
	shift
	tr ';' '\n' <<<"$script" | timeout -k 1 60 "$out/pty" "$@"
}

# ------------------------------------------------------------------------------ option errors

option_errors() { # option_errors COMMAND
	local line pattern
	while IFS='|' read -r line pattern; do
		[ -n "$line" ] || continue
		# shellcheck disable=SC2086 # words
		check "$text: refused: lull $line" refused "$pattern" "$1" $line
	done <<-'END'
		run|no kernel
		bot|unknown command
		rnu|did you mean lull run
		tests/cli/run.sh|to run it: lull run
		--cpus 2|options go behind
		run --memm 3 x|did you mean --mem?
		run --smp 2 x|did you mean --cpus?
		run --append x y|did you mean --cmdline?
		run --kernel x|without one
		run -kernel x|two dashes
		run -z x|-z: unknown
		run --zzzzzzzz x|see lull run --help
		run --output f x|not an option of lull run
		run --cpus|no value
		run -c|no value
		run --cpus 0 x|'0'
		run --cpus -1 x|'-1'
		run --cpus 2x x|'2x'
		run --cpus=99999999999999999999 x|cannot use
		run --mem 0 x|'0'
		run --mem 12Q x|'12Q'
		run --mem 1.5G x|'1.5G'
		run --mem 99999999999G x|cannot use
		run --mem= x|''
		run --mem 1 --mem 2 x|given twice
		run -m1 --mem=2 x|given twice
		run --initrd= x|empty
		run --irqchip usr x|user or kernel
		run --serial tty x|stdio, null
		run --serial file= x|stdio, null
		run --console tty x|stdio, null
		run --console stdio --serial stdio x|stdio is the serial port's already
		run --timeout 0 x|'0'
		run --timeout 1s x|'1s'
		run --timeout . x|'.'
		run --poll-wait halt x|auto, pause
		run --powersave us x|ignore, strict
		run --max-pollers -1 x|'-1'
		run --poll-budget= x|empty
		run --stats= x|empty
		run --stats-interval 0 --stats table x|'0'
		run --stats-interval 1 x|without --stats
		run --on-reboot halt x|exit or restart
		run --debug-exit gemu x|qemu or raw
		run --flat-addr 0 x|'0'
		run --flat-mode protected x|long or real
		run --log-level loud x|error, warn
		run -v --log-level info x|together
		run --dry-run=yes x|takes no value
		run x y|one argument too many
		dump|nothing to show
		dump acpi x y|one argument too many
		demo x|takes no argument
		doctor --cpus 2|not an option of lull doctor
		help nothing|unknown command
		replay|no file given
		replay --lambda 0 x|0.01 to 1000
		replay --lambda 0.0005 x|0.01 to 1000
		replay --host-cost 1,x y|one to three numbers
		replay --host-cost 1,2,3,4 y|one to three numbers
		replay --cpus 2 x|not an option of lull replay
		trace|no workload given
		trace gen|no workload given
		trace rpc20|use lull trace gen NAME
		trace gen rpc20 x|one argument too many
		trace gen rpc20 --halts x|'x'
	END
}

# ------------------------------------------------------------------------------ with the stub

stub_tests() {
	local stub=$out/lull-stub text=stub
	check "stub: no command" refused "no command" "$stub"
	option_errors "$stub"
	check "stub: --help" prints "^Exit codes" "$stub" --help
	check "stub: run --help" prints "--cpu-affinity" "$stub" run --help
	check "stub: dump -h" prints "^Usage: lull dump" "$stub" dump -h
	check "stub: help demo" prints "^Usage: lull demo" "$stub" help demo
	check "stub: --version" prints "^lull 0" "$stub" --version
	check "stub: -V" prints "^lull 0" "$stub" -V
	check "stub: help into a full disk" full "$stub" --help
	check "stub: help into a closed pipe" closed_pipe "$stub"
	check "stub: words behind -- join the command line" \
		prints "2 vCPUs, 1073741824 bytes, .*cmdline 'a b c'" "$stub" dump e820 -pa -c2 --mem=1G -p b k -- c
	check "stub: flags reach the library" prints "flags 0xf8," "$stub" dump e820 --no-x2apic --no-tsc-deadline \
		--no-pv-eoi --flat-mode real
	check "stub: dump to a file" dump_file "$stub"
	check "stub: dump to a bad file" refused "/nowhere/x: cannot write" "$stub" dump fdt -o /nowhere/x
	check "stub: dump of nothing known" refused "nothing: not known" "$stub" dump nothing
	check "stub: dump of binary data to a terminal" pty "expect use --output;exit 126" "$stub" dump acpi
	check "stub: doctor fails" code 126 "doctor: " "$stub" doctor
	check "stub: doctor passes" prints "^ok " env STUB_DOCTOR=1 "$stub" doctor
	check "stub: replay" prints "^b: flags 1, lambda 250, cost 10 20 30, 2 policies, last kvm" "$stub" replay a \
		--json --lambda 0.25 --policy cost --policy kvm b --host-cost 10,20,30
	check "stub: replay of something else" refused "not a halt trace" "$stub" replay bad
	check "stub: trace gen" prints "^rpc20 3 5 f$" "$stub" trace gen rpc20 --seed 3 --halts 5 -o f
	check "stub: trace gen of nothing known" refused "not a workload" "$stub" trace gen bad
	check "stub: dry run" prints "^machine: " "$stub" run --dry-run -c 3 idle
	check "stub: demo shows both policies" prints "none and cost" "$stub" demo
	check "stub: demo fits a terminal" narrow 80 "$stub" demo
	check "stub: --stats table" code 0 "^timer " "$stub" run --stats table poweroff
	check "stub: --stats table fits a terminal" narrow_stderr "$stub" run --stats=table poweroff
	check "stub: --stats FILE is one line of JSON" json 1 "$stub" run --stats "$out/stats.json" -c3 poweroff
	check "stub: --stats-interval adds lines" json 2 timeout -k 1 20 "$stub" run --stats "$out/stats.json" \
		--stats-interval .2 --timeout .5 idle
	check "stub: --stats-interval with a table" code 124 "^until now" "$stub" run --stats table --stats-interval .1 \
		--timeout .5 idle
	check "stub: --stats to a bad file" refused "/nowhere/x: cannot write" "$stub" run --stats /nowhere/x poweroff
	check "stub: --stats into a full disk" code 0 "/dev/full: No space" "$stub" run --stats /dev/full poweroff
	check "stub: SIGUSR2 prints the tables" signals 129 "^polling" "USR2 HUP" "$stub" run idle
	check "stub: -v" code 0 "^lull: vcpu1: thread 1001$" "$stub" run -v -c2 poweroff
	check "stub: -vv" code 0 "^lull: set-up: " "$stub" run -vv poweroff
	check "stub: pty path is said" code 0 "^lull: serial: /dev/pts/stub$" "$stub" run --serial pty poweroff

	check "stub: power-off" code 0 "" "$stub" run poweroff
	check "stub: reset" code 64 "restart" "$stub" run reset
	check "stub: triple fault" code 66 "triple fault at rip" "$stub" run triple
	check "stub: triple fault has registers" code 66 "^lull: rax 0" "$stub" run triple
	check "stub: KVM error" code 68 "internal error" "$stub" run kvmerror
	check "stub: panic" code 70 "panicked" "$stub" run panic
	check "stub: dead halt" code 72 "interrupts off" "$stub" run deadhalt
	check "stub: debug exit" code 33 "" "$stub" run debug33
	check "stub: debug exit that would look like 0" code 255 "" "$stub" run debug256
	check "stub: bad kernel" refused "bad: not a kernel" "$stub" run bad
	check "stub: cannot start" refused "nostart: cannot" "$stub" run nostart
	check "stub: timeout" code 124 "after 0.2 s" "$stub" run --timeout 0.2 idle
	check "stub: timeout, and the guest does not stop" code 124 "did not stop" "$stub" run --timeout .1 stuck

	check "stub: SIGTERM presses the power button" signals 0 "SIGTERM: asked" TERM "$stub" run acpi
	check "stub: SIGINT presses the power button" signals 0 "SIGINT: asked" INT "$stub" run acpi
	check "stub: second SIGTERM stops" signals 143 "SIGTERM: stopped" "TERM TERM" "$stub" run idle
	check "stub: SIGTERM, then SIGINT" signals 130 "SIGINT: stopped" "TERM INT" "$stub" run idle
	check "stub: SIGHUP" signals 129 "SIGHUP: stopped" HUP "$stub" run idle
	check "stub: SIGQUIT" signals 131 "SIGQUIT: stopped" QUIT "$stub" run idle
	check "stub: SIGTERM before the guest runs" signals 143 "" TERM "$stub" run slow
	check "stub: SIGINT before the guest runs" signals 130 "" INT "$stub" run slow
	check "stub: SIGHUP under nohup" signals 131 "SIGQUIT: stopped" "HUP QUIT" sh -c 'trap "" HUP; exec "$@"' sh \
		"$stub" run idle

	check "stub: stdin closed costs nothing" idle_closed "$stub" run idle
	check "stub: stdin at its end costs nothing" idle_null "$stub" run idle
	check "stub: stdin whose writer is gone costs nothing" idle_pipe "$stub" run echo
	check "stub: a megabyte for a late reader" late_reader "$stub"
	check "stub: input from a pipe passes unchanged" piped "$stub"
	check "stub: stderr that nobody reads" unread_stderr "$stub"
}

full() { "$@" >/dev/full 2>"$out/stderr"; [ $? = 126 ] && stderr_has "No space"; }

closed_pipe() { "$1" --help 2>"$out/stderr" | true; silent stderr; }

dump_file() {
	rm -f "$out/dump.bin"
	run 0 "$1" dump acpi -o "$out/dump.bin" && silent stdout && [ "$(wc -c <"$out/dump.bin")" = 16 ]
}

narrow() { # narrow COLUMNS COMMAND...: in at most 24 lines, too
	local width=$1
	shift
	"$@" >"$out/stdout" && awk -v w="$width" 'length >= w || NR > 24 { print; bad = 1 } END { exit bad }' "$out/stdout"
}

narrow_stderr() { "$@" 2>"$out/stderr" && awk 'length >= 80 { print; bad = 1 } END { exit bad }' "$out/stderr"; }

# json LINES COMMAND...: the file has so many lines or more; each is JSON and only the last one says so.
json() {
	local lines=$1
	shift
	"$@" >"$out/stdout" 2>"$out/stderr"
	cat "$out/stderr"
	python3 - "$lines" "$out/stats.json" <<-'END'
		import json, sys
		reports = [json.loads(line) for line in open(sys.argv[2])]
		assert len(reports) >= int(sys.argv[1]), len(reports)
		assert [r["last"] for r in reports] == [False] * (len(reports) - 1) + [True]
		times = [r["elapsed_ns"] for r in reports]
		assert times == sorted(times)
		for r in reports:
		    assert [v["vcpu"] for v in r["vcpus"]] == list(range(len(r["vcpus"]))), r["vcpus"]
		    assert all(len(v["halt_wait_hist"]) == 32 and "timer" in v["wake"] for v in r["vcpus"])
	END
}

late_reader() {
	local i bytes=''
	for ((i = 0; i < 251; i++)); do bytes+=$(printf '\\x%02x' $i); done
	{
		# shellcheck disable=SC2059 # the bytes are the format
		for ((i = 0; i < 4000; i++)); do printf "$bytes"; done
		printf '\xff'
	} | timeout 20 "$1" run reader >"$out/stdout" && stdout_has "end after 1004000"
}

piped() {
	printf '\x01x\x03\r\nq' | timeout 20 "$1" run echo >"$out/stdout" && stdout_has "<01><78><03><0d><0a>"
}

# The pipe is full before we start, and the guest must get on nevertheless.
unread_stderr() {
	mkfifo "$out/fifo" 2>/dev/null
	exec 9<>"$out/fifo"
	dd if=/dev/zero of="$out/fifo" oflag=nonblock bs=4096 count=1000 2>/dev/null
	timeout 20 "$1" run -vv poweroff >"$out/stdout" 2>&9 </dev/null
	local rc=$?
	exec 9>&-
	[ $rc = 0 ]
}

terminal_tests() {
	local stub=$out/lull-stub start="mode raw;expect Ctrl-a h;expect guest runs" n
	check "stub: tty: Enter arrives as a carriage return" \
		pty "$start;send \\r;expect <0d>;send \\n;expect <0a>;send q;exit 0;mode cooked" "$stub" run echo
	check "stub: tty: Ctrl-C and Ctrl-Z go to the guest" \
		pty "$start;send \\x03\\x1a\\x1c;expect <03><1a><1c>;send q;exit 0;mode cooked" "$stub" run echo
	check "stub: tty: Ctrl-a Ctrl-a is one Ctrl-a" \
		pty "$start;send \\x01\\x01b;expect <01><62>;send q;exit 0" "$stub" run echo
	check "stub: tty: Ctrl-a with another key passes" \
		pty "$start;send \\x01e;expect <01><65>;send q;exit 0" "$stub" run echo
	check "stub: tty: Ctrl-a h" pty "$start;send \\x01h;expect this help;send q;exit 0" "$stub" run echo
	check "stub: tty: Ctrl-a s" pty "$start;send \\x01s;expect timer;send q;exit 0" "$stub" run echo
	check "stub: tty: Ctrl-a x" \
		pty "$start;send ab\\x01xcd;expect stopped the guest;exit 0;mode cooked" "$stub" run echo
	check "stub: tty: idle" pty "$start;idle;send \\x01x;exit 0" "$stub" run echo
	check "stub: tty: normal end" pty "mode cooked;exit 0;mode cooked" "$stub" run poweroff
	check "stub: tty: cannot start" pty "expect nostart;exit 126;mode cooked" "$stub" run nostart
	check "stub: tty: bad kernel" pty "expect bad: not;exit 126;mode cooked" "$stub" run bad
	check "stub: tty: timeout" pty "$start;exit 124;mode cooked" "$stub" run --timeout .5 idle
	check "stub: tty: SIGTERM twice" \
		pty "$start;signal 15;expect again;signal 15;exit 143;mode cooked" "$stub" run idle
	for n in 1 3; do
		check "stub: tty: signal $n" pty "$start;signal $n;exit $((128 + n));mode cooked" "$stub" run idle
	done
	for n in 4 5 6 7 8 10 11 14 24 25 26 27 29 30 31; do
		check "stub: tty: restored by fatal signal $n" \
			pty "$start;signal $n;exit $((128 + n));mode cooked" "$stub" run idle
	done
	check "stub: tty: stopped and continued" \
		pty "$start;signal 20;mode cooked;stopped;background;foreground;mode raw;send q;exit 0;mode cooked" "$stub" run echo
	check "stub: tty: killed by SIGSTOP, continued in the background, then in the foreground" \
		pty "$start;signal 19;stopped;background;signal 18;idle;foreground;mode raw;send q;exit 0;mode cooked" "$stub" run echo
	check "stub: tty: untouched when the serial port is elsewhere" \
		pty "idle;mode cooked;send \\x03;expect asked;signal 3;exit 131" "$stub" run --serial null idle
	check "stub: tty: untouched when the output is elsewhere" \
		pty "idle;mode cooked;send \\x03;expect asked;signal 3;exit 131" sh -c "exec $stub run idle >$out/stdout"
}

# ------------------------------------------------------------------------------ the real one

# flat NAME BYTES: a guest of a few bytes, entered in long mode.
flat() { printf '%b' "$2" >"$out/$1.bin"; }

# Writes to a port: put PORT BYTE...
put() {
	local port=$1 byte
	shift
	printf '\\x66\\xba\\x%02x\\x%02x' $((port & 255)) $((port >> 8))
	for byte in "$@"; do printf '\\xb0\\x%02x\\xee' "$byte"; done
}

say_runs() { put 0x3f8 0x67 0x75 0x65 0x73 0x74 0x20 0x72 0x75 0x6e 0x73 0x0d 0x0a; } # "guest runs"

make_guests() {
	flat exit33 '\xb0\x10\xe6\xf4\xf4'
	flat shutdown "$(say_runs)$(put 0x8900 0x53 0x68 0x75 0x74 0x64 0x6f 0x77 0x6e)\\xf4"
	flat reset '\xb0\xfe\xe6\x64\xf4'
	flat triple '\x0f\x0b'
	flat panic "$(put 0x505 1)\\xf4"
	flat deadhalt '\xfa\xf4'
	flat idle "$(say_runs)\\xfb\\xf4\\xeb\\xfc"
	flat spin "$(say_runs)\\xeb\\xfe"
	flat echo "$(say_runs)\\x66\\xba\\xfd\\x03\\xec\\xa8\\x01\\x74\\xfb\\xb2\\xf8\\xec\\xee\\xb2\\xfd\\xeb\\xf3"
}

real_tests() {
	local text=lull long="--flat-mode long" start="mode raw;expect Ctrl-a h;expect guest runs" chip n
	make_guests
	check "lull: no command" refused "no command" "$lull"
	option_errors "$lull"
	check "lull: --help" prints "^Exit codes" "$lull" --help
	check "lull: --version" prints "^lull " "$lull" --version
	check "lull: missing kernel" cannot "/nowhere/kernel" "$lull" run /nowhere/kernel
	if run 0 "$lull" doctor && stdout_has "^ok .*guest MWAIT" >/dev/null; then
		check "lull: --guest-mwait" prints "^0x00000001 .* [0-9a-f]\{7\}[89a-f] [0-9a-f]*$" "$lull" dump cpuid --guest-mwait
		skip "lull: --guest-mwait is refused in one line" "this KVM gives MWAIT to guests"
	else
		skip "lull: --guest-mwait" "this KVM does not give MWAIT to guests"
		check "lull: --guest-mwait is refused in one line" cannot "KVM_CAP_X86_DISABLE_EXITS" "$lull" run \
			--guest-mwait "$out/idle.bin" --flat-mode long
		check "lull: dump --guest-mwait is refused in one line" cannot "KVM_CAP_X86_DISABLE_EXITS" "$lull" dump cpuid \
			--guest-mwait
	fi
	check "lull: 1000 CPUs" cannot "1000" "$lull" run -c1000 "$out/idle.bin" --flat-mode long
	for n in machine e820 cpuid; do
		check "lull: dump $n" prints . "$lull" dump "$n" -c2
	done
	check "lull: dump DSDT" prints "DSDT" "$lull" dump DSDT -c2
	check "lull: doctor" run 0 "$lull" doctor
	check "lull: trace gen" run 0 "$lull" trace gen rpc20 --halts 1000 -o "$out/rpc20.trace"
	check "lull: trace gen over another file" refused "is not a trace" "$lull" trace gen rpc20 -o "$out/idle.bin"
	check "lull: trace gen of nothing known" refused "rpc5, rpc20, " "$lull" trace gen nothing
	check "lull: replay" prints "^cost:balanced " "$lull" replay "$out/rpc20.trace"
	check "lull: replay as JSON" prints '"policy": "haltpoll"' "$lull" replay --json "$out/rpc20.trace"
	check "lull: replay with a policy of one's own" prints "^fixed:7us " "$lull" replay --policy fixed:7us "$out/rpc20.trace"
	check "lull: replay of something else" refused "not a halt trace" "$lull" replay "$out/idle.bin"
	check "lull: dry run" prints . "$lull" run --dry-run --flat-mode long "$out/idle.bin"
	check "lull: demo" demo
	for chip in user kernel; do
		# shellcheck disable=SC2086 # words
		set -- "$lull" run --irqchip $chip $long
		check "lull: $chip: isa-debug-exit" code 33 "" "$@" "$out/exit33.bin"
		check "lull: $chip: isa-debug-exit raw" code 16 "" "$@" --debug-exit raw "$out/exit33.bin"
		check "lull: $chip: power-off, with all output" last_words "$@" "$out/shutdown.bin"
		check "lull: $chip: reset" code 64 "reset" "$@" "$out/reset.bin"
		check "lull: $chip: reset and restart" code 124 "timeout" "$@" --on-reboot restart --timeout 0.5 "$out/reset.bin"
		check "lull: $chip: triple fault" code 66 "triple" "$@" "$out/triple.bin"
		check "lull: $chip: panic" code 70 "panic" "$@" "$out/panic.bin"
		check "lull: $chip: timeout" code 124 "timeout" "$@" --timeout 0.3 "$out/idle.bin"
		check "lull: $chip: second SIGTERM stops" signals 143 "stopped" "TERM TERM" "$@" "$out/idle.bin"
		check "lull: $chip: second SIGINT stops" signals 130 "stopped" "INT INT" "$@" "$out/idle.bin"
		check "lull: $chip: SIGHUP" signals 129 "stopped" HUP "$@" "$out/idle.bin"
		check "lull: $chip: SIGQUIT" signals 131 "stopped" QUIT "$@" "$out/idle.bin"
		check "lull: $chip: closed stdin costs nothing" idle_closed "$@" "$out/idle.bin"
		check "lull: $chip: stdin at its end costs nothing" idle_null "$@" "$out/idle.bin"
		check "lull: $chip: stdin whose writer is gone costs nothing" idle_pipe "$@" "$out/idle.bin"
		check "lull: $chip: tty: Enter is a carriage return" \
			pty "$start;send A\\rB;expect A\\rB;send \\x01x;exit 0;mode cooked" "$@" "$out/echo.bin"
		check "lull: $chip: tty: idle" pty "$start;idle;send \\x01s;expect exits;send \\x01x;exit 0;mode cooked" \
			"$@" "$out/idle.bin"
		for n in 6 7 11; do
			check "lull: $chip: tty: restored by fatal signal $n" \
				pty "$start;signal $n;exit $((128 + n));mode cooked" "$@" "$out/idle.bin"
		done
		check "lull: $chip: tty: stopped and continued" pty \
			"$start;signal 20;mode cooked;stopped;background;foreground;mode raw;send C;expect C;signal 3;exit 131;mode cooked" \
			"$@" "$out/echo.bin"
	done
	check "lull: stops though no signal can be queued" no_queue "$lull" run --flat-mode long "$out/spin.bin"
	check "lull: no timer can be had" no_timer "$lull" run --flat-mode long "$out/spin.bin"
	check "lull: dead halt" code 72 "halt" "$lull" run --flat-mode long "$out/deadhalt.bin"
	check "lull: statistics" code 33 "^exits " "$lull" run --stats table --flat-mode long "$out/exit33.bin"
}

# Signals of the kick's kind are queued. When this user may queue no more, a guest that computes is stopped all the same.
no_queue() {
	local pid i
	: >"$out/stdout"
	"$@" >"$out/stdout" 2>"$out/stderr" </dev/null &
	pid=$!
	for i in $(seq 100); do
		grep -q "guest runs" "$out/stdout" && break
		sleep 0.05
	done
	prlimit --pid "$pid" --sigpending=0 && kill "$pid" && sleep 0.3 && kill "$pid"
	for i in $(seq 40); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	kill -9 "$pid" 2>/dev/null && echo "it does not stop" && return 1
	stderr_has "stopped"
}

no_timer() { (ulimit -i 0 && exec timeout -s KILL 20 "$@") 2>&1 | grep -q "timer_create.*ulimit -i"; }

last_words() { run 0 "$@" && stdout_has "guest runs" && silent stderr; }

demo() { run 0 "$lull" demo && silent stderr && stdout_has "^timer " && narrow 80 "$lull" demo; }

# ------------------------------------------------------------------------------ main

mkdir -p "$out"
build() {
	local flags=(-std=gnu11 -O1 -g -Wall -Wextra -Iinclude -D_GNU_SOURCE -pthread)
	"$cc" "${flags[@]}" vmm/main.c vmm/options.c vmm/cli*.c tests/cli/stub_lull.c -o "$out/lull-stub" &&
		"$cc" "${flags[@]}" tests/cli/pty.c -o "$out/pty"
}
check "build with the stub" build
case ${1:-all} in
stub) stub_tests && terminal_tests ;;
lull) real_tests ;;
*)
	stub_tests
	terminal_tests
	if [ ! -e /dev/kvm ]; then
		skip "the real binary" "no /dev/kvm"
	else
		real_tests
	fi
	;;
esac
echo "1..$number"
[ "$failures" = 0 ]
