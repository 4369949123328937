/* SPDX-License-Identifier: Apache-2.0 */
/* host_cost.c - host_cost.h. */
#include "host_cost.h"

#define MEAN_OF 64 /* then the estimate is a mean over about so many */
#define FAR     8  /* times the estimate: a longer one counts as that */

#define LONGEST_NS 1000000000u

void host_cost_add(struct host_cost_mean *mean, uint64_t ns)
{
	uint32_t count = atomic_load_explicit(&mean->count, memory_order_relaxed);
	uint64_t now = atomic_load_explicit(&mean->ns, memory_order_relaxed);

	ns = policy_min(ns ? ns : 1, LONGEST_NS); /* 0 means not known */
	if (count < HOST_COST_FIRST) {
		if (!count || ns < now)
			atomic_store_explicit(&mean->ns, ns, memory_order_relaxed);
		atomic_store_explicit(&mean->count, count + 1, memory_order_release);
		return;
	}
	/* Rounded away from it, or a small one would not move. */
	if (ns > now)
		now += (policy_min(ns - now, (FAR - 1) * now) + MEAN_OF - 1) / MEAN_OF;
	else
		now -= (now - ns + MEAN_OF - 1) / MEAN_OF;
	atomic_store_explicit(&mean->ns, now, memory_order_relaxed);
}

static uint64_t read_mean(const struct host_cost_mean *mean)
{
	return host_cost_known(mean) ? atomic_load_explicit(&mean->ns, memory_order_relaxed) : 0;
}

struct policy_host host_cost_read(const struct host_cost *cost)
{
	return (struct policy_host){.wake_ns = read_mean(&cost->wake), .switch_ns = read_mean(&cost->sleep)};
}
