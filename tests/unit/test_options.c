/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: every option in every spelling, what is refused and how, and that --help, the man page and the
 * table know the same options and exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vmm/cli_end.c"
#include "vmm/cli_parse.c"
#include "vmm/cli_value.c"
#include "vmm/options.c"

static struct options opt;
static struct lull_error err;

/* Words separated by blanks; '~' stands for an empty word. */
static int parse(const char *line)
{
	static char words[512];
	char *argv[32] = {(char[]){"lull"}}, *save = NULL;
	int argc = 1;

	options_free(&opt);
	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		argv[argc++] = word;
		if (strcmp(word, "~") == 0)
			*word = '\0';
	}
	err = (struct lull_error){0};
	return options_parse(&opt, argc, argv, &err);
}

static void accepts(const char *line)
{
	if (parse(line) != 0)
		fail_msg("%s: %s", line, err.text);
}

/* The text is one line "thing: found; do" and has `part` in it. */
static void refuses(const char *line, const char *part)
{
	const char *colon, *semicolon;

	if (parse(line) != -EINVAL)
		fail_msg("%s: accepted", line);
	assert_int_equal(err.code, -EINVAL);
	colon = strstr(err.text, ": ");
	semicolon = strstr(err.text, "; ");
	if (!strstr(err.text, part) || strchr(err.text, '\n') || !colon || !semicolon || semicolon < colon)
		fail_msg("%s: '%s' lacks '%s' or is not 'thing: found; do'", line, err.text, part);
}

static void defaults(void **state)
{
	(void)state;
	accepts("run kernel");
	assert_int_equal(opt.command, COMMAND_RUN);
	assert_string_equal(opt.config.kernel, "kernel");
	assert_int_equal(opt.config.size, sizeof(opt.config));
	assert_int_equal(opt.config.flags, 0);
	assert_int_equal(opt.config.vcpus, 0);
	assert_int_equal(opt.config.ram_bytes, 0);
	assert_int_equal(opt.config.log_level, LULL_LOG_WARN);
	assert_null(opt.config.cmdline);
	assert_null(opt.config.serial);
	assert_true(opt.serial_stdio);
	assert_false(opt.dry_run || opt.stats || opt.stats_interval_ns || opt.timeout_ns);
}

static void every_spelling(void **state)
{
	static const char *const spellings[] = {"run --cpus 12 k", "run --cpus=12 k", "run -c 12 k", "run -c12 k",
	                                        "run k -c12"};

	(void)state;
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		accepts(spellings[i]);
		assert_int_equal(opt.config.vcpus, 12);
		assert_string_equal(opt.config.kernel, "k");
	}
	accepts("run -vc3 k");
	assert_int_equal(opt.config.vcpus, 3);
	assert_int_equal(opt.config.log_level, LULL_LOG_INFO);
	accepts("run -vvv k");
	assert_int_equal(opt.config.log_level, LULL_LOG_DEBUG);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"512", 512ull << 20}, {"512M", 512ull << 20}, {"512m", 512ull << 20}, {"64K", 64 << 10},
	            {"2g", 2ull << 30},    {"0x10", 16ull << 20},  {"0x1G", 1ull << 30},   {"17179869183G", 0}};
	static const char *const bad[] = {"~",   "M",  "-1",  "+1", " 1",  "1 ",
	                                  "1MB", "1T", "1.5", "0x", "0xg", "18446744073709551616"};
	char line[64];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]) - 1; i++) {
		snprintf(line, sizeof(line), "run --mem %s k", good[i].text);
		accepts(line);
		assert_int_equal(opt.config.ram_bytes, good[i].bytes);
	}
	accepts("run -m 17179869183G k");
	refuses("run -m 17179869184G k", "--mem: cannot use '17179869184G'");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t n;

		assert_false(cli_value_size(strcmp(bad[i], "~") ? bad[i] : "", 1, &n));
	}
}

static void seconds(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {{"1", 1000000000},
	            {"0.5", 500000000},
	            {".25", 250000000},
	            {"1.", 1000000000},
	            {"0.000000001", 1},
	            {"2.0000000019", 2000000001},
	            {"18446744073", 18446744073000000000u}};
	static const char *const bad[] = {"", ".", "1e3", "-1", "1,5", "1s", "0x1", "18446744074", "1.5.5"};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(cli_value_seconds(good[i].text, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(cli_value_seconds(bad[i], &ns));
	refuses("run --timeout 0 k", "'0'");
	refuses("run --timeout 0.0000000001 k", "seconds above 0");
	refuses("run --timeout 99999999 k", "seconds above 0");
	accepts("run --timeout 0.5 k");
	assert_int_equal(opt.timeout_ns, 500000000);
}

static void command_line_words_join(void **state)
{
	(void)state;
	accepts("run -p a k --cmdline=b=c -- d --mem 1");
	assert_string_equal(opt.config.cmdline, "a b=c d --mem 1");
	assert_int_equal(opt.config.ram_bytes, 0);
	accepts("run k -- -x");
	assert_string_equal(opt.config.cmdline, "-x");
	accepts("dump e820 -p a");
	assert_string_equal(opt.config.cmdline, "a");
	assert_null(opt.config.kernel);
	assert_string_equal(opt.dump_what, "e820");
}

static void options_reach_the_config(void **state)
{
	(void)state;
	accepts("run -i rd --irqchip kernel --halt-poll fixed:9 --cpu-affinity 0:1 --serial file=x --on-reboot restart "
	        "--debug-exit raw --no-x2apic --no-tsc-deadline --no-pv-eoi --dry-run --stats f --log-level error k");
	assert_string_equal(opt.config.initrd, "rd");
	assert_string_equal(opt.config.irqchip, "kernel");
	assert_string_equal(opt.config.halt_poll, "fixed:9");
	assert_string_equal(opt.config.cpu_affinity, "0:1");
	assert_string_equal(opt.config.serial, "file=x");
	assert_false(opt.serial_stdio);
	assert_int_equal(opt.config.flags, LULL_RESTART_ON_RESET | LULL_DEBUG_EXIT_RAW | LULL_NO_X2APIC |
	                                           LULL_NO_TSC_DEADLINE | LULL_NO_PV_EOI);
	assert_true(opt.dry_run);
	assert_string_equal(opt.stats, "f");
	assert_int_equal(opt.config.log_level, LULL_LOG_ERROR);
	accepts("run --on-reboot exit --debug-exit qemu --serial stdio k");
	assert_int_equal(opt.config.flags, 0);
	assert_true(opt.serial_stdio);
	accepts("run --flat-addr 0x7c00 --flat-mode real k");
	assert_int_equal(opt.config.flat_addr, 0x7c00);
	assert_int_equal(opt.config.flags, LULL_FORCE_FLAT | LULL_FLAT_REAL_MODE);
	accepts("run --flat-mode long k");
	assert_int_equal(opt.config.flags, LULL_FORCE_FLAT);
	accepts("dump fdt -o f k");
	assert_string_equal(opt.output, "f");
	assert_string_equal(opt.config.kernel, "k");
	accepts("demo --irqchip user --halt-poll none --timeout 3");
	accepts("dump cpuid --guest-mwait");
	assert_int_equal(opt.config.flags, LULL_GUEST_MWAIT);
	accepts("run --poll-wait mwaitx --powersave ignore --poll-budget 5,vm=20 --max-pollers 3 --stats table "
	        "--stats-interval 0.25 k");
	assert_string_equal(opt.config.poll_wait, "mwaitx");
	assert_string_equal(opt.config.powersave, "ignore");
	assert_string_equal(opt.config.poll_budget, "5,vm=20");
	assert_int_equal(opt.config.max_pollers, 3);
	assert_string_equal(opt.stats, "table");
	assert_int_equal(opt.stats_interval_ns, 250000000);
	refuses("run --powersave st k", "ignore, strict or smart");
	refuses("run --powersave strict|smart k", "ignore, strict or smart");
	refuses("run --powersave ~ k", "ignore, strict or smart");
	refuses("run --stats-interval 1 k", "without --stats");
}

static void unknown_options_get_a_suggestion(void **state)
{
	(void)state;
	refuses("run --cpu 2 k", "did you mean --cpus?");
	refuses("run --memory=2 k", "did you mean --mem?");
	refuses("run --irq user k", "did you mean --irqchip?");
	refuses("run --tiemout 2 k", "did you mean --timeout?");
	refuses("run --initramfs x k", "did you mean --initrd?");
	refuses("run --qqqqq k", "see lull run --help");
	refuses("demo --cpus 2", "not an option of lull demo");
	refuses("run --abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz k", "unknown");
}

static void repeated_options_are_refused(void **state)
{
	(void)state;
	for (const struct option_spec *spec = option_specs; spec->name; spec++) {
		char line[256];
		const char *command = "trace gen", *value = "1";

		if (spec->commands & COMMAND_REPLAY)
			command = "replay";
		if (spec->commands & COMMAND_DUMP)
			command = "dump acpi";
		if (spec->commands & COMMAND_RUN)
			command = "run";
		if (!spec->value)
			value = NULL;
		else if (strcmp(spec->name, "serial") == 0 || strcmp(spec->name, "console") == 0)
			value = "pty";
		else if (strchr(spec->value, '|'))
			value = strrchr(spec->value, '|') + 1;
		else if (strcmp(spec->name, "log-level") == 0)
			value = "info";
		snprintf(line, sizeof(line), "%s --%s %s --%s %s k", command, spec->name, value ? value : "",
		         spec->name, value ? value : "");
		if (strcmp(spec->name, "stats-interval") == 0)
			strcat(line, " --stats f");
		if (spec->repeats)
			accepts(line);
		else
			refuses(line, "given twice");
	}
}

static void stdio_has_one_reader(void **state)
{
	(void)state;
	accepts("run --console pty k");
	assert_true(opt.serial_stdio && !opt.console_stdio);
	assert_string_equal(opt.config.console, "pty");
	accepts("run --console stdio k");
	assert_true(!opt.serial_stdio && opt.console_stdio);
	assert_null(opt.config.serial);
	assert_null(opt.config.console);
	accepts("run --console stdio --serial file=x k");
	assert_string_equal(opt.config.serial, "file=x");
	refuses("run --serial stdio --console stdio k", "--console: stdio is the serial port's already");
	refuses("run --console tty k", "--console: cannot use 'tty'");
}

static void networks_are_counted(void **state)
{
	char line[256] = "run";

	(void)state;
	accepts("run --net tap=a --net passt,mtu=1400 k");
	assert_int_equal(opt.config.net_count, 2);
	assert_string_equal(opt.config.nets[0], "tap=a");
	assert_string_equal(opt.config.nets[1], "passt,mtu=1400");
	for (int i = 0; i < OPTIONS_NETS_MAX + 1; i++)
		strcat(line, " --net tap");
	refuses(strcat(line, " k"), "--net: more than 8 are given");
	refuses("run --netdev tap k", "did you mean --net?");
}

static void help_and_version_win(void **state)
{
	(void)state;
	accepts("--help");
	assert_int_equal(opt.command, COMMAND_HELP);
	assert_int_equal(opt.help_about, COMMAND_NONE);
	accepts("help dump");
	assert_int_equal(opt.help_about, COMMAND_DUMP);
	accepts("run --mem 3 --help");
	assert_int_equal(opt.help_about, COMMAND_RUN);
	accepts("demo -h");
	assert_int_equal(opt.help_about, COMMAND_DEMO);
	accepts("run k -- --help");
	assert_int_equal(opt.command, COMMAND_RUN);
	accepts("-V");
	assert_int_equal(opt.command, COMMAND_VERSION);
}

static void long_words_do_not_overflow(void **state)
{
	static char word[5000];
	char *argv[] = {(char[]){"lull"}, (char[]){"run"}, (char[]){"--mem"}, word, NULL};

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	options_free(&opt);
	assert_int_equal(options_parse(&opt, 4, argv, &err), -EINVAL);
	assert_true(strlen(err.text) < 400 && strstr(err.text, "; give"));
	argv[1] = word;
	assert_int_equal(options_parse(&opt, 2, argv, &err), -EINVAL);
	argv[1] = (char[]){"run"};
	argv[2] = word;
	memcpy(word, "--", 2);
	assert_int_equal(options_parse(&opt, 3, argv, &err), -EINVAL);
	assert_int_equal(options_parse(&opt, 1, argv, &err), -EINVAL);
}

static void distances(void **state)
{
	(void)state;
	assert_int_equal(cli_value_distance("mem", "mem"), 0);
	assert_int_equal(cli_value_distance("mem", "men"), 1);
	assert_int_equal(cli_value_distance("mem", "mme"), 1);
	assert_int_equal(cli_value_distance("", "mem"), 3);
	assert_int_equal(cli_value_distance("cpus", "cpu"), 1);
	assert_int_equal(cli_value_distance("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "mem"), 99);
}

static void a_balloon_is_there_when_it_is_asked_for(void **state)
{
	(void)state;
	accepts("run k");
	assert_null(opt.config.balloon);
	accepts("run --balloon off k");
	assert_null(opt.config.balloon);
	accepts("run --balloon on k");
	assert_string_equal(opt.config.balloon, "on");
	accepts("dump machine --balloon size=64M,stats=1");
	assert_string_equal(opt.config.balloon, "size=64M,stats=1");
	refuses("run --balloon ~ k", "--balloon");
	refuses("run --balloon on --balloon off k", "--balloon");
}

/* ------------------------------------------------------------------------------ the man page */

static char *read_man_page(void)
{
	FILE *file = fopen("docs/lull.1.scd", "re");
	static char text[1 << 16];
	size_t n;

	if (!file)
		fail_msg("docs/lull.1.scd: %s (run this at the top of the repository)", strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	return text;
}

static void man_page_has_every_option(void **state)
{
	char *text = read_man_page();

	(void)state;
	for (const struct option_spec *spec = option_specs; spec->name; spec++) {
		char want[64], letter[16];
		const char *at;

		snprintf(want, sizeof(want), "\n*--%s*", spec->name);
		at = strstr(text, want);
		if (!at)
			fail_msg("the man page lacks --%s", spec->name);
		snprintf(letter, sizeof(letter), ", *-%c*", spec->letter);
		if (spec->letter && (!strstr(at + 1, letter) || strstr(at + 1, letter) > strchr(at + 1, '\n')))
			fail_msg("the man page lacks -%c beside --%s", spec->letter, spec->name);
	}
}

static void man_page_has_no_other_option(void **state)
{
	char *text = read_man_page();

	(void)state;
	for (char *at = strstr(text, "\n*--"); at; at = strstr(at + 1, "\n*--")) {
		size_t len = strcspn(at + 4, "*");

		if (find_option(at + 4, len, ~0u))
			continue;
		if (strncmp(at + 4, "help*", 5) != 0 && strncmp(at + 4, "version*", 8) != 0)
			fail_msg("the man page has --%.*s", (int)len, at + 4);
	}
}

static void man_page_has_every_exit_code(void **state)
{
	char *text = strstr(read_man_page(), "# EXIT STATUS");

	(void)state;
	assert_non_null(text);
	for (const struct cli_code_text *code = cli_code_texts; code->code; code++) {
		char want[32];

		snprintf(want, sizeof(want), strcmp(code->code, "N") == 0 ? "\n_%s_\n" : "\n*%s*\n", code->code);
		if (!strstr(text, want))
			fail_msg("the man page lacks exit code %s", code->code);
	}
}

static void ends_and_codes(void **state)
{
	static const struct {
		enum lull_exit_reason reason;
		uint32_t code;
		int exit_code;
	} cases[] = {
		{LULL_EXIT_POWEROFF, 0, 0},     {LULL_EXIT_RESET, 0, 64},         {LULL_EXIT_TRIPLE_FAULT, 0, 66},
		{LULL_EXIT_KVM_ERROR, 0, 68},   {LULL_EXIT_PANIC, 1, 70},         {LULL_EXIT_DEAD_HALT, 0, 72},
		{LULL_EXIT_DEBUG_EXIT, 0, 0},   {LULL_EXIT_DEBUG_EXIT, 33, 33},   {LULL_EXIT_DEBUG_EXIT, 256, 255},
		{LULL_EXIT_DEBUG_EXIT, 257, 1}, {LULL_EXIT_DEBUG_EXIT, 255, 255}, {LULL_EXIT_NONE, 0, 68},
		{LULL_EXIT_REASONS, 0, 68},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lull_exit end = {.size = sizeof(end), .reason = cases[i].reason, .code = cases[i].code};
		const char *line = NULL;

		assert_int_equal(cli_end(&end, &line), cases[i].exit_code);
		assert_int_equal(line[0] == '\0',
		                 cases[i].reason == LULL_EXIT_POWEROFF || cases[i].reason == LULL_EXIT_DEBUG_EXIT);
		snprintf(end.text, sizeof(end.text), "said by the library");
		cli_end(&end, &line);
		assert_true(line[0] == '\0' || line == end.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_balloon_is_there_when_it_is_asked_for),
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_spelling),
		cmocka_unit_test(sizes),
		cmocka_unit_test(seconds),
		cmocka_unit_test(command_line_words_join),
		cmocka_unit_test(options_reach_the_config),
		cmocka_unit_test(unknown_options_get_a_suggestion),
		cmocka_unit_test(repeated_options_are_refused),
		cmocka_unit_test(stdio_has_one_reader),
		cmocka_unit_test(networks_are_counted),
		cmocka_unit_test(help_and_version_win),
		cmocka_unit_test(long_words_do_not_overflow),
		cmocka_unit_test(distances),
		cmocka_unit_test(man_page_has_every_option),
		cmocka_unit_test(man_page_has_no_other_option),
		cmocka_unit_test(man_page_has_every_exit_code),
		cmocka_unit_test(ends_and_codes),
	};
	int failed = cmocka_run_group_tests_name("options", tests, NULL, NULL);

	options_free(&opt);
	return failed;
}
