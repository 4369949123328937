/* SPDX-License-Identifier: Apache-2.0 */
/* irq_behind_fault.c - an interrupt that comes up while the host handles an access that ends in #GP is delivered behind
 * the fault, and not lost. */
#include "guest.h"

enum {
	VECTOR = 0x40,
	ROUNDS = 100,
	TRIES = 1000,
	ABSENT_MSR = 0x12345678,
	REST_EVERY = 32,
	REST = 1000,
};

int main(void)
{
	apic_setup();
	irq_expect(VECTOR);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t v;

		/* The deadline moves through all of the access. */
		apic_timer(LVT_ONE_SHOT | VECTOR, 100000 + i * 1000);
		sti();
		for (unsigned t = 1; t <= TRIES && irq_counts[VECTOR] == i; t++) {
			check(!rdmsr_ok(ABSENT_MSR, &v));
			/* A KVM that emulates all of ring 0 looks for interrupts after some thousand instructions
			 * without an exit, and never if there are none. */
			if (t % REST_EVERY == 0)
				for (volatile unsigned n = 0; n < REST && irq_counts[VECTOR] == i; n++)
					;
		}
		cli();
		check_eq(irq_counts[VECTOR], i + 1);
	}
	return 0;
}
