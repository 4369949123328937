/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h - a share of wall time that may be spent polling, as a token bucket of nanoseconds. Any thread, no lock. */
#ifndef LULL_BUDGET_H
#define LULL_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The bucket holds what this much wall time earns: a burst of polling after a quiet time is bounded by it. */
#define BUDGET_WINDOW_NS 100000000ull

struct budget {
	unsigned percent;         /* of one CPU's wall time; 0: no limit, nothing is counted */
	_Atomic int64_t tokens;   /* ns; below 0 after a poll that took longer than it should have */
	_Atomic uint64_t last_ns; /* when it was filled up last */
	atomic_bool empty;        /* it ran out, and is not half full again */
};

void budget_init(struct budget *b, unsigned percent);
/* What may be spent now, in ns; UINT64_MAX without a limit. Once it ran out, nothing until it is half full: many polls
 * cut short would find nothing, a few whole ones do. */
uint64_t budget_left(struct budget *b, uint64_t now_ns);
void budget_spend(struct budget *b, uint64_t ns);

#endif
