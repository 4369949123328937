/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steal_msr.c - MSR_KVM_STEAL_TIME: what raises #GP, what the area looks like when it is on, what stays untouched when
 * it is off, and that INIT turns it off. steal= on the command line is the mode: vmm, kvm, hybrid or off.
 */
#include "guest.h"

enum {
	GUARD = 0xa5,
	AREAS = 3,
};

static uint8_t areas[AREAS * 64] __attribute__((aligned(64)));
static volatile uint64_t init_value;

static struct kvm_steal *area(unsigned n)
{
	return (struct kvm_steal *)(areas + n * 64);
}

static void fill(void)
{
	unsigned i;

	for (i = 0; i < AREAS * 64; i += 8)
		*(volatile uint64_t *)(areas + i) = i / 64 == 1 ? 0 : GUARD * 0x0101010101010101ull;
}

static void check_guards(void)
{
	unsigned i;

	for (i = 0; i < 64; i += 8) {
		check_eq(*(volatile uint64_t *)(areas + i), GUARD * 0x0101010101010101ull);
		check_eq(*(volatile uint64_t *)(areas + 128 + i), GUARD * 0x0101010101010101ull);
	}
}

static void refused(void)
{
	struct memory_range range;
	uint64_t end = 0;
	unsigned bit, i;

	for (bit = 1; bit <= 5; bit++) {
		check(!wrmsr_ok(MSR_KVM_STEAL_TIME, (uint64_t)area(1) | 1 | 1u << bit));
		check(!wrmsr_ok(MSR_KVM_STEAL_TIME, (uint64_t)area(1) | 1u << bit));
	}
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), 0);
	if (!param_is("steal", "vmm"))
		return; /* KVM takes any address, and does nothing when it is none */
	for (i = 0; boot_memory(i, &range); i++)
		if (range.type == 1 && range.base + range.size > end)
			end = range.base + range.size;
	check(!wrmsr_ok(MSR_KVM_STEAL_TIME, end | 1));
	check(!wrmsr_ok(MSR_KVM_STEAL_TIME, 0xfee00000 | 1));
	check(!wrmsr_ok(MSR_KVM_STEAL_TIME, 1ull << 63 | 1));
	check(!wrmsr_ok(MSR_KVM_STEAL_TIME, ~0x3full | 1));
	check(wrmsr_ok(MSR_KVM_STEAL_TIME, (end - 64) | 1));
	check(wrmsr_ok(MSR_KVM_STEAL_TIME, 0));
}

static void on_and_off(void)
{
	struct kvm_steal *steal = area(1);
	uint32_t version;
	unsigned i;

	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)steal | 1);
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), (uint64_t)steal | 1);
	check(!wrmsr_ok(MSR_KVM_STEAL_TIME, (uint64_t)area(0) | 3));
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), (uint64_t)steal | 1);
	delay_us(2000);
	check(steal->version != 0);
	check_eq(steal->version & 1, 0);
	check_eq(steal->flags, 0);
	check_eq(steal->preempted & ~1u, 0);
	for (i = 0; i < 3; i++)
		check_eq(steal->pad8[i], 0);
	for (i = 0; i < 11; i++)
		check_eq(steal->pad[i], 0);

	/* Off: nothing is written any more, though time goes by and the host takes its part of it. */
	wrmsr(MSR_KVM_STEAL_TIME, 0);
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), 0);
	check_eq(steal->preempted, 0);
	version = steal->version;
	steal->steal = 12345678900000;
	delay_us(20000);
	rdmsr(MSR_KVM_STEAL_TIME);
	check_eq(steal->version, version);
	check_eq(steal->steal, 12345678900000);

	/* On again: it goes on from there. */
	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)steal | 1);
	delay_us(2000);
	rdmsr(MSR_KVM_STEAL_TIME);
	check(steal->steal >= 12345678900000);
	check(steal->version != version && (steal->version & 1) == 0);
	wrmsr(MSR_KVM_STEAL_TIME, 0);
	check_guards();
}

static void turn_on(void *arg)
{
	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)arg | 1);
}

static void look(void *arg)
{
	(void)arg;
	init_value = rdmsr(MSR_KVM_STEAL_TIME);
}

int main(void)
{
	bool there = kvm_features() & 1 << KVM_FEATURE_STEAL_TIME;
	uint64_t v;

	apic_setup();
	if (param_is("steal", "off")) {
		check(!there);
		check(!rdmsr_ok(MSR_KVM_STEAL_TIME, &v));
		check(!wrmsr_ok(MSR_KVM_STEAL_TIME, 0));
		check(!wrmsr_ok(MSR_KVM_STEAL_TIME, (uint64_t)area(1) | 1));
		return 0;
	}
	if (!there)
		skip("no steal time");
	check_eq(rdmsr(MSR_KVM_STEAL_TIME), 0);
	fill();
	refused();
	on_and_off();

	cpu_start(1, turn_on, area(1));
	cpu_wait(1);
	init_value = 1;
	cpu_start(1, look, NULL);
	cpu_wait(1);
	check_eq(init_value, 0);
	return 0;
}
