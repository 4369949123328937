/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command lull: from the command line to one of its commands and its exit code. The only file that may
 * exit. */
#include "cli.h"
#include "cli_out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int cli_finish_stdout(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	if (errno != EPIPE) /* the reader had enough: not worth a line */
		cli_say("standard output: cannot write: %s; send it elsewhere", strerror(errno));
	return CLI_CANNOT;
}

static int run_command(const struct options *opt)
{
	switch (opt->command) {
	case COMMAND_RUN:
		return cli_run(opt);
	case COMMAND_DEMO:
		return cli_demo(opt);
	case COMMAND_DUMP:
		return cli_dump(opt);
	case COMMAND_DOCTOR:
		return cli_doctor();
	case COMMAND_REPLAY:
		return cli_replay(opt);
	case COMMAND_TRACE:
		return cli_trace(opt);
	case COMMAND_HELP:
		return cli_help(opt->help_about);
	case COMMAND_VERSION:
		printf("lull %s\n", lull_version());
		return cli_finish_stdout(CLI_OK);
	case COMMAND_NONE:
		break;
	}
	return CLI_CANNOT;
}

int main(int argc, char **argv)
{
	struct lull_error err = {0};
	struct options opt;
	int code, fd;

	/* No file of ours may become standard input, output or error by chance. */
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	signal(SIGPIPE, SIG_IGN);

	if (options_parse(&opt, argc, argv, &err) == 0) {
		code = run_command(&opt);
	} else {
		cli_say("%s", err.text);
		code = CLI_CANNOT;
	}
	options_free(&opt);
	return code;
}
