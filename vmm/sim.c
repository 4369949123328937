/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - plays plans against recorded or generated halts. Knows policies by their contract only. */
#include "sim.h"

#include "util.h"

#include <string.h>

float sim_factor(struct sim_random *r)
{
	const double mean = 1.0202013400267558 * 1.02; /* e^(0.2^2 / 2) * (0.99 + 3 * 0.01) */
	double f = sim_exp(sim_normal(r, 0, 0.2)) / mean;

	return (float)(sim_uniform(r, 0, 1) < 0.01 ? 3 * f : f);
}

static uint64_t rounded(double ns)
{
	return (uint64_t)(int64_t)(ns + 0.5);
}

static struct sim_outcome hit(const struct sim_host *host, struct policy_sample *sample, double cpu_ns)
{
	sample->halt_ns = sample->event_ns;
	sample->latency_ns = rounded(host->poll_ns);
	return (struct sim_outcome){cpu_ns, host->poll_ns};
}

/* The last sleep: until the event. */
static struct sim_outcome woken(struct policy_sample *sample, int phase, double wake_ns, double cpu_ns)
{
	sample->wake_ns[phase] = sample->latency_ns = rounded(wake_ns);
	sample->halt_ns = sample->event_ns + rounded(wake_ns);
	return (struct sim_outcome){cpu_ns, wake_ns};
}

struct sim_outcome sim_play(const struct sim_host *host, const struct sim_halt *halt, const struct policy_plan *plan,
                            struct policy_sample *sample)
{
	double d = (double)halt->event_ns, cpu, wake = host->wake_ns * (double)halt->factor[0];

	*sample = (struct policy_sample){
		.event_ns = halt->event_ns,
		.wake_ns = {POLICY_NEVER, POLICY_NEVER},
		.max_ns = POLICY_NEVER,
		.source = (enum policy_source)halt->source,
		.may_poll = halt->may_poll,
	};
	if (halt->event_ns <= plan->poll_ns) {
		sample->poll_ns = halt->event_ns;
		return hit(host, sample, d);
	}
	sample->poll_ns = plan->poll_ns;
	cpu = (double)plan->poll_ns + host->switch_ns;
	if (plan->sleep_ns == POLICY_NEVER || plan->sleep_ns <= plan->poll_ns)
		return woken(sample, 1, wake, cpu);
	if (plan->spin_ns < halt->timer_ns)
		cpu += host->arm_ns;
	if (halt->event_ns <= plan->sleep_ns)
		return woken(sample, 0, wake, cpu);

	double running = (double)plan->sleep_ns + wake;
	sample->wake_ns[0] = rounded(wake);
	if (d <= running) {
		sample->latency_ns = rounded(running - d);
		sample->halt_ns = rounded(running);
		return (struct sim_outcome){cpu, running - d};
	}
	if (halt->event_ns <= plan->spin_ns) {
		sample->spin_ns = rounded(d - running);
		return hit(host, sample, cpu + d - running);
	}
	double spin = (double)plan->spin_ns > running ? (double)plan->spin_ns - running : 0;
	sample->spin_ns = rounded(spin);
	return woken(sample, 1, host->wake_ns * (double)halt->factor[1], cpu + spin + host->switch_ns);
}

double sim_price(const struct sim_host *host, double lambda)
{
	return host->switch_ns + lambda * host->wake_ns;
}

double sim_cost(const struct sim_total *total, double lambda)
{
	return total->cpu_ns + lambda * total->latency_ns;
}

struct policy_host sim_told(const struct sim_host *host)
{
	return (struct policy_host){rounded(host->wake_ns), rounded(host->switch_ns), rounded(host->arm_ns)};
}

void sim_run(const struct sim_host *host, const struct sim_trace *trace, const struct policy_spec *spec, double lambda,
             const struct policy_host *told, float *latencies, struct sim_total *total)
{
	_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
	const struct policy *policy = spec->policy;
	double price = sim_price(host, lambda);
	struct policy_plan plan;
	struct policy_sample sample;

	invariant(policy->state_bytes <= sizeof(state));
	policy_init(spec, state, told);
	*total = (struct sim_total){.halts = trace->count};
	for (size_t i = 0; i < trace->count; i++) {
		const struct sim_halt *halt = &trace->halts[i];
		double now = total->wall_ns < 1e18 ? total->wall_ns : 1e18;
		struct policy_hint hint = {rounded(now), halt->timer_ns, POLICY_NEVER, halt->io, halt->may_poll, 0};
		double d = (double)halt->event_ns;

		policy->plan(state, &hint, &plan);
		struct sim_outcome out = sim_play(host, halt, &plan, &sample);
		if (policy->observe)
			policy->observe(state, &sample);
		total->cpu_ns += out.cpu_ns;
		total->latency_ns += out.latency_ns;
		total->wall_ns += d + out.latency_ns;
		total->optimum_ns += d < price ? d : price;
		total->polled += sample.wake_ns[0] == POLICY_NEVER && sample.wake_ns[1] == POLICY_NEVER;
		if (latencies)
			latencies[i] = (float)out.latency_ns;
	}
	if (latencies)
		total->latency_p99_ns = sim_quantile(latencies, trace->count, 0.99);
}

float sim_quantile(float *values, size_t n, double share)
{
	size_t low = 0, high = n - 1, want = (size_t)(share * (double)(n - 1));

	if (!n)
		return 0;
	while (low < high) {
		float pivot = values[low + (high - low) / 2];
		size_t i = low, j = high;
		for (;; i++, j--) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i >= j)
				break;
			float swap = values[i];
			values[i] = values[j];
			values[j] = swap;
		}
		if (want <= j)
			high = j;
		else
			low = j + 1;
	}
	return values[low];
}
