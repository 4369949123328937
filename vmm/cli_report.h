/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report.h - statistics while a guest runs and at its end, as a table for people or as JSON in a file: --stats,
 * --stats-interval, SIGUSR2 and Ctrl-a s. Main thread only. */
#ifndef LULL_CLI_REPORT_H
#define LULL_CLI_REPORT_H

#include "options.h"

struct cli_report {
	const struct options *opt;
	int fd;           /* of the JSON, or -1 */
	int64_t start_ns; /* CLOCK_MONOTONIC */
	int64_t next_ns;  /* when the next one is due; 0: never */
	bool failed;      /* writing did, and it was said */
};

/* Opens the file; 0, or -EIO with a line for people. */
int cli_report_open(struct cli_report *report, const struct options *opt, struct lull_error *err);
void cli_report_close(struct cli_report *report);

void cli_report_start(struct cli_report *report, int64_t now_ns); /* the guest starts */
/* Reports if it is time to, and says when it is next time. */
void cli_report_due(struct cli_report *report, const struct lull_vm *vm, int64_t now_ns);
/* The table, now, on standard error. */
void cli_report_table(const struct cli_report *report, const struct lull_vm *vm, const char *label);

/* At the end, in two steps: the VM writes out in between what the guest printed last. The text is malloc()ed, or NULL.
 */
char *cli_report_take_last(const struct cli_report *report, const struct lull_vm *vm, int64_t now_ns);
void cli_report_put_last(struct cli_report *report, char *text);

#endif
