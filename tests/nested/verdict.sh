# shellcheck shell=bash
# What counts as a pass: functions for run.sh and selftest.sh. They need $here (this folder).
: "${here:?}"

# Problem lines of a log that the baseline logs do not have, in order of appearance.
new_problems() { # new_problems LOG [BASELINE-LOG...]
	local log=$1
	shift
	awk -f "$here/problems.awk" "$log" | awk '!seen[$0]++' |
		grep -vxFf <([ $# -gt 0 ] && awk -f "$here/problems.awk" "$@" | sort -u) |
		grep -vEf <(grep -v '^#' "$here/noise")
}

# Prints one line for each reason why a scenario failed; nothing when it passed.
#   STEM.log .err .note   console, standard error, notes of the host
#   RC                    exit code of the monitor, `watchdog` or `stopped`
#   CHECK                 options of check.awk | still (no context switch may be noted) | io (FAIL lines) | empty
verdict() { # verdict STEM RC WANTED-RC CHECK [BASELINE-LOG...]
	local stem=$1 rc=$2 want=$3 check=$4 first
	shift 4
	if [ "$rc" != "$want" ]; then
		first=$(head -n 1 "$stem.err")
		case $rc in
		watchdog) echo "killed by the watchdog" ;;
		*) echo "exit code $rc, expected $want${first:+ ($first)}" ;;
		esac
	fi
	case $check in
	'') ;;
	still)
		grep -q '^idle thread=lull-vcpu' "$stem.note" || echo "no vCPU thread was seen"
		grep '^idle thread=' "$stem.note" | grep -v 'voluntary=0 involuntary=0$'
		;;
	*)
		if [ "$check" = io ]; then
			sed -n 's/^FAIL //p' "$stem.log" | sort -u | head -n 5
		else
			# shellcheck disable=SC2086 # a list of options
			awk $check -f "$here/notes.awk" -f "$here/check.awk" "$stem.log" "$stem.note"
		fi
		new_problems "$stem.log" "$@" >"$stem.new"
		# A kernel that was started by kexec finds the timer of the one before it due.
		[[ $check == *notes=polls* ]] && sed -i '/^Spurious LAPIC timer interrupt on cpu #$/d' "$stem.new"
		sed -n '1,4s/^/new in the kernel log: /p' "$stem.new"
		[ "$(wc -l <"$stem.new")" -gt 4 ] && echo "more new lines in $stem.new"
		;;
	esac
}
