/* SPDX-License-Identifier: Apache-2.0 */
/* serial.c - the 16550A: identification, divisor, scratch, loopback with FIFO, interrupt reasons, output. */
#include "guest.h"

enum {
	VECTOR = 0x60,
	IIR_NONE = 1,
	IIR_THRE = 2,
	IIR_DATA = 4,
	IIR_LINE = 6,
	IIR_TIMEOUT = 12,
	LOOPBACK = 0x10,
};

static volatile uint32_t reasons;

static void on_serial(unsigned vector, struct irq_frame *frame)
{
	uint8_t iir = in8(COM_IIR) & 15;

	(void)vector;
	(void)frame;
	reasons |= 1u << iir;
	if (iir == IIR_DATA || iir == IIR_TIMEOUT)
		in8(COM_DATA);
	apic_eoi();
}

static void registers(void)
{
	out8(COM_SCR, 0x5a);
	check_eq(in8(COM_SCR), 0x5a);
	out8(COM_LCR, 0x80);
	out8(COM_DATA, 0x0c);
	out8(COM_IER, 0x01);
	check_eq(in8(COM_DATA), 0x0c);
	check_eq(in8(COM_IER), 0x01);
	out8(COM_DATA, 1);
	out8(COM_IER, 0);
	out8(COM_LCR, 3);
	check_eq(in8(COM_LCR), 3);
	out8(COM_IER, 0x0f);
	check_eq(in8(COM_IER), 0x0f);
	out8(COM_IER, 0);
	out8(COM_FCR, 0);
	check_eq(in8(COM_IIR) & 0xc0, 0);
	out8(COM_FCR, 7);
	check_eq(in8(COM_IIR) & 0xc0, 0xc0);
	check_eq(in8(COM_LSR) & 0x60, 0x60);
}

static void loopback(void)
{
	unsigned i;

	out8(COM_MCR, LOOPBACK);
	check_eq(in8(COM_MSR) & 0xf0, 0);
	out8(COM_MCR, LOOPBACK | 1);
	check_eq(in8(COM_MSR) & 0xf0, 0x20); /* DTR to DSR */
	out8(COM_MCR, LOOPBACK | 2);
	check_eq(in8(COM_MSR) & 0xf0, 0x10); /* RTS to CTS */
	out8(COM_MCR, LOOPBACK | 4);
	check_eq(in8(COM_MSR) & 0xf0, 0x40); /* OUT1 to RI */
	out8(COM_MCR, LOOPBACK | 8);
	check_eq(in8(COM_MSR) & 0xf0, 0x80); /* OUT2 to DCD */
	for (i = 0; i < 16; i++) {
		out8(COM_DATA, (uint8_t)(0x41 + i));
		delay_us(200);
	}
	for (i = 0; i < 16; i++) {
		check_eq(in8(COM_LSR) & 1, 1);
		check_eq(in8(COM_DATA), 0x41 + i);
	}
	check_eq(in8(COM_LSR) & 1, 0);
	/* A byte in the FIFO goes away with it. */
	out8(COM_DATA, 0x55);
	delay_us(200);
	out8(COM_FCR, 3);
	check_eq(in8(COM_LSR) & 1, 0);
	out8(COM_MCR, 0);
}

static void interrupts(void)
{
	irq_set(VECTOR, on_serial);
	ioapic_route(COM1_PIN, VECTOR, 0);
	out8(COM_FCR, 7);
	out8(COM_MCR, 8);
	in8(COM_IIR);
	check_eq(in8(COM_IIR) & 15, IIR_NONE);
	out8(COM_IER, 2);
	halt_until(reasons & 1 << IIR_THRE);
	reasons = 0;
	/* Once for an empty transmitter, and again when it has become empty again. */
	delay_us(1000);
	check_eq(reasons, 0);
	out8(COM_DATA, '.');
	halt_until(reasons & 1 << IIR_THRE);
	out8(COM_IER, 0);
	/* Received data, looped back. */
	reasons = 0;
	out8(COM_MCR, LOOPBACK | 8);
	out8(COM_FCR, 1); /* trigger at one byte */
	out8(COM_IER, 1);
	out8(COM_DATA, 'x');
	halt_until(reasons & (1 << IIR_DATA | 1 << IIR_TIMEOUT));
	check_eq(in8(COM_LSR) & 1, 0);
	out8(COM_IER, 0);
	out8(COM_MCR, 8);
}

int main(void)
{
	apic_setup();
	registers();
	loopback();
	interrupts();
	serial_print("\nserial: all is well\n");
	return 0;
}
