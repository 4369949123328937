/* SPDX-License-Identifier: Apache-2.0 */
/* policy_fixed.c - policies that learn nothing: none, fixed and always. */
#include "policy.h"

struct fixed {
	uint64_t window_ns;
};

static void none_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	(void)state, (void)hint;
	*plan = (struct policy_plan){.sleep_ns = POLICY_NEVER};
}

static void fixed_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	struct fixed *f = state;

	(void)host;
	f->window_ns = values[0];
}

static void always_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	struct fixed *f = state;

	(void)values, (void)host;
	f->window_ns = POLICY_NEVER;
}

static void fixed_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	const struct fixed *f = state;

	*plan = (struct policy_plan){.sleep_ns = POLICY_NEVER};
	if (hint->may_poll)
		plan->poll_ns = policy_min(f->window_ns, hint->max_ns);
}

static void fixed_view(const void *state, struct policy_view *view)
{
	const struct fixed *f = state;

	*view = (struct policy_view){.window_ns = f->window_ns};
}

const struct policy policy_none = {
	.name = "none",
	.summary = "sleep at once",
	.plan = none_plan,
};

static const struct policy_key fixed_keys[] = {
	{.name = "window", .kind = POLICY_KEY_TIME, .max = 1000000000, .preset = 50000},
	{0},
};

const struct policy policy_fixed = {
	.name = "fixed",
	.summary = "poll for so long, then sleep (50us)",
	.keys = fixed_keys,
	.state_bytes = sizeof(struct fixed),
	.init = fixed_init,
	.plan = fixed_plan,
	.view = fixed_view,
};

const struct policy policy_always = {
	.name = "always",
	.summary = "poll until there is work",
	.state_bytes = sizeof(struct fixed),
	.init = always_init,
	.plan = fixed_plan,
	.view = fixed_view,
};
