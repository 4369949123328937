/* SPDX-License-Identifier: Apache-2.0 */
/* timer_oneshot.c - the count-mode timer fires once, not early; it counts down, stops, restarts, divides, and is silent
 * while masked. */
#include "guest.h"

enum {
	VECTOR = 0x40,
	MS = 1000000,
};

static uint32_t ticks(void)
{
	return irq_counts[VECTOR];
}

/* Starts it and halts; returns how long that took. */
static uint64_t timed(uint32_t divide, uint32_t count)
{
	uint32_t seen = ticks();
	uint64_t start = rdtsc();

	/* Stopped first: KVM's own APIC starts an expired count again when the divider changes. */
	apic_write(APIC_TMICT, 0);
	apic_write(APIC_TDCR, divide);
	apic_write(APIC_TMICT, count);
	halt_until(ticks() != seen);
	check_eq(ticks(), seen + 1);
	return tsc_to_ns(rdtsc() - start);
}

int main(void)
{
	uint32_t i, seen, early;
	uint64_t start;

	apic_setup();
	irq_expect(VECTOR);
	tsc_khz();
	apic_timer(LVT_ONE_SHOT | VECTOR, 0);
	check_eq(apic_read(APIC_LVT_TIMER), VECTOR);
	for (i = 0; i < 10; i++)
		check(timed(0xb, MS) >= 990000);
	check_eq(apic_read(APIC_TMCCT), 0);
	check(timed(0x3, MS / 16) >= 990000); /* divide by 16 */
	check(timed(0x0, MS / 2) >= 990000);  /* divide by 2 */

	/* Once only. */
	seen = ticks();
	delay_us(3000);
	check_eq(ticks(), seen);

	/* It counts down, and a new count starts it again. */
	apic_timer(LVT_ONE_SHOT | VECTOR, 1000 * MS);
	early = apic_read(APIC_TMCCT);
	check(early <= 1000 * MS && early > 1);
	check(apic_read(APIC_TMCCT) < early);
	check_eq(apic_read(APIC_TMICT), 1000 * MS);
	check(timed(0xb, MS) < 900000000);

	/* Count 0 stops it. Again when the host let it run out in between. */
	do {
		delay_us(100);
		start = rdtsc();
		apic_write(APIC_TMICT, 2 * MS);
		apic_write(APIC_TMICT, 0);
	} while (tsc_to_ns(rdtsc() - start) >= 2 * MS);
	seen = ticks();
	delay_us(4000);
	check_eq(ticks(), seen);
	check_eq(apic_read(APIC_TMCCT), 0);

	/* Masked: it runs out without a word. */
	apic_timer(LVT_MASKED | LVT_ONE_SHOT | VECTOR, 2 * MS);
	delay_us(4000);
	check_eq(apic_read(APIC_TMCCT), 0);
	check_eq(ticks(), seen);
	/* Unmasking does not bring the interrupt back, except from KVM's own local APIC. */
	apic_write(APIC_LVT_TIMER, LVT_ONE_SHOT | VECTOR);
	delay_us(1000);
	if (!apic_is_kvms())
		check_eq(ticks(), seen);
	return 0;
}
