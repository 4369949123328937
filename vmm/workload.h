/* SPDX-License-Identifier: Apache-2.0 */
/* workload.h - 21 kinds of halts by name, made from a seed: the same for the same seed on every host. */
#ifndef LULL_WORKLOAD_H
#define LULL_WORKLOAD_H

#include "sim.h"

enum workload_class {
	WORKLOAD_STATIONARY = 1 << 0,
	WORKLOAD_CHANGING = 1 << 1, /* phases, or several sources at once */
	WORKLOAD_TIMER = 1 << 2,    /* all wakes are the guest's timer */
	WORKLOAD_SPARSE = 1 << 3,
	WORKLOAD_ADVERSARY = 1 << 4, /* made against one policy; all others are natural */
};

struct workload_state;

struct workload {
	const char *name, *summary;
	unsigned classes;
	void (*next)(struct workload_state *w, struct sim_halt *halt); /* fills all but the factors */
	double a, b;                                                   /* for next */
};

extern const struct workload workloads[]; /* ends with a NULL name */

const struct workload *workload_find(const char *name);

/* Fills trace->name and count halts into trace->halts, which the caller owns. */
void workload_make(const struct workload *workload, uint64_t seed, struct sim_trace *trace);

#endif
