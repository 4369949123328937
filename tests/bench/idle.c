/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - what a policy adds to the CPU time of an idle guest. Differences of a few per cent drown in what differs
 * from one run to the next, so the policies take turns on one running guest, phase by phase, and neighbours are
 * compared.
 *
 * usage: idle GUEST CMDLINE CPU ROUNDS SECONDS POLICY...     the first policy is what the others are compared with
 */
#define _GNU_SOURCE
#include "../../include/lull.h"
#include "sorted.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	ROUNDS = 100,
	POLICIES = 8
};

static double cpu_us[POLICIES][ROUNDS], ratio[POLICIES][ROUNDS], poll_us[POLICIES][ROUNDS], wake_us[POLICIES][ROUNDS];

static struct lull_vcpu_stats after(const struct lull_vm *vm, double seconds)
{
	struct lull_vcpu_stats s = {.size = sizeof(s)};
	struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&t, NULL);
	lull_vm_vcpu_stats(vm, 0, &s);
	return s;
}

/* A phase: a second to get used to it, then what the rest costs per halt. */
static void measure(struct lull_vm *vm, const char *policy, double seconds, int p, int r)
{
	struct lull_error err;
	if (lull_vm_set_halt_poll(vm, policy, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	const struct lull_vcpu_stats a = after(vm, 1), b = after(vm, seconds);
	double halts = (double)(b.halts - a.halts), wakes = (double)(b.wake[0].wakes - a.wake[0].wakes);
	if (halts < 10 || wakes < 10) {
		fprintf(stderr, "the guest does not tick\n");
		exit(1);
	}
	cpu_us[p][r] = (double)(b.cpu_ns - a.cpu_ns) / halts / 1e3;
	poll_us[p][r] = (double)(b.halt_poll_ns - a.halt_poll_ns) / halts / 1e3;
	wake_us[p][r] = (double)(b.wake[0].latency_ns - a.wake[0].latency_ns) / wakes / 1e3;
}

int main(int argc, char **argv)
{
	int policies = argc - 6, rounds = argc > 6 ? atoi(argv[4]) : 0;
	const struct lull_config config = {.size = sizeof(config),
	                                   .kernel = argv[1],
	                                   .cmdline = argv[2],
	                                   .cpu_affinity = argv[3],
	                                   .ram_bytes = 64 << 20};
	struct lull_error err;
	if (policies < 1 || policies > POLICIES || rounds < 1 || rounds > ROUNDS)
		return 2;
	struct lull_vm *vm = lull_vm_create(&config, &err);
	if (!vm || lull_vm_start(vm, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (int r = 0; r < rounds; r++)
		for (int p = 0; p < policies; p++)
			measure(vm, argv[6 + p], atof(argv[5]), p, r);
	printf("%-16s %12s %12s %12s %12s\n", "", "CPU us/halt", "of the first", "polled us", "wake us");
	for (int p = policies - 1; p >= 0; p--) /* medians sort: the first one last */
		for (int r = 0; r < rounds; r++)
			ratio[p][r] = cpu_us[p][r] / cpu_us[0][r];
	for (int p = 0; p < policies; p++)
		printf("%-16s %12.1f %12.3f %12.1f %12.1f\n", argv[6 + p], median(cpu_us[p], (unsigned)rounds),
		       median(ratio[p], (unsigned)rounds), median(poll_us[p], (unsigned)rounds),
		       median(wake_us[p], (unsigned)rounds));
	lull_vm_destroy(vm);
	return 0;
}
