/* SPDX-License-Identifier: Apache-2.0 */
/* windows.c - A6 and A7: the learned window against the best fixed one in hindsight; A11 to A13: timers and idling. */
#include "targets.h"

#include <stdio.h>
#include <stdlib.h>

struct event {
	double ns, factor;
};

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Every window that differs from the others is a time at which an event came, or 0. events is sorted. */
static double best_fixed(const struct sim_host *host, const struct event *events, size_t n, double lambda)
{
	double before = 0, after = 0, best;

	for (size_t i = 0; i < n; i++)
		after += host->switch_ns + lambda * host->wake_ns * events[i].factor;
	best = after;
	for (size_t i = 0; i < n; i++) {
		before += events[i].ns + lambda * host->poll_ns;
		after -= host->switch_ns + lambda * host->wake_ns * events[i].factor;
		double cost = before + after + (double)(n - 1 - i) * events[i].ns;
		if (cost < best)
			best = cost;
	}
	return best;
}

void window_targets(struct targets *t)
{
	struct event *events = calloc(HALTS, sizeof(*events));
	double stationary = 0, changing = 0;
	char stationary_at[48] = "", changing_at[48] = "";

	for (int i = 0; i < NATURAL && events; i++) {
		const struct sim_trace *trace = &t->traces[i];
		for (size_t k = 0; k < trace->count; k++)
			events[k] = (struct event){(double)trace->halts[k].event_ns, (double)trace->halts[k].factor[0]};
		qsort(events, trace->count, sizeof(*events), by_time);
		for (int n = 0; n < 2 * HOSTS; n++) {
			int h = n % HOSTS, lambda = 1 + n / HOSTS;
			struct sim_total total;
			char text[64];
			snprintf(text, sizeof(text), "cost:lambda=%d,prewake=off,spin=off", lambda);
			double ratio = run(t, text, lambda, h, i, &total) /
			               best_fixed(&hosts[h], events, trace->count, lambda);
			bool changes = workloads[i].classes & WORKLOAD_CHANGING;
			double *worst = changes ? &changing : &stationary;
			if (ratio > *worst) {
				*worst = ratio;
				snprintf(changes ? changing_at : stationary_at, 48, "%s, L %g us, lambda %d",
				         trace->name, hosts[h].wake_ns / 1000, lambda);
			}
		}
	}
	report(t, "A6", stationary <= 1.06, "windows only / best fixed window, stationary, lambda 1, 2", "<= 1.06",
	       "%.3f (%s)", stationary, stationary_at);
	report(t, "A7", changing <= 1.02, "windows only / best fixed window, changing, lambda 1, 2", "<= 1.02",
	       "%.3f (%s)", changing, changing_at);
	free(events);
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

void timer_targets(struct targets *t)
{
	double mean = 0, p99 = 0, cpu = 0, sparse = 0;

	for (int n = 0; n < 2 * HOSTS * NATURAL; n++) {
		int i = n % NATURAL, h = n / NATURAL % HOSTS, lambda = 1 + n / NATURAL / HOSTS;
		double wake = hosts[h].wake_ns;
		struct sim_total ours, asleep, windows;
		char text[64];
		if (!(workloads[i].classes & (WORKLOAD_TIMER | WORKLOAD_SPARSE)))
			continue;
		run(t, "none", 1, h, i, &asleep);
		if (workloads[i].classes & WORKLOAD_TIMER) {
			snprintf(text, sizeof(text), "cost:lambda=%d", lambda);
			run(t, text, 1, h, i, &ours);
			mean = larger(mean, ours.latency_ns / HALTS / wake);
			p99 = larger(p99, ours.latency_p99_ns / asleep.latency_p99_ns);
			cpu = larger(cpu, (ours.cpu_ns / HALTS - hosts[h].switch_ns) / wake);
		}
		if (workloads[i].classes & WORKLOAD_SPARSE) {
			snprintf(text, sizeof(text), "cost:lambda=%d,prewake=off", lambda);
			run(t, text, 1, h, i, &windows);
			sparse = larger(sparse, windows.cpu_ns / asleep.cpu_ns);
		}
	}
	report(t, "A11", mean <= 0.15, "timers: mean latency, in L, lambda 1, 2", "<= 0.15", "%.3f", mean);
	report(t, "A11", p99 <= 0.65, "timers: p99 of latency / that of none, lambda 1, 2", "<= 0.65", "%.3f", p99);
	report(t, "A12", cpu <= 0.30, "timers: CPU a tick beyond the switch, in L, lambda 1, 2", "<= 0.30", "%.3f",
	       cpu);
	report(t, "A13", sparse <= 1.05, "idle, sparse: CPU without pre-wake / none, lambda 1, 2", "<= 1.05", "%.3f",
	       sparse);
}
