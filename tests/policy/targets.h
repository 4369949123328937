/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h - what the parts of the program policy-targets share. */
#ifndef LULL_TARGETS_H
#define LULL_TARGETS_H

#include "workload.h"

#define TRACES  21
#define NATURAL 19 /* those before the adversaries */
#define HALTS   100000
#define HOSTS   4

struct targets {
	unsigned missed;
	uint64_t fuzz_halts;
	struct sim_trace traces[TRACES];
	float *latencies; /* room for HALTS */
};

/* (wake, switch) in us: bare metal (5,2) and (10,3), nested (35,5), a nested cloud guest (50,20). */
extern const struct sim_host hosts[HOSTS];

/* One line: id, what, the target, the result in words, and whether it is met. */
void report(struct targets *t, const char *id, bool met, const char *what, const char *target, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* A line that is not judged. */
void note(const char *id, const char *what, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

struct policy_spec spec_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A trace through a policy that knows the host; the cost at lambda. */
double run(const struct targets *t, const char *spec, double lambda, int host, int trace, struct sim_total *total);

void cost_targets(struct targets *t);       /* A1 to A5, A8 */
void window_targets(struct targets *t);     /* A6, A7 */
void timer_targets(struct targets *t);      /* A11 to A13 */
void fuzz_targets(struct targets *t);       /* A9, A10 */
void estimate_targets(struct targets *t);   /* A14 */
void ping_pong_targets(struct targets *t);  /* A15 */
void contention_targets(struct targets *t); /* A16 */
void speed_targets(struct targets *t);      /* A17 */

#endif
