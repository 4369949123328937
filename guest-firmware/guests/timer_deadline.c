/* SPDX-License-Identifier: Apache-2.0 */
/* timer_deadline.c - TSC-deadline mode: fires once at the deadline, at once for the past, not at all for 0; the count
 * is dead. */
#include "guest.h"

enum {
	VECTOR = 0x40,
};

static uint32_t ticks(void)
{
	return irq_counts[VECTOR];
}

static void write_zero(void)
{
	wrmsr(MSR_TSC_DEADLINE, 0);
}

static void leave_mode(void)
{
	apic_write(APIC_LVT_TIMER, LVT_ONE_SHOT | VECTOR);
	apic_write(APIC_LVT_TIMER, LVT_DEADLINE | VECTOR);
}

/* Arms, disarms and waits in vain; again when the host let the deadline pass in between. */
static void check_disarms(void (*disarm)(void))
{
	uint64_t deadline;
	uint32_t seen;

	for (;;) {
		deadline = rdtsc() + 3 * tsc_khz();
		wrmsr(MSR_TSC_DEADLINE, deadline);
		disarm();
		if (rdtsc() < deadline)
			break;
		delay_us(100);
	}
	seen = ticks();
	delay_us(6000);
	check_eq(ticks(), seen);
	check_eq(rdmsr(MSR_TSC_DEADLINE), 0);
}

int main(void)
{
	uint64_t deadline, ms;
	uint32_t i, seen;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE))
		skip("no TSC-deadline timer");
	apic_setup();
	irq_expect(VECTOR);
	ms = tsc_khz();

	/* In another mode the MSR is dead. */
	wrmsr(MSR_TSC_DEADLINE, rdtsc() + ms);
	check_eq(rdmsr(MSR_TSC_DEADLINE), 0);

	apic_write(APIC_LVT_TIMER, LVT_DEADLINE | VECTOR);
	for (i = 0; i < 10; i++) {
		deadline = rdtsc() + ms;
		wrmsr(MSR_TSC_DEADLINE, deadline);
		check(rdmsr(MSR_TSC_DEADLINE) == deadline || ticks() != i || rdtsc() > deadline);
		halt_until(ticks() > i);
		check_eq(ticks(), i + 1);
		check(rdtsc() >= deadline);
		check_eq(rdmsr(MSR_TSC_DEADLINE), 0);
	}
	seen = ticks();
	delay_us(3000);
	check_eq(ticks(), seen);

	/* The past. */
	wrmsr(MSR_TSC_DEADLINE, 1);
	halt_until(ticks() > seen);
	wrmsr(MSR_TSC_DEADLINE, rdtsc() - 1);
	halt_until(ticks() > seen + 1);

	check_disarms(write_zero);
	check_disarms(leave_mode);

	/* A new deadline replaces the one before. */
	seen = ticks();
	deadline = rdtsc() + 2000 * ms;
	wrmsr(MSR_TSC_DEADLINE, deadline);
	wrmsr(MSR_TSC_DEADLINE, rdtsc() + 2 * ms);
	halt_until(ticks() > seen);
	check(rdtsc() < deadline);
	delay_us(1000);
	check_eq(ticks(), seen + 1);

	/* The count does nothing here. */
	seen = ticks();
	apic_write(APIC_TMICT, 1000000);
	check_eq(apic_read(APIC_TMCCT), 0);
	delay_us(3000);
	check_eq(ticks(), seen);
	return 0;
}
