/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt.c - one halt, phase by phase. halt_wait() may return early and be called again within the same halt (a post that
 * was not for this guest, a signal); the plan goes on where it was.
 *
 * What the policy learns is told at the start of the next halt: then the guest has nothing to do, while after a wake it
 * has.
 */
#include "halt.h"

#include "clock.h"
#include "error.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_POLLED_NS 20000
#define ASK_AGAIN_NS        1000000000u
#define SWITCH_EVERY        64 /* sleeps between two measurements of what one costs in CPU time, after the first few */

/* How many vCPUs of this process poll right now. The one thing that VMs share: --max-pollers counts all of them. */
static atomic_uint pollers;

static uint64_t to_ns(const struct halt *h, uint64_t tsc)
{
	return clock_tsc_to_ns(tsc, h->tsc_khz);
}

/* A time of the plan as host TSC. */
static uint64_t at(const struct halt *h, uint64_t ns)
{
	return h->start_tsc + clock_ns_to_tsc(ns, h->tsc_khz);
}

static void count_bucket(stat_t hist[HALT_BUCKETS], uint64_t ns)
{
	unsigned bucket = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
	stat_add(&hist[bucket < HALT_BUCKETS ? bucket : HALT_BUCKETS - 1], 1);
}

/* ------------------------------------------------------------------------------ configuration */

void halt_shared_init(struct halt_shared *s)
{
	memset(s, 0, sizeof(*s));
	atomic_init(&s->max_ns, POLICY_NEVER);
	atomic_init(&s->generation, 1);
	pthread_mutex_init(&s->lock, NULL);
	s->config.policy.policy = &policy_none;
	s->sysfs = "/sys";
	s->proc = "/proc";
}

void halt_shared_fini(struct halt_shared *s)
{
	pthread_mutex_destroy(&s->lock);
}

void halt_shared_set(struct halt_shared *s, const struct halt_config *config)
{
	pthread_mutex_lock(&s->lock);
	s->config = *config;
	atomic_fetch_add(&s->generation, 1);
	pthread_mutex_unlock(&s->lock);
}

static void take_up_config(struct halt *h)
{
	pthread_mutex_lock(&h->shared->lock);
	const struct halt_config config = h->shared->config;
	h->generation = atomic_load(&h->shared->generation);
	pthread_mutex_unlock(&h->shared->lock);
	h->spec = config.policy;
	h->wait = config.wait;
	h->max_pollers = config.max_pollers;
	h->may_ask = config.policy.policy != &policy_none;
	h->sample_pending = false;
	power_init(&h->power, config.power, h->shared->sysfs);
	contention_init(&h->contention, h->shared->proc);
	h->host_agreed = false;
	budget_init(&h->budget, config.vcpu_budget_percent);
	const struct policy_host host = host_cost_read(&h->shared->cost);
	policy_init(&h->spec, h->state, &host);
}

void halt_init(struct halt *h, struct halt_shared *shared, const struct poll_hooks *hooks, struct wake *wake,
               uint64_t tsc_khz)
{
	memset(h, 0, sizeof(*h));
	h->wake = wake;
	h->shared = shared;
	h->hooks = hooks;
	h->tsc_khz = tsc_khz;
	atomic_init(&h->guest_allows, true);
	take_up_config(h);
	h->generation = 0; /* once more at the first halt: other vCPUs may know the host by then */
}

void halt_record(struct halt *h, const struct trace_file *file, struct trace_ring *ring)
{
	h->trace_file = file;
	h->trace = ring;
}

/* --------------------------------------------------------------------------------- permission */

/* A yes of the host stands until so much was polled, for a while, and until a poll saw a gap: an idle guest polls for a
 * microsecond or two each time, and to ask costs as much. */
static enum halt_refusal host_refusal(struct halt *h, uint64_t now_ns)
{
	uint64_t polled_ns = stat_get(&h->stats.poll_success_ns) + stat_get(&h->stats.poll_fail_ns);
	if (h->host_agreed && polled_ns - h->asked_polled_ns < ASK_AGAIN_POLLED_NS &&
	    now_ns - h->asked_at_ns < ASK_AGAIN_NS)
		return HALT_REFUSALS;
	int cpu = sched_getcpu();
	enum halt_refusal why = HALT_REFUSALS;
	if (power_saves(&h->power, cpu, now_ns, polled_ns))
		why = HALT_REFUSED_POWER;
	else if (contention_wanted(&h->contention, cpu, now_ns, polled_ns))
		why = HALT_REFUSED_CONTENTION;
	h->host_agreed = why == HALT_REFUSALS;
	h->asked_polled_ns = polled_ns;
	h->asked_at_ns = now_ns;
	return why;
}

/* The refusal, or HALT_REFUSALS. Files are read only when all cheaper answers are yes. */
static enum halt_refusal refusal(struct halt *h, uint64_t now_ns)
{
	if (!atomic_load_explicit(&h->guest_allows, memory_order_relaxed))
		return HALT_REFUSED_GUEST;
	if (!budget_left(&h->budget, now_ns) || !budget_left(&h->shared->vm_budget, now_ns))
		return HALT_REFUSED_BUDGET;
	return host_refusal(h, now_ns);
}

static bool may_poll(struct halt *h, uint64_t now_ns)
{
	if (!h->may_ask)
		return false;
	enum halt_refusal why = refusal(h, now_ns);
	if (why != HALT_REFUSALS)
		stat_add(&h->stats.refused[why], 1);
	return why == HALT_REFUSALS;
}

/* Then the policy is not asked and learns nothing: a halt costs what it costs without one. */
static bool switched_off(struct halt *h)
{
	if (!h->may_ask || !atomic_load_explicit(&h->shared->off, memory_order_relaxed))
		return false;
	stat_add(&h->stats.refused[HALT_REFUSED_OFF], 1);
	return true;
}

/* Whatever a policy plans, it does not poll without permission, beyond the live limit, or beyond the budget. */
static void clamp_plan(struct halt *h, const struct policy_hint *hint)
{
	struct policy_plan *p = &h->plan;
	if (!hint->may_poll) {
		*p = (struct policy_plan){.sleep_ns = POLICY_NEVER};
		return;
	}
	uint64_t most = policy_min(hint->max_ns, budget_left(&h->budget, hint->now_ns));
	most = policy_min(most, budget_left(&h->shared->vm_budget, hint->now_ns));
	p->poll_ns = policy_min(p->poll_ns, most);
	if (p->sleep_ns != POLICY_NEVER && p->spin_ns > p->sleep_ns && p->spin_ns - p->sleep_ns > most - p->poll_ns)
		p->spin_ns = p->sleep_ns + (most - p->poll_ns);
}

/* ----------------------------------------------------------------------------------- one halt */

static void learn_costs(struct halt *h)
{
	const struct policy_sample *s = &h->sample;
	if (s->source == POLICY_REQUEST)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (s->wake_ns[i] != POLICY_NEVER)
			host_cost_add(&h->shared->cost.wake, s->wake_ns[i]);
	if (s->switch_ns)
		host_cost_add(&h->shared->cost.sleep, s->switch_ns);
}

static void tell_policy(struct halt *h)
{
	const struct policy *policy = h->spec.policy;
	if (!h->sample_pending)
		return;
	h->sample_pending = false;
	learn_costs(h);
	if (h->off) /* as it was during that halt */
		return;
	h->sample.max_ns = atomic_load_explicit(&h->shared->max_ns, memory_order_relaxed);
	if (policy->observe)
		policy->observe(h->state, &h->sample);
	if (policy->view) {
		struct policy_view view = {0};
		policy->view(h->state, &view);
		atomic_store_explicit(&h->stats.window_ns, view.window_ns, memory_order_relaxed);
		atomic_store_explicit(&h->stats.wake_cost_ns, view.wake_ns, memory_order_relaxed);
	}
}

static void begin(struct halt *h, uint64_t deadline_tsc)
{
	tell_policy(h);
	if (h->generation != atomic_load_explicit(&h->shared->generation, memory_order_acquire))
		take_up_config(h);
	uint64_t now = clock_tsc();
	h->halted = true;
	h->disturbed = h->polled_now = h->inline_io = false;
	h->phase = HALT_POLL;
	h->start_tsc = h->last_turn_tsc = now;
	h->slept_ns = 0;
	h->sample = (struct policy_sample){.wake_ns = {POLICY_NEVER, POLICY_NEVER}};
	h->hint = (struct policy_hint){
		.now_ns = to_ns(h, now),
		.timer_ns = deadline_tsc == WAKE_NEVER ? POLICY_NEVER
	                    : deadline_tsc > now       ? to_ns(h, deadline_tsc - now)
	                                               : 0,
		.max_ns = atomic_load_explicit(&h->shared->max_ns, memory_order_relaxed),
		.busy_ns = h->end_tsc ? to_ns(h, now - h->end_tsc) : 0,
	};
	h->in_flight = poll_hooks_in_flight(h->hooks);
	h->hint.io = h->in_flight > 0;
	h->off = switched_off(h);
	if (h->off) {
		atomic_store_explicit(&h->stats.window_ns, 0, memory_order_relaxed);
	} else {
		h->hint.may_poll = may_poll(h, h->hint.now_ns);
		h->sample.may_poll = h->hint.may_poll;
		h->spec.policy->plan(h->state, &h->hint, &h->plan);
	}
	clamp_plan(h, &h->hint);
	stat_add(&h->stats.halts, 1);
	if (h->plan.poll_ns)
		stat_add(&h->stats.attempted_poll, 1);
}

static bool take_poller_slot(struct halt *h)
{
	unsigned before = atomic_fetch_add_explicit(&pollers, 1, memory_order_relaxed);
	if (!h->max_pollers || before < h->max_pollers)
		return true;
	atomic_fetch_sub_explicit(&pollers, 1, memory_order_relaxed);
	stat_add(&h->stats.refused[HALT_REFUSED_POLLERS], 1);
	return false;
}

enum outcome {
	POSTED,
	DUE,
	OVER,
};

/* Looks at least once before it waits, like KVM. hooks: or NULL. What a hook completes is announced as any interrupt
 * is, so the next turn sees it if it was for this vCPU. */
static enum outcome look_until(struct halt *h, const struct poll_hooks *hooks, uint32_t ticket, uint64_t until_tsc,
                               uint64_t deadline_tsc)
{
	const uint64_t gap_tsc = clock_ns_to_tsc(CONTENTION_GAP_NS, h->tsc_khz);
	uint64_t limit = until_tsc < deadline_tsc ? until_tsc : deadline_tsc, now = clock_tsc();
	for (;;) {
		if (wake_posted(h->wake, ticket))
			return POSTED;
		if (now >= deadline_tsc)
			return DUE;
		if (now >= until_tsc)
			return OVER;
		h->last_turn_tsc = now;
		if (hooks && poll_hooks_poll(hooks)) {
			h->inline_io = true;
			now = clock_tsc(); /* the requests of other vCPUs must not make this one late */
			continue;
		}
		/* Completions are written elsewhere than the word a light sleep would watch. */
		cpu_wait(hooks ? CPU_WAIT_PAUSE : h->wait, &h->wake->word, ticket, limit);
		uint64_t then = now;
		now = clock_tsc();
		if (now - then > gap_tsc) {
			/* The host gave the CPU to others. So should we. */
			h->sample.gap_ns = to_ns(h, now);
			contention_gap(&h->contention, h->sample.gap_ns);
			h->host_agreed = false;
			stat_add(&h->stats.gaps, 1);
			return wake_posted(h->wake, ticket) ? POSTED : now >= deadline_tsc ? DUE : OVER;
		}
	}
}

static enum outcome poll(struct halt *h, uint32_t ticket, uint64_t until_tsc, uint64_t deadline_tsc, uint64_t *spent_ns)
{
	uint64_t start = clock_tsc();
	if (start >= until_tsc || !take_poller_slot(h))
		return OVER;
	const struct poll_hooks *hooks = poll_hooks_in_flight(h->hooks) ? h->hooks : NULL;
	if (hooks)
		poll_hooks_enter(hooks);
	enum outcome outcome = look_until(h, hooks, ticket, until_tsc, deadline_tsc);
	if (hooks && poll_hooks_leave(hooks))
		h->inline_io = true;
	atomic_fetch_sub_explicit(&pollers, 1, memory_order_relaxed);
	uint64_t ns = to_ns(h, clock_tsc() - start);
	*spent_ns += ns;
	budget_spend(&h->budget, ns);
	budget_spend(&h->shared->vm_budget, ns);
	h->polled_now = outcome != OVER;
	return outcome;
}

/* True: the time came. False: a post or a signal, maybe without having slept. */
static bool sleep_until(struct halt *h, uint32_t ticket, uint64_t until_tsc)
{
	uint64_t now = clock_tsc(), deadline_ns = WAKE_NEVER, start_ns = clock_ns();
	if (until_tsc != WAKE_NEVER) {
		if (now >= until_tsc)
			return true;
		deadline_ns = start_ns + to_ns(h, until_tsc - now); /* both below 2^63 */
	}
	bool measure = stat_get(&h->stats.halts) % SWITCH_EVERY == 0 || !host_cost_known(&h->shared->cost.sleep);
	uint64_t cpu = measure ? clock_of(CLOCK_THREAD_CPUTIME_ID) : 0;
	h->polled_now = false;
	struct wake_watch watch[WAKE_WATCH_MAX];
	unsigned watches = poll_hooks_watch(h->hooks, watch, WAKE_WATCH_MAX);
	int ret = wake_block_watching(h->wake, ticket, deadline_ns, watch, watches);
	if (ret != -EAGAIN) { /* else it did not sleep: what that took says nothing of sleeps */
		if (measure)
			h->sample.switch_ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
		h->slept_ns += clock_ns() - start_ns;
	}
	if (watches && poll_hooks_poll(h->hooks))
		h->inline_io = true;
	if (ret == 0)
		stat_add(&h->stats.wakeup, 1);
	return ret == -ETIMEDOUT;
}

/* Until the event, or the moment at which the plan wants to spin for it. True: spin now. */
static bool sleep_phase(struct halt *h, uint32_t ticket, uint64_t deadline_tsc)
{
	uint64_t until = h->plan.sleep_ns == POLICY_NEVER ? WAKE_NEVER : at(h, h->plan.sleep_ns);
	if (until >= deadline_tsc) {
		sleep_until(h, ticket, deadline_tsc);
		return false;
	}
	uint64_t before = h->slept_ns;
	if (!sleep_until(h, ticket, until))
		return false;
	if (h->slept_ns == before) /* the time had come already */
		return true;
	uint64_t now = clock_tsc();
	h->sample.wake_ns[0] = now > until ? to_ns(h, now - until) : 0;
	stat_add(&h->stats.prewakes, 1);
	return true;
}

void halt_wait(struct halt *h, uint32_t ticket, uint64_t deadline_tsc)
{
	if (!h->halted)
		begin(h, deadline_tsc);
	switch (h->phase) {
	case HALT_POLL:
		if (poll(h, ticket, at(h, h->plan.poll_ns), deadline_tsc, &h->sample.poll_ns) != OVER)
			return;
		h->phase = HALT_SLEEP;
		__attribute__((fallthrough));
	case HALT_SLEEP:
		if (!sleep_phase(h, ticket, deadline_tsc))
			return;
		h->phase = HALT_SPIN;
		__attribute__((fallthrough));
	case HALT_SPIN:
		if (poll(h, ticket, at(h, h->plan.spin_ns), deadline_tsc, &h->sample.spin_ns) != OVER)
			return;
		h->phase = HALT_SLEEP_ON;
		__attribute__((fallthrough));
	case HALT_SLEEP_ON:
		sleep_until(h, ticket, deadline_tsc);
		return;
	}
}

static void count_end(struct halt *h, enum wake_cause cause, uint64_t latency_ns)
{
	struct halt_stats *s = &h->stats;
	struct halt_wake_stats *w = &s->sources[cause == WAKE_DEVICE && h->inline_io ? WAKE_INLINE : cause];
	stat_add(&w->wakes, 1);
	if (h->polled_now)
		stat_add(&w->polled, 1);
	else if (h->slept_ns)
		stat_add(&w->slept, 1);
	stat_add(&w->latency_ns, latency_ns);
	stat_max(&w->latency_max_ns, latency_ns);
	count_bucket(s->latency_hist, latency_ns);
	if (h->plan.poll_ns) {
		bool success = !h->slept_ns;
		if (success)
			stat_add(&s->successful_poll, 1);
		stat_add(success ? &s->poll_success_ns : &s->poll_fail_ns, h->sample.poll_ns + h->sample.spin_ns);
		count_bucket(success ? s->poll_success_hist : s->poll_fail_hist, h->sample.poll_ns);
	} else {
		stat_add(h->polled_now ? &s->poll_success_ns : &s->poll_fail_ns, h->sample.spin_ns);
	}
	if (h->slept_ns) {
		stat_add(&s->wait_ns, h->slept_ns);
		count_bucket(s->wait_hist, h->slept_ns);
	}
}

/* The stamp of a completion that was slept through was put when somebody was awake again: the policy would see a disk
 * that is as slow as that, sleep, and never learn better. So it is told what polls have shown, when they looked. */
static uint64_t completion_ns(struct halt *h, enum wake_cause cause, uint64_t event_ns)
{
	if (!h->in_flight || cause != WAKE_DEVICE)
		return event_ns;
	if (h->sample.poll_ns)
		h->io_ns = h->io_ns ? h->io_ns - h->io_ns / 8 + event_ns / 8 : event_ns;
	else if (h->io_ns && (h->inline_io || poll_hooks_in_flight(h->hooks) < h->in_flight))
		return policy_min(event_ns, h->io_ns);
	return event_ns;
}

void halt_end(struct halt *h, enum wake_cause cause, uint64_t event_tsc)
{
	if (!h->halted)
		return;
	h->halted = false;
	uint64_t now = h->end_tsc = clock_tsc();
	bool known = event_tsc && event_tsc <= now;
	uint64_t latency_ns = known ? to_ns(h, now - event_tsc) : 0;
	struct policy_sample *s = &h->sample;
	s->source = h->disturbed ? POLICY_REQUEST : cause == WAKE_TIMER ? POLICY_TIMER : POLICY_OTHER;
	s->event_ns = to_ns(h, known && event_tsc > h->start_tsc ? event_tsc - h->start_tsc
	                       : known                           ? 0
	                                                         : now - h->start_tsc);
	s->event_ns = completion_ns(h, cause, s->event_ns);
	s->halt_ns = to_ns(h, (h->polled_now ? h->last_turn_tsc : now) - h->start_tsc);
	s->latency_ns = latency_ns;
	/* A completion that the sleeper took itself was stamped when it was awake. */
	if (known && !h->polled_now && h->slept_ns && !h->inline_io)
		s->wake_ns[h->phase == HALT_SLEEP_ON] = latency_ns;
	count_end(h, cause, latency_ns);
	h->sample_pending = true;
	if (h->trace)
		trace_halt(h->trace, h->trace_file, &h->hint, &h->plan, s);
}

/* ----------------------------------------------------------------------------------- options */

static int parse_percent(unsigned *percent, const char **text, struct lull_error *err)
{
	char *end;
	unsigned long value = strtoul(*text, &end, 10);
	if (**text < '0' || **text > '9' || value > 100)
		return error_set(
			err, -EINVAL,
			"poll-budget: '%s' is not a share; use PERCENT or PERCENT,vm=PERCENT, 1 to 100, 0 for none",
			*text);
	*percent = (unsigned)value;
	*text = end;
	return 0;
}

static int parse_budget(struct halt_config *config, const char *text, struct lull_error *err)
{
	int ret = 0;
	if (strncmp(text, "vm=", 3) != 0)
		ret = parse_percent(&config->vcpu_budget_percent, &text, err);
	if (ret == 0 && *text == ',')
		text++;
	if (ret == 0 && !strncmp(text, "vm=", 3)) {
		text += 3;
		ret = parse_percent(&config->vm_budget_percent, &text, err);
	}
	if (ret == 0 && *text)
		ret = error_set(err, -EINVAL, "poll-budget: '%s' is too much; use PERCENT or PERCENT,vm=PERCENT", text);
	return ret;
}

int halt_parse(struct halt_config *config, const struct halt_words *words, struct lull_error *err)
{
	*config = (struct halt_config){.power = POWER_SMART, .max_pollers = words->max_pollers};
	int ret = policy_parse(&config->policy, words->policy ? words->policy : "none", NULL, err);
	if (ret == 0)
		ret = cpu_wait_parse(&config->wait, words->wait, err);
	if (ret == 0 && words->power)
		ret = power_parse(&config->power, words->power, err);
	if (ret == 0 && words->budget)
		ret = parse_budget(config, words->budget, err);
	return ret;
}
