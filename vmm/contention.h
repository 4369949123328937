/* SPDX-License-Identifier: Apache-2.0 */
/* contention.h - does somebody else want this CPU? KVM's own poller sees the run queue; from outside there are three
 * signs. */
#ifndef LULL_CONTENTION_H
#define LULL_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#define CONTENTION_GAP_NS    50000u    /* two looks at the TSC this far apart while polling: the CPU was taken away */
#define CONTENTION_HOLD_NS   2000000u  /* then no polling for so long */
#define CONTENTION_PERIOD_NS 10000000u /* how often run_delay is looked at, at most */
#define CONTENTION_STEAL_NS  1000000000ull /* how often the host's own steal time is looked at, at most */
/* A look is system calls and text. Nobody is in the way who polled for less than this share of a period since the last
 * one, and an idle guest must not pay for looks. */
#define CONTENTION_WORTH_PERMILLE 20
#define CONTENTION_LIMIT_PERMILLE 100 /* of wall time: s390's KVM stops polling at 10 % steal */

/* One per vCPU; only its thread uses it. */
struct contention {
	const char *proc; /* "/proc", or a tree made for a test; must outlive it */
	uint64_t hold_until_ns;
	uint64_t delay_ns, delay_at_ns; /* run_delay of this thread, and when */
	uint64_t steal_ticks, steal_at_ns;
	uint64_t delay_polled_ns, steal_polled_ns; /* how long this vCPU had polled by then */
	unsigned steal_permille;                   /* moving average */
	int cpu;
};

void contention_init(struct contention *c, const char *proc);
/* A gap was seen while polling. */
void contention_gap(struct contention *c, uint64_t now_ns);
/* Should polling on cpu be left to others? polled_ns: how long this vCPU has polled so far, in all. */
bool contention_wanted(struct contention *c, int cpu, uint64_t now_ns, uint64_t polled_ns);

#endif
