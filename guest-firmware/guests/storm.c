/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm.c - for tests/guest_idle: events= interrupts that come at the worst time for a host that polls, all waited for
 * in HLT. storm=timer: every us= microseconds; storm=sleep: us= after the last one was seen; storm=irq: the host sends
 * them. Writes to port 0x540 before the first and after the last.
 */
#include "guest.h"

enum {
	VECTOR = 0x40,
	PORT = 0x540,
};

int main(void)
{
	uint32_t events = (uint32_t)param_u64("events", 100), i;
	uint32_t ns = (uint32_t)param_u64("us", 100) * 1000;
	bool is_sleep = param_is("storm", "sleep");

	apic_setup();
	irq_expect(VECTOR);
	out32(PORT, 1);
	if (param_is("storm", "timer"))
		apic_timer(LVT_PERIODIC | VECTOR, ns);
	for (i = 1; i <= events; i++) {
		if (is_sleep)
			apic_timer(LVT_ONE_SHOT | VECTOR, ns);
		halt_until(irq_counts[VECTOR] >= i);
	}
	out32(PORT, 2);
	return 0;
}
