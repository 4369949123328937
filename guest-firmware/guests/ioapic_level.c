/* SPDX-License-Identifier: Apache-2.0 */
/* ioapic_level.c - a level pin interrupts until it is low; remote IRR holds from delivery to EOI. eoi=directed uses the
 * I/O APIC's own EOI register, with the broadcast switched off in SVR. */
#include "guest.h"

enum {
	VECTOR = 0x60,
	KEEP_HIGH = 3,
	IOAPIC_EOI = 0x40,
	SVR_NO_BROADCAST = 1 << 12,
	VERSION_NO_BROADCAST = 1 << 24,
};

static volatile uint32_t count;
static bool directed;

static void on_level(unsigned vector, struct irq_frame *frame)
{
	(void)frame;
	count++;
	if (apic_is_kvms() && !apic_bit(APIC_ISR, vector))
		skip("this KVM ends interrupts as soon as it delivers them");
	check(ioapic_pin(COM1_PIN) & IOAPIC_REMOTE_IRR);
	check(apic_bit(APIC_ISR, vector));
	check(apic_bit(APIC_TMR, vector));
	if (count >= KEEP_HIGH)
		out8(COM_IER, 0);
	apic_eoi();
	if (directed) {
		check(ioapic_pin(COM1_PIN) & IOAPIC_REMOTE_IRR);
		mmio_write(0xfec00000ull + IOAPIC_EOI, vector);
	}
}

int main(void)
{
	apic_setup();
	directed = param_is("eoi", "directed");
	if (directed) {
		if ((ioapic_read(1) & 0xff) < 0x20)
			skip("the I/O APIC has no EOI register");
		if (!(apic_read(APIC_VERSION) & VERSION_NO_BROADCAST))
			skip("the EOI broadcast cannot be switched off");
		apic_write(APIC_SVR, 0x100 | SVR_NO_BROADCAST | VECTOR_SPURIOUS);
	}
	irq_set(VECTOR, on_level);
	out8(COM_MCR, 8);
	ioapic_route(COM1_PIN, IOAPIC_LEVEL | VECTOR, 0);
	out8(COM_IER, 2);
	halt_until(count >= KEEP_HIGH);
	delay_us(2000);
	check_eq(count, KEEP_HIGH);
	check_eq(ioapic_pin(COM1_PIN) & IOAPIC_REMOTE_IRR, 0);

	/* Raised while masked and still high when unmasked: delivered. */
	ioapic_route(COM1_PIN, IOAPIC_MASKED | IOAPIC_LEVEL | VECTOR, 0);
	out8(COM_IER, 2);
	delay_us(2000);
	check_eq(count, KEEP_HIGH);
	ioapic_route(COM1_PIN, IOAPIC_LEVEL | VECTOR, 0);
	halt_until(count == KEEP_HIGH + 1);

	/* Raised and low again while masked: nothing to deliver. */
	ioapic_route(COM1_PIN, IOAPIC_MASKED | IOAPIC_LEVEL | VECTOR, 0);
	out8(COM_IER, 2);
	out8(COM_IER, 0);
	ioapic_route(COM1_PIN, IOAPIC_LEVEL | VECTOR, 0);
	delay_us(2000);
	check_eq(count, KEEP_HIGH + 1);
	return 0;
}
