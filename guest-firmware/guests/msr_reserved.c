/* SPDX-License-Identifier: Apache-2.0 */
/* msr_reserved.c - which MSR accesses raise #GP: paravirtual ones, APIC base, x2APIC registers, unknown ones. Not
 * all of them when the local APIC is KVM's. */
#include "guest.h"

static uint8_t area[64] __attribute__((aligned(64)));

static void poll_control(void)
{
	uint64_t v;

	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 1);
	wrmsr(MSR_KVM_POLL_CONTROL, 0);
	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 0);
	check(!wrmsr_ok(MSR_KVM_POLL_CONTROL, 2));
	check(!wrmsr_ok(MSR_KVM_POLL_CONTROL, 3));
	check(!wrmsr_ok(MSR_KVM_POLL_CONTROL, 1ull << 63));
	check(rdmsr_ok(MSR_KVM_POLL_CONTROL, &v) && v == 0);
	wrmsr(MSR_KVM_POLL_CONTROL, 1);
	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 1);
}

static void steal_time(void)
{
	struct kvm_steal *steal = (struct kvm_steal *)area;
	unsigned bit;

	for (bit = 1; bit <= 5; bit++)
		check(!wrmsr_ok(MSR_KVM_STEAL_TIME, (uint64_t)area | 1 | 1u << bit));
	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)area | 1);
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), (uint64_t)area | 1);
	delay_us(5000);
	check_eq(steal->version & 1, 0);
	check_eq(steal->flags, 0);
	check_eq(steal->preempted & ~1u, 0);
	wrmsr(MSR_KVM_STEAL_TIME, 0);
}

static void clock(void)
{
	static struct kvm_clock clock __attribute__((aligned(64)));

	wrmsr(MSR_KVM_SYSTEM_TIME, (uint64_t)&clock | 1);
	check(clock.version != 0 && (clock.version & 1) == 0);
	check(clock.tsc_to_system_mul != 0);
	wrmsr(MSR_KVM_SYSTEM_TIME, 0);
}

static void apic_base(void)
{
	uint64_t base = rdmsr(MSR_APIC_BASE), v;

	check_eq(base & ~0xfffull, XAPIC_BASE);
	check_eq(base >> 10 & 3, apic_x2 ? 3 : 2);
	check(!wrmsr_ok(MSR_APIC_BASE, base | 1 << 0));
	check(!wrmsr_ok(MSR_APIC_BASE, base | 1ull << 60));
	check(!wrmsr_ok(MSR_APIC_BASE, (base & ~(1ull << 11)) | 1 << 10)); /* x2APIC without enable */
	if (apic_x2)
		check(!wrmsr_ok(MSR_APIC_BASE, base & ~(1ull << 10))); /* back to xAPIC without a disable between */
	check(rdmsr_ok(MSR_APIC_BASE, &v) && v == base);
}

static bool readable(enum apic_reg reg)
{
	uint64_t v;

	return rdmsr_ok(MSR_X2APIC + (reg >> 4), &v);
}

static bool writable(enum apic_reg reg, uint64_t v)
{
	return wrmsr_ok(MSR_X2APIC + (reg >> 4), v);
}

static void x2apic(bool strict)
{
	check(readable(APIC_ID) && readable(APIC_VERSION) && readable(APIC_LDR) && readable(APIC_ICR));
	check(!readable(APIC_DFR));
	check(!readable(APIC_ICR_HIGH));
	check(!readable(APIC_EOI));
	check(!readable(APIC_SELF_IPI));
	check(!readable(0xff0));
	check(!writable(APIC_ID, 0));
	check(!writable(APIC_VERSION, 0));
	check(!writable(APIC_LDR, 0));
	check(!writable(APIC_DFR, 0xffffffff));
	check(!writable(APIC_ISR, 0));
	check(!writable(APIC_IRR, 0));
	check(!writable(APIC_TMCCT, 0));
	check(!writable(APIC_ESR, 1));
	check(writable(APIC_ESR, 0));
	check(!writable(APIC_TPR, 1ull << 32));
	check(!writable(APIC_LVT_TIMER, 1ull << 32));
	check(writable(APIC_TPR, 0));
	if (!strict)
		return;
	check(!writable(APIC_EOI, 1));
	check(!writable(APIC_TPR, 0x100));
	check(!writable(APIC_SVR, 1u << 20));
	check(!writable(APIC_TDCR, 0x10));
	check(!writable(APIC_LVT_TIMER, 1u << 20));
	check(!writable(APIC_SELF_IPI, 0x100));
	check(!writable(APIC_ICR, 1u << 20));
}

int main(void)
{
	uint32_t features = kvm_features();
	uint64_t v;

	apic_setup();
	if (features & 1 << KVM_FEATURE_POLL_CONTROL)
		poll_control();
	if (features & 1 << KVM_FEATURE_STEAL_TIME)
		steal_time();
	if (features & 1 << KVM_FEATURE_CLOCKSOURCE2)
		clock();
	if (features & 1 << KVM_FEATURE_PV_EOI)
		check(!wrmsr_ok(MSR_KVM_PV_EOI, (uint64_t)area | 3));
	apic_base();
	if (apic_x2) {
		x2apic(!apic_is_kvms());
	} else if (!apic_is_kvms()) {
		check(!readable(APIC_ID));
		check(!writable(APIC_EOI, 0));
	}
	check(!rdmsr_ok(0x4b564dff, &v));
	check(!wrmsr_ok(0x4b564dff, 0));
	check(!rdmsr_ok(0x12345678, &v));
	check(!wrmsr_ok(0x12345678, 0));
	return 0;
}
