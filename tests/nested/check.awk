# Checks one guest's console log and prints a reason for each check that fails.
#   -v kernel=6.12  cpus=4  apic=x2apic|xapic  end=poweroff|reboot|idle  boots=1

function fail(s) { print s; failures++ }

{ sub(/\r$/, "") }
/^GUEST userspace/ {
	booted++
	if (index($0, "kernel=" kernel ".") == 0) fail("wrong kernel: " $0)
}
/^GUEST cpus=/ && $0 != "GUEST cpus=" cpus { fail("expected " cpus " CPUs: " $0) }
/^GUEST clocksource=/ { clocks++; if ($0 != "GUEST clocksource=kvm-clock") fail("expected kvm-clock: " $0) }
/^GUEST apic=/ {
	apics++
	if ($0 == "GUEST apic=") fail("the kernel log does not tell the APIC mode")
	else if (($0 ~ /x2apic/) != (apic == "x2apic")) fail("expected " apic ": " $0)
}
/^GUEST taskset=/ { fail($0) }
/^GUEST problems end/ { blocks++ }
/^GUEST end=/ { ended++; last = substr($0, 11) }

/^GUEST interrupts begin/ { inside = 1; columns = 0; ipis = 0; loc = 0; tty = ""; next }
/^GUEST interrupts end/ {
	inside = 0
	tables++
	if (columns != cpus) fail("expected " cpus " columns in /proc/interrupts, found " columns)
	if (!loc) fail("no LOC line in /proc/interrupts")
	if (cpus > 1 && ipis == 0) fail("no IPI (RES, CAL, TLB) was counted")
	if (tty !~ /IO-APIC/) fail("ttyS0 has no interrupt through the IOAPIC: " (tty == "" ? "no line" : tty))
	else if (ttycount == 0) fail("ttyS0 had no interrupt")
	next
}
inside && /^ +CPU0/ { columns = NF; next }
inside && $1 == "LOC:" {
	loc = 1
	for (i = 2; i < columns + 2; i++)
		if ($i + 0 == 0) fail("no local timer interrupt on CPU " (i - 2))
}
inside && $1 ~ /^(RES|CAL|TLB):$/ { for (i = 2; i < columns + 2; i++) ipis += $i }
inside && $1 ~ /^(ERR|MIS):$/ && $2 + 0 != 0 { fail($1 " " $2 " in /proc/interrupts") }
inside && $1 == "SPU:" { for (i = 2; i < columns + 2; i++) if ($i + 0 > 0) fail($i " spurious interrupts on CPU " (i - 2)) }
inside && /ttyS0/ {
	tty = $0
	ttycount = 0
	for (i = 2; i < columns + 2; i++) ttycount += $i
}

END {
	if (booted == 0) { fail("never reached userspace"); exit 1 }
	if (booted != boots) fail("reached userspace " booted " times, expected " boots)
	if (clocks != booted || apics != booted || tables != booted || blocks != booted || ended != booted)
		fail("the guest's report is incomplete")
	if (last != end) fail("expected end=" end ", got " last)
	exit failures > 0
}
