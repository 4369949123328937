/* SPDX-License-Identifier: Apache-2.0 */
/* idle_rules.c - idle_rules.h. */
#include "idle_rules.h"

#define MOST_NS     1000000000 /* a second */
#define MOST_FACTOR 1000

const struct idle_parameter idle_parameters[] = {
	[SMART_THRESHOLD] = {"poll_threshold_ns", 0, MOST_NS, 200000},
	[SMART_GROW] = {"poll_grow", 0, MOST_FACTOR, 2},
	[SMART_SHRINK] = {"poll_shrink", 0, MOST_FACTOR, 2},
	[HALTPOLL_NS] = {"guest_halt_poll_ns", 0, MOST_NS, 200000},
	[HALTPOLL_GROW] = {"guest_halt_poll_grow", 0, MOST_FACTOR, 2},
	/* May be above the limit: then the first step goes all the way. */
	[HALTPOLL_GROW_START] = {"guest_halt_poll_grow_start", 0, MOST_NS, 50000},
	[HALTPOLL_SHRINK] = {"guest_halt_poll_shrink", 0, MOST_FACTOR, 2},
	[HALTPOLL_ALLOW_SHRINK] = {"guest_halt_poll_allow_shrink", 0, 1, 1},
};

bool idle_parameter_read(const struct idle_parameter *parameter, const char *text, uint32_t *value)
{
	uint64_t v = 0;
	bool any = false;

	for (; *text != '\0' && *text != ' '; text++) {
		if (*text < '0' || *text > '9')
			return false;
		v = v * 10 + (uint64_t)(*text - '0');
		if (v > parameter->most)
			return false;
		any = true;
	}
	*value = any ? (uint32_t)v : parameter->preset;
	return *value >= parameter->least;
}

/* A factor of 0 does not grow. */
static uint32_t grown(uint32_t window, uint32_t grow, uint32_t start, uint32_t most)
{
	uint64_t v = (uint64_t)window * grow;

	if (grow == 0)
		return window;
	if (v < start)
		v = start;
	return v < most ? (uint32_t)v : most;
}

/* A divisor of 0 drops it. */
static uint32_t shrunk(uint32_t window, uint32_t shrink)
{
	return shrink == 0 ? 0 : window / shrink;
}

/* ---- smart ---- */

void smart_init(struct smart_idle *s, const uint32_t values[IDLE_PARAMETERS])
{
	*s = (struct smart_idle){
		.threshold_ns = values[SMART_THRESHOLD],
		.grow = values[SMART_GROW],
		.shrink = values[SMART_SHRINK],
	};
}

void smart_learn(struct smart_idle *s, uint64_t idle_ns)
{
	if (idle_ns > s->threshold_ns)
		s->window_ns = shrunk(s->window_ns, s->shrink);
	else if (idle_ns > s->window_ns)
		s->window_ns = grown(s->window_ns, s->grow, SMART_START_NS, s->threshold_ns);
}

/* ---- haltpoll ---- */

void haltpoll_init(struct haltpoll *h, const uint32_t values[IDLE_PARAMETERS])
{
	*h = (struct haltpoll){
		.most_ns = values[HALTPOLL_NS],
		.grow = values[HALTPOLL_GROW],
		.grow_start_ns = values[HALTPOLL_GROW_START],
		.shrink = values[HALTPOLL_SHRINK],
		.allow_shrink = values[HALTPOLL_ALLOW_SHRINK],
		.last = IDLE_HALT,
	};
}

enum idle_state haltpoll_select(const struct haltpoll *h)
{
	if (h->limit_ns == 0 || (h->last == IDLE_POLL && h->timed_out))
		return IDLE_HALT;
	return IDLE_POLL;
}

void haltpoll_polled(struct haltpoll *h, bool timed_out)
{
	h->last = IDLE_POLL;
	h->timed_out = timed_out;
}

void haltpoll_halted(struct haltpoll *h, uint64_t ns)
{
	h->last = IDLE_HALT;
	if (ns > h->most_ns) {
		if (h->allow_shrink)
			h->limit_ns = shrunk(h->limit_ns, h->shrink);
	} else if (ns > h->limit_ns) {
		h->limit_ns = grown(h->limit_ns, h->grow, h->grow_start_ns, h->most_ns);
	}
}
