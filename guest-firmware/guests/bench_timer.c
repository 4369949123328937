/* SPDX-License-Identifier: Apache-2.0 */
/* bench_timer.c - ticks= one-shot timers, us= apart, each waited for in HLT: how late is the first instruction behind
 * it? Prints "latency NS" for tests/bench/halt.sh: the mean, in ns of the TSC, which in a guest of lull's is the
 * host's. */
#include "bench.h"

enum {
	VECTOR = 0x40,
};

static volatile uint32_t pv_eoi;

/* Leaves the time in rax. */
__attribute__((naked)) static void on_tick(void)
{
	__asm__ volatile("rdtsc\n\t"
	                 "shlq $32, %rdx\n\t"
	                 "orq %rdx, %rax\n\t" BENCH_EOI_IRETQ);
}

static uint64_t wait_for_tick(void)
{
	register volatile uint32_t *word BENCH_PV_EOI_WORD = &pv_eoi;
	uint64_t fired = 0;

	__asm__ volatile("sti\n\t"
	                 "hlt\n\t"
	                 "cli"
	                 : "+a"(fired)
	                 : "r"(word)
	                 : "rdx", "memory");
	return fired;
}

int main(void)
{
	uint64_t ticks = param_u64("ticks", 1000), us = param_u64("us", 1000);
	uint64_t step, deadline, late = 0, i;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE))
		skip("no TSC-deadline timer");
	apic_setup_as(true);
	bench_pv_eoi(&pv_eoi);
	irq_direct(VECTOR, on_tick);
	step = tsc_khz() * us / 1000;
	apic_write(APIC_LVT_TIMER, LVT_DEADLINE | VECTOR);
	deadline = rdtsc() + step;
	for (i = 0; i < ticks; i++) {
		uint64_t fired;

		wrmsr(MSR_TSC_DEADLINE, deadline);
		fired = wait_for_tick();
		check(fired != 0);
		if (fired > deadline) /* KVM's own timer may be early */
			late += fired - deadline;
		deadline += step;
		if (rdtsc() >= deadline) /* fell behind: a new start, not a burst */
			deadline = rdtsc() + step;
	}
	bench_pv_eoi_off();
	print("latency %lu\n", tsc_to_ns(late) / ticks);
	return 0;
}
