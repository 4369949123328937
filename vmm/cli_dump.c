/* SPDX-License-Identifier: Apache-2.0 */
/* cli_dump.c - lull dump: tables and texts about the machine, without running it. */
#include "cli.h"
#include "cli_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_file(const char *path, const void *data, size_t bytes)
{
	FILE *file = fopen(path, "we");
	bool ok;

	if (!file) {
		cli_say("%s: cannot write: %s; name another file with --output", path, strerror(errno));
		return CLI_CANNOT;
	}
	ok = fwrite(data, 1, bytes, file) == bytes;
	if (fclose(file) != 0 || !ok) {
		cli_say("%s: cannot write: %s; name another file with --output", path, strerror(errno));
		return CLI_CANNOT;
	}
	return CLI_OK;
}

static int write_stdout(const char *what, const void *data, size_t bytes)
{
	if (isatty(STDOUT_FILENO) && memchr(data, 0, bytes)) {
		cli_say("%s: binary data, and standard output is a terminal; use --output FILE or a pipe", what);
		return CLI_CANNOT;
	}
	fwrite(data, 1, bytes, stdout);
	return cli_finish_stdout(CLI_OK);
}

int cli_dump(const struct options *opt)
{
	struct lull_config config = opt->config;
	struct lull_error err = {0};
	void *data = NULL;
	size_t bytes = 0;
	int code;

	config.log = cli_log;
	if (lull_dump(&config, opt->dump_what, &data, &bytes, &err) < 0) {
		cli_say("%s", err.text);
		return CLI_CANNOT;
	}
	if (opt->output)
		code = write_file(opt->output, data, bytes);
	else
		code = write_stdout(opt->dump_what, data, bytes);
	free(data);
	return code;
}
