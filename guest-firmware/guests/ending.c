/* SPDX-License-Identifier: Apache-2.0 */
/* ending.c - ends or resets the machine in the way that how= names. */
#include "guest.h"

static void triple_fault(void)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) empty = {0, 0};

	__asm__ volatile("lidt %0\n\tud2" : : "m"(empty));
}

static void shutdown_port(void)
{
	const char *p;

	for (p = "SShutdown"; *p != '\0'; p++)
		out8(0x8900, (uint8_t)*p);
}

/* What a warm start of a PC does: a far jump to FFFF:0000 in real mode, here on a CPU that SIPI starts. */
static void reset_vector(void)
{
	static const uint8_t code[] = {0xea, 0x00, 0x00, 0xff, 0xff};
	volatile uint8_t *to = (volatile uint8_t *)TRAMPOLINE;
	unsigned i;

	apic_setup();
	for (i = 0; i < sizeof(code); i++)
		to[i] = code[i];
	apic_send(1, ICR_INIT | ICR_ASSERT);
	apic_send(1, ICR_SIPI | ICR_ASSERT | TRAMPOLINE >> 12);
	delay_us(2000000);
}

int main(void)
{
	if (param_is("how", "exit"))
		guest_exit((unsigned)param_u64("value", 0));
	if (param_is("how", "exit8"))
		out8(0xf4, (uint8_t)param_u64("value", 0));
	if (param_is("how", "exit501"))
		out8(0x501, (uint8_t)param_u64("value", 0));
	if (param_is("how", "s5"))
		out16(0x604, 5 << 10 | 1 << 13);
	if (param_is("how", "shutdown"))
		shutdown_port();
	if (param_is("how", "cf9")) {
		out8(0xcf9, 2);
		check_eq(in8(0xcf9) & 6, 2);
		out8(0xcf9, 6);
	}
	if (param_is("how", "8042")) {
		check_eq(in8(0x64) & 2, 0);
		out8(0x64, 0xfe);
	}
	if (param_is("how", "vector"))
		reset_vector();
	if (param_is("how", "triple"))
		triple_fault();
	if (param_is("how", "panic")) {
		check(in8(0x505) & 1);
		out8(0x505, 1);
	}
	/* Another CPU may run a little longer than the one that asked. */
	delay_us(1000000);
	print("FAIL still here\n");
	return 1;
}
