/* SPDX-License-Identifier: Apache-2.0 */
/* timer_periodic.c - ticks come for ever, on average not too fast; the count reloads; masking or count 0 ends them. */
#include "guest.h"

enum {
	VECTOR = 0x40,
	MS = 1000000,
	TICKS = 20,
};

int main(void)
{
	uint32_t seen, i;
	uint64_t start, ns;

	apic_setup();
	irq_expect(VECTOR);
	tsc_khz();
	start = rdtsc();
	apic_timer(LVT_PERIODIC | VECTOR, 2 * MS);
	halt_until(irq_counts[VECTOR] >= TICKS);
	ns = tsc_to_ns(rdtsc() - start);
	print("%u ticks of 2 ms in %lu ns\n", irq_counts[VECTOR], ns);
	/* Late ticks may be caught up on or skipped, but the TICKS-th is never early. */
	check(ns >= (uint64_t)irq_counts[VECTOR] * 2 * MS * 99 / 100);
	check(apic_read(APIC_TMCCT) <= 2 * MS);

	/* Masked: silence, but it still counts. */
	apic_write(APIC_LVT_TIMER, LVT_MASKED | LVT_PERIODIC | VECTOR);
	delay_us(1000);
	seen = irq_counts[VECTOR];
	delay_us(6000);
	check_eq(irq_counts[VECTOR], seen);
	for (i = 0; i < 3 && apic_read(APIC_TMCCT) == 0; i++)
		;
	check(i < 3);

	/* Unmasked: they come again. */
	apic_write(APIC_LVT_TIMER, LVT_PERIODIC | VECTOR);
	halt_until(irq_counts[VECTOR] >= seen + 3);

	/* A shorter period takes effect. */
	seen = irq_counts[VECTOR];
	apic_write(APIC_TMICT, 10 * MS);
	apic_write(APIC_TMICT, MS);
	halt_until(irq_counts[VECTOR] >= seen + 5);

	/* Count 0 ends them. */
	apic_write(APIC_TMICT, 0);
	delay_us(1000);
	seen = irq_counts[VECTOR];
	delay_us(4000);
	check_eq(irq_counts[VECTOR], seen);
	return 0;
}
