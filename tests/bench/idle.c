/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - what a policy adds to the CPU time of an idle guest. A difference of a few per cent drowns in what differs
 * from one run to the next, and from one minute to the next. So one guest runs with one policy, and every few seconds
 * polling is switched off or on again: off, a halt costs what it costs without a policy, and the policy keeps what it
 * has learned. Each phase is compared with the mean of the two around it.
 *
 * usage: idle GUEST CMDLINE CPU POLICY ROUNDS SECONDS
 */
#define _GNU_SOURCE
#include "../../include/lull.h"
#include "sorted.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	ROUNDS = 200, /* at most */
	LEARN_S = 20, /* before the first phase */
};
#define SETTLE_S 0.3 /* before each */

struct phase {
	double cpu_us, poll_us, wake_us; /* per halt; the mean */
};

struct column {
	double cpu_us[ROUNDS + 1], poll_us[ROUNDS + 1], wake_us[ROUNDS + 1];
};

static struct lull_vcpu_stats after(const struct lull_vm *vm, double seconds)
{
	struct lull_vcpu_stats s = {.size = sizeof(s)};
	struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&t, NULL);
	lull_vm_vcpu_stats(vm, 0, &s);
	return s;
}

static struct phase measure(struct lull_vm *vm, bool allow, double seconds)
{
	lull_vm_allow_polling(vm, allow);
	const struct lull_vcpu_stats a = after(vm, SETTLE_S), b = after(vm, seconds);
	double halts = (double)(b.halts - a.halts), wakes = (double)(b.wake[0].wakes - a.wake[0].wakes);
	if (halts < 10 || wakes < 10) {
		fprintf(stderr, "the guest does not tick\n");
		exit(1);
	}
	return (struct phase){
		.cpu_us = (double)(b.cpu_ns - a.cpu_ns) / halts / 1e3,
		.poll_us = (double)(b.halt_poll_ns - a.halt_poll_ns) / halts / 1e3,
		.wake_us = (double)(b.wake[0].latency_ns - a.wake[0].latency_ns) / wakes / 1e3,
	};
}

static void keep(struct column *c, unsigned i, struct phase p)
{
	c->cpu_us[i] = p.cpu_us;
	c->poll_us[i] = p.poll_us;
	c->wake_us[i] = p.wake_us;
}

static void print(const char *name, struct column *c, unsigned count)
{
	printf("%-16s %12.1f %12.1f %12.1f\n", name, median(c->cpu_us, count), median(c->poll_us, count),
	       median(c->wake_us, count));
}

int main(int argc, char **argv)
{
	static struct column off, on;
	static double ratio[ROUNDS];
	unsigned rounds = argc == 7 ? (unsigned)atoi(argv[5]) : 0;
	if (rounds < 4 || rounds > ROUNDS)
		return 2;
	const struct lull_config config = {.size = sizeof(config),
	                                   .kernel = argv[1],
	                                   .cmdline = argv[2],
	                                   .cpu_affinity = argv[3],
	                                   .halt_poll = argv[4],
	                                   .ram_bytes = 64 << 20};
	const double seconds = atof(argv[6]);
	struct lull_error err;
	struct lull_vm *vm = lull_vm_create(&config, &err);
	if (!vm || lull_vm_start(vm, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	after(vm, LEARN_S);
	struct phase before = measure(vm, false, seconds);
	keep(&off, 0, before);
	for (unsigned r = 0; r < rounds; r++) {
		struct phase own = measure(vm, true, seconds), next = measure(vm, false, seconds);
		keep(&on, r, own);
		keep(&off, r + 1, next);
		ratio[r] = 2 * own.cpu_us / (before.cpu_us + next.cpu_us);
		before = next;
	}
	printf("%-16s %12s %12s %12s\n", "", "CPU us/halt", "polled us", "wake us");
	print("off", &off, rounds + 1);
	print(argv[4], &on, rounds);
	double middle = median(ratio, rounds); /* sorts */
	printf("CPU, of off: %.3f (half of the %u rounds: %.3f to %.3f)\n", middle, rounds, ratio[rounds / 4],
	       ratio[rounds - 1 - rounds / 4]);
	lull_vm_destroy(vm);
	return 0;
}
