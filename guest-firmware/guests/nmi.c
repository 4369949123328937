/* SPDX-License-Identifier: Apache-2.0 */
/* nmi.c - NMIs to oneself, to a CPU that halted with IF = 0 or 1, to a running one; blocked up to IRET, and not
 * forgotten. */
#include "guest.h"

static volatile uint32_t nested, seen, depth, nmis[2], woken, running, stop;

static void on_nmi(struct regs *regs)
{
	struct cpu *cpu = this_cpu();

	(void)regs;
	check_eq(depth, 0);
	depth++;
	nmis[cpu->id]++;
	if (nested > 0) {
		/* Two more while this one is being handled. At least one is kept; KVM may keep both. */
		nested = 0;
		apic_send(cpu->id, ICR_NMI | ICR_ASSERT);
		apic_send(cpu->id, ICR_NMI | ICR_ASSERT);
	}
	depth--;
}

static uint64_t run_until_stop(uint64_t arg)
{
	running = 1;
	while (!stop)
		__builtin_ia32_pause();
	return arg;
}

static void other(void *arg)
{
	(void)arg;
	woken = 1;
	__asm__ volatile("cli; hlt" : : : "memory");
	woken = 2;
	__asm__ volatile("sti; hlt; cli" : : : "memory");
	woken = 3;
	ring3(run_until_stop, 0);
	woken = 4;
	stop_cpu();
}

int main(void)
{
	apic_setup();
	exception_set(2, on_nmi);

	apic_send(0, ICR_NMI | ICR_ASSERT);
	delay_us(1000);
	check_eq(nmis[0], 1);

	nested = 1;
	apic_send(0, ICR_NMI | ICR_ASSERT);
	delay_us(1000);
	seen = nmis[0];
	check(seen == 3 || seen == 4);

	if (param_u64("cpus", 1) < 2)
		return 0;
	cpu_start(1, other, NULL);
	check(spin_until(&woken, 1, 5000000));
	delay_us(20000);
	check_eq(woken, 1);
	apic_send(1, ICR_NMI | ICR_ASSERT);
	check(spin_until(&woken, 2, 5000000));
	delay_us(20000);
	check_eq(woken, 2);
	apic_send(1, ICR_NMI | ICR_ASSERT);
	check(spin_until(&running, 1, 5000000));
	check_eq(nmis[1], 2);
	apic_send(1, ICR_NMI | ICR_ASSERT);
	check(spin_until(&nmis[1], 3, 5000000));
	stop = 1;
	check(spin_until(&woken, 4, 5000000));
	check_eq(nmis[1], 3);

	/* One that comes while another is handled must not be forgotten when the CPU halts right behind the IRET. */
	delay_us(20000);
	nested = 1;
	apic_send(1, ICR_NMI | ICR_ASSERT);
	check(spin_until(&nmis[1], 5, 5000000));
	check_eq(nmis[0], seen);
	return 0;
}
