/* SPDX-License-Identifier: Apache-2.0 */
/* self_ipi.c - interrupts to oneself by every way there is: order by priority, one bit per vector, kept up to
 * STI. */
#include "guest.h"

static volatile uint8_t order[8];
static volatile uint32_t count;

static void note(unsigned vector, struct irq_frame *frame)
{
	(void)frame;
	if (count < sizeof(order))
		order[count] = (uint8_t)vector;
	count++;
	apic_eoi();
}

static void self(unsigned vector)
{
	apic_send(0, ICR_SELF | ICR_ASSERT | vector);
}

int main(void)
{
	apic_setup();
	irq_set(0x40, note);
	irq_set(0x61, note);
	irq_set(0x82, note);

	self(0x40);
	self(0x82);
	self(0x61);
	self(0x61);
	check(apic_bit(APIC_IRR, 0x40) && apic_bit(APIC_IRR, 0x61) && apic_bit(APIC_IRR, 0x82));
	check_eq(count, 0);
	halt_until(count >= 3);
	delay_us(500);
	check_eq(count, 3);
	check_eq(order[0], 0x82);
	check_eq(order[1], 0x61);
	check_eq(order[2], 0x40);
	check(!apic_bit(APIC_IRR, 0x61) && !apic_bit(APIC_ISR, 0x61));

	/* By ID, and by the register that only x2APIC has. */
	ipi(apic_id(), 0x40);
	halt_until(count >= 4);
	check_eq(order[3], 0x40);
	if (apic_x2) {
		apic_write(APIC_SELF_IPI, 0x82);
		halt_until(count >= 5);
		check_eq(order[4], 0x82);
	}

	/* Taken in ring 3. */
	count = 0;
	self(0x61);
	check(spin_until(&count, 1, 1000000));
	return 0;
}
