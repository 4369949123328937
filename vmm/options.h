/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line: one table drives parsing, --help and the check of the man page. */
#ifndef LULL_OPTIONS_H
#define LULL_OPTIONS_H

#include "lull.h"

enum command {
	COMMAND_NONE = 0,
	COMMAND_RUN = 1 << 0,
	COMMAND_DEMO = 1 << 1,
	COMMAND_DUMP = 1 << 2,
	COMMAND_DOCTOR = 1 << 3,
	COMMAND_HELP = 1 << 4,
	COMMAND_VERSION = 1 << 5,
	COMMAND_REPLAY = 1 << 6,
	COMMAND_TRACE = 1 << 7,
};

#define OPTIONS_DISKS_MAX 8
#define OPTIONS_NETS_MAX  8
#define OPTIONS_FILES_MAX 64
#define OPTIONS_RULES_MAX 16

/* What the user asked for. Strings point into argv, except cmdline, which is owned. */
struct options {
	enum command command;
	enum command help_about;   /* with COMMAND_HELP: one command, or COMMAND_NONE for all */
	struct lull_config config; /* serial is NULL while serial_stdio is set, console while console_stdio is */
	uint64_t timeout_ns;       /* 0: none */
	const char *dump_what;
	const char *output;
	char *cmdline;
	const char *disks[OPTIONS_DISKS_MAX]; /* config.disks points here */
	const char *nets[OPTIONS_NETS_MAX];   /* config.nets points here; passt is still to be started */
	bool serial_stdio, console_stdio;     /* not both */
	bool dry_run;
	const char *stats;          /* "table", the path of a file, or NULL */
	uint64_t stats_interval_ns; /* 0: at the end only */

	struct lull_replay replay; /* its files and policies point here: */
	const char *files[OPTIONS_FILES_MAX], *policies[OPTIONS_RULES_MAX];
	const char *workload; /* trace gen */
	uint64_t seed, halts;
};

struct option_spec {
	const char *name;  /* without the dashes */
	char letter;       /* short form, or 0 */
	const char *value; /* name of the value in the help, or NULL: it takes none */
	unsigned commands; /* sum of the enum commands that take it */
	int (*set)(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err);
	bool repeats;        /* may be given more than once */
	size_t target;       /* for set: offset in struct options */
	uint32_t flag;       /* for set: the enum lull_flag */
	const char *accepts; /* for error messages: "give ..." */
	const char *help;
};

extern const struct option_spec option_specs[]; /* ends with a NULL name; order is that of --help */

struct command_spec {
	enum command command;
	const char *name, *usage, *summary;
};

extern const struct command_spec command_specs[]; /* ends with a NULL name */

/* 0, or -EINVAL or -ENOMEM with one line in err->text. Call options_free() in every case. */
int options_parse(struct options *opt, int argc, char *const argv[], struct lull_error *err);
void options_free(struct options *opt);

/* For the parser: fills err, returns -EINVAL; a word more for the kernel command line. */
int options_bad(struct lull_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int options_add_word(struct options *opt, const char *value, struct lull_error *err);

#endif
