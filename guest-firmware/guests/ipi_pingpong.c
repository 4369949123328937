/* SPDX-License-Identifier: Apache-2.0 */
/* ipi_pingpong.c - a token goes round all CPUs by IPI, rounds= times, everyone else halted: a lost wakeup stops it. */
#include "guest.h"

enum {
	VECTOR = 0x50,
};

static uint32_t cpus, rounds;
static volatile uint32_t ready, finished;

static void pass(unsigned vector, struct irq_frame *frame)
{
	uint32_t id = this_cpu()->id;

	(void)frame;
	apic_eoi();
	if (id == 0 && ++finished >= rounds)
		return;
	ipi(id + 1 == cpus ? 0 : id + 1, vector);
}

static void player(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		halt();
}

int main(void)
{
	uint64_t start;
	uint32_t i;

	cpus = (uint32_t)param_u64("cpus", 2);
	rounds = (uint32_t)param_u64("rounds", 200);
	apic_setup();
	irq_set(VECTOR, pass);
	tsc_khz();
	for (i = 1; i < cpus; i++)
		cpu_start(i, player, NULL);
	check(spin_until(&ready, cpus - 1, 10000000));
	start = rdtsc();
	ipi(1, VECTOR);
	halt_until(finished >= rounds);
	/* For people, and for tests/bench/halt.sh. */
	print("%u rounds of %u CPUs\nlatency %lu ns a hop\n", rounds, cpus, tsc_to_ns(rdtsc() - start) / rounds / cpus);
	return 0;
}
