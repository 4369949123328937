/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate.c - A14: what a wrong or moving wake latency costs. The oracle is the same policy whose estimates are
 * replaced by the truth before each halt, hence the policy's source in this file. A17: the time it takes, and a trace.
 */
#include "targets.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../vmm/policy_cost.c"

#define SWITCH_EVERY 1000 /* halts between L and 3 L */
#define FIRST_HALTS  200

static double wrong_start(struct targets *t, int host, uint64_t times4)
{
	struct policy_spec spec = spec_of("cost:lambda=1");
	struct policy_host told = sim_told(&hosts[host]);
	double logs = 0;

	told.wake_ns = told.wake_ns * times4 / 4;
	for (int i = 0; i < NATURAL; i++) {
		struct sim_total total;
		double exact = run(t, "cost:lambda=1", 1, host, i, &total);
		sim_run(&hosts[host], &t->traces[i], &spec, 1, &told, NULL, &total);
		logs += sim_ln(sim_cost(&total, 1) / exact);
	}
	return sim_exp(logs / NATURAL);
}

/* A guest that has just started on a host of which nothing is known yet. */
static double untold(const struct targets *t, int host)
{
	struct policy_spec spec = spec_of("cost:lambda=1");
	struct policy_host told = sim_told(&hosts[host]);
	double logs = 0;

	for (int i = 0; i < NATURAL; i++) {
		struct sim_trace first = t->traces[i];
		struct sim_total knows, learns;
		first.count = FIRST_HALTS;
		sim_run(&hosts[host], &first, &spec, 1, &told, NULL, &knows);
		sim_run(&hosts[host], &first, &spec, 1, NULL, NULL, &learns);
		logs += sim_ln(sim_cost(&learns, 1) / sim_cost(&knows, 1));
	}
	return sim_exp(logs / NATURAL);
}

/* The quantile of the wake latency, in L, that a pre-wake at lambda 1 should cover. */
static float true_lead(void)
{
	enum {
		N = 100000
	};
	float *f = calloc(N, sizeof(*f)), lead = 1;
	struct sim_random r;

	sim_seed(&r, 3);
	for (int i = 0; f && i < N; i++)
		f[i] = sim_factor(&r);
	if (f)
		lead = sim_quantile(f, N, 0.75);
	free(f);
	return lead;
}

static double moving(const struct sim_trace *trace, int host, bool oracle, float lead)
{
	struct policy_spec spec = spec_of("cost:lambda=1");
	struct policy_host told = sim_told(&hosts[host]);
	struct cost c;
	double cost = 0, now = 0;

	policy_init(&spec, &c, &told);
	for (size_t i = 0; i < trace->count; i++) {
		struct sim_halt halt = trace->halts[i];
		float scale = i / SWITCH_EVERY % 2 ? 3 : 1, wake = (float)hosts[host].wake_ns * scale;
		struct policy_hint hint = {(uint64_t)now, halt.timer_ns, POLICY_NEVER, halt.io, true, 0};
		struct policy_plan plan;
		struct policy_sample sample;

		halt.factor[0] *= scale;
		halt.factor[1] *= scale;
		if (oracle) {
			c.wake[0] = c.wake[1] = wake;
			c.late[0] = c.late[1] = wake * lead;
			set_prices(&c);
		}
		policy_cost.plan(&c, &hint, &plan);
		struct sim_outcome out = sim_play(&hosts[host], &halt, &plan, &sample);
		policy_cost.observe(&c, &sample);
		cost += out.cpu_ns + out.latency_ns;
		now += (double)halt.event_ns + out.latency_ns;
	}
	return cost;
}

void estimate_targets(struct targets *t)
{
	float lead = true_lead();
	double start = 0, move = 0, first = 0;

	for (int h = 0; h < HOSTS; h++) {
		double up = wrong_start(t, h, 16), down = wrong_start(t, h, 1), logs = 0;
		start = up > start ? up : start;
		start = down > start ? down : start;
		double learns = untold(t, h);
		first = learns > first ? learns : first;
		for (int i = 0; i < NATURAL; i++)
			logs += sim_ln(moving(&t->traces[i], h, false, lead) / moving(&t->traces[i], h, true, lead));
		double mean = sim_exp(logs / NATURAL);
		move = mean > move ? mean : move;
	}
	report(t, "A14", start <= 1.03, "first wake latency 4x wrong, geomean, cost / exact", "<= 1.03", "%.3f", start);
	report(t, "A14", first <= 1.03, "first 200 halts, host not known, geomean, cost / known", "<= 1.03", "%.3f",
	       first);
	report(t, "A14", move <= 1.06, "wake latency 1x and 3x in turns, geomean, cost / oracle", "<= 1.06", "%.3f",
	       move);
}

/* -------------------------------------------------------------------------------- A17 */

#define BATCH   64
#define BATCHES 4000

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Median over batches of the time of one call: plan, or plan and observe. */
static double decision_ns(const struct sim_trace *trace, bool learn)
{
	static double times[BATCHES];
	struct policy_spec spec = spec_of("cost");
	struct policy_sample samples[BATCH];
	struct policy_plan plan;
	struct cost c;

	policy_init(&spec, &c, NULL);
	for (size_t n = 0; n < BATCHES; n++) {
		const struct sim_halt *halts = &trace->halts[n * BATCH % (trace->count - BATCH)];
		for (size_t i = 0; i < BATCH; i++) {
			struct policy_hint hint = {0, halts[i].timer_ns, POLICY_NEVER, halts[i].io, true, 0};
			policy_cost.plan(&c, &hint, &plan);
			sim_play(&hosts[1], &halts[i], &plan, &samples[i]);
		}
		double start = now_ns();
		for (size_t i = 0; i < BATCH; i++) {
			struct policy_hint hint = {0, halts[i].timer_ns, POLICY_NEVER, halts[i].io, true, 0};
			policy_cost.plan(&c, &hint, &plan);
			if (learn)
				policy_cost.observe(&c, &samples[i]);
		}
		times[n] = (now_ns() - start) / BATCH;
	}
	qsort(times, BATCHES, sizeof(times[0]), by_value);
	return times[BATCHES / 2];
}

/* The same for recording a halt, in a ring that does not fit the caches closest to the CPU. */
static double record_ns(void)
{
	enum {
		RECORDS = 1 << 16
	};
	static double times[BATCHES];
	struct trace_file file = {0};
	struct trace_ring ring = {.slots = calloc(RECORDS, sizeof(struct trace_record)), .records = RECORDS};
	const struct policy_hint hint = {1000, 4000000, POLICY_NEVER, false, true, 0};
	const struct policy_plan plan = {0, 3988000, 4036000};
	const struct policy_sample sample = {.event_ns = 4000000, .wake_ns = {9000, POLICY_NEVER}};

	for (size_t n = 0; n < BATCHES; n++) {
		double start = now_ns();
		for (size_t i = 0; i < BATCH; i++)
			trace_halt(&ring, &file, &hint, &plan, &sample);
		times[n] = (now_ns() - start) / BATCH;
	}
	free(ring.slots);
	qsort(times, BATCHES, sizeof(times[0]), by_value);
	return times[BATCHES / 2];
}

void speed_targets(struct targets *t)
{
	double plan = 0, both = 0, record = record_ns();

	for (int i = 0; i < NATURAL; i++) {
		double p = decision_ns(&t->traces[i], false), b = decision_ns(&t->traces[i], true);
		plan = p > plan ? p : plan;
		both = b > both ? b : both;
	}
	report(t, "A17", plan <= 25, "time to plan, warm, median, slowest trace", "<= 25 ns", "%.0f ns", plan);
	report(t, "A17", both <= 200, "time to plan and observe, the same", "<= 200 ns", "%.0f ns", both);
	report(t, "-", record <= 50, "time to record a halt in a trace, median", "<= 50 ns", "%.0f ns", record);
	report(t, "A17", sizeof(struct cost) <= POLICY_STATE_BYTES, "state", "<= 640 bytes", "%zu bytes",
	       sizeof(struct cost));
}
