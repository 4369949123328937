/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: who gets them, what a hostile text becomes, and how often a guest may speak. */
#include "log.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct sink {
	unsigned lines;
	enum lull_log_level level;
	char last[2048];
};

static void take(void *ctx, enum lull_log_level level, const char *line)
{
	struct sink *sink = ctx;
	sink->lines++;
	sink->level = level;
	snprintf(sink->last, sizeof(sink->last), "%s", line);
}

static struct log log_to(struct sink *sink, enum lull_log_level level)
{
	memset(sink, 0, sizeof(*sink));
	return (struct log){.fn = take, .ctx = sink, .level = level};
}

static void a_line_reaches_the_owner(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_INFO);
	log_warn(&log, "disk %d: %s", 2, "slow");
	assert_string_equal(sink.last, "disk 2: slow");
	assert_int_equal(sink.level, LULL_LOG_WARN);
}

static void lines_above_the_level_are_not_made(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_WARN);
	log_info(&log, "no");
	log_debug(&log, "no");
	assert_int_equal(sink.lines, 0);
	log_warn(&log, "yes");
	log_error(&log, "yes");
	assert_int_equal(sink.lines, 2);
}

static void nobody_listening_is_fine(void **state)
{
	(void)state;
	struct log deaf = {.fn = NULL, .level = LULL_LOG_DEBUG};
	struct log_limit limit = {0};
	log_error(NULL, "x");
	log_error(&deaf, "x");
	log_guest(NULL, &limit, LULL_LOG_WARN, "x");
	assert_int_equal(atomic_load(&limit.count), 1);
}

static void becomes(const char *text, const char *line)
{
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_DEBUG);
	log_error(&log, "%s", text);
	assert_string_equal(sink.last, line);
}

static void control_characters_are_shown_not_sent(void **state)
{
	(void)state;
	becomes("a\nlull: fake", "a\\x0alull: fake");
	becomes("\r\t\x1b[2J\x7f", "\\x0d\\x09\\x1b[2J\\x7f");
	becomes("\x9b"
	        "31m",
	        "\\x9b31m");               /* CSI of an 8-bit terminal */
	becomes("\xc2\x9b", "\\xc2\\x9b"); /* and as UTF-8 */
}

static void text_in_utf8_is_kept(void **state)
{
	(void)state;
	becomes("Grüße, 日本, 😀", "Grüße, 日本, 😀");
	becomes("\xc2\xa0|", "\xc2\xa0|"); /* the first after the control characters */
	becomes("", "");
}

static void what_is_not_utf8_is_shown_as_bytes(void **state)
{
	(void)state;
	becomes("\xff\xfe", "\\xff\\xfe");
	becomes("\xc3", "\\xc3");
	becomes("\xe6\x97", "\\xe6\\x97");
	becomes("\xc1\x8a", "\\xc1\\x8a");                   /* overlong newline */
	becomes("\xe0\x82\x9b", "\\xe0\\x82\\x9b");          /* overlong CSI */
	becomes("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
}

static void a_long_line_is_cut_and_says_so(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_DEBUG);
	char text[1500];

	for (size_t length = 500; length < 516; length++) {
		memset(text, 'x', length);
		text[length] = '\0';
		log_error(&log, "%s", text);
		assert_true(strlen(sink.last) < 512);
		if (strlen(sink.last) != length)
			assert_string_equal(sink.last + strlen(sink.last) - 4, "x...");
	}
	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error(&log, "%s", text);
	assert_true(strlen(sink.last) < 512);
	assert_string_equal(sink.last + strlen(sink.last) - 7, "\\x0a...");
}

static void a_guest_says_little_in_its_life(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_WARN);
	struct log_limit limit = {0};

	for (int i = 1; i < LOG_GUEST_MAX; i++) {
		log_guest(&log, &limit, LULL_LOG_WARN, "port %d", i);
		assert_null(strstr(sink.last, "counted"));
	}
	log_guest(&log, &limit, LULL_LOG_WARN, "port 8");
	assert_string_equal(sink.last, "port 8 (more of these are only counted)");
	for (int i = 0; i < 1000; i++)
		log_guest(&log, &limit, LULL_LOG_WARN, "port 9");
	assert_int_equal(sink.lines, LOG_GUEST_MAX);
	assert_int_equal(atomic_load(&limit.count), LOG_GUEST_MAX + 1000);
}

static void the_note_fits_behind_a_long_line(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_WARN);
	struct log_limit limit = {.count = LOG_GUEST_MAX - 1};
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_guest(&log, &limit, LULL_LOG_WARN, "%s", text);
	assert_true(strlen(sink.last) < 512);
	assert_non_null(strstr(sink.last, "x... (more of these are only counted)"));
}

static void a_counter_that_is_full_does_not_start_again(void **state)
{
	(void)state;
	struct sink sink;
	struct log log = log_to(&sink, LULL_LOG_WARN);
	struct log_limit limit = {.count = INT_MAX};

	log_guest(&log, &limit, LULL_LOG_WARN, "x");
	assert_int_equal(atomic_load(&limit.count), INT_MAX);
	assert_int_equal(sink.lines, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_reaches_the_owner),
		cmocka_unit_test(lines_above_the_level_are_not_made),
		cmocka_unit_test(nobody_listening_is_fine),
		cmocka_unit_test(control_characters_are_shown_not_sent),
		cmocka_unit_test(text_in_utf8_is_kept),
		cmocka_unit_test(what_is_not_utf8_is_shown_as_bytes),
		cmocka_unit_test(a_long_line_is_cut_and_says_so),
		cmocka_unit_test(a_guest_says_little_in_its_life),
		cmocka_unit_test(the_note_fits_behind_a_long_line),
		cmocka_unit_test(a_counter_that_is_full_does_not_start_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
