// SPDX-License-Identifier: Apache-2.0
/* test_balloon_host.c - what `--balloon` takes, what it refuses with which words, and which targets there can be. */
#include "balloon_host.h"

#include "lull.h"
#include "util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_word_is_understood(void **state)
{
	struct balloon_host *h =
		balloon_host_open("size=64M,deflate-on-oom,free-page-reporting,stats=5", MiB(128), NULL);

	(void)state;
	assert_non_null(h);
	assert_int_equal(h->target_pages, MiB(64) / 4096);
	assert_true(h->deflate_on_oom && h->reporting);
	assert_int_equal(h->stats_seconds, 5);
	balloon_host_close(h);
}

static void on_is_free_page_reporting(void **state)
{
	struct balloon_host *h = balloon_host_open("on", MiB(128), NULL);

	(void)state;
	assert_non_null(h);
	assert_true(h->reporting);
	assert_int_equal(h->target_pages | h->stats_seconds | h->deflate_on_oom, 0);
	balloon_host_close(h);
}

static void what_is_not_said_is_off(void **state)
{
	struct balloon_host *h = balloon_host_open("size=0", MiB(128), NULL);

	(void)state;
	assert_non_null(h);
	assert_int_equal(h->target_pages | h->stats_seconds | h->deflate_on_oom | h->reporting, 0);
	balloon_host_close(h);
}

static void switches_may_say_on_or_off(void **state)
{
	struct balloon_host *h = balloon_host_open("deflate-on-oom=on,free-page-reporting=off", MiB(128), NULL);

	(void)state;
	assert_non_null(h);
	assert_true(h->deflate_on_oom);
	assert_false(h->reporting);
	balloon_host_close(h);
}

static void what_cannot_be_is_refused_with_a_text(void **state)
{
	static const struct {
		const char *spec, *text;
	} cases[] = {
		{"", "'' is not known"},
		{"off", "'off' is not known"},
		{"size", "size needs a value"},
		{"size=", "the value of size is empty"},
		{"size=x", "size 'x': give bytes"},
		{"size=-1", "size '-1': give bytes"},
		{"size=1000", "1000 bytes are not whole pages; give a multiple of 4096"},
		{"size=129M", "more than the guest has; give at most 134217728"},
		{"size=99999999999G", "give bytes"},
		{"stats", "stats needs a value"},
		{"stats=0", "give whole seconds"},
		{"stats=0.5", "give whole seconds"},
		{"stats=86401", "give whole seconds"},
		{"deflate-on-oom=maybe", "deflate-on-oom 'maybe': give on or off"},
		{"free-page-reporting=", "the value of free-page-reporting is empty"},
		{"on,stats=1", "'on' is not known"},
		{"stats=1,,size=1M", "stats '1,size=1M'"},
		{"free-page-reportin", "is not known"},
		{"free-page-reporting2", "is not known"},
	};
	struct lull_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&err, 0, sizeof(err));
		assert_null(balloon_host_open(cases[i].spec, MiB(128), &err));
		assert_int_equal(err.code, -EINVAL);
		if (!strstr(err.text, cases[i].text))
			fail_msg("'%s': %s", cases[i].spec, err.text);
	}
}

static void a_target_is_whole_pages_of_what_there_is(void **state)
{
	struct balloon_host *h = balloon_host_open("size=1M", MiB(128), NULL);

	(void)state;
	assert_non_null(h);
	assert_int_equal(balloon_host_set_target(h, MiB(128), NULL), 0);
	assert_int_equal(h->target_pages, MiB(128) / 4096);
	assert_int_equal(balloon_host_set_target(h, MiB(128) + 4096, NULL), -EINVAL);
	assert_int_equal(balloon_host_set_target(h, 4095, NULL), -EINVAL);
	assert_int_equal(balloon_host_set_target(h, -UINT64_C(4096), NULL), -EINVAL);
	assert_int_equal(h->target_pages, MiB(128) / 4096);
	assert_int_equal(balloon_host_set_target(h, 0, NULL), 0);
	assert_int_equal(h->target_pages, 0);
	balloon_host_close(h);
	balloon_host_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_word_is_understood),
		cmocka_unit_test(on_is_free_page_reporting),
		cmocka_unit_test(what_is_not_said_is_off),
		cmocka_unit_test(switches_may_say_on_or_off),
		cmocka_unit_test(what_cannot_be_is_refused_with_a_text),
		cmocka_unit_test(a_target_is_whole_pages_of_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
