/* SPDX-License-Identifier: Apache-2.0 */
/* pv_eoi.c - with MSR_KVM_PV_EOI_EN the guest may end an interrupt by clearing a bit, and the interrupt controller
 * agrees each time. */
#include "guest.h"

enum {
	VECTOR_LOW = 0x40,
	VECTOR_HIGH = 0x80,
	ROUNDS = 200,
};

static volatile uint32_t area __attribute__((aligned(4)));
static volatile uint32_t low, high, saved, written;

static bool end_of_interrupt(void)
{
	bool was_set;

	__asm__ volatile("btrl $0, %0" : "+m"(area), "=@ccc"(was_set) : : "memory");
	if (was_set) {
		saved++;
	} else {
		written++;
		apic_eoi();
	}
	return was_set;
}

static void on_low(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	low++;
	end_of_interrupt();
}

static void on_high(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	high++;
	end_of_interrupt();
}

static void self(unsigned vector)
{
	apic_send(0, ICR_SELF | ICR_ASSERT | vector);
}

int main(void)
{
	uint32_t i;

	if (!(kvm_features() & 1 << KVM_FEATURE_PV_EOI))
		skip("no PV EOI");
	apic_setup();
	irq_set(VECTOR_LOW, on_low);
	irq_set(VECTOR_HIGH, on_high);
	check(!wrmsr_ok(MSR_KVM_PV_EOI, (uint64_t)&area | 3));
	wrmsr(MSR_KVM_PV_EOI, (uint64_t)&area | 1);
	check_eq(rdmsr(MSR_KVM_PV_EOI), (uint64_t)&area | 1);

	/* One at a time: the end by bit must make room for the next. */
	for (i = 0; i < ROUNDS; i++) {
		self(VECTOR_LOW);
		halt_until(low == i + 1);
	}
	print("%u ended by the bit, %u by the register\n", saved, written);
	check(saved > ROUNDS / 2 || apic_is_kvms());
	check_eq(low, ROUNDS);
	check_eq(apic_bit(APIC_ISR, VECTOR_LOW), 0);

	/* Two at once: the bit must not promise for both. */
	for (i = 0; i < ROUNDS; i++) {
		self(VECTOR_LOW);
		self(VECTOR_HIGH);
		halt_until(high == i + 1 && low == ROUNDS + i + 1);
	}
	check_eq(apic_bit(APIC_ISR, VECTOR_LOW), 0);
	check_eq(apic_bit(APIC_ISR, VECTOR_HIGH), 0);
	check_eq(low, 2 * ROUNDS);
	check_eq(high, ROUNDS);

	/* Off again. */
	wrmsr(MSR_KVM_PV_EOI, 0);
	area = saved = 0;
	for (i = 0; i < 10; i++) {
		self(VECTOR_LOW);
		halt_until(low == 2 * ROUNDS + i + 1);
	}
	check_eq(saved, 0);
	check_eq(area, 0);
	return 0;
}
