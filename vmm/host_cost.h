/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_cost.h - what waiting costs on this host, learned from the sleeps that vCPUs do anyway. One per VM: what one
 * vCPU has seen, the next one to start a policy is told, and so is the trace.
 *
 * Times to be late have a long tail that says more about the neighbours than about the host. So an estimate starts with
 * the shortest of the first few, and then follows the mean, of which no single one may move it far.
 */
#ifndef LULL_HOST_COST_H
#define LULL_HOST_COST_H

#include "policy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HOST_COST_FIRST 8 /* so many before there is an estimate */

struct host_cost_mean {
	_Atomic uint32_t count; /* up to HOST_COST_FIRST */
	_Atomic uint64_t ns;
};

/* Zeroed is fine. Any thread: two at the same time may lose a sample, which does not matter. */
struct host_cost {
	struct host_cost_mean wake, sleep; /* from an event to the thread running; CPU time of a sleep and wake */
};

void host_cost_add(struct host_cost_mean *mean, uint64_t ns);

static inline bool host_cost_known(const struct host_cost_mean *mean)
{
	return atomic_load_explicit(&mean->count, memory_order_acquire) >= HOST_COST_FIRST;
}

/* What is not known is 0. arm_ns never is: a timer costs less than such a measurement is off. */
struct policy_host host_cost_read(const struct host_cost *cost);

#endif
