/* SPDX-License-Identifier: Apache-2.0 */
/* masked_edge_kept.c - an edge that comes while its pin is masked is delivered when the pin is unmasked, once. */
#include "guest.h"

enum {
	VECTOR = 0x60,
};

int main(void)
{
	unsigned i;

	apic_setup();
	irq_expect(VECTOR);
	out8(COM_MCR, 8);
	for (i = 1; i <= 3; i++) {
		ioapic_route(COM1_PIN, IOAPIC_MASKED | VECTOR, 0);
		out8(COM_IER, 2);
		out8(COM_IER, 0); /* low again long before it is unmasked */
		delay_us(1000);
		check_eq(irq_counts[VECTOR], i - 1);
		ioapic_route(COM1_PIN, VECTOR, 0);
		halt_until(irq_counts[VECTOR] == i);
		delay_us(1000);
		check_eq(irq_counts[VECTOR], i);
	}
	return 0;
}
