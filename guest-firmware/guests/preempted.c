/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempted.c - one CPU works in ring 3 and looks whether it is marked preempted itself, which must never be; another
 * watches the mark and the work from outside: while the mark stands there is no progress. want=1: the mark must have
 * been seen, which takes a host that has something else to do. seconds=.
 */
#include "guest.h"

static struct kvm_steal area __attribute__((aligned(64)));
static volatile uint64_t work;
static volatile uint32_t started, stop;
static uint64_t lies;

static uint64_t toil(uint64_t arg)
{
	const volatile struct kvm_steal *s = &area;

	started = 1;
	while (!stop) {
		work++;
		lies += s->preempted & 1;
	}
	return arg;
}

static void worker(void *arg)
{
	wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)&area | 1);
	ring3(toil, (uint64_t)arg);
	wrmsr(MSR_KVM_STEAL_TIME, 0);
}

struct look {
	uint32_t version;
	bool mark;
	uint64_t work, at;
};

struct seen {
	uint64_t looks, marks, marked_cycles, lies, gaps, gap_cycles, deadline;
};

static struct look take_look(void)
{
	const volatile struct kvm_steal *s = &area;
	struct look l;

	l.version = s->version;
	l.mark = s->preempted & 1;
	l.work = work;
	l.at = rdtsc();
	return l;
}

/* A gap: some 0.4 ms without progress. */
static uint64_t watch(uint64_t arg)
{
	const volatile struct kvm_steal *s = &area;
	struct seen *w = (struct seen *)arg;
	struct look now, was = take_look();
	uint64_t moved_at = was.at;

	for (; was.at < w->deadline; was = now) {
		now = take_look();
		w->looks++;
		w->marks += now.mark && !was.mark;
		w->marked_cycles += now.mark && was.mark ? now.at - was.at : 0;
		/* Whoever comes back is told of his loss, in a new version: this is one absence. */
		w->lies += was.mark && now.mark && now.work != was.work && s->version == was.version;
		if (now.work == was.work)
			continue;
		if (now.at - moved_at > 1000000) {
			w->gaps++;
			w->gap_cycles += now.at - moved_at;
		}
		moved_at = now.at;
	}
	return 0;
}

int main(void)
{
	static struct seen w;

	if (!(kvm_features() & 1 << KVM_FEATURE_STEAL_TIME))
		skip("no steal time");
	apic_setup();
	tsc_khz();
	cpu_start(1, worker, NULL);
	check(spin_until(&started, 1, 10000000));
	w.deadline = rdtsc() + param_u64("seconds", 1) * tsc_khz() * 1000;
	ring3(watch, (uint64_t)&w);
	stop = 1;
	cpu_wait(1);
	print("%lu looks, %lu marks for %lu us, %lu gaps of %lu us, %lu ns stolen; marked at work: %lu outside, %lu "
	      "inside\n",
	      w.looks, w.marks, tsc_to_ns(w.marked_cycles) / 1000, w.gaps, tsc_to_ns(w.gap_cycles) / 1000, area.steal,
	      w.lies, lies);
	check_eq(lies, 0);
	check_eq(w.lies, 0);
	check_eq(area.preempted, 0);
	if (param_u64("want", 0))
		check(w.marked_cycles > 0); /* maybe all the time: they may share a CPU */
	return 0;
}
