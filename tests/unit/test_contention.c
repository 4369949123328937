/* SPDX-License-Identifier: Apache-2.0 */
/* test_contention.c - on a /proc made for the purpose. */
#include "contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/lull-proc-XXXXXX";
static const uint64_t start = 5000000000;

static void put(const char *file, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/thread-self", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s", root, file);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_delay(unsigned long long delay)
{
	char text[64];
	snprintf(text, sizeof(text), "123456 %llu 7\n", delay);
	put("thread-self/schedstat", text);
}

static void put_steal(unsigned long long cpu0, unsigned long long cpu1)
{
	char text[256];
	snprintf(text, sizeof(text),
	         "cpu  9 9 9 9 9 9 9 %llu 0 0\ncpu0 1 2 3 4 5 6 7 %llu 0 0\ncpu1 1 2 3 4 5 6 7 %llu 0 0\nintr 5\n",
	         cpu0 + cpu1, cpu0, cpu1);
	put("stat", text);
}

/* Of one that has polled enough since it was asked last. */
static bool wanted(struct contention *c, int cpu, uint64_t now_ns)
{
	static uint64_t polled_ns;
	polled_ns += CONTENTION_STEAL_NS / 1000 * CONTENTION_WORTH_PERMILLE;
	return contention_wanted(c, cpu, now_ns, polled_ns);
}

static int setup(void **state)
{
	(void)state;
	put_delay(1000000);
	put_steal(100, 100);
	return 0;
}

static void a_quiet_host_wants_nothing(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	for (unsigned i = 0; i < 500; i++)
		assert_false(wanted(&c, 0, start + i * 10000000ull));
}

static void a_thread_that_waits_for_its_cpu_makes_room(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(wanted(&c, 0, start));
	put_delay(1000000 + 1000001);                                  /* over 10 % of 10 ms */
	assert_false(wanted(&c, 0, start + CONTENTION_PERIOD_NS - 1)); /* not looked at yet */
	assert_true(wanted(&c, 0, start + CONTENTION_PERIOD_NS));
	assert_true(wanted(&c, 0, start + 2 * CONTENTION_PERIOD_NS - 1));
	assert_false(wanted(&c, 0, start + 2 * CONTENTION_PERIOD_NS));
}

static void less_than_a_tenth_is_no_contention(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(wanted(&c, 0, start));
	put_delay(1000000 + 999999);
	assert_false(wanted(&c, 0, start + CONTENTION_PERIOD_NS));
}

static void what_the_thread_waited_before_the_first_look_does_not_count(void **state)
{
	struct contention c;
	(void)state;
	put_delay(99999999999ull);
	contention_init(&c, root);
	assert_false(wanted(&c, 0, start));
}

static void a_gap_holds_for_two_milliseconds(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	contention_gap(&c, start);
	assert_true(wanted(&c, 0, start + CONTENTION_HOLD_NS - 1));
	assert_false(wanted(&c, 0, start + CONTENTION_HOLD_NS));
}

static void steal_of_the_own_cpu_above_a_tenth_stops_polling(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(wanted(&c, 1, start));
	put_steal(900, 119); /* CPU 1: 19 ticks of 10 ms in a second; averaged with the 0 before: 9.5 % */
	assert_false(wanted(&c, 1, start + CONTENTION_STEAL_NS));
	put_steal(900, 138);
	assert_true(wanted(&c, 1, start + 2 * CONTENTION_STEAL_NS));
	put_steal(900, 138);
	assert_false(wanted(&c, 1, start + 3 * CONTENTION_STEAL_NS));
}

static void who_may_not_poll_sees_the_end_of_the_steal(void **state)
{
	const uint64_t polled_ns = 1ull << 50;
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(contention_wanted(&c, 1, start, polled_ns));
	put_steal(900, 200);
	assert_true(contention_wanted(&c, 1, start + CONTENTION_STEAL_NS, 2 * polled_ns));
	assert_true(contention_wanted(&c, 1, start + 2 * CONTENTION_STEAL_NS - 1, 2 * polled_ns));
	for (unsigned i = 2; i < 6; i++) /* it falls by half each time, and nothing was polled meanwhile */
		contention_wanted(&c, 1, start + i * CONTENTION_STEAL_NS, 2 * polled_ns);
	assert_false(contention_wanted(&c, 1, start + 6 * CONTENTION_STEAL_NS, 2 * polled_ns));
}

static void another_cpu_starts_anew(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(wanted(&c, 0, start));
	put_steal(100, 100000);
	assert_false(wanted(&c, 1, start + CONTENTION_STEAL_NS));
}

static void who_hardly_polls_does_not_look(void **state)
{
	const uint64_t worth = CONTENTION_PERIOD_NS / 1000 * CONTENTION_WORTH_PERMILLE;
	struct contention c;
	(void)state;
	contention_init(&c, root);
	assert_false(contention_wanted(&c, 0, start, worth - 1));
	put_delay(50000000000);
	assert_false(contention_wanted(&c, 0, start + CONTENTION_STEAL_NS, worth)); /* the first look */
	put_delay(60000000000);
	assert_false(contention_wanted(&c, 0, start + 2 * CONTENTION_STEAL_NS, 2 * worth - 1));
	assert_true(contention_wanted(&c, 0, start + 2 * CONTENTION_STEAL_NS, 2 * worth));
	/* What was told is good for a period, looks or not. */
	assert_false(contention_wanted(&c, 0, start + 2 * CONTENTION_STEAL_NS + CONTENTION_PERIOD_NS, 2 * worth));
	/* The same for steal, of which a period is a hundred times as long. */
	assert_false(contention_wanted(&c, 1, start + 4 * CONTENTION_STEAL_NS, 100 * worth));
	put_steal(100, 2000);
	assert_false(contention_wanted(&c, 1, start + 5 * CONTENTION_STEAL_NS, 200 * worth - 1));
	assert_true(contention_wanted(&c, 1, start + 5 * CONTENTION_STEAL_NS, 200 * worth));
}

static void files_that_are_not_there_or_make_no_sense_are_no_contention(void **state)
{
	struct contention c;
	(void)state;
	contention_init(&c, "/nonexistent");
	for (unsigned i = 0; i < 5; i++)
		assert_false(wanted(&c, 0, start + i * CONTENTION_STEAL_NS));
	put("thread-self/schedstat", "nonsense\n");
	put("stat", "cpu0 1 2\n\ncpu0 x\n");
	contention_init(&c, root);
	for (unsigned i = 0; i < 5; i++)
		assert_false(wanted(&c, 0, start + i * CONTENTION_STEAL_NS));
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_quiet_host_wants_nothing),
		TEST(a_thread_that_waits_for_its_cpu_makes_room),
		TEST(less_than_a_tenth_is_no_contention),
		TEST(what_the_thread_waited_before_the_first_look_does_not_count),
		TEST(a_gap_holds_for_two_milliseconds),
		TEST(steal_of_the_own_cpu_above_a_tenth_stops_polling),
		TEST(who_may_not_poll_sees_the_end_of_the_steal),
		TEST(another_cpu_starts_anew),
		TEST(who_hardly_polls_does_not_look),
		TEST(files_that_are_not_there_or_make_no_sense_are_no_contention),
	};
	return cmocka_run_group_tests_name("contention", tests, make_root, remove_root);
}
