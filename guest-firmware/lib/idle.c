/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - idle.h. Two words per CPU: `work` is set by who has some, `awake` says whether a store is enough to tell.
 * The CPU says that it will not look any more and looks once more; who wakes stores and looks then: one of both sees
 * the other.
 */
#include "idle.h"

enum mode {
	MODE_HALT,
	MODE_POLL,
	MODE_MWAIT,
	MODE_SMART,
	MODE_HALTPOLL,
	MODES
};
static const char *const mode_names[] = {"halt", "poll", "mwait", "smart", "haltpoll"};

enum {
	CPUID_1_ECX_MONITOR = 1 << 3,
	LOOKS_PER_TIME = 50, /* reading the clock costs more than looking */
};

static struct idle_cpu {
	uint32_t work, awake;
	struct smart_idle smart;
	struct haltpoll haltpoll;
	struct idle_stats stats;
} __attribute__((aligned(64))) cpus[IDLE_CPUS];

static enum mode mode;
static uint32_t values[IDLE_PARAMETERS];

static struct idle_cpu *this(void)
{
	return &cpus[this_cpu()->id];
}

static bool has_work(const struct idle_cpu *c)
{
	return __atomic_load_n(&c->work, __ATOMIC_SEQ_CST);
}

static bool has_mwait(void)
{
	return cpuid(1, 0).ecx & CPUID_1_ECX_MONITOR;
}

/* ---- the ways to wait ---- */

struct poll {
	struct idle_cpu *cpu;
	uint64_t end;
};

static uint64_t poll_loop(uint64_t arg)
{
	const struct poll *p = (const struct poll *)arg;
	unsigned i;

	do {
		for (i = 0; i < LOOKS_PER_TIME; i++) {
			if (has_work(p->cpu))
				return true;
			__builtin_ia32_pause();
		}
	} while (rdtsc() < p->end);
	return has_work(p->cpu);
}

/* ns: 0 for no end. True: there is work. */
static bool poll(struct idle_cpu *c, uint64_t ns)
{
	struct poll p = {c, ns != 0 ? rdtsc() + ns * tsc_khz() / 1000000 : ~0ull};
	bool hit = ring3(poll_loop, (uint64_t)&p);

	c->stats.polls++;
	c->stats.hits += hit;
	return hit;
}

/* One HLT, which any interrupt ends; none when there is work. */
static void halt_once(struct idle_cpu *c)
{
	__atomic_store_n(&c->awake, 0, __ATOMIC_SEQ_CST);
	if (!has_work(c)) {
		c->stats.halts++;
		halt();
	}
	__atomic_store_n(&c->awake, 1, __ATOMIC_SEQ_CST);
}

/* A store to the word ends it as an interrupt does, so that nobody needs to send one. */
static void mwait_once(struct idle_cpu *c)
{
	__asm__ volatile("monitor" : : "a"(&c->work), "c"(0), "d"(0) : "memory");
	if (has_work(c))
		return;
	c->stats.mwaits++;
	__asm__ volatile("sti; mwait; cli" : : "a"(0), "c"(0) : "memory");
}

static void wait_smart(struct idle_cpu *c)
{
	uint64_t start = rdtsc();

	if (c->smart.window_ns == 0 || !poll(c, c->smart.window_ns))
		while (!has_work(c))
			halt_once(c);
	smart_learn(&c->smart, tsc_to_ns(rdtsc() - start));
	c->stats.window_ns = c->smart.window_ns;
}

static void wait_haltpoll(struct idle_cpu *c)
{
	uint64_t start;

	while (!has_work(c)) {
		if (haltpoll_select(&c->haltpoll) == IDLE_POLL) {
			haltpoll_polled(&c->haltpoll, !poll(c, c->haltpoll.limit_ns));
			continue;
		}
		start = rdtsc();
		halt_once(c);
		haltpoll_halted(&c->haltpoll, tsc_to_ns(rdtsc() - start));
	}
	c->stats.window_ns = c->haltpoll.limit_ns;
}

/* ---- outside ---- */

void idle_setup(void)
{
	unsigned i;

	for (mode = MODES - 1; mode > MODE_HALT && !param_is("idle", mode_names[mode]); mode--)
		;
	if (mode == MODE_HALT && *param("idle") != '\0')
		check(param_is("idle", "halt"));
	if (mode == MODE_MWAIT && !has_mwait())
		skip("no MWAIT");
	for (i = 0; i < IDLE_PARAMETERS; i++) {
		const struct idle_parameter *p = &idle_parameters[i];

		if (!idle_parameter_read(p, param(p->name), &values[i])) {
			print("FAIL %s has to be a number from %u to %u\n", p->name, p->least, p->most);
			guest_exit(1);
		}
	}
	for (i = 0; i < IDLE_CPUS; i++)
		cpus[i].awake = 1;
	irq_expect(VECTOR_IDLE);
	tsc_khz(); /* measured once, on one CPU */
}

void idle_start(void)
{
	smart_init(&this()->smart, values);
	haltpoll_init(&this()->haltpoll, values);
	if (mode == MODE_HALTPOLL && kvm_features() & 1 << KVM_FEATURE_POLL_CONTROL)
		wrmsr(MSR_KVM_POLL_CONTROL, 0);
}

void idle_stop(void)
{
	if (mode == MODE_HALTPOLL && kvm_features() & 1 << KVM_FEATURE_POLL_CONTROL)
		wrmsr(MSR_KVM_POLL_CONTROL, 1);
}

void idle_wait(void)
{
	struct idle_cpu *c = this();

	while (!has_work(c)) {
		if (mode == MODE_POLL)
			poll(c, 0);
		else if (mode == MODE_MWAIT)
			mwait_once(c);
		else if (mode == MODE_SMART)
			wait_smart(c);
		else if (mode == MODE_HALTPOLL)
			wait_haltpoll(c);
		else
			halt_once(c);
	}
	__atomic_store_n(&c->work, 0, __ATOMIC_SEQ_CST);
}

void idle_wake(unsigned cpu)
{
	struct idle_cpu *c = &cpus[cpu];

	__atomic_store_n(&c->work, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->awake, __ATOMIC_SEQ_CST) || c == this())
		return;
	c->stats.interrupts++;
	ipi(cpu, VECTOR_IDLE);
}

struct idle_stats idle_stats(unsigned cpu)
{
	return cpus[cpu].stats;
}
