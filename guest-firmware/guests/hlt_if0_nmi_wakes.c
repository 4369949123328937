/* SPDX-License-Identifier: Apache-2.0 */
/* hlt_if0_nmi_wakes.c - cli; hlt sleeps through interrupts and timers and ends with an NMI; what was requested in the
 * meantime is delivered later. */
#include "guest.h"

enum {
	VECTOR_IPI = 0x40,
	VECTOR_TIMER = 0x41,
};

static volatile uint32_t awake, nmis;

static void on_nmi(struct regs *regs)
{
	(void)regs;
	nmis++;
}

static void other(void *arg)
{
	(void)arg;
	delay_us(20000);
	ipi(0, VECTOR_IPI);
	delay_us(20000);
	check_eq(awake, 0);
	apic_send(0, ICR_NMI | ICR_ASSERT);
	check(spin_until(&awake, 1, 5000000));
}

int main(void)
{
	apic_setup();
	irq_expect(VECTOR_IPI);
	irq_expect(VECTOR_TIMER);
	exception_set(2, on_nmi);
	tsc_khz();
	cpu_start(1, other, NULL);
	apic_timer(VECTOR_TIMER, 10000000);
	__asm__ volatile("hlt" : : : "memory");
	awake = 1;
	check_eq(nmis, 1);
	check_eq(irq_counts[VECTOR_IPI], 0);
	check_eq(irq_counts[VECTOR_TIMER], 0);
	halt_until(irq_counts[VECTOR_IPI] == 1 && irq_counts[VECTOR_TIMER] == 1);
	cpu_wait(1);
	return 0;
}
