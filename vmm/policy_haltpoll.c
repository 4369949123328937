/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_haltpoll.c - the rule of the cpuidle governor "haltpoll", which Linux guests use, on the host's side. Unlike
 * KVM's it judges by the time asleep after the window, clamps where it grows, and does not snap to 0.
 */
#include "policy.h"

enum {
	KEY_MAX,
	KEY_GROW,
	KEY_START,
	KEY_SHRINK,
	KEY_ALLOW_SHRINK,
};

struct haltpoll {
	uint32_t limit, max, grow, start, shrink, allow_shrink;
};

static void haltpoll_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	struct haltpoll *h = state;

	(void)host;
	h->max = (uint32_t)values[KEY_MAX];
	h->grow = (uint32_t)values[KEY_GROW];
	h->start = (uint32_t)values[KEY_START];
	h->shrink = (uint32_t)values[KEY_SHRINK];
	h->allow_shrink = (uint32_t)values[KEY_ALLOW_SHRINK];
}

static void haltpoll_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	const struct haltpoll *h = state;

	*plan = (struct policy_plan){.sleep_ns = POLICY_NEVER};
	if (hint->may_poll)
		plan->poll_ns = policy_min(h->limit, hint->max_ns);
}

static void haltpoll_observe(void *state, const struct policy_sample *sample)
{
	struct haltpoll *h = state;
	uint32_t max = (uint32_t)policy_min(h->max, sample->max_ns);

	if (!sample->may_poll || sample->source == POLICY_REQUEST)
		return;
	if (sample->wake_ns[0] == POLICY_NEVER && sample->wake_ns[1] == POLICY_NEVER)
		return; /* the poll was a hit: the governor looks at halts only */
	uint64_t block_ns = sample->halt_ns - policy_min(sample->poll_ns, sample->halt_ns);
	if (block_ns > h->limit && block_ns <= max) {
		uint32_t limit = h->limit * h->grow;
		if (limit < h->start)
			limit = h->start;
		h->limit = limit > max ? max : limit;
	} else if (block_ns > max && h->allow_shrink) {
		h->limit = h->shrink ? h->limit / h->shrink : 0;
	}
}

static void haltpoll_view(const void *state, struct policy_view *view)
{
	const struct haltpoll *h = state;

	*view = (struct policy_view){.window_ns = h->limit};
}

static const struct policy_key haltpoll_keys[] = {
	[KEY_MAX] = {.name = "max", .kind = POLICY_KEY_TIME, .max = UINT32_MAX, .preset = 200000},
	[KEY_GROW] = {.name = "grow", .kind = POLICY_KEY_COUNT, .max = UINT32_MAX, .preset = 2},
	[KEY_START] = {.name = "start", .kind = POLICY_KEY_TIME, .max = UINT32_MAX, .preset = 50000},
	[KEY_SHRINK] = {.name = "shrink", .kind = POLICY_KEY_COUNT, .max = UINT32_MAX, .preset = 2},
	[KEY_ALLOW_SHRINK] = {.name = "allow_shrink", .kind = POLICY_KEY_COUNT, .max = 1, .preset = 1},
	{0},
};

const struct policy policy_haltpoll = {
	.name = "haltpoll",
	.summary = "the rule of the Linux guest governor haltpoll",
	.keys = haltpoll_keys,
	.state_bytes = sizeof(struct haltpoll),
	.init = haltpoll_init,
	.plan = haltpoll_plan,
	.observe = haltpoll_observe,
	.view = haltpoll_view,
};
