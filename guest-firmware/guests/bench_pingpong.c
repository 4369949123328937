/* SPDX-License-Identifier: Apache-2.0 */
/* bench_pingpong.c - two CPUs send each other an interrupt, rounds= times, and wait for the answer in HLT: two exits a
 * hop, ICR and HLT. Prints "latency NS", the mean of a hop, for tests/bench/halt.sh. */
#include "bench.h"

enum {
	VECTOR = 0x50,
};

static volatile uint32_t words[2][16] __attribute__((aligned(64))); /* a cache line each */
static volatile uint32_t ready;
static uint32_t rounds;

__attribute__((naked)) static void on_token(void)
{
	__asm__ volatile(BENCH_EOI_IRETQ);
}

/* Waits for the token and passes it on. With interrupts off from the HLT to the STI, the answer cannot come before. */
static void play(uint32_t n)
{
	unsigned id = this_cpu()->id;
	register volatile uint32_t *word BENCH_PV_EOI_WORD = words[id];

	bench_pv_eoi(word);
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	if (id == 0) {
		check(spin_until(&ready, 2, 10000000));
		ipi(1, VECTOR);
	}
	__asm__ volatile("1: sti\n\t"
	                 "hlt\n\t"
	                 "cli\n\t"
	                 "wrmsr\n\t"
	                 "decl %0\n\t"
	                 "jnz 1b"
	                 : "+r"(n)
	                 : "c"(MSR_X2APIC + (APIC_ICR >> 4)), "a"(ICR_ASSERT | VECTOR), "d"(1 - id), "r"(word)
	                 : "memory");
	bench_pv_eoi_off();
}

static void player(void *arg)
{
	(void)arg;
	play(rounds);
}

int main(void)
{
	uint64_t start;

	rounds = (uint32_t)param_u64("rounds", 2000);
	apic_setup_as(true);
	irq_direct(VECTOR, on_token);
	tsc_khz();
	cpu_start(1, player, NULL);
	start = rdtsc();
	play(rounds);
	print("latency %lu\n", tsc_to_ns(rdtsc() - start) / rounds / 2);
	return 0;
}
