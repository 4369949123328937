/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_cost.c - waits at the least expected cost, where cost = CPU time + lambda * wake latency.
 *
 * A sleep and wake is worth B = CPU time of the switch + lambda * wake latency, both as measured on this host. The
 * policy keeps, for each of six contexts, what each of sixteen poll windows would have cost lately, and takes the
 * cheapest. That needs no trials: once the event's time stamp is known, so is what every window would have cost.
 * Beside windows there are two plans in which the wake latency is hidden: sleep until a little before the guest's timer
 * and spin (pre-wake), and the same for events that come after a regular time (sleep-then-spin).
 *
 * An account of (cost - 2 * the clairvoyant's cost) guards all that: while it is more than GUARD * B in the red, the
 * window is B, which never costs more than twice the optimum. So for any interval of halts, against any adversary,
 *     cost <= 2 * optimum + (GUARD + CREDIT) * B + the most one halt can cost (3 B for lambda >= 1).
 * It holds for the mean wake latency, while polling is allowed, with no limit below B, and the CPU is not taken away.
 */
#include "policy.h"

#include <string.h>

#define WINDOWS  16
#define CONTEXTS 6
#define GUARD    8.0f
#define CREDIT   16.0f
#define KEEP     (1.0f - 1.0f / 32.0f) /* what a halt leaves of the costs before it */

#define LONG_IDLE_NS 200000.0f /* wake latency is estimated apart for idle times below and above */
#define FRESH        128.0f    /* after FRESH * B without a sleep one is forced, to measure the wake latency */
#define HIDDEN       0.15f     /* part of the wake latency that a pre-wake still costs */
#define CAP_NS       500000.0f /* for windows when lambda > CAP_LAMBDA */
#define CAP_LAMBDA   8.0f
#define BACK_OFF_NS  2000000u /* no polling for so long after the host took the CPU away */
#define BACK_OFF_MAX 20000000u
#define STARVED      16.0f     /* a wake so many times later than the mean, and */
#define STARVED_NS   500000.0f /* so late, also says that others want the CPU */
#define LONGEST_NS   1e18f     /* of all times */
#define LONGEST_WAKE 1e9f      /* and of wake latencies */
/* An idle guest is to cost what it costs asleep. Before timers that come less often than this, pre-wakes spin for
 * about IDLE_SHARE * lambda of the CPU time that the guest uses for itself: what part of the wake latency they cover
 * follows from that. */
#define SPARSE_NS      20e6f
#define IDLE_SHARE     0.006f
#define IDLE_QUANTILE  0.05f /* at first */
#define IDLE_CREDIT    0.25f /* what may be saved up, in B */
#define WAKE_PRESET_NS 10000
#define MEAN_OF        16 /* sleeps that a mean wake latency is taken over */

enum {
	KEY_LAMBDA,
	KEY_PREWAKE,
	KEY_SPIN,
	KEY_GUARD,
	KEY_BACK_OFF,
	KEY_WAKE,
	KEY_SWITCH,
	KEY_ARM,
};

enum plan_kind {
	PLAN_ASLEEP, /* polling was not allowed: says nothing about our choices */
	PLAN_WINDOW,
	PLAN_PREWAKE,
	PLAN_SPIN,
};

struct cost {
	float table[CONTEXTS][WINDOWS];     /* discounted cost of each window in each context */
	float spin_cost[CONTEXTS];          /* and of sleep-then-spin */
	float q10[CONTEXTS], q95[CONTEXTS]; /* quantiles of the time to an event that is no timer; 0: none yet */
	float window[WINDOWS];
	float wake[2], late[2]; /* mean wake latency after short and long idle; its quantile that a pre-wake covers */
	float low[2];           /* and the quantile for idle guests, */
	float idle_quantile;    /* this one */
	float allowance;        /* how long pre-wakes of an idle guest may still spin */
	float lambda, quantile, switch_ns, arm_ns;
	float b;                               /* what a sleep and wake is worth */
	float debt;                            /* the account: cost beyond twice the optimum */
	float awake;                           /* cost since the last sleep */
	float timer;                           /* of the plan in force */
	float early;                           /* when its sleep ends */
	float chosen;                          /* and its window */
	uint64_t halted_at_ns, blind_until_ns; /* start of the last halt; no polling before */
	uint32_t back_off_ns;
	uint8_t best[CONTEXTS];
	bool spin_best[CONTEXTS];
	uint8_t context, idle; /* context of the plan in force; class of the last idle time */
	uint8_t kind;
	bool wake_known[2];
	uint8_t mean_of[2]; /* how many sleeps the mean of a class is over, or as good as; up to MEAN_OF */
	bool use_prewake, use_spin, use_guard, use_back_off;
};

_Static_assert(sizeof(struct cost) <= POLICY_STATE_BYTES, "the state has to fit");

static const float steps[WINDOWS] = {0,       1 / 16.f, 1 / 8.f, 3 / 16.f, 1 / 4.f, 5 / 16.f, 3 / 8.f, 1 / 2.f,
                                     5 / 8.f, 3 / 4.f,  7 / 8.f, 1,        1.25f,   1.5f,     1.75f,   2};

static float to_ns(uint64_t v)
{
	return v > (uint64_t)LONGEST_NS ? LONGEST_NS : (float)(int64_t)v;
}

static uint64_t from_ns(float v)
{
	return v > 0 ? (uint64_t)(int64_t)v : 0;
}

static float smaller(float a, float b)
{
	return a < b ? a : b;
}

static int idle_class(float idle)
{
	return idle > LONG_IDLE_NS;
}

static float price(const struct cost *c, int class)
{
	return c->switch_ns + c->lambda * c->wake[class];
}

static void set_prices(struct cost *c)
{
	float cap = c->lambda > CAP_LAMBDA ? CAP_NS : LONGEST_NS;

	/* The smaller one: a window of B then costs at most twice the optimum after short and after long idle. */
	c->b = price(c, c->wake[1] < c->wake[0]);
	for (int k = 0; k < WINDOWS; k++)
		c->window[k] = smaller(steps[k] * c->b, cap);
}

static float preset(uint64_t key, uint64_t measured, float otherwise)
{
	if (key)
		return to_ns(key);
	return measured ? to_ns(measured) : otherwise;
}

static void cost_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	struct cost *c = state;
	float q;

	c->lambda = (float)(int64_t)values[KEY_LAMBDA] / 1000.0f;
	c->use_prewake = values[KEY_PREWAKE];
	c->use_spin = values[KEY_SPIN];
	c->use_guard = values[KEY_GUARD];
	c->use_back_off = values[KEY_BACK_OFF];
	c->wake[0] = preset(values[KEY_WAKE], host->wake_ns, WAKE_PRESET_NS);
	c->switch_ns = preset(values[KEY_SWITCH], host->switch_ns, 0.3f * c->wake[0]);
	c->arm_ns = preset(values[KEY_ARM], host->arm_ns, 0.1f * c->wake[0]);
	c->wake[1] = c->late[0] = c->late[1] = c->wake[0];
	c->low[0] = c->low[1] = c->wake[0] / 2;
	c->mean_of[0] = c->mean_of[1] = values[KEY_WAKE] || host->wake_ns ? MEAN_OF : 0;
	q = c->lambda / (1.0f + c->lambda);
	c->quantile = q > 0.75f ? q : 0.75f;
	c->back_off_ns = BACK_OFF_NS;
	set_prices(c);
	c->idle_quantile = IDLE_QUANTILE;
	/* As if the last event had come just before B: the first window is B. */
	for (int x = 0; x < CONTEXTS; x++) {
		for (int k = 0; k < WINDOWS; k++)
			c->table[x][k] = steps[k] < 1 ? c->window[k] + c->b : 0.9f * c->b;
		c->spin_cost[x] = 2 * c->b;
		c->best[x] = 11;
	}
}

/* -------------------------------------------------------------------------------- planning */

/* When sleep-then-spin would spin in this context; false: not at all. */
static bool spin_times(const struct cost *c, int x, float *from, float *until)
{
	int class = idle_class(c->q10[x]);
	float late = c->late[class], wake = c->wake[class];

	*from = c->q10[x] - late;
	*until = smaller(c->q95[x], *from + wake + c->b);
	return c->use_spin && *from >= wake + c->switch_ns;
}

static void allow_idle_spins(struct cost *c, uint64_t busy_ns)
{
	if (busy_ns)
		c->allowance += IDLE_SHARE * c->lambda * (to_ns(busy_ns) + c->switch_ns);
	c->allowance = smaller(c->allowance, IDLE_CREDIT * c->b);
}

/* How long before the timer a pre-wake comes. */
static float lead_time(const struct cost *c, uint64_t busy_ns)
{
	int class = idle_class(c->timer);

	if (c->timer < SPARSE_NS || !busy_ns)
		return c->late[class];
	return c->allowance >= -c->b ? c->low[class] : c->low[class] / 2;
}

static void plan_learned(struct cost *c, const struct policy_hint *hint, struct policy_plan *plan)
{
	float late = c->late[idle_class(c->timer)], w = c->window[c->best[c->context]], from = 0, until = 0;
	bool spin = c->spin_best[c->context] && spin_times(c, c->context, &from, &until);

	if (spin && until < c->timer - late && until - from <= to_ns(hint->max_ns)) {
		c->kind = PLAN_SPIN;
		plan->sleep_ns = from_ns(from);
		plan->spin_ns = from_ns(until);
		return;
	}
	if (w > 0 && c->awake > FRESH * c->b)
		w = 0;
	plan->poll_ns = policy_min(from_ns(w), hint->max_ns);
	if (!c->use_prewake || hint->timer_ns == POLICY_NEVER)
		return;
	if (w > c->timer - late) {
		if (hint->timer_ns <= hint->max_ns)
			plan->poll_ns = hint->timer_ns;
	} else if (late <= to_ns(hint->max_ns)) {
		c->kind = PLAN_PREWAKE;
		plan->sleep_ns = hint->timer_ns - from_ns(lead_time(c, hint->busy_ns));
		plan->spin_ns = hint->timer_ns + from_ns(3 * late);
	}
}

static void cost_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	struct cost *c = state;
	float near, max = to_ns(hint->max_ns);

	*plan = (struct policy_plan){.sleep_ns = POLICY_NEVER};
	c->halted_at_ns = hint->now_ns;
	c->timer = to_ns(hint->timer_ns);
	c->context = (uint8_t)((hint->io ? 3 : 0) + c->idle);
	c->kind = PLAN_ASLEEP;
	c->chosen = 0;
	c->early = LONGEST_NS;
	allow_idle_spins(c, hint->busy_ns);
	if (!hint->may_poll || hint->now_ns < c->blind_until_ns)
		return;
	c->kind = PLAN_WINDOW;
	near = smaller(c->late[0] + c->switch_ns, c->b);
	if (c->use_prewake && c->timer <= near && hint->timer_ns <= hint->max_ns)
		plan->poll_ns = hint->timer_ns;
	else if (c->use_guard && c->debt > GUARD * c->b && c->b <= max)
		plan->poll_ns = policy_min(from_ns(c->b), hint->max_ns);
	else
		plan_learned(c, hint, plan);
	c->chosen = to_ns(plan->poll_ns);
	c->early = to_ns(plan->sleep_ns);
}

/* -------------------------------------------------------------------------------- learning */

static void learn_windows(struct cost *c, float d, float buy)
{
	float *t = c->table[c->context];
	float reach = c->timer - c->late[idle_class(c->timer)];

	if (!c->use_prewake)
		reach = LONGEST_NS;
	for (int k = 0; k < WINDOWS; k++) {
		float w = c->window[k];
		float cost = d <= w || w > reach ? d : w + buy;
		t[k] = t[k] * KEEP + cost;
	}
}

/* What sleep-then-spin would have cost. */
static float spin_price(const struct cost *c, float d, float buy)
{
	float from, until, wake = c->wake[idle_class(d)];

	if (!spin_times(c, c->context, &from, &until))
		return c->arm_ns + buy;
	float awake = from + wake, base = c->switch_ns + c->arm_ns;
	if (d <= from)
		return c->arm_ns + buy;
	if (d <= awake)
		return base + c->lambda * (awake - d);
	if (d <= until)
		return base + d - awake;
	return base + (until > awake ? until - awake : 0) + buy;
}

static void learn_quantiles(struct cost *c, float d)
{
	float *q10 = &c->q10[c->context], *q95 = &c->q95[c->context];

	if (*q10 == 0) {
		*q10 = *q95 = d;
		return;
	}
	*q10 *= d > *q10 ? 1 + 0.04f * 0.10f : 1 - 0.04f * 0.90f;
	*q95 *= d > *q95 ? 1 + 0.04f * 0.95f : 1 - 0.04f * 0.05f;
}

static void choose(struct cost *c, float max)
{
	const float *t = c->table[c->context];
	int best = 0;

	for (int k = 1; k < WINDOWS && c->window[k] <= max; k++)
		if (t[k] < t[best])
			best = k;
	c->best[c->context] = (uint8_t)best;
	c->spin_best[c->context] = c->spin_cost[c->context] < t[best];
}

static void settle(struct cost *c, const struct policy_sample *s, float d, float max)
{
	int class = idle_class(d);
	bool early = s->wake_ns[0] != POLICY_NEVER, slept = s->wake_ns[1] != POLICY_NEVER;
	float cost = to_ns(s->poll_ns) + to_ns(s->spin_ns), latency = 0, optimum = smaller(d, price(c, class));

	cost += c->switch_ns * (float)(early + slept);
	if (early && c->kind == PLAN_SPIN)
		cost += c->arm_ns;
	if (slept || (early && d <= c->early))
		latency = c->wake[class]; /* woken by the event: at the mean price */
	else if (early)
		latency = smaller(to_ns(s->latency_ns), c->wake[class]);
	cost += c->lambda * latency;
	c->awake = early || slept ? 0 : c->awake + cost;
	if (max < c->b) {
		c->debt = 0; /* the limit forbids the guard's window, so there is no guarantee to keep */
		return;
	}
	c->debt += cost - 2 * optimum;
	if (c->debt < -CREDIT * c->b)
		c->debt = -CREDIT * c->b;
}

/* In steps of 3 % of the mean, and along with it: else pre-wakes are too early for long once waking is faster. */
static void follow(float *lead, float quantile, float sample, float before, float now)
{
	*lead += 0.03f * before * (sample > *lead ? quantile : quantile - 1);
	*lead *= now / before;
	if (*lead < 0)
		*lead = 0;
}

static void learn_wake(struct cost *c, int class, uint64_t wake_ns)
{
	float *wake = &c->wake[class];
	float before = *wake, sample = smaller(to_ns(wake_ns ? wake_ns : 1), smaller(8 * before, LONGEST_WAKE));

	if (c->mean_of[class] < MEAN_OF)
		c->mean_of[class]++;
	*wake += (sample - before) / c->mean_of[class];
	follow(&c->late[class], c->quantile, sample, before, *wake);
	follow(&c->low[class], c->idle_quantile, sample, before, *wake);
	c->wake_known[class] = true;
	if (!c->wake_known[!class]) {
		c->wake[!class] = *wake;
		c->late[!class] = c->late[class];
		c->low[!class] = c->low[class];
	}
}

/* Others want this CPU: no polling for a while, and for twice as long if that happens again soon after. */
static void back_off(struct cost *c, uint64_t now_ns)
{
	bool again = c->blind_until_ns && now_ns <= c->blind_until_ns + BACK_OFF_MAX;

	c->back_off_ns = again ? (uint32_t)policy_min(2 * (uint64_t)c->back_off_ns, BACK_OFF_MAX) : BACK_OFF_NS;
	c->blind_until_ns = now_ns + c->back_off_ns;
}

/* The host took the CPU away while we polled. Or a thread that polls much and sleeps now and then, so that its time
 * slice starts anew, is made to wait for its turn when it wakes. */
static void learn_contention(struct cost *c, const struct policy_sample *s)
{
	uint64_t wake_ns = s->wake_ns[1] != POLICY_NEVER ? s->wake_ns[1] : s->wake_ns[0];
	float wake = wake_ns != POLICY_NEVER ? to_ns(wake_ns) : 0;

	if (s->gap_ns)
		back_off(c, s->gap_ns);
	else if (wake > STARVED_NS && wake > STARVED * c->wake[idle_class(to_ns(s->event_ns))])
		back_off(c, c->halted_at_ns + s->event_ns + s->latency_ns);
}

static void pay_idle_spin(struct cost *c, float spin)
{
	c->allowance -= spin;
	c->idle_quantile *= c->allowance < 0 ? 0.95f : 1.02f;
	c->idle_quantile = smaller(c->idle_quantile > 0.01f ? c->idle_quantile : 0.01f, c->quantile);
}

static void cost_observe(void *state, const struct policy_sample *s)
{
	struct cost *c = state;
	float d = to_ns(s->event_ns ? s->event_ns : 1), max = to_ns(s->max_ns);
	int class = idle_class(d);

	if (c->kind == PLAN_PREWAKE && c->timer >= SPARSE_NS && !s->gap_ns) /* a gap is not what it spun */
		pay_idle_spin(c, to_ns(s->spin_ns));
	if (c->use_back_off)
		learn_contention(c, s);
	if (s->source == POLICY_REQUEST || s->invalid)
		return;
	float buy = price(c, class);
	float hidden = c->switch_ns + HIDDEN * c->wake[class];
	bool hide = s->source == POLICY_TIMER && c->use_prewake;
	learn_windows(c, d, hide ? hidden : buy);
	c->spin_cost[c->context] = c->spin_cost[c->context] * KEEP + spin_price(c, d, buy);
	if (s->source != POLICY_TIMER)
		learn_quantiles(c, d);
	choose(c, max);
	if (c->kind != PLAN_ASLEEP && !s->gap_ns)
		settle(c, s, d, max);
	c->idle = d <= c->b ? 0 : d <= 8 * c->b ? 1 : 2;
	if (s->wake_ns[0] != POLICY_NEVER)
		learn_wake(c, class, s->wake_ns[0]);
	if (s->wake_ns[1] != POLICY_NEVER)
		learn_wake(c, class, s->wake_ns[1]);
	if (s->switch_ns)
		c->switch_ns +=
			(smaller(to_ns(s->switch_ns), smaller(8 * c->switch_ns + 1, LONGEST_WAKE)) - c->switch_ns) / 16;
	set_prices(c);
}

static void cost_view(const void *state, struct policy_view *view)
{
	const struct cost *c = state;

	*view = (struct policy_view){
		.window_ns = from_ns(c->chosen),
		.wake_ns = from_ns(c->wake[c->idle == 2]),
		.cost_ns = from_ns(c->b),
		.lead_ns = from_ns(c->late[0] > c->late[1] ? c->late[0] : c->late[1]),
	};
}

/* -------------------------------------------------------------------------------- the table */

static const struct policy_word lambda_words[] = {{"powersave", 250}, {"balanced", 2000}, {"latency", 8000}, {0}};
static const struct policy_word switch_words[] = {{"off", 0}, {"on", 1}, {0}};

static const struct policy_key cost_keys[] = {
	[KEY_LAMBDA] = {"lambda", POLICY_KEY_RATIO, 10, 1000000, 2000, lambda_words},
	[KEY_PREWAKE] = {"prewake", POLICY_KEY_COUNT, 0, 1, 1, switch_words},
	[KEY_SPIN] = {"spin", POLICY_KEY_COUNT, 0, 1, 1, switch_words},
	[KEY_GUARD] = {"guard", POLICY_KEY_COUNT, 0, 1, 1, switch_words},
	[KEY_BACK_OFF] = {"backoff", POLICY_KEY_COUNT, 0, 1, 1, switch_words},
	[KEY_WAKE] = {"wake", POLICY_KEY_TIME, 0, 10000000, 0, NULL},
	[KEY_SWITCH] = {"switch", POLICY_KEY_TIME, 0, 10000000, 0, NULL},
	[KEY_ARM] = {"arm", POLICY_KEY_TIME, 0, 10000000, 0, NULL},
	{0},
};

const struct policy policy_cost = {
	.name = "cost",
	.summary = "least CPU time + lambda * wake latency; lambda also as powersave, balanced, latency (0.25, 2, 8)",
	.keys = cost_keys,
	.state_bytes = sizeof(struct cost),
	.init = cost_init,
	.plan = cost_plan,
	.observe = cost_observe,
	.view = cost_view,
};
