/* SPDX-License-Identifier: Apache-2.0 */
/* cli_parse.c - reads a command line by the tables of options.c: commands, options in every spelling, and what to say
 * about those that do not exist. */
#include "cli_value.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct parser {
	struct options *opt;
	struct lull_error *err;
	int argc, next;
	char *const *argv;
	const struct command_spec *command;
	uint64_t seen; /* bit n: row n of the table */
	int positional;
};

/* Names that other monitors use, and what they are called here. */
static const struct {
	const char *theirs, *ours;
} known_elsewhere[] = {
	{"smp", "cpus"},       {"vcpus", "cpus"},       {"memory", "mem"}, {"append", "cmdline"},
	{"params", "cmdline"}, {"initramfs", "initrd"}, {"netdev", "net"}, {"affinity", "cpu-affinity"},
};

static const struct option_spec *find_option(const char *name, size_t len, unsigned commands)
{
	for (const struct option_spec *spec = option_specs; spec->name; spec++)
		if ((spec->commands & commands) && strlen(spec->name) == len && memcmp(spec->name, name, len) == 0)
			return spec;
	return NULL;
}

static int unknown_option(struct parser *p, const char *name, size_t len)
{
	const char *nearest = NULL;
	char word[64];
	unsigned best = 3;

	snprintf(word, sizeof(word), "%.*s", (int)(len < 60 ? len : 60), name);
	if (find_option(word, strlen(word), ~0u))
		return options_bad(p->err, "--%s: not an option of lull %s; see lull %s --help", word, p->command->name,
		                   p->command->name);
	for (const struct option_spec *spec = option_specs; spec->name; spec++) {
		unsigned d = cli_value_distance(word, spec->name);
		bool prefix = strlen(word) > 1 && strncmp(word, spec->name, strlen(word)) == 0;
		if (!(spec->commands & p->command->command) || (d >= best && !(prefix && best > 1)))
			continue;
		best = prefix && d > 1 ? 1 : d;
		nearest = spec->name;
	}
	for (size_t i = 0; i < sizeof(known_elsewhere) / sizeof(known_elsewhere[0]); i++)
		if (strcmp(word, known_elsewhere[i].theirs) == 0)
			nearest = known_elsewhere[i].ours;
	if (nearest && find_option(nearest, strlen(nearest), p->command->command))
		return options_bad(p->err, "--%s: unknown option; did you mean --%s?", word, nearest);
	if (strcmp(word, "kernel") == 0)
		return options_bad(p->err, "--kernel: unknown option; give the kernel without one: lull %s KERNEL",
		                   p->command->name);
	return options_bad(p->err, "--%s: unknown option; see lull %s --help", word, p->command->name);
}

static int take_option(struct parser *p, const struct option_spec *spec, const char *value)
{
	uint64_t bit = (uint64_t)1 << (spec - option_specs);

	if ((p->seen & bit) && !spec->repeats)
		return options_bad(p->err, "--%s: given twice; give it once", spec->name);
	p->seen |= bit;
	return spec->set(p->opt, spec, value, p->err);
}

static int missing_value(struct parser *p, const struct option_spec *spec)
{
	return options_bad(p->err, "--%s: no value found behind it; use --%s %s", spec->name, spec->name, spec->value);
}

static int ask_help(struct parser *p)
{
	p->opt->command = COMMAND_HELP;
	p->opt->help_about = p->command->command;
	return 0;
}

/* --name, --name value, --name=value */
static int parse_long(struct parser *p, const char *arg)
{
	const char *name = arg + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct option_spec *spec = find_option(name, len, p->command->command);

	if (strcmp(name, "help") == 0)
		return ask_help(p);
	if (!spec)
		return unknown_option(p, name, len);
	if (!spec->value && equals)
		return options_bad(p->err, "--%s: takes no value, found '%.200s'; leave it out", spec->name,
		                   equals + 1);
	if (!spec->value)
		return take_option(p, spec, NULL);
	if (equals)
		return take_option(p, spec, equals + 1);
	if (p->next >= p->argc)
		return missing_value(p, spec);
	return take_option(p, spec, p->argv[p->next++]);
}

static const struct option_spec *find_letter(char letter, unsigned commands)
{
	for (const struct option_spec *spec = option_specs; spec->name; spec++)
		if ((spec->commands & commands) && spec->letter == letter)
			return spec;
	return NULL;
}

/* -v, -vv, -c2, -c 2 */
static int parse_short(struct parser *p, const char *arg)
{
	for (const char *at = arg + 1; *at; at++) {
		const struct option_spec *spec = find_letter(*at, p->command->command);
		int ret;

		if (*at == 'h' && !spec)
			return ask_help(p);
		if (!spec && arg[2])
			return options_bad(p->err,
			                   "-%c: unknown option, found in '%.60s'; long options start with two dashes",
			                   *at, arg);
		if (!spec)
			return options_bad(p->err, "-%c: unknown option; see lull %s --help", *at, p->command->name);
		if (spec->value && at[1])
			return take_option(p, spec, at + 1);
		if (spec->value && p->next >= p->argc)
			return missing_value(p, spec);
		ret = take_option(p, spec, spec->value ? p->argv[p->next++] : NULL);
		if (ret || spec->value)
			return ret;
	}
	return 0;
}

static int parse_positional(struct parser *p, const char *arg)
{
	enum command command = p->command->command;
	int n = p->positional++;

	if (command == COMMAND_DUMP && n == 0)
		p->opt->dump_what = arg;
	else if ((command == COMMAND_RUN && n == 0) || (command == COMMAND_DUMP && n == 1))
		p->opt->config.kernel = arg;
	else if (command == COMMAND_REPLAY && p->opt->replay.file_count < OPTIONS_FILES_MAX)
		p->opt->files[p->opt->replay.file_count++] = arg;
	else if (command == COMMAND_REPLAY)
		return options_bad(p->err, "replay: more than %d files; replay them in turns", OPTIONS_FILES_MAX);
	else if (command == COMMAND_TRACE && n == 0 && strcmp(arg, "gen") != 0)
		return options_bad(p->err, "trace: '%.200s' is not known; use lull trace gen NAME", arg);
	else if (command == COMMAND_TRACE && n == 1)
		p->opt->workload = arg;
	else if (command == COMMAND_TRACE && n > 1)
		return options_bad(p->err, "trace: '%.200s' is one argument too many; use lull trace gen NAME", arg);
	else if (command == COMMAND_TRACE)
		return 0;
	else if (command == COMMAND_RUN || command == COMMAND_DUMP)
		return options_bad(
			p->err,
			"%s: '%.200s' is one argument too many; words for the kernel go into --cmdline or behind --",
			p->command->name, arg);
	else
		return options_bad(p->err, "%s: takes no argument, found '%.200s'; leave it out", p->command->name,
		                   arg);
	return 0;
}

static int parse_arguments(struct parser *p)
{
	while (p->next < p->argc && p->opt->command != COMMAND_HELP) {
		const char *arg = p->argv[p->next++];
		int ret;

		if (strcmp(arg, "--") == 0)
			break;
		if (arg[0] == '-' && arg[1] == '-')
			ret = parse_long(p, arg);
		else if (arg[0] == '-' && arg[1])
			ret = parse_short(p, arg);
		else
			ret = parse_positional(p, arg);
		if (ret)
			return ret;
	}
	if (p->opt->command == COMMAND_HELP)
		return 0;
	for (; p->next < p->argc; p->next++) {
		int ret = 0;

		if (p->command->command & (COMMAND_RUN | COMMAND_DUMP))
			ret = options_add_word(p->opt, p->argv[p->next], p->err);
		else
			ret = parse_positional(p, p->argv[p->next]);
		if (ret)
			return ret;
	}
	return 0;
}

static bool was_given(const struct parser *p, const char *name)
{
	return p->seen >> (find_option(name, strlen(name), ~0u) - option_specs) & 1;
}

/* Standard input has one reader. A serial port that nobody asked for makes way for the console. */
static int share_stdio(const struct parser *p)
{
	if (!p->opt->console_stdio || !p->opt->serial_stdio)
		return 0;
	if (was_given(p, "serial"))
		return options_bad(p->err, "--console: stdio is the serial port's already; give one of them null, "
		                           "file=PATH, pty or socket=PATH");
	p->opt->serial_stdio = false;
	return 0;
}

static int check_whole(const struct parser *p)
{
	const struct option_spec *level = find_option("log-level", 9, ~0u), *verbose = find_letter('v', ~0u);

	if (p->opt->command == COMMAND_HELP)
		return 0;
	if ((p->seen >> (level - option_specs) & 1) && (p->seen >> (verbose - option_specs) & 1))
		return options_bad(p->err, "--verbose: given together with --log-level; give one of them");
	if (p->opt->command == COMMAND_RUN && !p->opt->config.kernel)
		return options_bad(p->err, "run: no kernel given; use lull run [OPTION]... KERNEL");
	if (p->opt->stats_interval_ns && !p->opt->stats)
		return options_bad(p->err,
		                   "--stats-interval: given without --stats; add --stats table or --stats FILE");
	if (p->opt->command == COMMAND_DUMP && !p->opt->dump_what)
		return options_bad(
			p->err,
			"dump: nothing to show given; use acpi, fdt, e820, cpuid, machine or an ACPI signature");
	if (p->opt->command == COMMAND_REPLAY && !p->opt->replay.file_count)
		return options_bad(p->err, "replay: no file given; use lull replay [OPTION]... FILE...");
	if (p->opt->command == COMMAND_TRACE && !p->opt->workload)
		return options_bad(p->err, "trace: no workload given; use lull trace gen NAME, such as rpc20");
	return share_stdio(p);
}

static const struct command_spec *find_command(const char *name)
{
	for (const struct command_spec *c = command_specs; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int unknown_command(const char *word, struct lull_error *err)
{
	for (const struct command_spec *c = command_specs; c->name; c++)
		if (cli_value_distance(word, c->name) == 1)
			return options_bad(err, "%.60s: unknown command; did you mean lull %s?", word, c->name);
	if (word[0] == '-')
		return options_bad(err, "%.60s: unknown option here; options go behind the command, see lull --help",
		                   word);
	if (access(word, F_OK) == 0)
		return options_bad(err, "%.200s: not a command but a file; to run it: lull run %.200s", word, word);
	return options_bad(err, "%.60s: unknown command; use run, demo, dump, doctor, replay or trace", word);
}

int options_parse(struct options *opt, int argc, char *const argv[], struct lull_error *err)
{
	struct parser p = {.opt = opt, .err = err, .argc = argc, .next = 2, .argv = argv};
	int ret;

	*opt = (struct options){.serial_stdio = true, .seed = 1, .halts = 100000};
	opt->replay = (struct lull_replay){.size = sizeof(opt->replay), .files = opt->files};
	opt->config = (struct lull_config){.size = sizeof(opt->config), .log_level = LULL_LOG_WARN};
	if (argc < 2)
		return options_bad(err,
		                   "command line: no command given; use run, demo, dump, doctor, replay or trace, or "
		                   "see lull --help");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		opt->command = COMMAND_HELP;
		p.command = argc > 2 ? find_command(argv[2]) : NULL;
		opt->help_about = p.command ? p.command->command : COMMAND_NONE;
		return argc > 2 && !p.command ? unknown_command(argv[2], err) : 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		opt->command = COMMAND_VERSION;
		return 0;
	}
	p.command = find_command(argv[1]);
	if (!p.command)
		return unknown_command(argv[1], err);
	opt->command = p.command->command;
	ret = parse_arguments(&p);
	return ret ? ret : check_whole(&p);
}
