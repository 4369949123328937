/* SPDX-License-Identifier: Apache-2.0 */
/* ioapic_edge.c - an edge on a pin is one interrupt, to whichever CPU the entry names; masked there is none. */
#include "guest.h"

enum {
	VECTOR = 0x60,
};

static volatile uint32_t hits[2], ready;

static void count(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	hits[this_cpu()->id]++;
	apic_eoi();
}

static void other(void *arg)
{
	(void)arg;
	ready = 1;
	for (;;)
		halt();
}

/* The transmitter is empty: enabling its interrupt raises the line, reading IIR or disabling drops it. */
static void raise(void)
{
	out8(COM_IER, 0);
	in8(COM_IIR);
	out8(COM_IER, 2);
}

static void expect(unsigned cpu)
{
	uint32_t before = hits[cpu], all = hits[0] + hits[1];

	raise();
	check(spin_until(&hits[cpu], before + 1, 2000000));
	delay_us(500);
	check_eq(hits[0] + hits[1], all + 1);
	raise();
	check(spin_until(&hits[cpu], before + 2, 2000000));
	delay_us(500);
	check_eq(hits[0] + hits[1], all + 2);
}

int main(void)
{
	uint32_t all;

	apic_setup();
	check_eq(ioapic_read(1) >> 16 & 0xff, 23);
	check(ioapic_pin(COM1_PIN) & IOAPIC_MASKED);
	irq_set(VECTOR, count);
	out8(COM_MCR, 8);
	ioapic_route(COM1_PIN, VECTOR, 0);
	check_eq(ioapic_pin(COM1_PIN) & 0x1ffff, VECTOR);
	expect(0);
	check_eq(ioapic_pin(COM1_PIN) & IOAPIC_REMOTE_IRR, 0);

	ioapic_route(COM1_PIN, IOAPIC_MASKED | VECTOR, 0);
	all = hits[0] + hits[1];
	raise();
	delay_us(1000);
	check_eq(hits[0] + hits[1], all);
	out8(COM_IER, 0);

	if (param_u64("cpus", 1) < 2)
		return 0;
	cpu_start(1, other, NULL);
	check(spin_until(&ready, 1, 5000000));
	ioapic_route(COM1_PIN, VECTOR, 1); /* delivers what was kept, see masked_edge_kept.c */
	check(spin_until(&hits[1], 1, 2000000));
	expect(1);
	/* Logical destination. */
	if (!apic_x2) {
		apic_write(APIC_LDR, 1u << 24);
		ioapic_route(COM1_PIN, VECTOR | 1 << 11, 1);
		expect(0);
	}
	return 0;
}
