/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and the input pump of a terminal, and how the statistics look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vmm/cli_input.c"
#include "vmm/cli_json.c"
#include "vmm/cli_report.c"
#include "vmm/cli_stats.c"

#include <stdlib.h>

static bool raw;

void cli_say(const char *fmt, ...)
{
	(void)fmt;
}

const char *lull_version(void)
{
	return "0";
}

void cli_text(const char *text)
{
	(void)text;
}

bool cli_tty_is_raw(void)
{
	return raw;
}

bool cli_tty_may_read(void)
{
	return true;
}

/* ------------------------------------------------------------------------------ keys */

static char keys[64]; /* what was pressed: h, s, x */

static void on_key(void *ctx, enum cli_key key)
{
	static const char names[] = "?hsx";

	strncat(ctx, &names[key], 1);
}

/* Types `typed` in pieces of `step` bytes. */
static void type(const char *typed, size_t step, const char *guest, const char *pressed)
{
	struct cli_input input = {.key = on_key, .ctx = keys};
	char got[64] = "";

	raw = true;
	keys[0] = '\0';
	for (size_t at = 0, len = strlen(typed); at < len; at += step) {
		filter(&input, (const uint8_t *)typed + at, len - at < step ? len - at : step);
		strncat(got, (const char *)input.buf, input.len);
	}
	assert_string_equal(got, guest);
	assert_string_equal(keys, pressed);
}

static void ctrl_a_keys(void **state)
{
	static const struct {
		const char *typed, *guest, *pressed;
	} cases[] = {
		{"abc\r", "abc\r", ""},     {"\1x", "", "x"},         {"\1h\1s", "", "hs"},   {"\1\1", "\1", ""},
		{"\1\1x", "\1x", ""},       {"\1\1\1x", "\1", "x"},   {"a\1bc", "a\1bc", ""}, {"\1", "", ""},
		{"x\1h\1qs", "x\1qs", "h"}, {"\1\1\1\1", "\1\1", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t step = 1; step < 4; step++)
			type(cases[i].typed, step, cases[i].guest, cases[i].pressed);
}

static void longest_input_fits(void **state)
{
	static uint8_t typed[4096];
	struct cli_input input = {.key = on_key, .ctx = keys, .escaped = true};

	(void)state;
	raw = true;
	memset(typed, 'b', sizeof(typed));
	for (size_t i = 1; i < sizeof(typed); i += 2)
		typed[i] = 1;
	filter(&input, typed, sizeof(typed));
	assert_int_equal(input.len, sizeof(typed)); /* one kept from before, one held back */
	assert_true(input.len + 1 < sizeof(input.buf));
}

/* ------------------------------------------------------------------------------ the pump */

static struct cli_input pump;
static int source[2];

static void turn(short revents_in, short revents_out)
{
	struct pollfd fds[2];

	cli_input_before_poll(&pump, fds);
	fds[0].revents = fds[0].fd < 0 ? 0 : revents_in;
	fds[1].revents = fds[1].fd < 0 ? 0 : revents_out;
	cli_input_after_poll(&pump, fds);
}

static int expects(int which)
{
	struct pollfd fds[2];

	cli_input_before_poll(&pump, fds);
	return fds[which].fd;
}

static int start_pump(void **state)
{
	(void)state;
	raw = false;
	if (cli_input_open(&pump, on_key, keys) < 0 || pipe(source) < 0)
		return -1;
	if (pump.in > STDERR_FILENO)
		close(pump.in);
	pump.in = dup(source[0]);
	return 0;
}

static int end_pump(void **state)
{
	(void)state;
	cli_input_close(&pump);
	close(source[0]);
	if (source[1] >= 0)
		close(source[1]);
	return 0;
}

static void bytes_pass_unchanged_without_a_raw_terminal(void **state)
{
	char got[8] = "";

	(void)state;
	assert_int_equal(write(source[1], "\1xy\r", 4), 4);
	turn(POLLIN, 0);
	assert_int_equal(read(pump.pipe_in, got, sizeof(got)), 4);
	assert_memory_equal(got, "\1xy\r", 4);
}

static void full_pipe_stops_the_reading(void **state)
{
	static char block[4096];
	size_t total = 0, taken = 0;

	(void)state;
	while (expects(1) < 0) {
		assert_int_equal(write(source[1], block, sizeof(block)), sizeof(block));
		total += sizeof(block);
		turn(POLLIN, 0);
		assert_true(total < (4 << 20));
	}
	assert_int_equal(expects(0), -1);
	turn(POLLIN, POLLOUT); /* still no room: nothing is lost, nothing is read */
	assert_int_equal(expects(0), -1);
	for (ssize_t n; taken < total && (n = read(pump.pipe_in, block, sizeof(block))) > 0; taken += (size_t)n)
		turn(0, POLLOUT);
	assert_int_equal(taken, total);
	assert_int_equal(expects(0), pump.in);
	assert_int_equal(expects(1), -1);
}

static void end_of_input_is_never_polled_again(void **state)
{
	(void)state;
	assert_true(expects(0) >= 0);
	close(source[1]);
	source[1] = -1;
	turn(POLLHUP, 0);
	assert_int_equal(expects(0), -1);
	assert_int_equal(expects(1), -1);
}

static void paused_input_is_not_polled(void **state)
{
	(void)state;
	pump.paused = true;
	assert_int_equal(expects(0), -1);
	pump.paused = false;
	assert_true(expects(0) >= 0);
}

/* ------------------------------------------------------------------------------ statistics */

static uint32_t fake_vcpus = 1;

int lull_vm_stats(const struct lull_vm *vm, struct lull_stats *out)
{
	(void)vm;
	out->vcpus = fake_vcpus;
	return 0;
}

/* Figures of devices count from 1001 on. */
int lull_vm_disk_stats(const struct lull_vm *vm, uint32_t disk, struct lull_disk_stats *out)
{
	uint64_t *figures = &out->bytes,
		 count = (sizeof(*out) - offsetof(struct lull_disk_stats, bytes)) / sizeof(uint64_t);

	(void)vm;
	out->uses_io_uring = 1;
	for (uint64_t i = 0; i < count; i++)
		figures[i] = 1001 + i;
	return disk == 0 ? 0 : -EINVAL;
}

int lull_vm_net_stats(const struct lull_vm *vm, uint32_t net, struct lull_net_stats *out)
{
	uint64_t *figures = &out->rx_frames,
		 count = (sizeof(*out) - offsetof(struct lull_net_stats, rx_frames)) / sizeof(uint64_t);

	(void)vm;
	for (uint64_t i = 0; i < count; i++)
		figures[i] = 1001 + i;
	return net == 0 ? 0 : -EINVAL;
}

int lull_vm_vsock_stats(const struct lull_vm *vm, struct lull_vsock_stats *out)
{
	uint64_t *figures = &out->opened,
		 count = (sizeof(*out) - offsetof(struct lull_vsock_stats, opened)) / sizeof(uint64_t);

	(void)vm;
	out->connections = 7;
	for (uint64_t i = 0; i < count; i++)
		figures[i] = 1001 + i;
	return 0;
}

int lull_vm_balloon_stats(const struct lull_vm *vm, struct lull_balloon_stats *out)
{
	uint64_t *figures = &out->target_bytes,
		 count = (sizeof(*out) - offsetof(struct lull_balloon_stats, target_bytes)) / sizeof(uint64_t);

	(void)vm;
	out->guest_has = 1u << LULL_BALLOON_SWAP_IN | 1u << LULL_BALLOON_DIRECT_RECLAIMED;
	for (uint64_t i = 0; i < count; i++)
		figures[i] = 1001 + i;
	return 0;
}

int lull_vm_vcpu_stats(const struct lull_vm *vm, uint32_t vcpu, struct lull_vcpu_stats *out)
{
	uint64_t *numbers = &out->exits;

	(void)vm;
	/* Every number is another: 1, 2, 3... times the vCPU's. */
	for (size_t i = 0; numbers + i < (uint64_t *)(out + 1); i++)
		numbers[i] = (i + 1) * (vcpu + 1);
	return 0;
}

static void sums_over_all_cpus(void **state)
{
	struct cli_stats one, three;
	uint64_t *a = &one.sum.exits, *b = &three.sum.exits;

	(void)state;
	fake_vcpus = 1;
	assert_int_equal(cli_stats_take(&one, NULL, "x", NULL), 0);
	fake_vcpus = 3;
	assert_int_equal(cli_stats_take(&three, NULL, "x", NULL), 0);
	for (size_t i = 0; a + i < (uint64_t *)(&one.sum + 1); i++) {
		bool is_max = false;

		for (int s = 0; s < LULL_WAKE_SOURCES; s++)
			is_max = is_max || a + i == &one.sum.wake[s].latency_max_ns;
		is_max = is_max || a + i == &one.sum.window_ns || a + i == &one.sum.wake_cost_ns;
		assert_int_equal(a[i], i + 1);
		assert_int_equal(b[i], (i + 1) * (is_max ? 3 : 6));
	}
}

static void times_have_three_digits(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0ns"},
		{999, "999ns"},
		{1000, "1.00us"},
		{9994, "9.99us"},
		{9999, "10.0us"},
		{99949, "99.9us"},
		{99999, "100us"},
		{999499, "999us"},
		{999500, "1.00ms"},
		{12345678, "12.3ms"},
		{999500000, "1.00s"},
		{61000000000, "61.0s"},
		{3600000000000, "3600s"},
	};
	char text[24];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cli_stats_time(text, sizeof(text), cases[i].ns);
		assert_string_equal(text, cases[i].text);
	}
}

/* Also with large numbers and a long name. */
static void table_fits_80_columns(void **state)
{
	struct cli_stats runs[2] = {{.label = "none"}, {.label = "fixed:123456789012345678901234567890"}};
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	(void)state;
	for (int r = 0; r < 2; r++)
		for (uint64_t *n = &runs[r].sum.exits; n < (uint64_t *)(&runs[r].sum + 1); n++)
			*n = r ? 99999 : 123456789012;
	cli_stats_print(file, runs, 2);
	cli_stats_print(file, runs, 1);
	fclose(file);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strlen(line) > 79)
			fail_msg("too wide: %s", line);
	free(text);
}

/* ------------------------------------------------------------------------------ JSON */

/* What the calls between begin_json() and end_json() write. */
static char *json_buffer;
static size_t json_size;

static struct json begin_json(void)
{
	return (struct json){.out = open_memstream(&json_buffer, &json_size)};
}

static void end_json(struct json *j, const char *want)
{
	fclose(j->out);
	assert_string_equal(json_buffer, want);
	free(json_buffer);
}

static void json_has_commas_between_values_only(void **state)
{
	static const uint64_t numbers[] = {0, 1, UINT64_MAX};
	struct json j = begin_json();

	(void)state;
	json_open(&j, NULL, '{');
	json_open(&j, "a", '{');
	json_close(&j, '}');
	json_open(&j, "b", '[');
	json_open(&j, NULL, '{');
	json_bool(&j, "c", true);
	json_close(&j, '}');
	json_number(&j, NULL, 7);
	json_close(&j, ']');
	json_numbers(&j, "d", numbers, 3);
	json_numbers(&j, "e", numbers, 0);
	json_text(&j, "f", NULL);
	json_bool(&j, "g", false);
	json_close(&j, '}');
	end_json(&j,
	         "{\"a\":{},\"b\":[{\"c\":true},7],\"d\":[0,1,18446744073709551615],\"e\":[],\"f\":null,\"g\":false}");
}

static void json_text_is_always_valid(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", "\"\""},
		{"a\"b\\c/", "\"a\\\"b\\\\c/\""},
		{"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
		{"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\xb4", "\"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\xb4\""},
		{"\xff", "\"\\ufffd\""},
		{"\xc3", "\"\\ufffd\""},                                  /* cut off */
		{"\xe2\x82", "\"\\ufffd\\ufffd\""},                       /* cut off */
		{"\xc0\x80", "\"\\ufffd\\ufffd\""},                       /* longer than needed */
		{"\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\""},            /* longer than needed */
		{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* a surrogate */
		{"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* above U+10FFFF */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json j = begin_json();

		json_text(&j, NULL, cases[i].text);
		end_json(&j, cases[i].want);
	}
}

/* fake_vcpus gives each number of the structure another value: all of them must show up, in the order of vCPUs. */
static void json_report_has_every_figure(void **state)
{
	struct options opt = {.stats = "f", .config = {.kernel = "a\"b", .irqchip = "kernel"}};
	struct cli_report report = {.opt = &opt, .fd = 0, .start_ns = 100};
	size_t figures = (sizeof(struct lull_vcpu_stats) - offsetof(struct lull_vcpu_stats, exits)) / sizeof(uint64_t);
	char *text;

	(void)state;
	fake_vcpus = 1;
	text = cli_report_take_last(&report, NULL, 1100);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"elapsed_ns\":1000,\"last\":true,\"kernel\":\"a\\\"b\",\"irqchip\":\"kernel\""));
	for (size_t i = 1; i <= figures; i++) {
		char want[4][32];
		bool found = false;

		snprintf(want[0], sizeof(want[0]), ":%zu,", i);
		snprintf(want[1], sizeof(want[1]), ":%zu}", i);
		snprintf(want[2], sizeof(want[2]), "[%zu,", i);
		snprintf(want[3], sizeof(want[3]), ",%zu", i);
		for (int w = 0; w < 4; w++)
			found = found || strstr(strstr(text, "\"vcpus\""), want[w]);
		if (!found)
			fail_msg("figure %zu of struct lull_vcpu_stats is not in the report", i);
	}
	assert_non_null(strstr(text,
	                       "\"disks\":[{\"uses_io_uring\":true,\"bytes\":1001,\"requests\":1002,\"errors\":1003,"
	                       "\"inline_done\":1004}],\"nets\":[{\"link_is_up\":false,\"rx_frames\":1001,"));
	assert_non_null(strstr(text, "\"tx_waits\":1008}],\"vsock\":{\"connections\":7,\"opened\":1001,"));
	assert_non_null(strstr(text, "\"waits\":1006},\"balloon\":{\"target_bytes\":1001,\"actual_bytes\":1002,"));
	assert_non_null(strstr(text, "\"guest_updates\":1008,\"guest\":{\"swap_in_bytes\":1009,"
	                             "\"direct_reclaimed_bytes\":1024}}}"));
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	free(text);
}

/* The n-th report is due n intervals after the start; those that were missed do not come late. */
static void reports_are_due_at_intervals(void **state)
{
	struct options opt = {.stats = "table", .stats_interval_ns = 100};
	struct cli_report report = {.opt = &opt, .fd = -1};

	(void)state;
	cli_report_start(&report, 1000);
	assert_int_equal(report.next_ns, 1100);
	cli_report_due(&report, NULL, 1099);
	assert_int_equal(report.next_ns, 1100);
	cli_report_due(&report, NULL, 1100);
	assert_int_equal(report.next_ns, 1200);
	cli_report_due(&report, NULL, 1555);
	assert_int_equal(report.next_ns, 1600);
	opt.stats_interval_ns = 0;
	report.next_ns = 0;
	cli_report_start(&report, 1000);
	cli_report_due(&report, NULL, 5000);
	assert_int_equal(report.next_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ctrl_a_keys),
		cmocka_unit_test(longest_input_fits),
		cmocka_unit_test_setup_teardown(bytes_pass_unchanged_without_a_raw_terminal, start_pump, end_pump),
		cmocka_unit_test_setup_teardown(full_pipe_stops_the_reading, start_pump, end_pump),
		cmocka_unit_test_setup_teardown(end_of_input_is_never_polled_again, start_pump, end_pump),
		cmocka_unit_test_setup_teardown(paused_input_is_not_polled, start_pump, end_pump),
		cmocka_unit_test(sums_over_all_cpus),
		cmocka_unit_test(times_have_three_digits),
		cmocka_unit_test(table_fits_80_columns),
		cmocka_unit_test(json_has_commas_between_values_only),
		cmocka_unit_test(json_text_is_always_valid),
		cmocka_unit_test(json_report_has_every_figure),
		cmocka_unit_test(reports_are_due_at_intervals),
	};

	return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
