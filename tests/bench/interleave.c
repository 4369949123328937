/* SPDX-License-Identifier: Apache-2.0 */
/* interleave.c - runs shell-less commands in turn, A B C A B C ..., and prints the median wall time of each and its
 * ratio to the first. usage: interleave RUNS EXITCODE,CMD,ARG... EXITCODE,CMD,ARG...   (a command is one argument, its
 * words joined by ',,') */
#include "sorted.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	COMMANDS = 8,
	WORDS = 40,
	RUNS = 200
};

struct command {
	const char *name;
	int want;
	char *argv[WORDS];
	double ms[RUNS];
};

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* "name=code,,word,,word" */
static void parse(struct command *c, char *text)
{
	unsigned n = 0;
	c->name = text;
	char *rest = strchr(text, '=');
	*rest++ = 0;
	c->want = atoi(rest);
	rest = strstr(rest, ",,");
	while (rest && n + 1 < WORDS) {
		*rest = 0;
		c->argv[n++] = rest + 2;
		rest = strstr(rest + 2, ",,");
	}
}

static double run(const struct command *c)
{
	double start = now_ms();
	pid_t pid = vfork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(c->argv[0], c->argv);
		_exit(127);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	double ms = now_ms() - start;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != c->want) {
		fprintf(stderr, "%s: ended with %d, not with %d\n", c->name,
		        WIFEXITED(status) ? WEXITSTATUS(status) : -1, c->want);
		exit(1);
	}
	return ms;
}

int main(int argc, char **argv)
{
	static struct command commands[COMMANDS];
	int runs = argc > 2 ? atoi(argv[1]) : 0, count = argc - 2;
	if (runs < 1 || runs > RUNS || count < 1 || count > COMMANDS)
		return 2;
	for (int i = 0; i < count; i++)
		parse(&commands[i], argv[2 + i]);
	for (int r = -1; r < runs; r++) /* the first round warms up */
		for (int i = 0; i < count; i++) {
			double ms = run(&commands[i]);
			if (r >= 0)
				commands[i].ms[r] = ms;
		}
	printf("%-28s %10s %10s %10s %8s\n", "whole process, ms", "min", "median", "max", "ratio");
	for (int i = 0; i < count; i++) {
		struct command *c = &commands[i];
		sort_figures(c->ms, (unsigned)runs);
		printf("%-28s %10.2f %10.2f %10.2f %8.2f\n", c->name, c->ms[0], c->ms[runs / 2], c->ms[runs - 1],
		       c->ms[runs / 2] / commands[0].ms[runs / 2]);
	}
	return 0;
}
