/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contention.c - A16: a vCPU that shares its CPU with a thread that always runs. The scheduler is a fair one: a thread
 * keeps the CPU for a slice, then the one that had less, or else waited longer, goes; who wakes with less gets it at
 * once; sleeping earns at most one slice. A vCPU that polls away its share loses the CPU for a slice at a time, and its
 * event waits.
 */
#include "targets.h"

#include <stdio.h>

#define SLICE_NS 3e6
#define WORK_NS  1e3 /* of the guest between halts */
#define ROUNDS   400000

struct cpu {
	double now, had[2]; /* CPU time of the vCPU and of the other thread */
	double ran;         /* of the one that runs, without a break */
	double gap_at;      /* start of the last gap in what the vCPU did, < 0: none */
};

/* The vCPU wants ns of CPU time, and loses the CPU when its slice is over. */
static void use(struct cpu *c, double ns)
{
	while (ns > 0) {
		double left = SLICE_NS - c->ran, step = ns < left ? ns : left;
		c->now += step;
		c->had[0] += step;
		c->ran += step;
		ns -= step;
		if (c->ran < SLICE_NS)
			continue;
		c->ran = 0;
		if (c->had[0] >= c->had[1] - 1) {
			double lag = c->had[0] - c->had[1], gap = lag > SLICE_NS ? lag : SLICE_NS;
			c->gap_at = c->now;
			c->now += gap;
			c->had[1] += gap;
		}
	}
}

/* The vCPU sleeps for ns and wants to run then; returns how long it waits for the CPU. */
static double sleep_for(struct cpu *c, double ns)
{
	double wait = 0;

	c->now += ns;
	c->had[1] += ns;
	if (c->had[0] < c->had[1] - SLICE_NS)
		c->had[0] = c->had[1] - SLICE_NS;
	if (c->had[0] >= c->had[1] - 1) {
		wait = c->had[0] - c->had[1];
		wait = wait < SLICE_NS ? wait : SLICE_NS;
		c->now += wait;
		c->had[1] += wait;
	}
	c->ran = 0;
	return wait;
}

struct result {
	double poll_ns, latency_ns, wall_ns;
};

/* Polls until the event, which comes at `event` on the wall clock, or for ns. True: seen. */
static bool poll(struct cpu *c, double event, double ns, struct result *r, struct policy_sample *sample)
{
	double want = event - c->now < ns ? event - c->now : ns, before = c->had[0];

	c->gap_at = -1;
	use(c, want);
	r->poll_ns += c->had[0] - before;
	sample->poll_ns = (uint64_t)(c->had[0] - before);
	if (c->gap_at >= 0)
		sample->gap_ns = (uint64_t)c->now;
	return c->now >= event;
}

static struct result play(const struct sim_host *host, const char *back_off, double mean_ns)
{
	struct policy_spec spec = spec_of("cost:lambda=2,backoff=%s", back_off);
	struct policy_host told = sim_told(host);
	_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
	struct cpu c = {0};
	struct result r = {0};
	struct sim_random random;

	sim_seed(&random, 5);
	policy_init(&spec, state, &told);
	for (int i = 0; i < ROUNDS; i++) {
		use(&c, WORK_NS);
		struct policy_hint hint = {(uint64_t)c.now, POLICY_NEVER, POLICY_NEVER, false, true, 0};
		struct policy_plan plan;
		double start = c.now, d = 1 + sim_normal(&random, mean_ns, 0.1 * mean_ns), event = start + d;
		struct policy_sample sample = {.event_ns = (uint64_t)d,
		                               .wake_ns = {POLICY_NEVER, POLICY_NEVER},
		                               .max_ns = POLICY_NEVER,
		                               .source = POLICY_OTHER,
		                               .may_poll = true};
		spec.policy->plan(state, &hint, &plan);
		bool seen = plan.poll_ns && poll(&c, event, (double)plan.poll_ns, &r, &sample);
		if (!seen) {
			double left = event - c.now, wake = host->wake_ns * (double)sim_factor(&random);
			double wait = sleep_for(&c, left > 0 ? left : 0);
			c.now += wake;
			c.had[0] += host->switch_ns;
			wake += wait;
			sample.wake_ns[1] = (uint64_t)wake;
		}
		double latency = c.now - event;
		r.latency_ns += latency;
		sample.latency_ns = (uint64_t)latency;
		sample.halt_ns = (uint64_t)(c.now - start);
		spec.policy->observe(state, &sample);
	}
	r.wall_ns = c.now;
	return r;
}

/* Alone against one such thread, a vCPU that polls through gaps of d waits d for each event on average, and one that
 * sleeps waits L. So gaps near B are where there is something to gain: 0.8 B here, where lambda 2 polls. */
void contention_targets(struct targets *t)
{
	double poll[HOSTS], latency[HOSTS];

	for (int h = 0; h < HOSTS; h++) {
		double gap = 0.8 * sim_price(&hosts[h], 2);
		struct result with = play(&hosts[h], "on", gap), without = play(&hosts[h], "off", gap);
		/* Shares of wall time, because a run of fewer waits is shorter. */
		poll[h] = with.poll_ns / with.wall_ns / (without.poll_ns / without.wall_ns);
		latency[h] = with.latency_ns / without.latency_ns;
	}
	report(t, "A16", poll[0] <= 0.50 && poll[1] <= 0.50, "contended CPU: polling / without back-off, L=5/10",
	       "<= 0.50", "%.2f/%.2f", poll[0], poll[1]);
	report(t, "A16", latency[0] <= 0.75 && latency[1] <= 0.75, "the same: mean latency / without back-off",
	       "<= 0.75", "%.2f/%.2f", latency[0], latency[1]);
	note("A16", "the same, L=35/50: polling; mean latency", "%.2f/%.2f; %.2f/%.2f", poll[2], poll[3], latency[2],
	     latency[3]);
}
