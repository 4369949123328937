/* SPDX-License-Identifier: Apache-2.0 */
/* halt.h - what a halted vCPU does until there is work: poll for a while, then sleep to a deadline. */
#ifndef LULL_HALT_H
#define LULL_HALT_H

#include "stats.h"
#include "wake.h"

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

/* How to wait, as parsed from "none" or "fixed:NS". */
struct halt_config {
	uint64_t poll_ns;
};

struct halt_wake_stats {
	stat_t wakes, polled, slept, latency_ns, latency_max_ns;
};

/* One per vCPU; only its thread writes. */
struct halt {
	struct wake *wake;
	uint64_t tsc_khz, poll_tsc;
	bool halted; /* between halt_wait() and halt_end() */
	bool slept;  /* the thread slept during this halt */
	stat_t halts, poll_ns, wait_ns;
	struct halt_wake_stats sources[WAKE_CAUSES];
};

/* spec: NULL means "none". 0 or -EINVAL with a text. */
int halt_parse(struct halt_config *config, const char *spec, struct lull_error *err);
void halt_init(struct halt *h, const struct halt_config *config, struct wake *wake, uint64_t tsc_khz);

/* The ticket was taken before work was looked for, and there was none. Returns after a post, at the deadline (host TSC,
 * WAKE_NEVER: none), or early: the caller looks again. */
void halt_wait(struct halt *h, uint32_t ticket, uint64_t deadline_tsc);

/* The caller found work: the halt is over. event_tsc is when the work came up, 0: unknown. */
void halt_end(struct halt *h, enum wake_cause cause, uint64_t event_tsc);

#endif
