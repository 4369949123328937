#!/bin/bash
# Shows that each check of the rig can fail: damages a good log in one way at a time and expects
# the reason that belongs to it. Boots nothing, takes a second.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=verdict.sh
. "$here/verdict.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cat >"$tmp/good.log" <<'END'
[    0.276433] Example: firmware 17 is 0x1234abcd old
GUEST userspace kernel=6.12.117+deb12-cloud-amd64 uptime=9.53
GUEST cpus=2
GUEST clocksource=kvm-clock
GUEST apic=physical x2apic
GUEST interrupts begin
           CPU0       CPU1
  4:          0         18   IO-APIC   4-edge      ttyS0
NMI:          0          0   Non-maskable interrupts
LOC:        560        639   Local timer interrupts
SPU:          0          0   Spurious interrupts
RES:         40         50   Rescheduling interrupts
CAL:       1735        302   Function call interrupts
TLB:          0          1   TLB shootdowns
ERR:          0
MIS:          0
GUEST interrupts end
GUEST problems begin
<4>[    0.276433] Example: firmware 17 is 0x1234abcd old
<4>[    3.500000] hrtimer: interrupt took 48925418 ns
GUEST problems end
GUEST end=poweroff
[   12.320782] reboot: Power down
END
sed 's/0.276433/1.000000/; s/firmware 17 is 0x1234abcd/firmware 18 is 0xffffffff/' "$tmp/good.log" >"$tmp/qemu.log"
printf '%s\n' 'idle thread=lull seconds=10 voluntary=0 involuntary=0' \
	'idle thread=lull-vcpu0 seconds=10 voluntary=0 involuntary=0' >"$tmp/good.note"

count=0 failed=0
expect() { # expect WHAT REASON-PATTERN RC CHECK: the reasons for $tmp/t must match, or be none for ''
	local got
	count=$((count + 1))
	got=$(verdict "$tmp/t" "$3" 0 "$4" "$tmp/qemu.log")
	if [ -z "$2" ] && [ -z "$got" ]; then return; fi
	if [ -n "$2" ] && grep -qE "$2" <<<"$got"; then return; fi
	failed=$((failed + 1))
	echo "not ok nested/selftest $1: expected '$2', got '$got'"
}

fresh() {
	cp "$tmp/good.log" "$tmp/t.log"
	cp "$tmp/good.note" "$tmp/t.note"
	: >"$tmp/t.err"
}

good="-v kernel=6.12 -v cpus=2 -v apic=x2apic -v end=poweroff -v boots=1"
damage() { # damage SED-SCRIPT REASON-PATTERN
	fresh
	sed -i "$1" "$tmp/t.log"
	expect "$1" "$2" 0 "$good"
}

fresh
expect "good log" '' 0 "$good"
expect "exit code" '^exit code 64, expected 0$' 64 "$good"
expect "watchdog" '^killed by the watchdog$' watchdog "$good"
expect "other CPU count" 'expected 4 CPUs: GUEST cpus=2' 0 "${good/cpus=2/cpus=4}"
expect "other columns" 'expected 4 columns' 0 "${good/cpus=2/cpus=4}"
expect "other APIC mode" 'expected xapic: .*x2apic' 0 "${good/x2apic/xapic}"
expect "other kernel" 'wrong kernel' 0 "${good/6.12/6.1}"
expect "other end" 'expected end=reboot, got poweroff' 0 "${good/poweroff/reboot}"
expect "too few boots" 'reached userspace 1 times, expected 2' 0 "${good/boots=1/boots=2}"
echo "lull: no /dev/kvm" >"$tmp/t.err"
expect "first line of stderr" 'exit code 126, expected 0 \(lull: no /dev/kvm\)' 126 "$good"

damage '/^GUEST/d' 'never reached userspace'
# shellcheck disable=SC2016 # sed's dollar
damage '/^GUEST problems end/,$d' 'report is incomplete'
damage '/^GUEST interrupts end/d' 'report is incomplete'
damage '/^GUEST problems end/d' 'report is incomplete'
damage 's/^GUEST clocksource=.*/GUEST clocksource=tsc/' 'expected kvm-clock: GUEST clocksource=tsc'
damage '/^GUEST clocksource/d' 'report is incomplete'
damage 's/^GUEST apic=.*/GUEST apic=/' 'does not tell the APIC mode'
damage 's/^GUEST apic=.*/GUEST apic=flat xapic/' 'expected x2apic'
damage '/^LOC:/d' 'no LOC line'
damage 's/639   Local/0   Local/' 'no local timer interrupt on CPU 1'
damage '/^RES:/d; /^CAL:/d; /^TLB:/d' 'no IPI'
damage '/ttyS0/d' 'ttyS0 has no interrupt through the IOAPIC: no line'
damage 's/IO-APIC /XT-PIC /' 'ttyS0 has no interrupt through the IOAPIC: .*XT-PIC'
damage 's/0         18   IO-APIC/0          0   IO-APIC/' 'ttyS0 had no interrupt'
damage 's/^ERR: .*/ERR:          3/' 'ERR: 3'
damage 's/^SPU:          0/SPU:          2/' '2 spurious interrupts on CPU 0'
damage 's/^GUEST interrupts begin/GUEST taskset=failed on cpu 1\n&/' 'taskset=failed'
for line in 'APIC timer disabled due to verification failure' 'TSC synchronization [CPU0->CPU1]:' 'WARNING: CPU: 1 PID: 0 at x.c:5'; do
	damage "s|^GUEST problems end|<4>[    1.500000] $line\n&|" 'new in the kernel log: '
done
for line in 'Call Trace:' 'rcu: INFO: rcu_preempt self-detected stall on CPU' '[Firmware Bug]: CPU1: APIC id mismatch' \
	'BIOS bug, IO-APIC: broken' 'BUG: soft lockup' 'irq 4: nobody cared' 'unchecked MSR access error: WRMSR to 0x123'; do
	damage "s|^GUEST userspace|[    1.500000] $line\n&|" 'new in the kernel log: '
	damage "\$a[   12.500000] $line" 'new in the kernel log: '
done

fresh
sed -i 's/ old$/ old[    9.000000] hrtimer: interrupt took 5 ns/' "$tmp/t.log"
expect "two messages on one line" '' 0 "$good"
sed -i 's/hrtimer: interrupt took 5 ns/a new one/' "$tmp/t.log"
expect "two messages on one line, one new" 'new in the kernel log: a new one' 0 "$good"

fresh
expect "still" '' 0 still
sed -i '2s/ voluntary=0/ voluntary=3/' "$tmp/t.note"
expect "a switch" 'lull-vcpu0 .* voluntary=3' 0 still
: >"$tmp/t.note"
expect "no thread" 'no vCPU thread' 0 still

# Who polls, and what is stolen: two logs of their own.
three="-v kernel=6.12 -v cpus=2 -v apic=x2apic -v end=poweroff -v boots=3 -v notes=polls -v chip=user"
polls() {
	for driver in none haltpoll none; do
		sed "/^GUEST end/d; /^\[   12/d; s/^GUEST apic=.*/&\nGUEST cpuidle=$driver/" "$tmp/good.log"
		[ $driver = haltpoll ] && echo "<4>[    3.000000] Spurious LAPIC timer interrupt on cpu 0" | sed 's/^<4>//'
		echo "GUEST end=poweroff"
	done >"$tmp/t.log"
	: >"$tmp/t.err"
	while read -r place boots control0 control1 halts tried guest; do
		echo "figures at=$place vcpu=0 boots=$boots control=$control0 halts=$halts tried=$tried guest=$guest told=0"
		echo "figures at=$place vcpu=1 boots=$boots control=$control1 halts=$halts tried=$tried guest=$guest told=0"
	done >"$tmp/t.note" <<-'END'
		plain 1 1 1 500 300 0
		itself 1 0 0 900 400 200
		itself 1 0 0 960 400 260
		offline 1 0 1 980 400 280
		online 1 0 0 990 400 290
		reset 2 1 1 300 200 0
		reset 2 1 1 400 260 0
	END
}
wrong_polls() { # wrong_polls SED-SCRIPT REASON-PATTERN
	polls
	sed -i "$1" "$tmp/t.note"
	sed -i "$1" "$tmp/t.log"
	expect "$1" "$2" 0 "$three"
}
polls
expect "good polls" '' 0 "$three"
wrong_polls '/at=itself vcpu=1/s/control=0/control=1/' "vCPU 1 at 'itself' is 1, expected 0"
wrong_polls '/at=offline vcpu=1/s/control=1/control=0/' "vCPU 1 at 'offline' is 0, expected 1"
wrong_polls '/at=online vcpu=1/s/control=0/control=1/' "vCPU 1 at 'online' is 1, expected 0"
wrong_polls '/at=reset vcpu=0/s/control=1/control=0/' "vCPU 0 at 'reset' is 0, expected 1"
wrong_polls '/at=online/d' "no figures of vCPU 0 at 'online'"
wrong_polls '/at=plain/s/tried=300/tried=0/' 'vCPU 0 was never polled for'
wrong_polls 's/halts=960/halts=902/' 'vCPU 0 hardly halted: 2'
wrong_polls '/halts=960/s/tried=400/tried=401/' 'polls itself, and was polled for 1 times'
wrong_polls 's/guest=260/guest=200/' 'refusals were not counted for vCPU 0'
wrong_polls 's/tried=260/tried=200/' 'is not polled for after the reset'
wrong_polls '/at=reset/s/boots=2/boots=1/' "expected the second boot at 'reset', found 1"
wrong_polls 's/cpuidle=haltpoll/cpuidle=none/' 'cpuidle drivers of the three kernels: none none none'

stolen="$good -v notes=steal -v mode=vmm"
steal() {
	local n
	fresh
	for n in 1 2 3 4 5 6; do
		echo "steal ${n}000000000 ${n}100000000 ${n}10 ${n}15 ${n}200000000 ${n}200000000" >>"$tmp/t.note"
		for _ in 1 2 3 4 5; do echo "GUEST steal ${n}10 ${n}15"; done
	done >"$tmp/reads"
	sed -i "/^GUEST problems begin/{
		r $tmp/reads
		N
	}" "$tmp/t.log"
	echo 'figures at=end vcpu=0 boots=1 control=1 halts=1 tried=1 guest=0 told=6150000000' >>"$tmp/t.note"
	echo 'figures at=end vcpu=1 boots=1 control=1 halts=1 tried=1 guest=0 told=6190000000' >>"$tmp/t.note"
	echo 'waited 6200000000 6200000000' >>"$tmp/t.note"
}
wrong_steal() { # wrong_steal SED-SCRIPT REASON-PATTERN
	steal
	sed -i "$1" "$tmp/t.note"
	sed -i "$1" "$tmp/t.log"
	expect "$1" "$2" 0 "$stolen"
}
steal
expect "good steal" '' 0 "$stolen"
expect "steal by KVM" 'lull claims to have told vCPU 0' 0 "${stolen/vmm/kvm}"
wrong_steal 's/^steal 4\(.*\) 410 /steal 4\1 360 /' 'vCPU 0 waited for 2800 to 3200 ms, and the guest says 2500'
wrong_steal 's/^steal 4\(.*\) 415 /steal 4\1 455 /' 'vCPU 1 waited for 2900 to 3100 ms, and the guest says 3400'
wrong_steal '0,/^GUEST steal 510 515/s/^GUEST steal 510 515/GUEST steal 310 515/' 'steal of CPU 0 went back from 410 to 310'
wrong_steal 's/^steal [56].*//' 'expected 6 samples and 50 reads, found 4 and'
wrong_steal 's/told=6150000000/told=5900000000/' 'lull told vCPU 0 of 5900 ms, and the guest says 6100'
wrong_steal 's/told=6190000000/told=6300000000/' 'lull told vCPU 1 of 6300 ms, and the guest says 6150'
wrong_steal 's/^steal \(.\)......... \(.\)......... \(.*\) .......... ..........$/steal 00\1000000 00\2000000 \3 00\1000000 00\2000000/' 'had to wait for'

fresh
expect "io" '' 0 io
sed -i '$aFAIL discard: other data' "$tmp/t.log"
expect "io that fails" '^discard: other data$' 0 io

if [ $failed -gt 0 ]; then exit 1; fi
echo "ok nested/selftest ($count cases)"
