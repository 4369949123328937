/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.c - measures what the cost-aware policy promises, A1 to A17, by replaying generated traces through the real
 * policies. Prints target, result and verdict; exits with 1 when one is missed. "make policy-targets".
 */
#include "targets.h"

#include "lull.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct sim_host hosts[HOSTS] = {
	{5000, 2000, 700, 100},
	{10000, 3000, 1000, 100},
	{35000, 5000, 3000, 100},
	{50000, 20000, 5000, 100},
};

static void line(const char *id, const char *what, const char *target, const char *verdict, const char *fmt,
                 va_list args)
{
	char text[160];

	vsnprintf(text, sizeof(text), fmt, args);
	printf("%-4s %-58s %-26s %-50s %s\n", id, what, target, text, verdict);
	fflush(stdout);
}

void report(struct targets *t, const char *id, bool met, const char *what, const char *target, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(id, what, target, met ? "met" : "MISSED", fmt, args);
	va_end(args);
	t->missed += !met;
}

void note(const char *id, const char *what, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(id, what, "-", "(not judged)", fmt, args);
	va_end(args);
}

struct policy_spec spec_of(const char *fmt, ...)
{
	struct policy_spec spec;
	struct lull_error err = {0};
	char text[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (policy_parse(&spec, text, NULL, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(2);
	}
	return spec;
}

double run(const struct targets *t, const char *text, double lambda, int host, int trace, struct sim_total *total)
{
	struct policy_spec spec = spec_of("%s", text);
	struct policy_host told = sim_told(&hosts[host]);

	sim_run(&hosts[host], &t->traces[trace], &spec, lambda, &told, t->latencies, total);
	return sim_cost(total, lambda);
}

/* -------------------------------------------------------------------- A1 to A5 and A8: costs */

/* Result of one policy on one natural trace. */
struct cell {
	double cpu, latency, optimum;
};

struct matrix {
	struct cell kvm[HOSTS][NATURAL];
	double worst, clairvoyant; /* over everything */
	char worst_at[48], clairvoyant_at[48];
};

static double geomean(double log_sum)
{
	return sim_exp(log_sum / NATURAL);
}

static struct cell cell_of(const struct sim_total *total)
{
	return (struct cell){total->cpu_ns, total->latency_ns, total->optimum_ns};
}

static void keep_worst(double value, double *worst, char where[48], const char *trace, int host, double lambda)
{
	if (value <= *worst)
		return;
	*worst = value;
	snprintf(where, 48, "%s, L %g us, lambda %g", trace, hosts[host].wake_ns / 1000, lambda);
}

/* One policy at one lambda on one host: geometric means of its cost over KVM's and over the clairvoyant's. */
static void row(struct targets *t, struct matrix *m, const char *fmt, double lambda, int host, double *over_kvm,
                double *over_optimum, bool full)
{
	char text[64];
	double kvm_logs = 0, optimum_logs = 0;

	snprintf(text, sizeof(text), fmt, lambda);
	for (int i = 0; i < NATURAL; i++) {
		const struct cell *k = &m->kvm[host][i];
		struct sim_total total;
		double cost = run(t, text, lambda, host, i, &total), kvm = k->cpu + lambda * k->latency;
		kvm_logs += sim_ln(cost / kvm);
		optimum_logs += sim_ln(cost / total.optimum_ns);
		if (full) {
			keep_worst(cost / kvm, &m->worst, m->worst_at, t->traces[i].name, host, lambda);
			keep_worst(cost / total.optimum_ns, &m->clairvoyant, m->clairvoyant_at, t->traces[i].name, host,
			           lambda);
		}
	}
	*over_kvm = geomean(kvm_logs);
	*over_optimum = geomean(optimum_logs);
}

static bool all_at_most(const double values[HOSTS], const double limits[HOSTS])
{
	for (int h = 0; h < HOSTS; h++)
		if (values[h] > limits[h])
			return false;
	return true;
}

static void report_hosts(struct targets *t, const char *id, const char *what, const double values[HOSTS],
                         const double limits[HOSTS])
{
	char target[64];

	snprintf(target, sizeof(target), "<= %.2f/%.2f/%.2f/%.2f", limits[0], limits[1], limits[2], limits[3]);
	report(t, id, all_at_most(values, limits), what, target, "%.2f/%.2f/%.2f/%.2f", values[0], values[1], values[2],
	       values[3]);
}

/* The least lambda, one for all traces, at which the sum of all latencies is KVM's or less; the sum of CPU time there.
 */
static double cpu_at_kvms_latency(struct targets *t, const struct matrix *m, int host, double *lambda)
{
	static const double lambdas[] = {0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16};
	double kvm_cpu = 0, kvm_latency = 0;

	for (int i = 0; i < NATURAL; i++) {
		kvm_cpu += m->kvm[host][i].cpu;
		kvm_latency += m->kvm[host][i].latency;
	}
	for (size_t k = 0; k < sizeof(lambdas) / sizeof(lambdas[0]); k++) {
		double cpu = 0, latency = 0;
		char text[64];
		snprintf(text, sizeof(text), "cost:lambda=%g", lambdas[k]);
		for (int i = 0; i < NATURAL; i++) {
			struct sim_total total;
			run(t, text, 1, host, i, &total);
			cpu += total.cpu_ns;
			latency += total.latency_ns;
		}
		*lambda = lambdas[k];
		if (latency <= kvm_latency)
			return cpu / kvm_cpu;
	}
	return 99;
}

static void equal_latency(struct targets *t, const struct matrix *m)
{
	static const double limits[] = {0.50, 0.50, 0.70};
	double cpu[3], lambda[3];
	bool met = true;

	for (int h = 0; h < 3; h++) {
		cpu[h] = cpu_at_kvms_latency(t, m, h, &lambda[h]);
		met = met && cpu[h] <= limits[h];
	}
	report(t, "A5", met, "CPU of all traces / KVM, latency not above KVM's, L=5/10/35", "<= 0.50/0.50/0.70",
	       "%.2f/%.2f/%.2f (lambda %g/%g/%g)", cpu[0], cpu[1], cpu[2], lambda[0], lambda[1], lambda[2]);
}

void cost_targets(struct targets *t)
{
	static const double lambdas[] = {0.25, 1, 2, 4, 16}, limits2[] = {0.45, 0.60, 0.80, 0.90},
			    limits3[] = {0.50, 0.65, 0.80, 0.88}, limits4[] = {0.45, 0.62, 0.88, 0.97},
			    limits_window[] = {1.15, 1.15, 1.15, 1.15}, limits_full[] = {1, 1, 1, 1};
	static struct matrix m;
	double full[5][HOSTS], full_optimum[5][HOSTS], window[HOSTS], window_optimum[HOSTS];

	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < NATURAL; i++) {
			struct sim_total total;
			run(t, "kvm:shrink=2", 1, h, i, &total);
			m.kvm[h][i] = cell_of(&total);
		}
	for (int h = 0; h < HOSTS; h++) {
		for (int l = 0; l < 5; l++)
			row(t, &m, "cost:lambda=%g", lambdas[l], h, &full[l][h], &full_optimum[l][h], true);
		row(t, &m, "cost:lambda=%g,prewake=off,spin=off", 1, h, &window[h], &window_optimum[h], false);
	}
	report(t, "A1", m.worst <= 1.10, "cost / KVM, worst natural trace, lambda 0.25 to 16", "<= 1.10", "%.2f (%s)",
	       m.worst, m.worst_at);
	report_hosts(t, "A2", "cost / KVM, geomean, lambda 1, L=5/10/35/50", full[1], limits2);
	report_hosts(t, "A3", "cost / KVM, geomean, lambda 2, L=5/10/35/50", full[2], limits3);
	report_hosts(t, "A4", "cost / KVM, geomean, windows only, lambda 1", window, limits4);
	equal_latency(t, &m);
	report(t, "A8", m.clairvoyant <= 1.65, "cost / clairvoyant, worst natural trace, all lambda", "<= 1.65",
	       "%.2f (%s)", m.clairvoyant, m.clairvoyant_at);
	report_hosts(t, "A8", "cost / clairvoyant, geomean, windows only, lambda 1", window_optimum, limits_window);
	report_hosts(t, "A8", "cost / clairvoyant, geomean, lambda 1", full_optimum[1], limits_full);
}

int main(int argc, char **argv)
{
	static struct targets t = {.fuzz_halts = 10000000};

	if (argc == 2)
		t.fuzz_halts = strtoull(argv[1], NULL, 10);
	if (argc > 2 || !t.fuzz_halts) {
		fprintf(stderr, "usage: %s [HALTS TO FUZZ]\n", argv[0]);
		return 2;
	}
	t.latencies = calloc(HALTS, sizeof(*t.latencies));
	for (int i = 0; i < TRACES && t.latencies; i++) {
		t.traces[i].count = HALTS;
		t.traces[i].halts = calloc(HALTS, sizeof(*t.traces[i].halts));
		if (!t.traces[i].halts) {
			perror("traces");
			return 2;
		}
		workload_make(&workloads[i], 1, &t.traces[i]);
	}
	printf("%-4s %-58s %-26s %s\n", "", "what", "target", "result");
	cost_targets(&t);
	window_targets(&t);
	fuzz_targets(&t);
	timer_targets(&t);
	estimate_targets(&t);
	ping_pong_targets(&t);
	contention_targets(&t);
	speed_targets(&t);
	printf("%s\n", t.missed ? "targets were missed" : "all targets are met");
	for (int i = 0; i < TRACES; i++)
		free(t.traces[i].halts);
	free(t.latencies);
	return t.missed != 0;
}
