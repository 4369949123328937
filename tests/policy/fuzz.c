/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.c - A9 and A10: no arrivals, not even those of an adversary who knows the plan and the policy's state, make the
 * cost of any interval of halts exceed 2 * optimum + 27 B (29 B below lambda 1), nor a single halt its own limits.
 * The wake latency is its mean throughout, because the bound is about the mean.
 */
#include "targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mode {
	RANDOM,
	PERIODIC,
	GREEDY,  /* picks what costs most now, among what the plan makes interesting */
	FORESEE, /* and in the next halt */
	BANK,    /* lets the policy earn credit, then is greedy */
	MODES
};

static const struct setting {
	struct sim_host host;
	double lambda;
} settings[] = {
	{{5000, 2000, 700, 0}, 0.25}, {{35000, 5000, 3000, 0}, 0.25}, {{5000, 2000, 700, 0}, 1},
	{{50000, 20000, 5000, 0}, 1}, {{10000, 3000, 1000, 0}, 2},    {{35000, 5000, 3000, 0}, 2},
	{{5000, 2000, 700, 0}, 8},    {{50000, 20000, 5000, 0}, 8},
};

struct game {
	const struct setting *setting;
	const struct policy_spec *spec;
	struct sim_random random;
	double b; /* B */
	double period[8], weight, timers;
	uint32_t periods, left, turn, bank;
	_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
	/* results */
	double cost, optimum, excess, worst_excess, worst_halt, worst_long_ratio;
	uint64_t halts, broken_halts, now;
};

static double between(struct game *g, double low, double high)
{
	return low * sim_exp(sim_uniform(&g->random, 0, 1) * sim_ln(high / low));
}

static bool chance(struct game *g, double p)
{
	return sim_uniform(&g->random, 0, 1) < p;
}

static void new_rules(struct game *g)
{
	g->left = (uint32_t)(sim_bits(&g->random) % 3000);
	g->periods = 1 + (uint32_t)(sim_bits(&g->random) % 8);
	for (uint32_t i = 0; i < g->periods; i++)
		g->period[i] = between(g, 0.001 * g->b, 60 * g->b);
	g->weight = chance(g, 0.7) ? 2 : sim_uniform(&g->random, 0, 4);
	g->timers = chance(g, 0.4) ? sim_uniform(&g->random, 0, 1) : 0;
	g->bank = chance(g, 0.5) ? 20 + (uint32_t)(sim_bits(&g->random) % 300) : 0;
}

static struct sim_halt at(const struct game *g, double ns, uint64_t timer_ns, bool io)
{
	struct sim_halt halt = {.event_ns = ns < 1 ? 1 : (uint64_t)ns,
	                        .timer_ns = timer_ns,
	                        .factor = {1, 1},
	                        .source = POLICY_OTHER,
	                        .io = io,
	                        .may_poll = true};

	(void)g;
	if (halt.event_ns >= timer_ns) {
		halt.event_ns = timer_ns;
		halt.source = POLICY_TIMER;
	}
	return halt;
}

static double price_of(const struct game *g, const struct sim_outcome *out)
{
	return out->cpu_ns + g->setting->lambda * out->latency_ns;
}

static double optimum_of(const struct game *g, const struct sim_halt *halt)
{
	return (double)halt->event_ns < g->b ? (double)halt->event_ns : g->b;
}

/* Times at which something changes for this plan; returns how many. */
static int interesting(struct game *g, const struct policy_plan *plan, double times[16])
{
	double poll = (double)plan->poll_ns;
	int n = 0;

	times[n++] = 1;
	times[n++] = poll;
	times[n++] = poll + 1;
	times[n++] = g->b;
	times[n++] = 2 * g->b + 1;
	times[n++] = 20 * g->b;
	times[n++] = between(g, 0.001 * g->b, 20 * g->b);
	if (plan->sleep_ns != POLICY_NEVER) {
		times[n++] = (double)plan->sleep_ns;
		times[n++] = (double)plan->sleep_ns + 1;
		times[n++] = (double)plan->sleep_ns + g->setting->host.wake_ns + 1;
		times[n++] = (double)plan->spin_ns;
		times[n++] = (double)plan->spin_ns + 1;
	}
	return n;
}

/* The most that the next halt can cost beyond its optimum if this one ends so. */
static double next_halt(struct game *g, const struct policy_sample *sample, bool io, double weight)
{
	_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
	struct policy_hint hint = {g->now, POLICY_NEVER, POLICY_NEVER, io, true, 0};
	struct policy_plan plan;
	struct policy_sample unused;
	double times[16], best = -1e30;

	memcpy(state, g->state, sizeof(state));
	g->spec->policy->observe(state, sample);
	g->spec->policy->plan(state, &hint, &plan);
	for (int n = interesting(g, &plan, times), i = 0; i < n; i++) {
		struct sim_halt halt = at(g, times[i], POLICY_NEVER, io);
		struct sim_outcome out = sim_play(&g->setting->host, &halt, &plan, &unused);
		double gain = price_of(g, &out) - weight * optimum_of(g, &halt);
		if (gain > best)
			best = gain;
	}
	return best;
}

static struct sim_halt adversary(struct game *g, const struct policy_plan *plan, uint64_t timer_ns, bool io,
                                 bool foresee)
{
	/* While banking the adversary wants the policy to do well: the weight outweighs every cost. */
	double times[16], best = -1e30, weight = g->bank ? 20 : g->weight;
	struct sim_halt pick = {0};

	if (g->bank)
		g->bank--;
	for (int n = interesting(g, plan, times), i = 0; i < n; i++) {
		struct sim_halt halt = at(g, times[i], timer_ns, io);
		struct policy_sample sample;
		struct sim_outcome out = sim_play(&g->setting->host, &halt, plan, &sample);
		double gain = price_of(g, &out) - weight * optimum_of(g, &halt);
		if (weight > 4)
			gain = 2 * optimum_of(g, &halt) - price_of(g, &out);
		if (foresee && !g->bank)
			gain += next_halt(g, &sample, io, weight);
		if (gain > best) {
			best = gain;
			pick = halt;
		}
	}
	return pick;
}

static struct sim_halt choose(struct game *g, enum mode mode, const struct policy_plan *plan, uint64_t timer_ns,
                              bool io)
{
	double ns;

	if (mode >= GREEDY)
		return adversary(g, plan, timer_ns, io, mode == FORESEE);
	ns = mode == RANDOM ? between(g, 0.001 * g->b, 100 * g->b) : g->period[g->turn++ % g->periods];
	return at(g, chance(g, 0.5) && timer_ns != POLICY_NEVER ? (double)timer_ns : ns, timer_ns, io);
}

static void keep_account(struct game *g, const struct sim_halt *halt, const struct sim_outcome *out)
{
	double cost = price_of(g, out), optimum = optimum_of(g, halt);
	/* The quantile that a pre-wake covers moves in steps of 3 % of the mean around it. */
	double cpu_limit = 2 * g->b + g->setting->host.switch_ns + 1.03 * g->setting->host.wake_ns + 2;

	g->cost += cost;
	g->optimum += optimum;
	g->excess += cost - 2 * optimum;
	if (g->excess < 0)
		g->excess = 0;
	if (g->excess > g->worst_excess)
		g->worst_excess = g->excess;
	if (cost > g->worst_halt)
		g->worst_halt = cost;
	g->broken_halts += out->cpu_ns > cpu_limit || out->latency_ns > g->setting->host.wake_ns + 1;
	g->halts++;
}

static void play(struct game *g, enum mode mode, uint64_t halts)
{
	for (uint64_t i = 0; i < halts; i++) {
		struct policy_plan plan;
		struct policy_sample sample;
		if (!g->left--) {
			new_rules(g);
			if (mode != BANK)
				g->bank = 0;
		}
		uint64_t timer = chance(g, g->timers) ? 1 + (uint64_t)between(g, 0.01 * g->b, 40 * g->b) : POLICY_NEVER;
		struct policy_hint hint = {g->now, timer, POLICY_NEVER, sim_bits(&g->random) & 1, true, 0};
		g->spec->policy->plan(g->state, &hint, &plan);
		struct sim_halt halt = choose(g, mode, &plan, timer, hint.io);
		struct sim_outcome out = sim_play(&g->setting->host, &halt, &plan, &sample);
		g->spec->policy->observe(g->state, &sample);
		g->now += halt.event_ns;
		keep_account(g, &halt, &out);
	}
}

struct verdict {
	double excess, excess_low, ratio, halt, halt_low;
	uint64_t halts, broken;
	bool bounded;
};

static void fuzz(struct verdict *v, const struct setting *setting, enum mode mode, uint64_t halts, const char *guard)
{
	struct policy_spec spec = spec_of("cost:lambda=%g,guard=%s", setting->lambda, guard);
	struct policy_host told = sim_told(&setting->host);
	struct game g = {.setting = setting, .spec = &spec, .b = sim_price(&setting->host, setting->lambda)};
	bool low = setting->lambda < 1;
	double *excess = low ? &v->excess_low : &v->excess, *halt = low ? &v->halt_low : &v->halt;

	sim_seed(&g.random, (uint64_t)(setting - settings) * MODES + mode);
	policy_init(&spec, g.state, &told);
	play(&g, mode, halts);
	if (g.worst_excess / g.b > *excess)
		*excess = g.worst_excess / g.b;
	if (g.worst_halt / g.b > *halt)
		*halt = g.worst_halt / g.b;
	if (g.halts >= 10000 && g.optimum >= 1e4 * g.b && g.cost / g.optimum > v->ratio)
		v->ratio = g.cost / g.optimum;
	v->halts += g.halts;
	v->broken += g.broken_halts;
	v->bounded = v->bounded && g.worst_excess <= (low ? 29 : 27) * g.b;
}

/* A10 once more with latencies as they vary, against what the policy believed at the time. */
static uint64_t broken_in_replay(const struct targets *t, double lambda)
{
	uint64_t broken = 0;

	for (int n = 0; n < HOSTS * TRACES; n++) {
		const struct sim_host *host = &hosts[n % HOSTS];
		const struct sim_trace *trace = &t->traces[n / HOSTS];
		struct policy_spec spec = spec_of("cost:lambda=%g", lambda);
		struct policy_host told = sim_told(host);
		_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
		double now = 0;
		policy_init(&spec, state, &told);
		for (size_t i = 0; i < trace->count; i++) {
			const struct sim_halt *halt = &trace->halts[i];
			struct policy_hint hint = {(uint64_t)now, halt->timer_ns, POLICY_NEVER, halt->io, true, 0};
			struct policy_plan plan;
			struct policy_sample sample;
			struct policy_view view;
			spec.policy->plan(state, &hint, &plan);
			spec.policy->view(state, &view);
			struct sim_outcome out = sim_play(host, halt, &plan, &sample);
			spec.policy->observe(state, &sample);
			float slower = halt->factor[0] > halt->factor[1] ? halt->factor[0] : halt->factor[1];
			double cpu = 2 * (double)view.cost_ns + host->switch_ns + (double)view.lead_ns + 4;
			broken += out.cpu_ns > cpu || out.latency_ns > host->wake_ns * (double)slower + host->poll_ns;
			now += (double)halt->event_ns + out.latency_ns;
		}
	}
	return broken;
}

void fuzz_targets(struct targets *t)
{
	struct verdict v = {.bounded = true}, open = {.bounded = true};
	size_t n = sizeof(settings) / sizeof(settings[0]);

	for (size_t i = 0; i < n * MODES; i++) {
		fuzz(&v, &settings[i / MODES], (enum mode)(i % MODES), t->fuzz_halts / (n * MODES) + 1, "on");
		fuzz(&open, &settings[i / MODES], (enum mode)(i % MODES), t->fuzz_halts / (n * MODES) / 50 + 1, "off");
	}
	report(t, "A9", v.bounded, "any interval: cost - 2 * optimum, in B, lambda >= 1, < 1", "<= 27, <= 29",
	       "%.2f, %.2f (%.0e halts)", v.excess, v.excess_low, (double)v.halts);
	report(t, "A9", v.ratio <= 2.02, "10k halts or more: cost / optimum", "<= 2.02", "%.4f", v.ratio);
	report(t, "A9", !open.bounded, "the fuzzer breaks the bound when the guard is off", "> 27 B", "%.0f B, %.0f B",
	       open.excess, open.excess_low);
	note("A9", "most that one halt cost, in B, lambda >= 1, < 1", "%.2f, %.2f", v.halt, v.halt_low);
	report(t, "A10", !v.broken, "halts with CPU > 2 B + switch + lead or latency > L, fuzz", "0", "%llu of %.0e",
	       (unsigned long long)v.broken, (double)v.halts);
	uint64_t broken = broken_in_replay(t, 1) + broken_in_replay(t, 2);
	report(t, "A10", !broken, "the same, replay, lambda 1, 2", "0", "%llu of %.0e", (unsigned long long)broken,
	       2.0 * HOSTS * TRACES * HALTS);
}
