/* SPDX-License-Identifier: Apache-2.0 */
/* wake_race.c - every CPU halts between its own timer and its neighbour's IPIs, which come at all distances from each
 * other; each timer must arrive. */
#include "guest.h"

enum {
	VECTOR_TIMER = 0x40,
	VECTOR_IPI = 0x41,
	VECTOR_GO = 0x42,
	CPUS_MAX = 16,
};

static uint32_t cpus, rounds;
static volatile uint32_t ready, go;
static volatile uint32_t timers[CPUS_MAX], ipis[CPUS_MAX];

static void on_timer(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	timers[this_cpu()->id]++;
	apic_eoi();
}

static void on_ipi(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	ipis[this_cpu()->id]++;
	apic_eoi();
}

/* Its neighbour sends one for each of its own rounds, but a bit in IRR stands for several: only wait for the first. */
static void play(void *arg)
{
	uint32_t id = this_cpu()->id, next = id + 1 == cpus ? 0 : id + 1, i, seed = id * 7919 + 1;

	(void)arg;
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	if (id != 0)
		halt_until(go);
	apic_timer(VECTOR_TIMER, 0);
	for (i = 1; i <= rounds; i++) {
		seed = seed * 1103515245 + 12345;
		apic_write(APIC_TMICT, 1000 + (seed >> 8) % 200000);
		ipi(next, VECTOR_IPI);
		halt_until(timers[id] == i);
	}
	halt_until(ipis[id] > 0);
}

int main(void)
{
	uint32_t i;

	cpus = (uint32_t)param_u64("cpus", 2);
	rounds = (uint32_t)param_u64("rounds", 100);
	check(cpus <= CPUS_MAX);
	apic_setup();
	irq_set(VECTOR_TIMER, on_timer);
	irq_set(VECTOR_IPI, on_ipi);
	irq_expect(VECTOR_GO);
	for (i = 1; i < cpus; i++)
		cpu_start(i, play, NULL);
	check(spin_until(&ready, cpus - 1, 20000000));
	go = 1;
	apic_send(0, ICR_OTHERS | ICR_ASSERT | VECTOR_GO);
	play(NULL);
	for (i = 1; i < cpus; i++)
		cpu_wait(i);
	for (i = 0; i < cpus; i++)
		check_eq(timers[i], rounds);
	return 0;
}
