/* SPDX-License-Identifier: Apache-2.0 */
/* init_sipi.c - INIT and SIPI start every CPU, again after it halted and again out of a running loop; a SIPI to a
 * running CPU does nothing. */
#include "guest.h"

static volatile uint32_t starts, spinning;
static volatile uint8_t seen[256];

static void check_in(void *arg)
{
	struct cpu *cpu = this_cpu();

	(void)arg;
	check_eq(apic_id(), cpu->id);
	check_eq(rdmsr(MSR_APIC_BASE) & 0x100, 0); /* not the boot processor */
	check_eq(rdmsr(MSR_APIC_BASE) >> 10 & 3, apic_x2 ? 3 : 2);
	check_eq(apic_read(APIC_TPR), 0);
	check_eq(apic_read(APIC_LVT_TIMER), LVT_MASKED);
	check_eq(apic_read(APIC_TMICT), 0);
	seen[cpu->id]++;
	__atomic_fetch_add(&starts, 1, __ATOMIC_SEQ_CST);
	/* What INIT must undo. */
	apic_write(APIC_TPR, 0x20);
	apic_timer(LVT_PERIODIC | 0x40, 1000000000);
}

static uint64_t for_ever(uint64_t arg)
{
	__atomic_fetch_add(&spinning, 1, __ATOMIC_SEQ_CST);
	for (;;)
		__builtin_ia32_pause();
	return arg;
}

static void check_in_and_spin(void *arg)
{
	check_in(arg);
	ring3(for_ever, 0);
}

static void check_in_and_halt(void *arg)
{
	check_in(arg);
	for (;;)
		halt();
}

int main(void)
{
	uint32_t cpus = (uint32_t)param_u64("cpus", 2), i, round;

	apic_setup();
	check_eq(rdmsr(MSR_APIC_BASE) & 0x100, 0x100);
	check_eq(apic_id(), 0);
	/* All at once, then again out of cli; hlt. */
	for (round = 1; round <= 2; round++) {
		starts = 0;
		for (i = 1; i < cpus; i++)
			cpu_start(i, check_in, NULL);
		for (i = 1; i < cpus; i++)
			cpu_wait(i);
		check_eq(starts, cpus - 1);
		for (i = 1; i < cpus; i++)
			check_eq(seen[i], round);
	}
	/* Out of a loop in ring 3 and out of sti; hlt. */
	cpu_start(1, check_in_and_spin, NULL);
	check(spin_until(&spinning, 1, 5000000));
	apic_send(1, ICR_SIPI | ICR_ASSERT | TRAMPOLINE >> 12); /* running: ignored */
	cpu_start(1, check_in_and_halt, NULL);
	check(spin_until(&starts, cpus + 1, 5000000));
	delay_us(2000);
	cpu_start(1, check_in, NULL);
	cpu_wait(1);
	check_eq(starts, cpus + 2);
	check_eq(seen[1], 5);
	return 0;
}
