/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo.c - the guest of `lull demo`: two CPUs are woken from HLT by each source in turn. The monitor counts; the guest
 * only says on COM1 what it does.
 */
#include "guest.h"

enum {
	TIMER_WAKES = 200,
	TIMER_NS = 1000000,
	ROUND_TRIPS = 200,
	DEVICE_WAKES = 50,
	NMI_WAKES = 20,
	PAUSE_NS = 200000, /* before an event, so that it finds its CPU halted */
	VECTOR_TIMER = 0x40,
	VECTOR_PING = 0x41,
	VECTOR_COM1 = 0x42,
	VECTOR_TOUCH = 0x43,
	VECTOR_TOUCH_TIMER = 0x44,
	PM1_CNT = 0x604,
};

static volatile uint32_t answers;

/* The other CPU answers from inside its handlers: an NMI can come between any two instructions of a loop. */
static void on_nmi(struct regs *regs)
{
	(void)regs;
	ipi(0, VECTOR_WAKE);
}

static void on_ping(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	apic_eoi();
	ipi(0, VECTOR_WAKE);
}

/* A little later, so that the CPU that asked has halted. */
static void on_touch(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	apic_eoi();
	apic_write(APIC_TMICT, PAUSE_NS);
}

static void on_touch_timer(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	apic_eoi();
	out8(COM_IER, 2); /* the transmitter is empty: the line rises at once */
}

static void on_wake(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	answers++;
	apic_eoi();
}

static void answer(void *arg)
{
	(void)arg;
	apic_timer(VECTOR_TOUCH_TIMER, 0);
	ipi(0, VECTOR_WAKE); /* here I am */
	for (;;)
		halt();
}

static void sleep_ns(uint32_t ns, bool deadline)
{
	uint32_t seen = irq_counts[VECTOR_TIMER];

	if (deadline)
		wrmsr(MSR_TSC_DEADLINE, rdtsc() + (uint64_t)ns * tsc_khz() / 1000000);
	else
		apic_write(APIC_TMICT, ns);
	halt_until(irq_counts[VECTOR_TIMER] != seen);
}

/* Asked by IPI, the other CPU makes COM1 interrupt this one. */
static void device_wakes(void)
{
	uint32_t i;

	irq_expect(VECTOR_COM1);
	ioapic_route(COM1_PIN, VECTOR_COM1, 0);
	out8(COM_MCR, 8);
	for (i = 0; i < DEVICE_WAKES; i++) {
		ipi(1, VECTOR_TOUCH);
		halt_until(irq_counts[VECTOR_COM1] > i);
		out8(COM_IER, 0);
	}
	ioapic_route(COM1_PIN, IOAPIC_MASKED, 0);
}

int main(void)
{
	bool deadline = cpuid(1, 0).ecx & CPUID_1_ECX_TSC_DEADLINE;
	uint32_t i;

	apic_setup_as(cpuid(1, 0).ecx & CPUID_1_ECX_X2APIC);
	irq_expect(VECTOR_TIMER);
	irq_set(VECTOR_PING, on_ping);
	irq_set(VECTOR_TOUCH, on_touch);
	irq_set(VECTOR_TOUCH_TIMER, on_touch_timer);
	exception_set(2, on_nmi);
	serial_print("demo: %s, %s timer\n", apic_x2 ? "x2APIC" : "xAPIC", deadline ? "TSC-deadline" : "one-shot");

	apic_timer(VECTOR_TIMER | (deadline ? LVT_DEADLINE : LVT_ONE_SHOT), 0);
	serial_print("demo: %u timer wakes, 1 ms apart\n", TIMER_WAKES);
	for (i = 0; i < TIMER_WAKES; i++)
		sleep_ns(TIMER_NS, deadline);

	cpu_start(1, answer, NULL);
	irq_set(VECTOR_WAKE, on_wake);
	halt_until(answers == 1);
	serial_print("demo: %u interrupts from COM1\n", DEVICE_WAKES);
	device_wakes();

	serial_print("demo: %u round trips between two CPUs\n", ROUND_TRIPS);
	for (i = 0; i < ROUND_TRIPS; i++) {
		ipi(1, VECTOR_PING);
		halt_until(answers > i + 1);
	}

	serial_print("demo: %u NMIs\n", NMI_WAKES);
	for (i = 0; i < NMI_WAKES; i++) {
		sleep_ns(PAUSE_NS, deadline);
		apic_send(1, ICR_NMI | ICR_ASSERT);
		halt_until(answers > ROUND_TRIPS + i + 1);
	}
	serial_print("demo: done\n");
	out16(PM1_CNT, 5 << 10 | 1 << 13);
	return 0;
}
