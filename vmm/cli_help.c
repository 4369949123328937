/* SPDX-License-Identifier: Apache-2.0 */
/* cli_help.c - --help, made from the tables of options and exit codes. */
#include "cli.h"

#include <string.h>

enum {
	INDENT = 27,
	WIDTH = 79,
};

/* The left column, then text broken at blanks beside it. */
static void two_columns(const char *left, int indent, const char *text)
{
	int room = WIDTH - indent;

	if ((int)strlen(left) > indent - 3)
		printf("  %s\n%*s", left, indent, "");
	else
		printf("  %-*s", indent - 2, left);
	while ((int)strlen(text) > room) {
		int cut = room;

		while (cut > 0 && text[cut] != ' ')
			cut--;
		cut = cut ? cut : room;
		printf("%.*s\n%*s", cut, text, indent, "");
		text += cut;
		text += *text == ' ';
	}
	puts(text);
}

static void print_options(enum command command)
{
	for (const struct option_spec *spec = option_specs; spec->name; spec++) {
		char left[64], letter[8] = "    ";

		if (!(spec->commands & command))
			continue;
		if (spec->letter)
			snprintf(letter, sizeof(letter), "-%c, ", spec->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, spec->name, spec->value ? " " : "",
		         spec->value ? spec->value : "");
		two_columns(left, INDENT, spec->help);
	}
	two_columns("-h, --help", INDENT, "show this help");
}

static void print_codes(void)
{
	printf("\nExit codes:\n");
	for (const struct cli_code_text *code = cli_code_texts; code->code; code++)
		two_columns(code->code, 10, code->text);
}

static void print_run_notes(void)
{
	printf("\nOn a terminal (serial port stdio): Ctrl-a x stops the guest, Ctrl-a s shows\n"
	       "statistics, Ctrl-a h lists the keys, Ctrl-a Ctrl-a sends a Ctrl-a.\n"
	       "SIGTERM and SIGINT press the power button first and stop the guest the second\n"
	       "time; SIGHUP and SIGQUIT stop it at once.\n");
}

static void help_all(void)
{
	printf("lull %s - a KVM microVM monitor that is good at waiting\n\nUsage:\n", lull_version());
	for (const struct command_spec *c = command_specs; c->name; c++) {
		printf("  lull %s%s%s\n", c->name, *c->usage ? " " : "", c->usage);
		printf("      %s\n", c->summary);
	}
	printf("  lull --help | --version\n\nOptions of lull run (more: lull COMMAND --help, man lull):\n");
	print_options(COMMAND_RUN);
	print_codes();
}

int cli_help(enum command about)
{
	const struct command_spec *c = command_specs;

	while (c->name && c->command != about)
		c++;
	if (!c->name) {
		help_all();
		return cli_finish_stdout(CLI_OK);
	}
	printf("Usage: lull %s%s%s\n\n%c%s\n\nOptions (defaults in brackets):\n", c->name, *c->usage ? " " : "",
	       c->usage, c->summary[0] - 'a' + 'A', c->summary + 1);
	print_options(about);
	if (about == COMMAND_RUN)
		print_run_notes();
	if (about == COMMAND_RUN || about == COMMAND_DEMO)
		print_codes();
	return cli_finish_stdout(CLI_OK);
}
