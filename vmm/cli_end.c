/* SPDX-License-Identifier: Apache-2.0 */
/* cli_end.c - what the end of a guest means: the exit code and the closing line. */
#include "cli.h"

const struct cli_code_text cli_code_texts[] = {
	{"0", "the guest powered off, or Ctrl-a x stopped it"},
	{"N", "the guest wrote to isa-debug-exit; see --debug-exit"},
	{"64", "the guest reset the machine, with --on-reboot exit"},
	{"66", "triple fault"},
	{"68", "KVM internal error, failed entry or failed emulation"},
	{"70", "the guest panicked (pvpanic)"},
	{"72", "dead halt: every CPU halted with interrupts off, nothing can wake one"},
	{"124", "--timeout is over"},
	{"126", "lull could not run it: bad option, bad kernel, no KVM"},
	{"128+N", "ended by signal N"},
	{0},
};

static const struct {
	int code;
	const char *line; /* when the library has no words for it; "": an end like any other */
} ends[LULL_EXIT_REASONS] = {
	[LULL_EXIT_NONE] = {CLI_KVM_ERROR, "guest: no reason for its end found; please report this"},
	[LULL_EXIT_POWEROFF] = {CLI_OK, ""},
	[LULL_EXIT_RESET] = {CLI_RESET, "guest: it reset the machine; use --on-reboot restart to let it start again"},
	[LULL_EXIT_DEBUG_EXIT] = {CLI_OK, ""},
	[LULL_EXIT_TRIPLE_FAULT] = {CLI_TRIPLE_FAULT, "guest: triple fault"},
	[LULL_EXIT_KVM_ERROR] = {CLI_KVM_ERROR, "KVM: it could not go on with this guest"},
	[LULL_EXIT_PANIC] = {CLI_PANIC, "guest: it panicked"},
	[LULL_EXIT_DEAD_HALT] = {CLI_DEAD_HALT, "guest: every CPU halted with interrupts off, nothing can wake one"},
	[LULL_EXIT_STOPPED] = {CLI_OK, ""},
};

int cli_end(const struct lull_exit *end, const char **line)
{
	enum lull_exit_reason reason = end->reason < LULL_EXIT_REASONS ? end->reason : LULL_EXIT_NONE;

	*line = ends[reason].line;
	if (**line && end->text[0])
		*line = end->text;
	if (reason != LULL_EXIT_DEBUG_EXIT)
		return ends[reason].code;
	/* A process has 8 bits for it: what is not 0 must not look like 0. */
	if (end->code && !(end->code & 0xff))
		return 255;
	return (int)(end->code & 0xff);
}
