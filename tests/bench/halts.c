/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halts.c - runs guests under several ways of halting in turn, A B C A B C ..., and prints medians: latency as the
 * guest measured it
 * ("latency NS" in its output), wake latency as lull counted it (user backend), CPU time of the whole process and exits
 * per event, and how much of the run the CPU time was. Also the CPU time of the vCPUs' threads for each halt: in a run
 * of seconds that of what came after the first second, without the start of the machine and of its guest.
 *
 * usage: halts REPETITIONS EVENTS GUEST CMDLINE CPUS AFFINITY NAME=IRQCHIP:POLICY[+WORDS]...
 * WORDS join the guest's command line.
 */
#include "sorted.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATS "build/bench/halts.json"

enum {
	WAYS = 10,
	RUNS = 50
};

struct way {
	const char *name, *irqchip, *policy, *words;
	double latency_us[RUNS], wake_us[RUNS], cpu_us[RUNS], exits[RUNS], vcpu_us[RUNS], share[RUNS];
};

static double now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Standard output of lull, up to its end. */
static size_t run(char *const argv[], char *out, size_t size, struct rusage *usage, int *status)
{
	int ends[2];
	size_t used = 0;
	if (pipe(ends) < 0)
		exit(1);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(ends[1], 1);
		close(ends[0]);
		execv(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	for (ssize_t n; used + 1 < size && (n = read(ends[0], out + used, size - 1 - used)) > 0;)
		used += (size_t)n;
	out[used] = 0;
	close(ends[0]);
	wait4(pid, status, 0, usage);
	return used;
}

/* The sum of all members of that name in lull's JSON. */
static double sum(const char *json, const char *member)
{
	double total = 0;
	for (const char *at = json; (at = strstr(at, member)); at += strlen(member))
		total += atof(at + strlen(member));
	return total;
}

static void read_stats(struct way *w, int r, double events)
{
	static char json[1 << 20];
	FILE *f = fopen(STATS, "r");
	if (!f)
		exit(1);
	json[fread(json, 1, sizeof(json) - 1, f)] = 0;
	fclose(f);
	/* One report a line; the last is that of the end. */
	const char *first = json, *last = json, *end = strchr(json, '\n');
	for (const char *line = end; line && line[1]; line = strchr(line + 1, '\n'))
		last = line + 1;
	double cpu = sum(last, "\"cpu_ns\":"), halts = sum(last, "\"halts\":");
	if (last != first) {
		json[end - json] = 0;
		cpu -= sum(first, "\"cpu_ns\":");
		halts -= sum(first, "\"halts\":");
	}
	w->vcpu_us[r] = halts > 0 ? cpu / halts / 1e3 : 0;
	double wakes = sum(last, "\"wakes\":");
	w->wake_us[r] = wakes > 0 ? sum(last, "\"latency_ns\":") / wakes / 1e3 : 0;
	w->exits[r] = sum(last, "\"exits\":") / events;
}

static void one(struct way *w, int r, double events, char **args)
{
	char out[4096], cmdline[512];
	struct rusage u;
	int status;
	snprintf(cmdline, sizeof(cmdline), "%s %s", args[1], w->words);
	char *argv[] = {"build/lull",
	                "run",
	                "--debug-exit",
	                "raw",
	                "--mem",
	                "64M",
	                "--timeout",
	                "120",
	                "--irqchip",
	                (char *)w->irqchip,
	                "--halt-poll",
	                (char *)w->policy,
	                "--cmdline",
	                cmdline,
	                "--cpus",
	                args[2],
	                "--cpu-affinity",
	                args[3],
	                "--stats",
	                STATS,
	                "--stats-interval",
	                "1",
	                args[0],
	                NULL};
	double start = now_us();
	run(argv, out, sizeof(out), &u, &status);
	double wall = now_us() - start;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "%s: ended with %d: %s\n", w->name, WEXITSTATUS(status), out);
		exit(1);
	}
	const char *latency = strstr(out, "latency ");
	double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	             (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	w->latency_us[r] = latency ? atof(latency + 8) / 1e3 : 0;
	w->cpu_us[r] = cpu / events;
	w->share[r] = cpu / wall * 100;
	read_stats(w, r, events);
}

int main(int argc, char **argv)
{
	static struct way ways[WAYS];
	int repetitions = argc > 7 ? atoi(argv[1]) : 0, count = argc - 7;
	if (repetitions < 1 || repetitions > RUNS || count > WAYS)
		return 2;
	double events = atof(argv[2]);
	for (int i = 0; i < count; i++) {
		char *text = argv[7 + i], *chip = strchr(text, '='), *policy = chip ? strchr(chip, ':') : NULL;
		if (!policy)
			return 2;
		*chip++ = *policy++ = 0;
		char *words = strchr(policy, '+');
		if (words)
			*words++ = 0;
		ways[i] = (struct way){.name = text, .irqchip = chip, .policy = policy, .words = words ? words : ""};
	}
	for (int r = 0; r < repetitions; r++)
		for (int i = 0; i < count; i++)
			one(&ways[i], r, events, argv + 3);
	printf("%-20s %12s %12s %14s %12s %12s %8s\n", "", "latency us", "wake us", "CPU us/event", "exits/event",
	       "vCPU us/halt", "CPU %");
	for (int i = 0; i < count; i++) {
		struct way *w = &ways[i];
		double wake = median(w->wake_us, (unsigned)repetitions);
		printf("%-20s %12.1f ", w->name, median(w->latency_us, (unsigned)repetitions));
		if (wake > 0)
			printf("%12.1f ", wake);
		else
			printf("%12s ", "-");
		printf("%14.1f %12.2f %12.1f %8.1f\n", median(w->cpu_us, (unsigned)repetitions),
		       median(w->exits, (unsigned)repetitions), median(w->vcpu_us, (unsigned)repetitions),
		       median(w->share, (unsigned)repetitions));
	}
	return 0;
}
