/* SPDX-License-Identifier: Apache-2.0 */
/* sti_hlt_window.c - interrupts at every moment around sti; hlt: none between the two, none lost. */
#include "guest.h"

enum {
	VECTOR_TIMER = 0x40,
	VECTOR_IPI = 0x41,
};

extern const uint8_t window_hlt[], window_end[];
static volatile uint32_t timer, ipis, before, at_end;

static void note(const struct irq_frame *frame)
{
	check(frame->rip != (uint64_t)window_hlt);
	if (frame->rip == (uint64_t)window_end)
		at_end++;
	else
		before++;
}

static void on_timer(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	note(frame);
	timer++;
	apic_eoi();
}

static void on_ipi(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	note(frame);
	ipis++;
	apic_eoi();
}

static void other(void *arg)
{
	uint32_t i, rounds = *(uint32_t *)arg;

	for (i = 1; i <= rounds; i++) {
		ipi(0, VECTOR_IPI);
		if (!spin_until(&ipis, i, 5000000))
			fail(__FILE__, __LINE__, "the interrupt arrives");
	}
}

/* Once: the label must be unique. */
__attribute__((noinline)) static void window(void)
{
	__asm__ volatile("sti\n"
	                 ".globl window_hlt, window_end\n"
	                 "window_hlt: hlt\n"
	                 "window_end: cli"
	                 :
	                 :
	                 : "memory");
}

int main(void)
{
	uint32_t rounds = (uint32_t)param_u64("rounds", 200), i, seen;

	apic_setup();
	irq_set(VECTOR_TIMER, on_timer);
	irq_set(VECTOR_IPI, on_ipi);
	apic_timer(VECTOR_TIMER, 0);
	for (i = 0; i < rounds; i++) {
		seen = timer;
		apic_write(APIC_TMICT, 1 + i * 1000);
		while (timer == seen)
			window();
	}
	check_eq(timer, rounds);
	print("%u of %u interrupts at the HLT\n", at_end, at_end + before);
	if (param_u64("cpus", 1) < 2)
		return 0;
	cpu_start(1, other, &rounds);
	while (ipis < rounds)
		window();
	check_eq(ipis, rounds);
	return 0;
}
