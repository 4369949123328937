/* SPDX-License-Identifier: Apache-2.0 */
/* tick_then_idle.c - woken hz= times a second for ms= milliseconds, then halted without a timer for ever. */
#include "guest.h"

enum {
	VECTOR = 0x40,
};

int main(void)
{
	uint64_t hz = param_u64("hz", 4000), ticks = hz * param_u64("ms", 1000) / 1000;

	apic_setup();
	irq_expect(VECTOR);
	apic_timer(LVT_PERIODIC | VECTOR, (uint32_t)(APIC_TIMER_HZ / hz));
	halt_until(irq_counts[VECTOR] >= ticks);
	apic_timer(LVT_MASKED | VECTOR, 0);
	for (;;)
		halt();
}
