#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tiny guests as tests.conf says, with both interrupt controllers; TAP on standard output.
set -u

usage() {
	cat <<'END'
usage: tests/guests/run.sh [--filter PATTERN] [--irqchip user|kernel] [--repeat N] [--jobs N] [--list]
  --filter   only tests whose line contains PATTERN, an extended regular expression
  --repeat   the whole list so many times
  --jobs     so many at once (1)
  --list     print expected exit code and command of each instead of running it
LULL=path of the command, GUESTS=directory of the images
END
	exit "$1"
}

here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
lull=${LULL:-$top/build/lull}
guests=${GUESTS:-$top/build/guests}
conf=$here/tests.conf
mem=64
filter=. chips='user kernel' repeat=1 jobs=1 list=
while [ $# -gt 0 ]; do
	case $1 in
	--filter) filter=$2; shift ;;
	--irqchip) chips=$2; shift ;;
	--repeat) repeat=$2; shift ;;
	--jobs) jobs=$2; shift ;;
	--list) list=1 ;;
	--help | -h) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
	shift
done

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# One line per run, fields separated by |: title, form, guest, cpus, chip, timeout, expect, options, command line.
expand() {
	awk -v chips=" $chips " -v mem="$mem" '
	function reset() {
		guest = section; sub(/:.*/, "", guest)
		form = "elf"; cpus = 1; irqchip = "user,kernel"; vary = "apic=xapic,apic=x2apic"
		args = options = ""; expect = 0; timeout = 20
	}
	function flush(   c, v, i, j, nc, nv, word, line) {
		if (section == "")
			return
		nc = split(irqchip, c, ",")
		nv = split(vary, v, ",")
		for (i = 1; i <= nv; i++)
			for (j = 1; j <= nc; j++) {
				if (!index(chips, " " c[j] " "))
					continue
				word = v[i] == "-" ? "" : " " v[i]
				line = "cpus=" cpus " mem=" mem " irqchip=" c[j] word (args == "" ? "" : " " args)
				print "guest/" section word " " c[j] "|" form "|" guest "|" cpus "|" c[j] "|" timeout "|" expect "|" options "|" line
			}
	}
	/^[ \t]*(#|$)/ { next }
	/^\[.*\]$/ { flush(); section = substr($0, 2, length($0) - 2); reset(); next }
	{
		key = $1; value = $0; sub(/^[^=]*=[ \t]*/, "", value)
		if (key == "guest") guest = value
		else if (key == "form") form = value
		else if (key == "cpus") cpus = value
		else if (key == "irqchip") irqchip = value
		else if (key == "vary") vary = value
		else if (key == "args") args = value
		else if (key == "options") options = value
		else if (key == "expect") expect = value
		else if (key == "timeout") timeout = value
		else { print "tests.conf:" FNR ": unknown key " key > "/dev/stderr"; exit 1 }
	}
	END { flush() }' "$conf"
}

# Sets command to the words of one run. @N in the options stands for a file of N bytes, its own for each run.
make_command() {
	local options=$8 word
	command=("$lull" run --debug-exit raw --serial "file=$tmp/serial.${10}" --irqchip "$5" --cpus "$4" --mem "$mem"
		--timeout "$6" --cmdline "$9")
	for word in $options; do
		if [[ $word =~ ^(.*)@([0-9]+)(.*)$ ]]; then
			truncate -s "${BASH_REMATCH[2]}" "$tmp/file.${10}.${BASH_REMATCH[2]}"
			word=${BASH_REMATCH[1]}$tmp/file.${10}.${BASH_REMATCH[2]}${BASH_REMATCH[3]}
		fi
		command+=("$word")
	done
	command+=("$guests/$3.$2")
}

# Writes the verdict of run number $1 to $tmp/$1.tap.
run_one() {
	local n=$1 title=$2 limit=$7 expect=$8 code verdict='not ok'
	shift
	make_command "$@" "$n"
	: > "$tmp/serial.$n"
	timeout -k 2 $((limit + 15)) "${command[@]}" > "$tmp/out.$n" 2>&1 < /dev/null
	code=$?
	if [ "$code" = "$expect" ]; then
		printf 'ok %d - %s\n' "$n" "$title"
		verdict=ok
	elif [ "$code" = 77 ]; then
		printf 'ok %d - %s # SKIP %s\n' "$n" "$title" "$(sed -n 's/^SKIP //p' "$tmp/serial.$n" | head -n 1)"
		verdict=ok
	else
		printf 'not ok %d - %s\n' "$n" "$title"
		printf '# exit code %d, expected %d: %s\n' "$code" "$expect" "${command[*]}"
		tail -n 40 "$tmp/out.$n" "$tmp/serial.$n" | sed 's/^/# /'
	fi > "$tmp/tap.new.$n"
	mv "$tmp/tap.new.$n" "$tmp/tap.$n"
	rm -f "$tmp/out.$n" "$tmp/serial.$n" "$tmp/file.$n".*
	[ "$verdict" = ok ] || echo "$title" >> "$tmp/failed"
}

mapfile -t once < <(expand | grep -E -- "$filter")
runs=()
for ((i = 0; i < repeat; i++)); do
	runs+=("${once[@]}")
done
if [ -n "$list" ]; then
	for line in "${once[@]}"; do
		IFS='|' read -r -a field <<< "$line"
		make_command "${field[@]}" 0
		printf '%s\t%s\n' "${field[6]}" "${command[*]@Q}"
	done
	exit 0
fi
if [ ${#runs[@]} = 0 ]; then
	echo "$0: no test matches '$filter'" >&2
	exit 2
fi
if ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
	echo "1..0 # SKIP no access to /dev/kvm"
	exit 0
fi

echo "1..${#runs[@]}"
shown=0
# Prints the verdicts that are there, in order.
show() {
	while [ -e "$tmp/tap.$((shown + 1))" ]; do
		shown=$((shown + 1))
		cat "$tmp/tap.$shown"
		rm -f "$tmp/tap.$shown"
	done
}
running=0
for ((i = 0; i < ${#runs[@]}; i++)); do
	IFS='|' read -r -a field <<< "${runs[i]}"
	if [ "$running" -ge "$jobs" ]; then
		wait -n
		running=$((running - 1))
		show
	fi
	run_one $((i + 1)) "${field[@]}" &
	running=$((running + 1))
done
wait
show
if [ -s "$tmp/failed" ]; then
	echo "# failed: $(sort "$tmp/failed" | uniq -c | awk '{ n = $1; sub(/^ *[0-9]+ /, ""); printf "%s%s%s", sep, $0, (n > 1 ? " (" n " times)" : ""); sep = ", " }')"
	exit 1
fi
exit 0
