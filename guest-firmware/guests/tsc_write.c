/* SPDX-License-Identifier: Apache-2.0 */
/* tsc_write.c - a guest that moves its TSC, by either MSR: the other MSR follows, and deadlines are those of the new
 * TSC. */
#include "guest.h"

enum {
	VECTOR = 0x40,
	MSR_TSC = 0x10,
	MSR_TSC_ADJUST = 0x3b,
};

static void check_deadline(void)
{
	uint64_t deadline = rdtsc() + 2 * tsc_khz(), limit = deadline + 2000 * tsc_khz();
	uint32_t seen = irq_counts[VECTOR];

	wrmsr(MSR_TSC_DEADLINE, deadline);
	halt_until(irq_counts[VECTOR] > seen);
	check(rdtsc() >= deadline);
	check(rdtsc() < limit);
}

int main(void)
{
	const uint64_t step = 3600ull * 1000 * tsc_khz(); /* an hour: nothing that happens by itself */
	uint64_t before = rdtsc(), adjust;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE))
		skip("no TSC-deadline timer");
	apic_setup();
	irq_expect(VECTOR);
	apic_write(APIC_LVT_TIMER, LVT_DEADLINE | VECTOR);
	if (!rdmsr_ok(MSR_TSC_ADJUST, &adjust))
		skip("no TSC_ADJUST");
	wrmsr(MSR_TSC, rdtsc() + step);
	if (rdtsc() - before < step)
		skip("this KVM does not let a guest move its TSC");
	check(rdmsr(MSR_TSC_ADJUST) - adjust > step / 2);
	check_deadline();
	wrmsr(MSR_TSC_ADJUST, adjust);
	check(rdtsc() - before < step / 2);
	check_deadline();
	check_eq(rdmsr(MSR_TSC_ADJUST), adjust);
	return 0;
}
