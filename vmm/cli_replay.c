/* SPDX-License-Identifier: Apache-2.0 */
/* cli_replay.c - lull replay and lull trace gen: halts on record, and what policies make of them. */
#include "cli.h"
#include "cli_out.h"

static void print(void *ctx, const char *text)
{
	(void)ctx;
	fputs(text, stdout);
}

int cli_replay(const struct options *opt)
{
	struct lull_error err = {0};

	if (lull_replay(&opt->replay, print, NULL, &err) < 0) {
		fflush(stdout);
		cli_say("%s", err.text);
		return CLI_CANNOT;
	}
	return cli_finish_stdout(CLI_OK);
}

int cli_trace(const struct options *opt)
{
	struct lull_error err = {0};
	char name[256];

	snprintf(name, sizeof(name), "%.240s.trace", opt->workload);
	if (lull_trace_generate(opt->workload, opt->seed, opt->halts, opt->output ? opt->output : name, &err) < 0) {
		cli_say("%s", err.text);
		return CLI_CANNOT;
	}
	return CLI_OK;
}
