/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - what a halt would have cost under a plan: the model by which traces are replayed and policies compared.
 *
 * A halt starts at 0, its event comes at d. Polling until d costs d of CPU time and poll_ns of latency. A sleep
 * and wake costs switch_ns of CPU time, and the thread runs wake_ns * f after what ended the sleep; f is drawn per
 * halt, lognormal (sigma 0.2), one in a hundred three times that, mean 1. A sleep to a time that is not the guest's
 * timer costs arm_ns more. Cost = CPU + lambda * latency; the clairvoyant pays min(d, B), B = switch_ns + lambda *
 * wake_ns. Arrivals do not depend on what the policy does (open loop).
 */
#ifndef LULL_SIM_H
#define LULL_SIM_H

#include "policy.h"
#include "sim_random.h"

struct sim_host {
	double wake_ns, switch_ns, arm_ns;
	double poll_ns; /* latency of a hit while polling */
};

struct sim_halt {
	uint64_t event_ns; /* d */
	uint64_t timer_ns; /* to the guest's timer, or POLICY_NEVER */
	float factor[2];   /* f of the first and the second sleep */
	uint8_t source;    /* enum policy_source */
	bool io;
	bool may_poll;
};

struct sim_trace {
	char name[32];
	struct sim_halt *halts;
	size_t count;
	double wake_ns;   /* mean of the wake latencies on record; 0: there are none */
	uint64_t span_ns; /* from the first halt to the last event, with what the guest ran between; 0: not known */
};

struct sim_outcome {
	double cpu_ns, latency_ns;
};

struct sim_total {
	double cpu_ns, latency_ns, wall_ns, optimum_ns;
	double latency_p99_ns;  /* only when asked for */
	uint64_t halts, polled; /* polled: the event was seen while polling */
};

/* f of one sleep. */
float sim_factor(struct sim_random *r);

/* One halt under a plan; fills what the engine would tell the policy. */
struct sim_outcome sim_play(const struct sim_host *host, const struct sim_halt *halt, const struct policy_plan *plan,
                            struct policy_sample *sample);

/* The whole trace through a policy that starts new. latencies: room for one per halt, for the p99, or NULL. */
void sim_run(const struct sim_host *host, const struct sim_trace *trace, const struct policy_spec *spec, double lambda,
             const struct policy_host *told, float *latencies, struct sim_total *total);

double sim_price(const struct sim_host *host, double lambda); /* B */
double sim_cost(const struct sim_total *total, double lambda);

/* What an engine that measured the host exactly tells a policy. */
struct policy_host sim_told(const struct sim_host *host);

/* The value below which share of the n values are; reorders them. */
float sim_quantile(float *values, size_t n, double share);

#endif
