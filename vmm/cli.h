/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - the commands of lull, each in its own file. They return what the process should exit with. */
#ifndef LULL_CLI_H
#define LULL_CLI_H

#include "options.h"

#include <stdio.h>

/* lull's own exit codes are even, because isa-debug-exit gives odd ones. */
enum cli_code {
	CLI_OK = 0,
	CLI_RESET = 64,
	CLI_TRIPLE_FAULT = 66,
	CLI_KVM_ERROR = 68,
	CLI_PANIC = 70,
	CLI_DEAD_HALT = 72,
	CLI_TIMEOUT = 124,
	CLI_CANNOT = 126,
	CLI_SIGNAL = 128, /* plus the number of the signal */
};

struct cli_code_text {
	const char *code, *text;
};
extern const struct cli_code_text cli_code_texts[]; /* for --help and the man page; ends with a NULL code */

int cli_run(const struct options *opt);
int cli_demo(const struct options *opt);
int cli_dump(const struct options *opt);
int cli_doctor(void);
int cli_replay(const struct options *opt);
int cli_trace(const struct options *opt);
int cli_help(enum command about);

/* What a guest's end means for the exit code, and the line to say about it ("" for none; end->text or our own). */
int cli_end(const struct lull_exit *end, const char **line);

/* Ends the output on stdout: CLI_CANNOT, with a line, when some of it could not be written, else code. */
int cli_finish_stdout(int code);

#endif
