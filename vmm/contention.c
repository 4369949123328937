/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contention.c - signs that a poller is in somebody's way: a gap in its own time, its own wait for a CPU (run_delay,
 * second field of schedstat, Documentation/scheduler/sched-stats.rst), and time that an outer hypervisor took (steal,
 * eighth field of a cpu line of /proc/stat, in ticks of 10 ms).
 */
#include "contention.h"

#include "text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS 10000000u

void contention_init(struct contention *c, const char *proc)
{
	*c = (struct contention){.proc = proc, .cpu = -1};
}

void contention_gap(struct contention *c, uint64_t now_ns)
{
	c->hold_until_ns = now_ns + CONTENTION_HOLD_NS;
}

static void look_at_delay(struct contention *c, uint64_t now_ns)
{
	char buf[96];
	unsigned long long ran, delay;
	uint64_t wall = now_ns - c->delay_at_ns;
	if (!text_file_head(buf, sizeof(buf), "%s/thread-self/schedstat", c->proc) ||
	    sscanf(buf, "%llu %llu", &ran, &delay) != 2)
		return;
	bool waited = c->delay_at_ns && delay > c->delay_ns &&
	              (delay - c->delay_ns) * 1000 >= wall * CONTENTION_LIMIT_PERMILLE;
	if (waited)
		c->hold_until_ns = now_ns + CONTENTION_PERIOD_NS;
	c->delay_ns = delay;
	c->delay_at_ns = now_ns;
}

/* Steal of one CPU in ticks; false: not there. The line can be anywhere in a long file. */
static bool read_steal(const struct contention *c, int cpu, uint64_t *ticks)
{
	char path[128], line[256], name[16];
	unsigned long long v[8];
	int n = snprintf(path, sizeof(path), "%s/stat", c->proc),
	    name_bytes = snprintf(name, sizeof(name), "cpu%d ", cpu);
	FILE *f = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
	bool found = false;
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f) && !strncmp(line, "cpu", 3))
		found = !strncmp(line, name, (size_t)name_bytes) &&
		        sscanf(line + name_bytes, "%llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
		               &v[4], &v[5], &v[6], &v[7]) == 8;
	fclose(f);
	if (found)
		*ticks = v[7];
	return found;
}

static void look_at_steal(struct contention *c, int cpu, uint64_t now_ns)
{
	uint64_t ticks, wall = now_ns - c->steal_at_ns;
	if (!read_steal(c, cpu, &ticks)) {
		c->steal_permille = 0;
		ticks = UINT64_MAX; /* whatever comes next is a new start */
	} else if (c->steal_at_ns && cpu == c->cpu && ticks >= c->steal_ticks) {
		uint64_t permille = (ticks - c->steal_ticks) * TICK_NS * 1000 / wall;
		c->steal_permille = (c->steal_permille + (unsigned)(permille > 1000 ? 1000 : permille)) / 2;
	}
	c->steal_ticks = ticks;
	c->cpu = cpu;
	c->steal_at_ns = now_ns;
}

static bool is_stolen(const struct contention *c)
{
	return c->steal_permille >= CONTENTION_LIMIT_PERMILLE;
}

/* refused: polls no more because of this look, and has to see the end of it all the same. */
static bool worth_a_look(uint64_t passed_ns, uint64_t polled_ns, uint64_t period_ns, bool refused)
{
	return passed_ns >= period_ns && (refused || polled_ns >= period_ns * CONTENTION_WORTH_PERMILLE / 1000);
}

bool contention_wanted(struct contention *c, int cpu, uint64_t now_ns, uint64_t polled_ns)
{
	if (worth_a_look(now_ns - c->delay_at_ns, polled_ns - c->delay_polled_ns, CONTENTION_PERIOD_NS, false)) {
		look_at_delay(c, now_ns);
		c->delay_polled_ns = polled_ns;
	}
	if (worth_a_look(now_ns - c->steal_at_ns, polled_ns - c->steal_polled_ns, CONTENTION_STEAL_NS, is_stolen(c))) {
		look_at_steal(c, cpu, now_ns);
		c->steal_polled_ns = polled_ns;
	}
	return now_ns < c->hold_until_ns || is_stolen(c);
}
