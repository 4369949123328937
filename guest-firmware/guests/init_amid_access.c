/* SPDX-License-Identifier: Apache-2.0 */
/* init_amid_access.c - INIT and SIPI take a CPU out of an access that its host is just handling; what is left of that
 * access must not reach into the new start. */
#include "guest.h"

enum {
	ROUNDS = 60,
};

static volatile uint32_t starts, nmis;

static void read_apic(void *arg)
{
	(void)arg;
	starts++;
	for (;;)
		apic_read(APIC_ID);
}

/* NMIs that wait behind this one are the old life's. */
static void on_nmi(struct regs *regs)
{
	(void)regs;
	nmis++;
	for (;;)
		apic_read(APIC_ID);
}

static void check_in(void *arg)
{
	(void)arg;
	starts++;
	delay_us(1000);
}

int main(void)
{
	uint32_t i;

	apic_setup();
	for (i = 0; i < ROUNDS; i++) {
		cpu_start(1, read_apic, NULL);
		check(spin_until(&starts, i + 1, 2000000));
		delay_us(100 + i * 7);
	}
	exception_set(2, on_nmi);
	apic_send(1, ICR_NMI | ICR_ASSERT);
	check(spin_until(&nmis, 1, 2000000));
	apic_send(1, ICR_NMI | ICR_ASSERT);
	delay_us(2000);
	cpu_start(1, check_in, NULL);
	check(spin_until(&starts, i + 1, 2000000));
	cpu_wait(1);
	check_eq(nmis, 1);
	return 0;
}
