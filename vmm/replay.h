/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - recorded or generated traces through every policy: what they would have cost. */
#ifndef LULL_REPLAY_H
#define LULL_REPLAY_H

#include "sim.h"
#include "trace.h"

/* The halts of one ring, without requests, with drawn wake latencies. trace->halts is to be freed by the caller. Adds
 * what was unreadable to *lost. 0 or -ENOMEM. */
int replay_load(const struct trace_view *view, uint32_t ring, struct sim_trace *trace, uint64_t *lost,
                struct lull_error *err);

#endif
