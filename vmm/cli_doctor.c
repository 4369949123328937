/* SPDX-License-Identifier: Apache-2.0 */
/* cli_doctor.c - lull doctor: what this host offers, one finding per line. */
#include "cli.h"
#include "cli_out.h"

static void print_finding(void *ctx, const char *verdict, const char *topic, const char *text)
{
	(void)ctx;
	printf("%-4s  %-16s  %s\n", verdict, topic, text);
	fflush(stdout); /* the next finding may take a moment */
}

int cli_doctor(void)
{
	int ret = lull_doctor(print_finding, NULL);

	if (ret < 0)
		cli_say("doctor: guests cannot run here; mend what is marked fail");
	return cli_finish_stdout(ret < 0 ? CLI_CANNOT : CLI_OK);
}
