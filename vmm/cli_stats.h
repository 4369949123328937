/* SPDX-License-Identifier: Apache-2.0 */
/* cli_stats.h - how the virtual CPUs waited, as a table: for the demo, --stats and Ctrl-a s. */
#ifndef LULL_CLI_STATS_H
#define LULL_CLI_STATS_H

#include "lull.h"

#include <stdio.h>

/* One run of a VM: a column of the wake table, a row of the others. */
struct cli_stats {
	const char *label;
	struct lull_stats vm;
	struct lull_vcpu_stats sum; /* over all vCPUs; of latency_max_ns, window_ns and wake_cost_ns the largest */
	bool kernel_irqchip;        /* KVM owns the halts */
};

/* 0 or -errno. */
int cli_stats_take(struct cli_stats *stats, const struct lull_vm *vm, const char *label, const char *irqchip);

/* count is 1 or 2 runs, side by side. */
void cli_stats_print(FILE *out, const struct cli_stats *runs, size_t count);

/* By enum lull_wake_source and enum lull_refusal. */
extern const char *const cli_source_names[LULL_WAKE_SOURCES], *const cli_refusal_names[LULL_REFUSALS];

/* In 6 columns: "812ns", "12.3us", "1.05ms", "2.50s". */
void cli_stats_time(char *text, size_t size, uint64_t ns);

#endif
