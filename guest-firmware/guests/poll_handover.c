/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll_handover.c - for tests/guest_idle. Both CPUs are woken by timers. CPU 1 lets the host poll, then has the
 * haltpoll governor forbid it, then lets it poll again. Each step is written to port 0x540, before and after, and goes
 * on until a read of that port is not 0; the governor's waits for at least waits= of its own.
 */
#include "idle.h"

enum {
	VECTOR = 0x40,
	PORT = 0x540,
	TICK_US = 1000,
	LONG_US = 8000, /* longer than any poll */
};

static volatile uint32_t ticks[2], is_over;

static void tick(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	ticks[this_cpu()->id]++;
	apic_eoi();
	idle_wake(this_cpu()->id);
}

static void set_timer(uint32_t us)
{
	apic_timer(LVT_ONE_SHOT | VECTOR, us * (APIC_TIMER_HZ / 1000000));
}

static void plain_halt(void)
{
	uint32_t id = this_cpu()->id, before = ticks[id];

	set_timer(TICK_US);
	halt_until(ticks[id] != before);
}

static void host_polls(uint32_t step)
{
	out32(PORT, step);
	do
		plain_halt();
	while (in32(PORT) == 0);
	out32(PORT, step + 1);
}

static void governed(void *arg)
{
	uint32_t waits = (uint32_t)param_u64("waits", 200), i;

	(void)arg;
	host_polls(1);
	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 1);
	idle_start();
	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 0);
	out32(PORT, 3);
	for (i = 0; i < waits || in32(PORT) == 0; i++) {
		set_timer(i % 8 == 0 ? LONG_US : TICK_US);
		idle_wait();
	}
	out32(PORT, 4);
	idle_stop();
	check_eq(rdmsr(MSR_KVM_POLL_CONTROL), 1);
	host_polls(5);
	is_over = 1;
}

int main(void)
{
	struct idle_stats s;

	if (!(kvm_features() & 1 << KVM_FEATURE_POLL_CONTROL))
		skip("no poll control");
	apic_setup();
	idle_setup();
	check(param_is("idle", "haltpoll"));
	irq_set(VECTOR, tick);
	cpu_start(1, governed, NULL);
	while (!is_over)
		plain_halt();
	cpu_wait(1);
	s = idle_stats(1);
	print("%lu polls of the guest's own, %lu hits, %lu halts, window %u\n", s.polls, s.hits, s.halts, s.window_ns);
	return 0;
}
