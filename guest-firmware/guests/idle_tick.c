/* SPDX-License-Identifier: Apache-2.0 */
/* idle_tick.c - halts, woken hz= times a second for seconds= seconds by a periodic timer. self=1: says that it polls
 * itself, by MSR_KVM_POLL_CONTROL, and takes that back after half of the time. */
#include "guest.h"

enum {
	VECTOR = 0x40,
};

int main(void)
{
	uint64_t hz = param_u64("hz", 10), ticks = hz * param_u64("seconds", 2);
	bool self = param_u64("self", 0);

	if (self)
		wrmsr(MSR_KVM_POLL_CONTROL, 0);
	apic_setup();
	irq_expect(VECTOR);
	apic_timer(LVT_PERIODIC | VECTOR, (uint32_t)(APIC_TIMER_HZ / hz));
	halt_until(irq_counts[VECTOR] >= ticks / 2);
	if (self)
		wrmsr(MSR_KVM_POLL_CONTROL, 1);
	halt_until(irq_counts[VECTOR] >= ticks);
	return 0;
}
