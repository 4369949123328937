#!/bin/bash
# Boots stock Debian kernels under lull (or QEMU microvm) inside an emulated AMD host with
# kvm_amd. One host boot runs many guests. See README.md beside this file.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${NESTED_BUILD:-$root/build/nested}
lull=${LULL:-$root/build/lull}

# shellcheck source=verdict.sh
. "$here/verdict.sh"

usage() {
	cat <<-'END'
	usage: run.sh [options]
	  (default)              quick matrix, about 4 minutes
	  --full                 whole matrix: 2 kernels x 1, 2, 4 vCPUs x both APIC modes x both irqchips x both ends
	  --debian               a Debian from its disk instead: boot, work, power off; kill -9 while it writes (an hour and more)
	  --only PATTERN         only scenarios whose name matches this extended regular expression
	  --list                 print the names and stop
	  --monitor lull|qemu    who runs the guests (qemu: to check the rig itself)
	  --hosts N              emulated hosts at the same time, which share the scenarios (default 2)
	  --host-cpus N          CPUs of each (default 1; more are less reliable, see README.md)
	  --host-kernel 6.1|6.12 kernel of the emulated host
	  --full-log             guests print their whole kernel log
	  --lull-args ARGS       more options for every `lull run`
	one command of your own instead of the matrix; lull is /bin/lull in the host, kernels and initramfs are
	/guest/vmlinuz-6.1, /guest/vmlinuz-6.12 and /guest/initrd:
	  --cmd COMMAND          run this in the host
	  --file SRC[:DEST]      copy a file into the host (default destination: /files/NAME); repeatable
	  --image FILE           a disk of the host's, /dev/nvme0n1; what is written stays
	  --cut MILLISECONDS     kill the host so long after it said ACK
	  --expect RC            exit code to expect (default 0)
	  --limit SECONDS        watchdog (default 120)
	  --idle [SECONDS]       count context switches of its threads over SECONDS (default 10), then stop it
	  --marker TEXT          --idle starts counting 4 s after a line of output that starts with TEXT (default: GUEST end=idle)
	END
}

die() { echo "nested: $*" >&2; exit 1; }

#--------------------------------------------------------------------- options

matrix=quick only=. hosts=2 host_cpus=1 list='' monitor=lull host_kernel=6.12 guest_log='' lull_args=''
cmd='' files=() expect=0 limit=120 idle='' window=10 marker='' image='' cut=''
need() { [ $# -ge 2 ] || die "$1 needs a value"; }
while [ $# -gt 0 ]; do
	case $1 in
	--full) matrix=full ;;
	--debian) matrix=debian; export PASST_SUITE=${PASST_SUITE-trixie} ;;
	--list) list=1 ;;
	--full-log) guest_log=full ;;
	--only) need "$@"; only=$2; shift ;;
	--hosts) need "$@"; hosts=$2; shift ;;
	--host-cpus) need "$@"; host_cpus=$2; shift ;;
	--monitor) need "$@"; monitor=$2; shift ;;
	--host-kernel) need "$@"; host_kernel=$2; shift ;;
	--lull-args) need "$@"; lull_args=$2; shift ;;
	--cmd) need "$@"; cmd=$2; shift ;;
	--file) need "$@"; files+=("$2"); shift ;;
	--expect) need "$@"; expect=$2; shift ;;
	--image) need "$@"; image=$2; shift ;;
	--cut) need "$@"; cut=$2; shift ;;
	--limit) need "$@"; limit=$2; shift ;;
	--marker) need "$@"; marker=$2; shift ;;
	--idle)
		idle=1
		if [[ ${2:-} =~ ^[0-9]+$ ]]; then window=$2; shift; fi
		;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; exit 1 ;;
	esac
	shift
done
[[ $monitor =~ ^(lull|qemu)$ ]] || die "--monitor: lull or qemu"
[[ $hosts =~ ^[1-9]$ ]] || die "--hosts: 1 to 9"
[ -z "$cmd" ] || hosts=1

#------------------------------------------------------------------- scenarios

# One directory per scenario, in order of running. `cmd` and `vars` go into the host; `name`,
# `rc`, `role` (test, baseline, other), `kernel` and `check` say what is expected of it.
scenario_count=0
scenario() { # scenario NAME RC ROLE KERNEL CHECK VARS COMMAND
	local dir
	scenario_count=$((scenario_count + 1))
	dir=$work/scenarios/$(printf %03d $scenario_count)
	mkdir -p "$dir"
	echo "$1" >"$dir/name"
	echo "$2" >"$dir/rc"
	echo "$3" >"$dir/role"
	echo "$4" >"$dir/kernel"
	echo "$5" >"$dir/check"
	echo "$6" >"$dir/vars"
	echo "$7" >"$dir/cmd"
}

guest_command() { # guest_command MONITOR KERNEL IRQCHIP CPUS APIC END WORDS
	local line="console=ttyS0 loglevel=5 panic=-1 lull.end=$6" restart=exit
	[ "$5" = xapic ] && line+=" nox2apic"
	[ -n "$guest_log" ] && line+=" lull.log=$guest_log"
	case $1 in
	lull)
		[ "$6" = ask ] && restart=restart
		echo "exec /bin/lull run --cpus $4 --mem 512M --irqchip $3 --serial stdio --timeout 110 --on-reboot $restart" \
			"--initrd /guest/initrd --cmdline '$line' $lull_args /guest/vmlinuz-$2"
		;;
	qemu)
		# This machine has no reset register: reboot by triple fault.
		[ "$6" = ask ] || restart='-no-reboot'
		echo "exec qemu-system-x86_64 -M microvm,accel=kvm,pic=off,pit=off,rtc=on -cpu host -smp $4 -m 512" \
			"-nodefaults -no-user-config -display none -serial stdio ${restart#exit}" \
			"-kernel /guest/vmlinuz-$2 -initrd /guest/initrd -append '$line reboot=t'"
		;;
	esac
}

guest() { # guest MONITOR KERNEL IRQCHIP CPUS APIC END
	local name="$2-$3-${4}cpu-$5" role=${role:-test} rc=0 end=$6 boots=1 vars="limit=120"
	case $6 in
	reboot)
		name+=-reboot rc=64
		[ "$1" = qemu ] && rc=0
		;;
	ask) name+=-restart end=poweroff boots=2 vars="limit=120 kind=dialog answers='reboot poweroff'" ;;
	idle) name+=-idle rc=stopped vars="limit=120 kind=idle" ;;
	esac
	[[ $name =~ $only ]] || return
	scenario "${role#test}$name" "$rc" "${role%-}" "$2" "-v kernel=$2 -v cpus=$4 -v apic=$5 -v end=$end -v boots=$boots" \
		"$vars" "$(guest_command "$1" "$2" "$3" "$4" "$5" "$6")"
}

# Who polls: the guest itself, or lull for it. The first kernel runs the second, and that one resets the machine.
polls() { # polls IRQCHIP
	local name=6.12-$1-2cpu-haltpoll line="console=ttyS0 loglevel=5 panic=-1 lull.end=ask"
	[[ $name =~ $only ]] || return
	scenario "$name" 0 test 6.12 "-v kernel=6.12 -v cpus=2 -v apic=x2apic -v end=poweroff -v boots=3 -v notes=polls -v chip=$1" \
		"limit=240 kind=polls" "cd / || exit
		(cat guest/initrd; printf '%s\n' guest guest/vmlinuz-6.12 guest/initrd | cpio -o -H newc) >/tmp/initrd
		exec /bin/lull run --cpus 2 --mem 512M --irqchip $1 --serial stdio --timeout 230 --on-reboot restart --initrd /tmp/initrd \
		--stats /tmp/stats --stats-interval 0.5 --halt-poll fixed:5ms --cmdline '$line' $lull_args /guest/vmlinuz-6.12"
}

# What the host takes from a guest that wants more than it gets, and what the guest is told of it.
steal() { # steal IRQCHIP MODE
	local name=6.12-$1-2cpu-steal-$2 line="console=ttyS0 loglevel=5 panic=-1 nowatchdog lull.end=ask"
	[[ $name =~ $only ]] || return
	scenario "$name" 0 test 6.12 \
		"-v kernel=6.12 -v cpus=2 -v apic=x2apic -v end=poweroff -v boots=1 -v notes=steal -v mode=$2" \
		"limit=240 kind=steal" "exec /bin/lull run --cpus 2 --mem 512M --irqchip $1 --serial stdio --timeout 230 \
		--cpu-affinity 0:$((host_cpus > 1)) --steal-time $2 --stats /tmp/stats --stats-interval 0.5 --initrd /guest/initrd --cmdline '$line' \
		$lull_args /guest/vmlinuz-6.12"
}

# 1000 connections each way at the same time: the guest calls a server of the host, the host a server of the guest.
vsock() { # vsock KERNEL IRQCHIP CPUS
	local name="$1-$2-${3}cpu-vsock" peer=/files/vsock-peer
	[[ $name =~ $only ]] || return
	scenario "$name" 0 test "$1" "-v kernel=$1 -v cpus=$3 -v apic=x2apic -v end=poweroff -v boots=1" "limit=120" \
		"$peer serve /tmp/v_5000 1000 20 >&2 & server=\$!
		( until $peer echo /tmp/v 1 10 1 2>/dev/null; do sleep 1; done
		$peer echo /tmp/v 1000 5000 1000 && $peer end /tmp/v ) >&2 & client=\$!
		/bin/lull run --cpus $3 --mem 512M --irqchip $2 --serial stdio --timeout 110 --vsock cid=3,socket=/tmp/v \
			--initrd /guest/initrd-$1 --cmdline 'console=ttyS0 loglevel=5 panic=-1 lull.vsock=5000,1000' \
			/guest/vmlinuz-$1 || exit
		wait \$server && wait \$client && grep -q '^GUEST vsock=ok calls=1000 served=1001' /tmp/out"
}

# A guest without any timer must not wake this monitor at all (halts are the point of it).
tiny_idle() { # tiny_idle IRQCHIP
	local name=tiny-$1-4cpu-idle
	[[ $name =~ $only ]] || return
	scenario "$name" stopped other none still "kind=idle marker=idle" \
		"exec /bin/lull run --cpus 4 --irqchip $1 /files/idle.elf"
}

# Memory that the guest frees comes back: the script says what is wrong.
balloon() { # balloon IRQCHIP
	local name=6.12-$1-2cpu-balloon
	[[ $name =~ $only ]] || return
	scenario "$name" 0 other none '' "limit=180" "exec sh /balloon/test.sh $1 $lull_args"
}

# The emulated CPU has MWAIT, and its KVM lets guests use it.
tiny_mwait() { # tiny_mwait IRQCHIP
	local name=tiny-$1-2cpu-mwait run
	[[ $name =~ $only ]] || return
	run="/bin/lull run --irqchip $1 --guest-mwait --cpus 2 --debug-exit raw --timeout 60"
	scenario "$name" 0 other none "" "limit=120" "$run -p want=1 /files/mwait.elf &&
		exec $run -p 'apic=x2apic work=pingpong idle=mwait rounds=50' /files/idle_loops.elf"
}

# A disk, a network, consoles, random numbers: the script says `ok` and `FAIL`.
io() { # io NAME-WITH-@ IRQCHIP SECONDS SCRIPT WORDS...
	local name=${1/@/$2} limit=$3
	[[ $name =~ $only ]] || return
	scenario "$name" 0 test 6.12 io "limit=$limit" "exec sh /io/$4.sh $2 ${*:5} $lull_args"
}

# QEMU's own log on the same kernel: what the kernel complains about on any monitor here.
baseline_configs() {
	local kernel apic
	for kernel in 6.1 6.12; do
		for apic in x2apic xapic; do
			echo "$kernel 4 $apic"
		done
	done
}

baseline_missing() {
	local kernel cpus apic id
	id=$(cat "$build"/vmlinuz-*.version "$build/qemu.version" "$here/init/guest" | cksum)
	if [ "$(cat "$build/baseline/id" 2>/dev/null)" != "$id" ]; then
		rm -rf "$build/baseline" && mkdir -p "$build/baseline"
		echo "$id" >"$build/baseline/id"
	fi
	while read -r kernel cpus apic; do
		[ -e "$build/baseline/baseline-$kernel-qemu-${cpus}cpu-$apic.log" ] || echo "$kernel $cpus $apic"
	done < <(baseline_configs)
}

add_baseline() { # add_baseline KERNELS
	local kernel cpus apic only=. role=baseline-
	while read -r kernel cpus apic; do
		[[ " $1 " == *" $kernel "* ]] && guest qemu "$kernel" qemu "$cpus" "$apic" poweroff
	done < <(baseline_missing)
}

quick_matrix() {
	local irqchip
	for irqchip in "$@"; do
		guest "$monitor" 6.12 "$irqchip" 4 x2apic poweroff
		guest "$monitor" 6.1 "$irqchip" 4 x2apic poweroff
		guest "$monitor" 6.12 "$irqchip" 2 xapic reboot
	done
	irqchip=$1
	[ "$monitor" = qemu ] || vsock 6.12 "$irqchip" 2
	guest "$monitor" 6.1 "$irqchip" 4 xapic poweroff
	guest "$monitor" 6.1 "$irqchip" 1 x2apic reboot
	guest "$monitor" 6.12 "$irqchip" 2 x2apic ask
	guest "$monitor" 6.12 "$irqchip" 1 x2apic idle
}

full_matrix() {
	local irqchip kernel cpus apic end
	for irqchip in "$@"; do
		for kernel in 6.12 6.1; do
			for cpus in 1 2 4; do
				for apic in x2apic xapic; do
					for end in poweroff reboot; do
						guest "$monitor" $kernel "$irqchip" $cpus $apic $end
					done
				done
			done
			[ "$monitor" = qemu ] || vsock $kernel "$irqchip" 2
			guest "$monitor" $kernel "$irqchip" 8 x2apic poweroff
			guest "$monitor" $kernel "$irqchip" 2 x2apic ask
			guest "$monitor" $kernel "$irqchip" 1 x2apic idle
		done
	done
}

# Bytes each way through each network; how often a kill.
debian_matrix() {
	local irqchip
	for irqchip in "$@"; do
		io debian-@-2cpu "$irqchip" 3600 debian "$((${MIB:-1024} << 20))"
		io debian-@-2cpu-kill "$irqchip" 2400 kill "${KILLS:-20}"
	done
}

make_scenarios() {
	local vars chips="user kernel"
	local m
	if [ -n "$cmd" ]; then
		vars="limit=$limit"
		[ -n "$idle" ] && vars+=" kind=idle window=$window marker='$marker'" && expect=stopped
		scenario cmd "$expect" other "$host_kernel" "" "$vars" "$cmd"
		return
	fi
	[ "$monitor" = qemu ] && chips=qemu
	# shellcheck disable=SC2086 # a list of words
	${matrix}_matrix $chips
	[ "$monitor" = lull ] && [ $matrix != debian ] || return
	for m in $chips; do
		tiny_idle "$m"
		tiny_mwait "$m"
		io 6.12-@-2cpu-io "$m" 240 quick
	done
	balloon user
	polls user
	steal user vmm
	[ $matrix = full ] || return
	polls kernel
	steal user kvm
	steal kernel kvm
}

#------------------------------------------------------------- the emulated host

stage_host() { # stage_host FIRST: the archive for the scenarios from FIRST on
	local tree=$work/tree n dir spec src dest parts
	rm -rf "$tree" && mkdir -p "$tree/batch" "$tree/bin" "$tree/files"
	for ((n = $1; n <= scenario_count; n++)); do
		dir=$(printf %03d "$n")
		mkdir "$tree/batch/$dir"
		cp "$work/scenarios/$dir"/{name,vars,cmd} "$tree/batch/$dir/"
	done
	[ -e "$lull" ] && cp "$lull" "$tree/bin/lull"
	for spec in "${files[@]}"; do
		src=${spec%%:*} dest=/files/${spec##*/}
		[[ $spec == *:* ]] && dest=${spec#*:}
		mkdir -p "$tree$(dirname "$dest")"
		cp "$src" "$tree$dest" || die "--file $spec: cannot copy"
	done
	(cd "$tree" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) >"$work/batch.cpio" ||
		die "cannot pack the scenarios"
	parts=("$build/host.cpio")
	grep -q qemu-system "$tree"/batch/*/cmd && parts+=("$build/qemu.cpio")
	grep -q /balloon "$tree"/batch/*/cmd && parts+=("$build/balloon.cpio")
	grep -q /io "$tree"/batch/*/cmd && parts+=("$build/io.cpio")
	cat "${parts[@]}" "$work/batch.cpio" >"$work/initrd"
	rm -rf "$tree"
}

# A little above the builds that may run beside it: a starved host makes guests report RCU stalls.
priority=0
[ "$(id -u)" = 0 ] && priority=-5

host_pid=''
stop_host() {
	[ -n "$host_pid" ] && kill -KILL "$host_pid" 2>/dev/null && wait "$host_pid" 2>/dev/null
	host_pid=''
}

start_host() {
	local disk=() file=$image
	if grep -q '/io/\(debian\|kill\)' "$work"/scenarios/*/cmd; then
		# What is written goes with this host.
		file=$build/debian/debian.img,snapshot=on
	fi
	[ -z "$file" ] || disk=(-drive "file=$file,format=raw,if=none,id=disk" -device "nvme,serial=disk,drive=disk")
	: >"$work/data"; : >"$work/console"; : >"$work/reset"
	nice -n "$priority" "$build/qemu-system" -M q35 -accel tcg,thread=multi -cpu EPYC,+svm,+npt -m 3072 -smp "$host_cpus" \
		-display none -no-reboot -nodefaults -no-user-config "${disk[@]}" -d cpu_reset -D "$work/reset" \
		-chardev "file,id=console,path=$work/console" -serial chardev:console \
		-chardev "file,id=data,path=$work/data" -serial chardev:data \
		-kernel "$build/vmlinuz-$host_kernel" -initrd "$work/initrd" \
		-append "console=ttyS0 reboot=t panic=-1 quiet mitigations=off tsc=reliable nowatchdog" </dev/null >"$work/qemu.out" 2>&1 &
	host_pid=$!
}

# Why the host is gone, from what it left behind.
host_obituary() {
	local why
	why=$(grep -a -m 1 -oE '@FAIL .*' "$work/data") && { echo "$why"; return; }
	why=$(grep -a -m 1 -oE 'Kernel panic.*' "$work/console") && { echo "$why"; return; }
	grep -q 'Triple fault' "$work/reset" && { echo "triple fault"; return; }
	[ -s "$work/qemu.out" ] && { head -n 1 "$work/qemu.out"; return; }
	echo "QEMU ended without the end marker"
}

# Nanoseconds that all threads of the emulated host have waited for a CPU so far; 0 when it is gone.
host_waited() {
	cat /proc/"$host_pid"/task/*/schedstat 2>/dev/null | awk '{ t += $2 } END { printf "%.0f\n", t }'
}

# Runs the scenarios from $1 on in one host boot; reports each as it ends. Sets `done_count` to
# the number that ended and `obituary` to why the host died, empty if it did not.
run_host() {
	local first=$1 ended silent=0 size last_size=-1 deadline last
	done_count=0 obituary=''
	stage_host "$first"
	start_host
	waited=0 waited_at=$SECONDS
	deadline=$((SECONDS + 120 + $(cat "$work"/scenarios/*/vars | sed 's/.*limit=\([0-9]*\).*/\1/; t; s/.*/120/' | awk '{ s += $1 + 60 } END { print s }')))
	while :; do
		sleep 0.5
		ended=$(grep -ac '^@END' "$work/data")
		while [ "$done_count" -lt "$ended" ]; do
			done_count=$((done_count + 1))
			judge $((first + done_count - 1)) "$done_count"
		done
		if [ -n "$cut" ] && grep -aq '^ACK' "$work/data"; then
			sleep "$(printf '%d.%03d' $((cut / 1000)) $((cut % 1000)))"
			stop_host
			echo "# the host was killed"
			exit 0
		fi
		grep -aq '^@DONE' "$work/data" && [ "$ended" = "$(grep -ac '^@END' "$work/data")" ] && break
		if ! kill -0 "$host_pid" 2>/dev/null; then
			wait "$host_pid"
			host_pid=''
			sleep 0.2
			[ "$ended" = "$(grep -ac '^@END' "$work/data")" ] || continue
			obituary=$(host_obituary)
			break
		fi
		size=$(cat "$work/data" "$work/console" | wc -c)
		if [ "$size" != "$last_size" ]; then last_size=$size silent=$SECONDS; fi
		if [ $((SECONDS - silent)) -gt 60 ]; then obituary="hung (silent for 60 s)"; break; fi
		if [ $SECONDS -gt $deadline ]; then obituary="hung (deadline)"; break; fi
	done
	stop_host
	if [ -n "$obituary" ]; then
		last=$logs/deaths/$(date +%H%M%S)-${work##*/}
		mkdir -p "$last"
		cp "$work"/{data,console,reset,qemu.out} "$last/"
	fi
}

#---------------------------------------------------------------------- verdicts

report() { # report ok|not-ok NAME REASON
	local line="not ok nested/$2 $3"
	[ "$1" = ok ] && line="ok nested/$2 ($3)"
	echo "$line"
	echo "$line" >>"$logs/results"
}

# Splits one scenario's block of the data stream into NAME.log, .err, .note.
split_block() { # split_block N-TH STEM
	: >"$2.log"; : >"$2.err"; : >"$2.note"
	tr -d '\r' <"$work/data" | awk -v nth="$1" -v stem="$2" '
		/^@BEGIN / { n++ }
		n != nth { next }
		/^\|o / { print substr($0, 4) >(stem ".log") }
		/^\|e / { print substr($0, 4) >(stem ".err") }
		/^\|n / { print substr($0, 4) >(stem ".note") }
		/^\|h / { print "host: " substr($0, 4) >(stem ".note") }
		/^@END / { print; exit }'
}

judge() { # judge SCENARIO N-TH-BLOCK
	local dir name want rc seconds check role kernel stem line now reasons='' reason baseline=()
	dir=$work/scenarios/$(printf %03d "$1")
	read -r name <"$dir/name"
	read -r want <"$dir/rc"
	read -r check <"$dir/check"
	read -r role <"$dir/role"
	read -r kernel <"$dir/kernel"
	stem=$logs/$name
	line=$(split_block "$2" "$stem")
	rc=${line#*rc=} rc=${rc%% *} seconds=${line#*seconds=}
	cp "$dir/cmd" "$stem.cmd"

	[[ $line == "@END $name "* ]] || reasons+="; result stream out of step: $line"
	if [ "$role" = test ]; then
		baseline=("$build/baseline/baseline-$kernel"-*.log)
		[ -e "${baseline[0]}" ] || reasons+="; no QEMU log to compare with"
	else
		baseline=("$stem.log")
	fi
	while read -r reason; do reasons+="; $reason"; done < <(verdict "$stem" "$rc" "$want" "$check" "${baseline[@]}")
	[ "$role" = baseline ] && [ -z "$reasons" ] && cp "$stem.log" "$build/baseline/$name.log"

	now=$(host_waited)
	if [ -n "$reasons" ] && [ $((now - waited)) -gt $(((SECONDS - waited_at) * 300000000)) ]; then
		reasons+="; this machine was busy: the emulated CPUs waited $(((now - waited) / 1000000000)) of $((SECONDS - waited_at)) s"
	fi
	waited=$now waited_at=$SECONDS
	grep '^idle' "$stem.note" | sed "s|^|# $name |"
	if [ -z "$reasons" ]; then
		report ok "$name" "$seconds s"
	else
		report not-ok "$name" "${reasons#; } [$stem.log]"
	fi
}

#-------------------------------------------------------------------------- main

work=$build/run
logs=$build/logs
mkdir -p "$build"
if [ -n "$list" ]; then
	work=$(mktemp -d)
	make_scenarios
	cat "$work"/scenarios/*/name 2>/dev/null
	rm -rf "$work"
	exit 0
fi

exec 9>>"$build/lock"
flock -n 9 || { echo "nested: another run is going on here, waiting"; flock 9; }
rm -rf "$work" && mkdir -p "$work/scenarios"
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'exit 130' INT TERM

make_scenarios
[ $scenario_count -gt 0 ] || die "no scenario matches $only"
"$here/prepare.sh" || exit 1
if grep -q '/io/\(debian\|kill\)' "$work"/scenarios/*/cmd; then "$here/debian.sh" || exit 1; fi
if [ -z "$cmd" ]; then
	[ "$monitor" = qemu ] || [ -x "$lull" ] || die "$lull is missing: run make first"
	for elf in idle mwait idle_loops; do
		if grep -q "/$elf.elf" "$work"/scenarios/*/cmd; then
			[ -e "$root/build/guests/$elf.elf" ] || die "build/guests/$elf.elf is missing: run make guests first"
			files+=("$root/build/guests/$elf.elf")
		fi
	done
	if grep -q vsock-peer "$work"/scenarios/*/cmd; then
		musl-gcc -O2 -static -D_GNU_SOURCE "$root/tests/vsock/peer.c" -o "$work/vsock-peer" || die "the peer cannot be made"
		files+=("$work/vsock-peer")
	fi
fi
rm -rf "$logs" && mkdir -p "$logs"
: >"$logs/results"

run_all() {
	local first=1 stuck=0
	while [ "$first" -le "$scenario_count" ]; do
		run_host "$first"
		first=$((first + done_count))
		[ "$done_count" -gt 0 ] && stuck=0
		if [ -n "$obituary" ]; then
			echo "# the emulated host died: $obituary"
			stuck=$((stuck + 1))
			if [ $stuck -ge 3 ]; then
				report not-ok "$(cat "$work/scenarios/$(printf %03d "$first")/name")" "the emulated host died $stuck times: $obituary"
				first=$((first + 1)) stuck=0
				[ "$done_count" = 0 ] && ! grep -aq '^@BEGIN' "$work/data" && die "the emulated host does not start"
			fi
		elif [ "$first" -le "$scenario_count" ]; then
			die "the host ended after $done_count scenarios"
		fi
	done
}

# Deals what is in $work/scenarios out to the hosts.
run_hosts() {
	local all=$work/scenarios n host lanes=() hosts=$hosts
	[ "$hosts" -le "$scenario_count" ] || hosts=$scenario_count
	for ((n = 0; n < scenario_count; n++)); do
		host=$work/host$((n % hosts + 1))/scenarios
		mkdir -p "$host"
		mv "$all/$(printf %03d $((n + 1)))" "$host/$(printf %03d $((n / hosts + 1)))"
	done
	for ((n = 1; n <= hosts; n++)); do
		(
			trap stop_host EXIT
			trap 'exit 130' INT TERM
			work=$work/host$n
			scenario_count=$(find "$work/scenarios" -mindepth 1 -maxdepth 1 | wc -l)
			run_all
		) &
		lanes+=($!)
	done
	for n in "${lanes[@]}"; do wait "$n" || broken=1; done
}

broken=''
if [ -z "$cmd" ]; then
	# What QEMU's guests say is what the others are compared with.
	kernels=$(sort -u "$work"/scenarios/*/kernel | tr "\n" " ")
	mv "$work/scenarios" "$work/later"
	later=$scenario_count scenario_count=0
	add_baseline "$kernels"
	[ $scenario_count = 0 ] || run_hosts
	rm -rf "$work"/{scenarios,host*}
	mv "$work/later" "$work/scenarios"
	scenario_count=$later
fi
run_hosts
[ -n "$cmd" ] && cat "$logs"/cmd.{log,err,note} 2>/dev/null
passed=$(grep -c '^ok' "$logs/results") failed=$(grep -c '^not ok' "$logs/results")
echo "# nested: $passed passed, $failed failed, $(find "$logs/deaths" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l) host deaths, $SECONDS s"
[ "$failed" = 0 ] && [ -z "$broken" ]
