/* SPDX-License-Identifier: Apache-2.0 */
/* steal_spin.c - for tests/steal: turns steal time on, tells the host where the area is (32 bits to port 0x540), and
 * then spins in ring 3; with do=halt it halts between ticks of 2 ms, with do=idle for good. */
#include "guest.h"

static struct kvm_steal area __attribute__((aligned(64)));

static uint64_t spin(uint64_t arg)
{
	for (;;)
		__builtin_ia32_pause();
	return arg;
}

int main(void)
{
	if (!(kvm_features() & 1 << KVM_FEATURE_STEAL_TIME))
		skip("no steal time");
	apic_setup();
	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)&area | 1);
	out32(0x540, (uint32_t)(uint64_t)&area);
	if (param_is("do", "halt")) {
		irq_expect(0x40);
		apic_timer(LVT_PERIODIC | 0x40, APIC_TIMER_HZ / 500);
	} else if (!param_is("do", "idle")) {
		ring3(spin, 0);
	}
	for (;;)
		halt();
}
