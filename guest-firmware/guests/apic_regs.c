/* SPDX-License-Identifier: Apache-2.0 */
/* apic_regs.c - priorities (TPR, PPR, ISR), what a disabled APIC does, the masks it sets, errors. */
#include "guest.h"

enum {
	LOW = 0x41,
	HIGH = 0x82,
	ERROR = 0x90,
	ESR_SEND_ILLEGAL = 1 << 5,
};

static volatile uint32_t low, high, errors, nmis;
static volatile bool nest;
static bool kvms;

static void on_high(unsigned vector, struct irq_frame *frame)
{
	(void)frame;
	high++;
	if (!kvms) {
		check(apic_bit(APIC_ISR, vector));
		check_eq(apic_read(APIC_PPR) & 0xf0, vector & 0xf0);
	}
	apic_eoi();
}

static void self(unsigned vector)
{
	apic_send(0, ICR_SELF | ICR_ASSERT | vector);
}

static void on_low(unsigned vector, struct irq_frame *frame)
{
	(void)frame;
	low++;
	check(!apic_bit(APIC_IRR, vector));
	check(!apic_bit(APIC_TMR, vector));
	if (!kvms) {
		check(apic_bit(APIC_ISR, vector));
		check_eq(apic_read(APIC_PPR) & 0xf0, vector & 0xf0);
	}
	if (nest) {
		nest = false;
		/* A higher class comes in between, the own class waits. */
		self(HIGH);
		self(vector);
		sti();
		delay_us(500);
		cli();
		check_eq(high, 1);
		check_eq(low, 1);
		check(apic_bit(APIC_IRR, vector));
		check(!apic_bit(APIC_ISR, HIGH));
	}
	apic_eoi();
}

static void on_error(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	errors++;
	apic_eoi();
}

static void on_nmi(struct regs *regs)
{
	(void)regs;
	nmis++;
}

static void priorities(void)
{
	apic_write(APIC_TPR, 0x5a);
	check_eq(apic_read(APIC_TPR), 0x5a);
	check_eq(apic_read(APIC_PPR), 0x5a);
	self(LOW);
	delay_us(1000);
	check_eq(low, 0);
	check(apic_bit(APIC_IRR, LOW));
	self(HIGH);
	halt_until(high == 1);
	check_eq(low, 0);
	apic_write(APIC_TPR, 0x4f); /* the same class still blocks */
	delay_us(1000);
	check_eq(low, 0);
	apic_write(APIC_TPR, 0x30);
	halt_until(low == 1);
	apic_write(APIC_TPR, 0);
	check_eq(apic_read(APIC_PPR), 0);

	if (kvms)
		return;
	low = high = 0;
	nest = true;
	self(LOW);
	halt_until(low == 2);
	check_eq(high, 1);
}

static void disabled(void)
{
	low = 0;
	apic_write(APIC_LVT_TIMER, LOW);
	apic_write(APIC_SVR, VECTOR_SPURIOUS);
	check(apic_read(APIC_LVT_TIMER) & LVT_MASKED);
	check(apic_read(APIC_LVT_LINT1) & LVT_MASKED);
	apic_write(APIC_LVT_TIMER, LOW); /* cannot be unmasked now */
	check(apic_read(APIC_LVT_TIMER) & LVT_MASKED);
	ipi(apic_id(), LOW); /* not accepted */
	delay_us(1000);
	check_eq(low, 0);
	/* NMIs are. */
	apic_send(apic_id(), ICR_NMI | ICR_ASSERT);
	delay_us(1000);
	check_eq(nmis, 1);
	apic_write(APIC_SVR, 0x100 | VECTOR_SPURIOUS);
	check(apic_read(APIC_LVT_TIMER) & LVT_MASKED);
	delay_us(1000);
	check_eq(low, 0);
	self(LOW);
	halt_until(low == 1);
}

static void error_status(void)
{
	apic_write(APIC_ESR, 0);
	apic_write(APIC_LVT_ERROR, ERROR);
	self(5);
	halt_until(errors == 1);
	apic_write(APIC_ESR, 0);
	check(apic_read(APIC_ESR) & ESR_SEND_ILLEGAL);
	apic_write(APIC_ESR, 0);
	check_eq(apic_read(APIC_ESR), 0);
}

int main(void)
{
	uint32_t version;

	apic_setup();
	kvms = apic_is_kvms();
	irq_set(LOW, on_low);
	irq_set(HIGH, on_high);
	irq_set(ERROR, on_error);
	exception_set(2, on_nmi);
	check_eq(apic_id(), 0);
	version = apic_read(APIC_VERSION);
	check((version & 0xff) >= 0x10 && (version & 0xff) <= 0x15);
	check((version >> 16 & 0xff) >= 4);
	check_eq(apic_read(APIC_LVT_TIMER), LVT_MASKED);
	check_eq(apic_read(APIC_TMICT), 0);
	check_eq(apic_read(APIC_TMCCT), 0);
	if (!apic_x2) {
		check_eq(apic_read(APIC_DFR), 0xffffffff);
		apic_write(APIC_LDR, 0xa5ffffff);
		check_eq(apic_read(APIC_LDR), 0xa5000000);
	}
	priorities();
	disabled();
	if (!kvms)
		error_status();
	return 0;
}
