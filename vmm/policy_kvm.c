/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_kvm.c - the rule by which KVM itself grows and shrinks its poll window, bit for bit: unsigned 32-bit
 * arithmetic, a cap before each halt and nowhere else, growth that may wrap. Not KVM's: a request (stop, pause) leaves
 * the window alone, where KVM takes the signal for a wake-up like any other.
 */
#include "policy.h"

enum {
	KEY_MAX,
	KEY_GROW,
	KEY_START,
	KEY_SHRINK,
};

struct kvm_window {
	uint32_t window, max, grow, start, shrink; /* ns, ns, factor, ns, divisor */
};

static uint32_t live_max(const struct kvm_window *k, uint64_t max_ns)
{
	return (uint32_t)policy_min(k->max, max_ns);
}

static void kvm_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	struct kvm_window *k = state;

	(void)host;
	k->max = (uint32_t)values[KEY_MAX];
	k->grow = (uint32_t)values[KEY_GROW];
	k->start = (uint32_t)values[KEY_START];
	k->shrink = (uint32_t)values[KEY_SHRINK];
}

static void kvm_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	struct kvm_window *k = state;
	uint32_t max = live_max(k, hint->max_ns);

	if (k->window > max)
		k->window = max;
	*plan = (struct policy_plan){.poll_ns = hint->may_poll ? k->window : 0, .sleep_ns = POLICY_NEVER};
}

static void grow(struct kvm_window *k)
{
	if (!k->grow)
		return;
	k->window *= k->grow;
	if (k->window < k->start)
		k->window = k->start;
}

static void shrink(struct kvm_window *k)
{
	k->window = k->shrink ? k->window / k->shrink : 0;
	if (k->window < k->start)
		k->window = 0;
}

static void kvm_observe(void *state, const struct policy_sample *sample)
{
	struct kvm_window *k = state;
	uint32_t max = live_max(k, sample->max_ns);

	if (!sample->may_poll || sample->source == POLICY_REQUEST)
		return;
	if (sample->invalid)
		shrink(k); /* NOLINT(bugprone-branch-clone): the questions in KVM's order */
	else if (!max)
		k->window = 0;
	else if (sample->halt_ns <= k->window)
		return;
	else if (k->window && sample->halt_ns > max)
		shrink(k);
	else if (k->window < max && sample->halt_ns < max)
		grow(k);
}

static void kvm_view(const void *state, struct policy_view *view)
{
	const struct kvm_window *k = state;

	*view = (struct policy_view){.window_ns = k->window};
}

static const struct policy_key kvm_keys[] = {
	[KEY_MAX] = {.name = "max", .kind = POLICY_KEY_TIME, .max = UINT32_MAX, .preset = 200000},
	[KEY_GROW] = {.name = "grow", .kind = POLICY_KEY_COUNT, .max = UINT32_MAX, .preset = 2},
	[KEY_START] = {.name = "start", .kind = POLICY_KEY_TIME, .max = UINT32_MAX, .preset = 10000},
	[KEY_SHRINK] = {.name = "shrink", .kind = POLICY_KEY_COUNT, .max = UINT32_MAX, .preset = 2},
	{0},
};

const struct policy policy_kvm = {
	.name = "kvm",
	.summary = "KVM's rule; shrink=0 as up to Linux 6.11 or so, shrink=2 since",
	.keys = kvm_keys,
	.state_bytes = sizeof(struct kvm_window),
	.init = kvm_init,
	.plan = kvm_plan,
	.observe = kvm_observe,
	.view = kvm_view,
};
