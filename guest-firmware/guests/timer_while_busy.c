/* SPDX-License-Identifier: Apache-2.0 */
/* timer_while_busy.c - the timer interrupts code that never exits by itself: the host has to come in on time. */
#include "guest.h"

enum {
	VECTOR = 0x40,
	MS = 1000000,
	ROUNDS = 50,
};

int main(void)
{
	apic_setup();
	irq_expect(VECTOR);
	tsc_khz();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		apic_timer(LVT_ONE_SHOT | VECTOR, 2 * MS);
		check(spin_until(&irq_counts[VECTOR], i + 1, 5000000));
	}
	apic_timer(LVT_PERIODIC | VECTOR, 2 * MS);
	check(spin_until(&irq_counts[VECTOR], 2 * ROUNDS, 5000000));
	return 0;
}
