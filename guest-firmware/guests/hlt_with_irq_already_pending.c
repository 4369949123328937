/* SPDX-License-Identifier: Apache-2.0 */
/* hlt_with_irq_already_pending.c - an interrupt that came before sti; hlt ends that HLT, whatever it came from. */
#include "guest.h"

enum {
	VECTOR_SELF = 0x40,
	VECTOR_TIMER = 0x41,
	VECTOR_OTHER = 0x42,
	VECTOR_COM1 = 0x43,
	ROUNDS = 20,
};

static volatile uint32_t asked;

static void other(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 1; i <= ROUNDS; i++) {
		spin_until(&asked, i, 5000000);
		ipi(0, VECTOR_OTHER);
	}
	/* Returning would send a second interrupt, and after IRET some hosts let one more instruction run. */
	for (;;)
		halt();
}

int main(void)
{
	uint32_t i;

	apic_setup();
	irq_expect(VECTOR_SELF);
	irq_expect(VECTOR_TIMER);
	irq_expect(VECTOR_OTHER);
	irq_expect(VECTOR_COM1);
	for (i = 1; i <= ROUNDS; i++) {
		apic_send(0, ICR_SELF | ICR_ASSERT | VECTOR_SELF);
		halt();
		check_eq(irq_counts[VECTOR_SELF], i);
	}
	for (i = 1; i <= ROUNDS; i++) {
		apic_timer(VECTOR_TIMER, 100000);
		while (apic_read(APIC_TMCCT) != 0)
			;
		halt();
		check_eq(irq_counts[VECTOR_TIMER], i);
	}
	out8(COM_MCR, 8);
	ioapic_route(COM1_PIN, VECTOR_COM1, 0);
	for (i = 1; i <= ROUNDS; i++) {
		out8(COM_IER, 2);
		halt();
		check_eq(irq_counts[VECTOR_COM1], i);
		out8(COM_IER, 0);
	}
	if (param_u64("cpus", 1) < 2)
		return 0;
	cpu_start(1, other, NULL);
	for (i = 1; i <= ROUNDS; i++) {
		asked = i;
		while (!apic_bit(APIC_IRR, VECTOR_OTHER))
			;
		halt();
		check_eq(irq_counts[VECTOR_OTHER], i);
	}
	return 0;
}
