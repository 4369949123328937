/* SPDX-License-Identifier: Apache-2.0 */
/* cr8.c - CR8 and TPR are two views of one register, and what is written to CR8 blocks interrupts. */
#include "guest.h"

enum {
	LOW = 0x41,
	HIGH = 0x82,
};

static void write_cr8(uint64_t v)
{
	__asm__ volatile("movq %0, %%cr8" : : "r"(v) : "memory");
}

static uint64_t read_cr8(void)
{
	uint64_t v;

	__asm__ volatile("movq %%cr8, %0" : "=r"(v) : : "memory");
	return v;
}

int main(void)
{
	unsigned i;

	apic_setup();
	irq_expect(LOW);
	irq_expect(HIGH);
	check_eq(read_cr8(), 0);
	for (i = 0; i < 16; i++) {
		write_cr8(i);
		/* Not bits 3:0: a monitor is not told of a write that leaves CR8 as it was. */
		check_eq(apic_read(APIC_TPR) >> 4, i);
		apic_write(APIC_TPR, (15 - i) << 4 | 3);
		check_eq(read_cr8(), 15 - i);
	}
	write_cr8(5);
	apic_send(0, ICR_SELF | ICR_ASSERT | LOW);
	delay_us(1000);
	check_eq(irq_counts[LOW], 0);
	apic_send(0, ICR_SELF | ICR_ASSERT | HIGH);
	halt_until(irq_counts[HIGH] == 1);
	check_eq(irq_counts[LOW], 0);
	check_eq(read_cr8(), 5);
	write_cr8(3);
	halt_until(irq_counts[LOW] == 1);
	return 0;
}
