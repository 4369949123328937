/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.c - all CPUs take one lock again and again, passes= times altogether: lock=spin, mutex or queue. In the lock
 * they work for cs= turns of a loop, outside of it for out=. flag=1: with the preempted flag of steal time; then who
 * waits for a CPU that the host has taken away sleeps. Everything but sleeping and waking is in ring 3.
 *
 * Prints "throughput N", in passes a second, for tests/bench/locks.sh. Fails when two were inside at the same time, or
 * when somebody was not woken.
 */
#include "guest.h"
#include "lock.h"

enum {
	VECTOR = 0x50,
};

enum next {
	DONE,
	SLEEP, /* until the mutex wakes us */
	WAKE,  /* interrupt that CPU */
};

struct worker {
	unsigned cpu;
	int wake;
	uint64_t passes, sleeps, wakes;
} __attribute__((aligned(64)));

static struct worker workers[LOCK_CPUS];
static struct kvm_steal areas[LOCK_CPUS] __attribute__((aligned(64)));
static struct lock_host host;
static struct spinlock spin;
static struct queue_lock queue;
static struct mutex *const mutex = &queue.mutex;
static bool is_spin, is_queue;
static uint64_t cs, out, limit, end;
static volatile uint32_t ready;
/* Both are guarded by the lock: twice the number of passes. */
static volatile uint64_t first, second;

static void turns(uint64_t n)
{
	for (; n > 0; n--)
		__asm__ volatile("");
}

static bool lock(struct worker *w)
{
	if (is_spin)
		spin_lock(&spin);
	else if (is_queue)
		return queue_lock(&queue, &host, w->cpu);
	else
		return mutex_lock(mutex, &host, w->cpu);
	return true;
}

static int unlock(struct worker *w)
{
	if (!is_spin)
		return mutex_unlock(mutex, w->cpu);
	spin_unlock(&spin);
	return LOCK_NOBODY;
}

static uint64_t work(uint64_t arg)
{
	struct worker *w = (struct worker *)arg;

	while (first < limit) {
		if (!lock(w) && mutex_sleeps(mutex, w->cpu))
			return SLEEP;
		first++;
		turns(cs);
		second++;
		w->passes++;
		w->wake = unlock(w);
		if (w->wake != LOCK_NOBODY)
			return WAKE;
		turns(out);
	}
	if (end == 0)
		end = rdtsc();
	/* Whoever sleeps has to learn that it is over. */
	w->wake = is_spin ? LOCK_NOBODY : mutex_wake(mutex, w->cpu);
	return w->wake == LOCK_NOBODY ? DONE : WAKE;
}

static uint64_t gather(uint64_t cpus)
{
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (ready < cpus)
		__builtin_ia32_pause();
	return 0;
}

static void run(void *arg)
{
	struct worker *w = arg;

	if (host.flags)
		wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)&areas[w->cpu] | 1);
	ring3(gather, param_u64("cpus", 1));
	for (;;) {
		switch (ring3(work, (uint64_t)w)) {
		case SLEEP:
			w->sleeps++;
			halt_until(!mutex_is_asleep(mutex, w->cpu));
			break;
		case WAKE:
			w->wakes++;
			ipi((uint32_t)w->wake, VECTOR);
			break;
		default:
			wrmsr(MSR_KVM_STEAL_TIME, 0);
			return;
		}
	}
}

int main(void)
{
	unsigned cpus = (unsigned)param_u64("cpus", 1), i;
	uint64_t start, passes = 0, sleeps = 0, wakes = 0, least = ~0ull;

	check(cpus <= LOCK_CPUS);
	if (!(kvm_features() & 1 << KVM_FEATURE_STEAL_TIME))
		skip("no steal time");
	apic_setup();
	irq_expect(VECTOR);
	is_spin = param_is("lock", "spin");
	is_queue = param_is("lock", "queue");
	cs = param_u64("cs", 20000);
	out = param_u64("out", 5000);
	if (param_u64("flag", 0))
		host = (struct lock_host){.flags = &areas[0].preempted, .stride = sizeof(areas[0])};
	queue_init(&queue);
	for (i = 0; i < cpus; i++)
		workers[i].cpu = i;
	limit = param_u64("passes", 10000);
	tsc_khz();
	start = rdtsc();
	for (i = 1; i < cpus; i++)
		cpu_start(i, run, &workers[i]);
	run(&workers[0]);
	for (i = 1; i < cpus; i++)
		cpu_wait(i);
	for (i = 0; i < cpus; i++) {
		passes += workers[i].passes;
		sleeps += workers[i].sleeps;
		wakes += workers[i].wakes;
		least = workers[i].passes < least ? workers[i].passes : least;
	}
	check_eq(first, passes);
	check_eq(second, passes);
	print("%lu passes, at least %lu each, %lu sleeps, %lu wakes\nthroughput %lu\n", passes, least, sleeps, wakes,
	      passes * 1000000 / (tsc_to_ns(end - start) / 1000));
	return 0;
}
