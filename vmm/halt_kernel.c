/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt_kernel.c - the limit of KVM's poll window at which a halt costs least, where
 *
 *     cost of a halt = time polled + (it slept ? switch + lambda * wake latency : 0)
 *
 * KVM moves each vCPU's window below the limit by its own rule, so the limit is not the window. For each limit on a
 * ladder the model follows that rule as a Markov chain over the windows, fed with halts as the histograms have them,
 * and so finds the expected cost. It is wrong in two ways: halts of a guest are not independent of each other; and they
 * depend on the limit: two vCPUs that wait for each other both look slow as long as both sleep, and a limit that is too
 * low for them looks right. So the model only suggests. Every change is a trial: the new limit is in force for a while,
 * what a halt really costs there is compared with what it cost before, and the change stays or is taken back. In
 * addition other limits are tried now and then, against what the model believes, highest first. Suggestions and
 * explorations that failed are repeated after twice the time.
 */
#include "halt_kernel.h"

#include <string.h>

#define FIRST_RUNG_NS     10000u
#define WAKE_PRESET_NS    10000 /* as in policy_cost.c, until it is measured */
#define SWITCH_SHARE      0.3   /* CPU time of a switch, as a share of the wake latency, unless given */
#define STATES            24    /* windows below a limit */
#define PARTS             4     /* of a bucket: KVM's are factors of 2 wide */
#define POINTS            (2 * PARTS * KVM_STATS_BUCKETS)
#define LEAK              1e-4 /* chance per halt that a window starts anew: makes the chain's solution unique */
#define MEMORY            1024 /* halts, in about so many the old ones have lost their weight */
#define DECIDE_AFTER      64   /* halts, at least */
#define JUDGE_AFTER       256  /* halts of a trial: windows have to grow first, and chance to even out */
#define MUCH_MORE         1.25 /* a cost at which a trial ends earlier */
#define WORTH_TRYING      0.90 /* of the cost at home: what the model must promise */
#define SUGGESTION_SAVES  0.98 /* what the trial of a suggestion must show */
#define EXPLORATION_SAVES 0.95 /* and that of an exploration */
#define CHANGED           3.0  /* a cost that is by so much another: the guest does something else now */
#define MODEL_EVERY_MAX   128u
#define EXPLORE_EVERY     8u
#define EXPLORE_EVERY_MAX 256u

/* ------------------------------------------------------------------------------------ the policies */

static uint64_t value_of(const struct policy_spec *spec, const char *key)
{
	for (size_t i = 0; spec->policy->keys && spec->policy->keys[i].name; i++)
		if (!strcmp(spec->policy->keys[i].name, key))
			return spec->values[i];
	return 0;
}

uint64_t halt_kernel_limit(const struct policy_spec *spec, bool *governs)
{
	*governs = spec->policy == &policy_cost;
	if (spec->policy == &policy_fixed)
		return value_of(spec, "window");
	if (spec->policy == &policy_kvm || spec->policy == &policy_haltpoll)
		return value_of(spec, "max");
	return spec->policy == &policy_always ? HALT_KERNEL_ALWAYS_NS : 0;
}

/* ------------------------------------------------------------------------------------ the model */

static uint64_t rung_ns(unsigned rung)
{
	return rung ? (uint64_t)FIRST_RUNG_NS << (rung - 1) : 0;
}

/* The lowest rung from ns on. */
static unsigned rung_from(double ns)
{
	unsigned rung = 0;
	while (rung < HALT_KERNEL_RUNGS - 1 && (double)rung_ns(rung) < ns)
		rung++;
	return rung;
}

static double price(const struct halt_kernel *k)
{
	return k->switch_ns + k->lambda * k->wake_ns;
}

/* Where to start, and where to stay as long as it makes no difference: the wait that a sleep is worth, and the latency
 * of the wake that ends it, because KVM's rule looks at both together. */
static unsigned usual_rung(const struct halt_kernel *k)
{
	return rung_from(price(k) + k->wake_ns);
}

static unsigned top_rung(const struct halt_kernel *k)
{
	unsigned usual = usual_rung(k), rung = rung_from(2 * price(k));
	return rung > usual ? rung : usual;
}

/* A halt whose event comes after so long. */
struct point {
	double event_ns, weight;
};

struct halts {
	struct point points[POINTS];
	unsigned count;
	double weight;
};

static void add_point(struct halts *h, double event_ns, double weight)
{
	if (weight <= 0)
		return;
	h->points[h->count++] = (struct point){event_ns > 0 ? event_ns : 0, weight};
	h->weight += weight;
}

/* The middle of a part of a bucket. */
static double middle(unsigned bucket, unsigned part)
{
	double low = bucket ? (double)(1u << (bucket - 1)) : 0;
	return low * (1 + (part + 0.5) / PARTS);
}

/* From the start of a halt to its event: the poll that found it; or the poll that did not, and the sleep without the
 * latency of its wake. Which sleeps followed a poll is not known, so each of them did to the same part. */
static void list_halts(const struct halt_kernel *k, struct halts *h)
{
	double waits = 0;
	h->count = 0;
	h->weight = 0;
	for (unsigned b = 0; b < KVM_STATS_BUCKETS; b++)
		waits += k->wait[b];
	double before = waits > 0 && k->failed > 0 ? k->failed_ns / k->failed : 0;
	double share = waits > 0 ? (k->failed < waits ? k->failed / waits : 1) : 0;
	for (unsigned b = 0; b < KVM_STATS_BUCKETS; b++)
		for (unsigned part = 0; part < PARTS; part++) {
			double at = middle(b, part), weight = k->wait[b] / PARTS;
			add_point(h, at, k->success[b] / PARTS);
			double slept = at > k->wake_ns ? at - k->wake_ns : 0;
			/* Two points would be exact; one at the mean is as good as the buckets are. */
			add_point(h, slept + share * before, weight);
		}
}

struct chain {
	double window[STATES], cost[STATES], move[STATES][STATES];
	unsigned states;
};

/* The windows that KVM's rule can reach below a limit. */
static void list_windows(const struct halt_kernel *k, struct chain *c, double limit)
{
	double window = k->rule.start_ns;
	c->window[0] = 0;
	c->states = 1;
	if (limit <= 0 || !k->rule.grow || !k->rule.start_ns)
		return;
	for (; c->states < STATES - 1 && window < limit; window *= k->rule.grow) {
		c->window[c->states++] = window;
		if (k->rule.grow == 1)
			return;
	}
	c->window[c->states++] = limit;
}

static unsigned shrunk(const struct halt_kernel *k, const struct chain *c, unsigned state)
{
	double window = k->rule.shrink ? c->window[state] / k->rule.shrink : 0;
	unsigned to = state;
	if (window < k->rule.start_ns)
		return 0;
	while (to && c->window[to] > window)
		to--;
	return to;
}

/* What halts do in one state: their mean cost, and how often the window grows and shrinks. */
static void fill_state(const struct halt_kernel *k, struct chain *c, const struct halts *h, unsigned state,
                       double limit)
{
	double window = c->window[state], cost = 0, grows = 0, shrinks = 0;
	for (unsigned i = 0; i < h->count; i++) {
		double event = h->points[i].event_ns, weight = h->points[i].weight;
		if (event <= window) {
			cost += weight * event;
			continue;
		}
		cost += weight * (window + price(k));
		double halt = event + k->wake_ns;
		if (window > 0 && halt > limit)
			shrinks += weight;
		else if (window < limit && halt < limit)
			grows += weight;
	}
	unsigned up = state + 1 < c->states ? state + 1 : state;
	c->cost[state] = cost / h->weight;
	c->move[state][0] += LEAK;
	c->move[state][up] += grows / h->weight;
	c->move[state][shrunk(k, c, state)] += shrinks / h->weight;
}

/* The mean over the chain's stationary distribution: state reduction (Grassmann, Taksar, Heyman), which subtracts
 * nothing. Loops from a state to itself do not matter. */
static double solve(struct chain *c)
{
	double visits[STATES] = {1}, sum = 1, cost = c->cost[0];
	for (unsigned n = c->states - 1; n > 0; n--) {
		double leaves = 0;
		for (unsigned j = 0; j < n; j++)
			leaves += c->move[n][j];
		for (unsigned i = 0; i < n; i++)
			c->move[i][n] /= leaves;
		for (unsigned i = 0; i < n; i++)
			for (unsigned j = 0; j < n; j++)
				c->move[i][j] += c->move[i][n] * c->move[n][j];
	}
	for (unsigned n = 1; n < c->states; n++) {
		for (unsigned i = 0; i < n; i++)
			visits[n] += visits[i] * c->move[i][n];
		sum += visits[n];
		cost += visits[n] * c->cost[n];
	}
	return cost / sum;
}

static double expected(const struct halt_kernel *k, const struct halts *h, double limit)
{
	struct chain c = {.states = 0};
	list_windows(k, &c, limit);
	for (unsigned state = 0; state < c.states; state++)
		fill_state(k, &c, h, state, limit);
	return solve(&c);
}

double halt_kernel_expected(const struct halt_kernel *k, uint64_t limit_ns)
{
	struct halts h;
	list_halts(k, &h);
	return h.weight > 0 ? expected(k, &h, (double)limit_ns) : price(k);
}

/* The rung that the model would take, and whether it is worth a trial. */
static bool suggest(const struct halt_kernel *k, unsigned *rung)
{
	struct halts h;
	double costs[HALT_KERNEL_RUNGS], least = 0;
	unsigned top = top_rung(k), usual = usual_rung(k), best = 0, distance = HALT_KERNEL_RUNGS;
	list_halts(k, &h);
	for (unsigned r = 0; r <= top; r++) {
		costs[r] = expected(k, &h, (double)rung_ns(r));
		least = r == 0 || costs[r] < least ? costs[r] : least;
	}
	for (unsigned r = 0; r <= top; r++) {
		unsigned from_usual = r > usual ? r - usual : usual - r;
		if (costs[r] <= 1.02 * least && from_usual < distance) {
			distance = from_usual;
			best = r;
		}
	}
	*rung = best;
	return best != k->home && costs[best] < WORTH_TRYING * expected(k, &h, (double)rung_ns(k->home));
}

/* ------------------------------------------------------------------------------------ decisions */

static void remember(struct halt_kernel *k, const struct kvm_halt_stats *s)
{
	double weight = 0, keep = 1;
	for (unsigned b = 0; b < KVM_STATS_BUCKETS; b++)
		weight += k->success[b] + k->wait[b];
	if (weight > MEMORY)
		keep = MEMORY / weight;
	k->failed *= keep;
	k->failed_ns = k->failed_ns * keep + (double)s->poll_fail_ns;
	for (unsigned b = 0; b < KVM_STATS_BUCKETS; b++) {
		k->success[b] = k->success[b] * keep + (double)s->poll_success_hist[b];
		k->wait[b] = k->wait[b] * keep + (double)s->wait_hist[b];
		k->failed += (double)s->poll_fail_hist[b];
	}
}

static void forget(struct halt_kernel *k)
{
	memset(k->success, 0, sizeof(k->success));
	memset(k->wait, 0, sizeof(k->wait));
	k->failed = k->failed_ns = 0;
	k->model_every = 1;
	k->exploration_every = EXPLORE_EVERY;
	k->home_known = false;
}

static void try(struct halt_kernel *k, unsigned rung, bool model)
{
	k->rung = rung;
	k->model_trial = model;
	*(model ? &k->since_model : &k->since_exploration) = 0;
}

/* By turns the highest rung, the next higher and the next lower one. */
static void explore(struct halt_kernel *k)
{
	unsigned top = top_rung(k);
	const unsigned targets[] = {top, k->home < top ? k->home + 1 : top, k->home ? k->home - 1 : 0};
	unsigned target = targets[k->turn++ % 3];
	if (target != k->home)
		try(k, target, false);
	else
		k->since_exploration = k->exploration_every / 2;
}

/* At the price of today. */
static double home_cost(const struct halt_kernel *k)
{
	return k->home_polled + k->home_slept * price(k);
}

static void at_home(struct halt_kernel *k, double polled, double slept)
{
	double cost = polled + slept * price(k), before = home_cost(k);
	unsigned best;
	if (k->home_known && (cost > CHANGED * before || CHANGED * cost < before))
		forget(k);
	remember(k, &k->sum);
	k->home_polled += (polled - k->home_polled) / (k->home_known ? 4 : 1);
	k->home_slept += (slept - k->home_slept) / (k->home_known ? 4 : 1);
	k->home_known = true;
	k->since_model++;
	k->since_exploration++;
	if (k->since_model >= k->model_every && suggest(k, &best))
		try(k, best, true);
	else if (k->since_exploration >= k->exploration_every)
		explore(k);
}

static void judge(struct halt_kernel *k, double polled, double slept)
{
	double cost = polled + slept * price(k);
	unsigned *every = k->model_trial ? &k->model_every : &k->exploration_every;
	unsigned most = k->model_trial ? MODEL_EVERY_MAX : EXPLORE_EVERY_MAX;
	remember(k, &k->sum);
	if (cost < home_cost(k) * (k->model_trial ? SUGGESTION_SAVES : EXPLORATION_SAVES)) {
		k->home = k->rung;
		k->home_polled = polled;
		k->home_slept = slept;
		k->model_every = 1;
		k->exploration_every = EXPLORE_EVERY;
		return;
	}
	k->rung = k->home;
	*every = *every * 2 < most ? *every * 2 : most;
}

uint64_t halt_kernel_step(struct halt_kernel *k, const struct kvm_halt_stats *since)
{
	kvm_halt_stats_add(&k->sum, since);
	uint64_t sleeps = kvm_halt_stats_sleeps(&k->sum), halts = kvm_halt_stats_halts(&k->sum);
	bool trying = halt_kernel_is_trying(k);
	if (halts < DECIDE_AFTER)
		return rung_ns(k->rung);
	double polled = ((double)k->sum.poll_success_ns + (double)k->sum.poll_fail_ns) / (double)halts;
	double slept = (double)sleeps / (double)halts;
	if (trying && halts < JUDGE_AFTER && polled + slept * price(k) < MUCH_MORE * home_cost(k))
		return rung_ns(k->rung);
	if (trying)
		judge(k, polled, slept);
	else
		at_home(k, polled, slept);
	memset(&k->sum, 0, sizeof(k->sum));
	return rung_ns(k->rung);
}

uint64_t halt_kernel_rest(struct halt_kernel *k)
{
	memset(&k->sum, 0, sizeof(k->sum));
	k->rung = k->home;
	k->home_known = false;
	return rung_ns(k->rung);
}

bool halt_kernel_is_trying(const struct halt_kernel *k)
{
	return k->rung != k->home;
}

/* ------------------------------------------------------------------------------------ set-up */

void halt_kernel_wake(struct halt_kernel *k, uint64_t wake_ns)
{
	if (!k->wake_given)
		k->wake_ns = (double)wake_ns;
	if (!k->switch_given)
		k->switch_ns = SWITCH_SHARE * k->wake_ns;
}

void halt_kernel_init(struct halt_kernel *k, const struct policy_spec *spec, const struct halt_kernel_rule *rule)
{
	uint64_t wake = value_of(spec, "wake"), switch_ns = value_of(spec, "switch");
	*k = (struct halt_kernel){.rule = *rule, .lambda = (double)value_of(spec, "lambda") / 1000};
	k->switch_ns = (double)switch_ns;
	k->switch_given = switch_ns > 0;
	halt_kernel_wake(k, wake ? wake : WAKE_PRESET_NS);
	k->wake_given = wake > 0;
	k->home = k->rung = usual_rung(k);
	forget(k);
}
