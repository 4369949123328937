/* SPDX-License-Identifier: Apache-2.0 */
/* power.h - does this host want a CPU to save power? Then polling works against it. Read from cpufreq, rarely. */
#ifndef LULL_POWER_H
#define LULL_POWER_H

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

enum power_mode {
	POWER_IGNORE, /* never asked */
	POWER_STRICT, /* the governor's name decides: "powersave" means it, whatever the driver */
	POWER_SMART,  /* drivers for which "powersave" is the normal governor are asked for their energy preference */
};

int power_parse(enum power_mode *mode, const char *word, struct lull_error *err);

/* How long an answer stands. A "no" stands until so much was polled, and for a minute at most: a look takes 60 us when
 * nothing is in the caches. */
#define POWER_PERIOD_NS  10000000000ull
#define POWER_WORTH_NS   1000000u
#define POWER_LONGEST_NS 60000000000ull
#define POWER_ANSWERS    16 /* a thread that moves among so many CPUs does not look each time */

struct power_answer {
	uint64_t asked_ns;  /* when the files were looked at; 0: never */
	uint64_t polled_ns; /* as it was then */
	int cpu;
	bool saves;
};

/* One per vCPU; only its thread uses it. */
struct power {
	enum power_mode mode;
	const char *sysfs;                          /* "/sys", or a tree made for a test; must outlive it */
	struct power_answer answers[POWER_ANSWERS]; /* at the CPU's number modulo their number */
	uint64_t reads;                             /* how often files were looked at */
};

void power_init(struct power *p, enum power_mode mode, const char *sysfs);

/* True when polling on cpu should be left alone. Looks at the files of a CPU at most once per period. polled_ns: all
 * that was polled so far. Unknown (no cpufreq, a CPU that went away) means false. */
bool power_saves(struct power *p, int cpu, uint64_t now_ns, uint64_t polled_ns);

#endif
