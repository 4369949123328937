/* SPDX-License-Identifier: Apache-2.0 */
/* bench_timer.c - ticks= one-shot timers, us= apart, each waited for in HLT: how late is the first instruction behind
 * it? Prints "latency NS" for tests/bench/halt.sh: the mean, in ns of the TSC, which in a guest of lull's is the
 * host's. */
#include "guest.h"

enum {
	VECTOR = 0x40,
};

static volatile uint64_t fired;

static void tick(unsigned vector, struct irq_frame *frame)
{
	(void)vector, (void)frame;
	fired = rdtsc();
	apic_eoi();
}

int main(void)
{
	uint64_t ticks = param_u64("ticks", 1000), us = param_u64("us", 1000);
	uint64_t step, deadline, late = 0, i;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE))
		skip("no TSC-deadline timer");
	apic_setup();
	irq_set(VECTOR, tick);
	step = tsc_khz() * us / 1000;
	apic_write(APIC_LVT_TIMER, LVT_DEADLINE | VECTOR);
	deadline = rdtsc() + step;
	for (i = 0; i < ticks; i++) {
		fired = 0;
		wrmsr(MSR_TSC_DEADLINE, deadline);
		halt_until(fired);
		late += fired - deadline;
		deadline += step;
		if (rdtsc() >= deadline) /* fell behind: a new start, not a burst */
			deadline = rdtsc() + step;
	}
	print("latency %lu\n", tsc_to_ns(late) / ticks);
	return 0;
}
