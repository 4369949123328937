/* SPDX-License-Identifier: Apache-2.0 */
/* idle.c - halts for ever with interrupts on and no timer: nothing should ever wake the host for it. */
#include "guest.h"

static void rest(void *arg)
{
	(void)arg;
	for (;;)
		halt();
}

int main(void)
{
	uint32_t cpus = (uint32_t)param_u64("cpus", 1), i;

	apic_setup();
	for (i = 1; i < cpus; i++)
		cpu_start(i, rest, NULL);
	print("idle\n");
	rest(NULL);
	return 1;
}
