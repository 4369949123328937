/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steal_seqlock.c - one CPU hammers another's steal time from ring 3 and follows the protocol: no value may go back,
 * come from a half-done update, or exceed the time that went by. The other CPU makes updates as fast as it can by
 * writing the MSR again and again, and by spinning in between, so that the host can take its CPU away. seconds=.
 */
#include "guest.h"

static struct kvm_steal area __attribute__((aligned(64)));
static volatile uint32_t started, stop;
static volatile uint64_t writes;
static uint64_t begin, deadline;

static void writer(void *arg)
{
	(void)arg;
	while (!stop) {
		wrmsr(MSR_KVM_STEAL_TIME, (uint64_t)&area | 1);
		writes++;
		started = 1;
		if (writes % 16 == 0)
			delay_us(2000);
	}
	wrmsr(MSR_KVM_STEAL_TIME, 0);
}

struct result {
	uint64_t reads, retries, versions, back, last;
};

static uint64_t reader(uint64_t arg)
{
	const volatile struct kvm_steal *s = &area;
	struct result *r = (struct result *)arg;
	uint32_t version = 0, before, after;
	uint64_t steal;

	while (rdtsc() < deadline) {
		before = s->version;
		__asm__ volatile("" : : : "memory");
		steal = s->steal;
		__asm__ volatile("" : : : "memory");
		after = s->version;
		r->reads++;
		if ((before & 1) || before != after) {
			r->retries++;
			continue;
		}
		r->versions += before != version;
		r->back += steal < r->last || (int32_t)(before - version) < 0;
		version = before;
		r->last = steal;
	}
	return 0;
}

int main(void)
{
	static struct result r;

	if (!(kvm_features() & 1 << KVM_FEATURE_STEAL_TIME))
		skip("no steal time");
	apic_setup();
	begin = rdtsc();
	deadline = begin + param_u64("seconds", 1) * tsc_khz() * 1000;
	cpu_start(1, writer, NULL);
	check(spin_until(&started, 1, 10000000));
	ring3(reader, (uint64_t)&r);
	stop = 1;
	cpu_wait(1);
	print("%lu reads, %lu of them again, %lu versions seen of %lu writes, %lu ns stolen\n", r.reads, r.retries,
	      r.versions, writes, r.last);
	check_eq(r.back, 0);
	check_eq(area.version & 1, 0);
	check(r.versions > 0);
	check(r.last <= tsc_to_ns(rdtsc() - begin) + 1000000000);
	return 0;
}
