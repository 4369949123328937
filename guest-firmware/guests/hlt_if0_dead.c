/* SPDX-License-Identifier: Apache-2.0 */
/* hlt_if0_dead.c - every CPU halts with interrupts off; lull notices that nothing can wake them (exit code 72).
 * how=waiting leaves the others waiting for SIPI. */
#include "guest.h"

static void nothing(void *arg)
{
	(void)arg;
}

int main(void)
{
	uint32_t cpus = (uint32_t)param_u64("cpus", 1), i;

	apic_setup();
	irq_set(0x40, NULL);
	for (i = 1; i < cpus && !param_is("how", "waiting"); i++) {
		cpu_start(i, nothing, NULL);
		cpu_wait(i);
	}
	/* A requested interrupt does not wake a CPU with IF = 0. */
	apic_send(0, ICR_SELF | ICR_ASSERT | 0x40);
	stop_cpu();
}
