/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_rules.h - how long a CPU of a guest polls before it halts. Arithmetic only: the same file is compiled for the
 * host's unit tests.
 *
 *   smart      the idle poll proposed for Linux guests in 2017: one window, judged by whole idle times
 *   haltpoll   the governor and the driver of that name (Linux 5.4 and later): two states, poll and halt, and a limit
 * for the one that is judged by how long the other one took
 */
#ifndef GUEST_IDLE_RULES_H
#define GUEST_IDLE_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* A number of the command line: decimal, within bounds. */
struct idle_parameter {
	const char *name;
	uint32_t least, most, preset;
};
extern const struct idle_parameter idle_parameters[];
enum {
	SMART_THRESHOLD,
	SMART_GROW,
	SMART_SHRINK,
	HALTPOLL_NS,
	HALTPOLL_GROW,
	HALTPOLL_GROW_START,
	HALTPOLL_SHRINK,
	HALTPOLL_ALLOW_SHRINK,
	IDLE_PARAMETERS
};

/* text: up to a space or the end; nothing at all is the preset. False: no number, or out of bounds. */
bool idle_parameter_read(const struct idle_parameter *parameter, const char *text, uint32_t *value);

#define SMART_START_NS 10000 /* the first window: what an exit and an entry take */

struct smart_idle {
	uint32_t threshold_ns, grow, shrink;
	uint32_t window_ns;
};
void smart_init(struct smart_idle *s, const uint32_t values[IDLE_PARAMETERS]);
/* The CPU had nothing to do for so long, polling included. */
void smart_learn(struct smart_idle *s, uint64_t idle_ns);

enum idle_state {
	IDLE_POLL,
	IDLE_HALT,
};
struct haltpoll {
	uint32_t most_ns, grow, grow_start_ns, shrink, allow_shrink;
	uint32_t limit_ns;
	enum idle_state last;
	bool timed_out; /* the last poll */
};
void haltpoll_init(struct haltpoll *h, const uint32_t values[IDLE_PARAMETERS]);
/* What to do next; asked again after each poll and each halt, until there is work. */
enum idle_state haltpoll_select(const struct haltpoll *h);
void haltpoll_polled(struct haltpoll *h, bool timed_out);
/* ns: how long the halt took; the poll before it does not count. */
void haltpoll_halted(struct haltpoll *h, uint64_t ns);

#endif
