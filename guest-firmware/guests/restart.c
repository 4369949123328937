/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart.c - each boot finds the machine as at power-up, leaves everything in it changed and resets it; for
 * --on-reboot restart. Nothing of a boot survives to be counted by the next, so the end is a matter of time: one that
 * starts in one of eight slices of about 0.1 s passes.
 */
#include "guest.h"

enum {
	VECTOR = 0x40,
	SLICE_SHIFT = 28, /* TSC cycles, as a power of two */
	MARK = 0x800000,
};

static uint8_t area[64] __attribute__((aligned(64)));
static volatile uint32_t running;

static void check_apic(void)
{
	check_eq(rdmsr(MSR_APIC_BASE), XAPIC_BASE | 0x900);
	check_eq(mmio_read(XAPIC_BASE + APIC_TPR), 0);
	check_eq(mmio_read(XAPIC_BASE + APIC_SVR), 0xff);
	check_eq(mmio_read(XAPIC_BASE + APIC_LDR), 0);
	check_eq(mmio_read(XAPIC_BASE + APIC_LVT_TIMER), LVT_MASKED);
	check_eq(mmio_read(XAPIC_BASE + APIC_TMICT), 0);
	check_eq(mmio_read(XAPIC_BASE + APIC_IRR + 0x20), 0);
	check_eq(ioapic_pin(COM1_PIN), IOAPIC_MASKED);
}

static void check_msrs(void)
{
	uint32_t features = kvm_features();

	if (features & 1 << KVM_FEATURE_POLL_CONTROL)
		check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 1);
	if (features & 1 << KVM_FEATURE_CLOCKSOURCE2)
		check_eq(rdmsr(MSR_KVM_SYSTEM_TIME), 0);
	if (features & 1 << KVM_FEATURE_STEAL_TIME)
		check_eq(rdmsr(MSR_KVM_STEAL_TIME), 0);
	if (features & 1 << KVM_FEATURE_PV_EOI)
		check_eq(rdmsr(MSR_KVM_PV_EOI), 0);
}

static void change_msrs(void)
{
	uint32_t features = kvm_features();

	if (features & 1 << KVM_FEATURE_POLL_CONTROL)
		wrmsr(MSR_KVM_POLL_CONTROL, 0);
	if (features & 1 << KVM_FEATURE_CLOCKSOURCE2)
		wrmsr(MSR_KVM_SYSTEM_TIME, (uint64_t)area | 1);
	if (features & 1 << KVM_FEATURE_STEAL_TIME)
		wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)area | 1);
	if (features & 1 << KVM_FEATURE_PV_EOI)
		wrmsr(MSR_KVM_PV_EOI, (uint64_t)area | 1);
}

static uint64_t spin(uint64_t arg)
{
	running = 1;
	for (;;)
		__builtin_ia32_pause();
	return arg;
}

static void other(void *arg)
{
	change_msrs();
	ring3(spin, (uint64_t)arg);
}

int main(void)
{
	volatile uint64_t *mark = (volatile uint64_t *)MARK;

	check_eq(*mark, 0);
	check_apic();
	check_msrs();
	check_eq(in8(COM_IER), 0);
	if ((rdtsc() >> SLICE_SHIFT & 7) == 0)
		return 0;

	*mark = 1;
	apic_setup();
	cpu_start(1, other, NULL);
	check(spin_until(&running, 1, 10000000));
	change_msrs();
	out8(COM_MCR, 8);
	ioapic_route(COM1_PIN, VECTOR, 0);
	out8(COM_IER, 2);
	apic_timer(LVT_PERIODIC | VECTOR, 1000000);
	apic_send(0, ICR_SELF | ICR_ASSERT | VECTOR);
	apic_write(APIC_TPR, 0x20);
	out8(0xcf9, 6);
	stop_cpu();
}
