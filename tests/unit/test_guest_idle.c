/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest_idle.c - the idle rules of the tiny guests, compiled for the host: parameters, the window of the smart
 * idle poll, limit and states of the haltpoll governor. */
#include "guest-firmware/lib/idle_rules.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void defaults(uint32_t values[IDLE_PARAMETERS])
{
	for (unsigned i = 0; i < IDLE_PARAMETERS; i++)
		assert_true(idle_parameter_read(&idle_parameters[i], "", &values[i]));
}

/* ------------------------------------------------------------------------------------ parameters */

static void parameters_are_numbers_within_bounds(void **state)
{
	static const struct {
		unsigned which;
		const char *text;
		bool good;
		uint32_t value;
	} rows[] = {
		{SMART_THRESHOLD, "", true, 200000},
		{SMART_THRESHOLD, " poll_grow=3", true, 200000},
		{SMART_THRESHOLD, "0", true, 0},
		{SMART_THRESHOLD, "1000000000 x", true, 1000000000},
		{SMART_THRESHOLD, "1000000001", false, 0},
		{SMART_THRESHOLD, "4294967297", false, 0},
		{SMART_THRESHOLD, "99999999999999999999999999999999999999", false, 0},
		{SMART_THRESHOLD, "-1", false, 0},
		{SMART_THRESHOLD, "10us", false, 0},
		{SMART_THRESHOLD, "0x10", false, 0},
		{SMART_GROW, "1000", true, 1000},
		{SMART_GROW, "1001", false, 0},
		{HALTPOLL_GROW_START, "24000000", true, 24000000}, /* above guest_halt_poll_ns, as some guides say */
		{HALTPOLL_ALLOW_SHRINK, "2", false, 0},
		{HALTPOLL_ALLOW_SHRINK, "Y", false, 0},
		{HALTPOLL_ALLOW_SHRINK, "0", true, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t value = 0;
		assert_int_equal(idle_parameter_read(&idle_parameters[rows[i].which], rows[i].text, &value),
		                 rows[i].good);
		if (rows[i].good)
			assert_int_equal(value, rows[i].value);
	}
}

static void a_lower_bound_counts_too(void **state)
{
	static const struct idle_parameter from_5 = {"x", 5, 9, 7};
	uint32_t value;
	(void)state;
	assert_false(idle_parameter_read(&from_5, "4", &value));
	assert_true(idle_parameter_read(&from_5, "5", &value));
	assert_true(idle_parameter_read(&from_5, "9", &value));
	assert_false(idle_parameter_read(&from_5, "10", &value));
}

static void presets_are_those_of_linux(void **state)
{
	const uint32_t linux_has[] = {200000, 2, 2, 200000, 2, 50000, 2, 1};
	uint32_t values[IDLE_PARAMETERS];
	(void)state;
	defaults(values);
	assert_memory_equal(values, linux_has, sizeof(values));
}

/* ------------------------------------------------------------------------------------ smart */

static struct smart_idle smart(uint32_t threshold, uint32_t grow, uint32_t shrink, uint32_t window)
{
	uint32_t values[IDLE_PARAMETERS];
	struct smart_idle s;
	defaults(values);
	values[SMART_THRESHOLD] = threshold;
	values[SMART_GROW] = grow;
	values[SMART_SHRINK] = shrink;
	smart_init(&s, values);
	assert_int_equal(s.window_ns, 0);
	s.window_ns = window;
	return s;
}

static void the_smart_window_grows_up_to_the_threshold(void **state)
{
	const uint32_t steps[] = {10000, 20000, 40000, 80000, 160000, 200000, 200000};
	struct smart_idle s = smart(200000, 2, 2, 0);
	(void)state;
	for (unsigned i = 0; i < 7; i++) {
		smart_learn(&s, 200000);
		assert_int_equal(s.window_ns, steps[i]);
	}
}

static void the_smart_window_shrinks_after_a_long_idle_time(void **state)
{
	const uint32_t steps[] = {100000, 50000, 25000, 12500, 6250};
	struct smart_idle s = smart(200000, 2, 2, 200000);
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		smart_learn(&s, 200001);
		assert_int_equal(s.window_ns, steps[i]);
	}
	for (unsigned i = 0; i < 20; i++)
		smart_learn(&s, UINT64_MAX);
	assert_int_equal(s.window_ns, 0);
	s = smart(200000, 2, 0, 200000); /* drops at once */
	smart_learn(&s, 200001);
	assert_int_equal(s.window_ns, 0);
}

static void the_smart_window_stays_when_it_was_long_enough(void **state)
{
	struct smart_idle s = smart(200000, 2, 2, 50000);
	(void)state;
	smart_learn(&s, 50000);
	smart_learn(&s, 0);
	assert_int_equal(s.window_ns, 50000);
	smart_learn(&s, 50001);
	assert_int_equal(s.window_ns, 100000);
}

static void odd_factors_do_no_harm(void **state)
{
	struct smart_idle s = smart(200000, 0, 2, 0);
	(void)state;
	smart_learn(&s, 100);
	assert_int_equal(s.window_ns, 0); /* never grows */
	s = smart(1000000000, 1000, 2, 900000000);
	smart_learn(&s, 950000000); /* no overflow */
	assert_int_equal(s.window_ns, 1000000000);
	s = smart(0, 2, 2, 0);
	smart_learn(&s, 0);
	smart_learn(&s, 1);
	assert_int_equal(s.window_ns, 0);
	s = smart(5000, 2, 2, 0); /* below the first window */
	smart_learn(&s, 4000);
	assert_int_equal(s.window_ns, 5000);
	s = smart(200000, 1, 1, 0);
	smart_learn(&s, 100);
	smart_learn(&s, 20000);
	smart_learn(&s, 300000);
	assert_int_equal(s.window_ns, 10000);
}

/* ------------------------------------------------------------------------------------ haltpoll */

static struct haltpoll haltpoll(uint32_t limit)
{
	uint32_t values[IDLE_PARAMETERS];
	struct haltpoll h;
	defaults(values);
	haltpoll_init(&h, values);
	assert_int_equal(h.limit_ns, 0);
	h.limit_ns = limit;
	return h;
}

static void the_limit_follows_the_halts(void **state)
{
	static const struct {
		uint32_t before;
		uint64_t halt;
		uint32_t after;
	} rows[] = {
		{0, 0, 0},                        /* not longer than the limit */
		{0, 1, 50000},                    /* the first step */
		{50000, 50000, 50000},            /* as long as the limit */
		{50000, 50001, 100000},           /* longer */
		{100000, 199999, 200000},         /* */
		{150000, 200000, 200000},         /* up to the most */
		{200000, 200000, 200000},         /* */
		{200000, 200001, 100000},         /* longer than the most */
		{50000, 200001, 25000},           /* */
		{3, 200001, 1},                   /* no snap to zero: goes down to the last ns */
		{1, 200001, 0},                   /* */
		{0, 200001, 0},                   /* */
		{10000, 100000, 50000},           /* at least the start */
		{100000, UINT64_MAX, 50000},      /* */
		{UINT32_MAX, 150000, UINT32_MAX}, /* cannot be, and is not touched */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct haltpoll h = haltpoll(rows[i].before);
		haltpoll_halted(&h, rows[i].halt);
		assert_int_equal(h.limit_ns, rows[i].after);
	}
}

static void the_limit_obeys_its_parameters(void **state)
{
	struct haltpoll h = haltpoll(200000);
	(void)state;
	h.allow_shrink = 0;
	haltpoll_halted(&h, 300000);
	assert_int_equal(h.limit_ns, 200000);
	h.allow_shrink = 1;
	h.shrink = 0;
	haltpoll_halted(&h, 300000);
	assert_int_equal(h.limit_ns, 0);
	h.grow = 0;
	haltpoll_halted(&h, 100000);
	assert_int_equal(h.limit_ns, 0);
	h.grow = 2;
	h.grow_start_ns = 24000000;
	haltpoll_halted(&h, 100000);
	assert_int_equal(h.limit_ns, 200000);
	h = haltpoll(0);
	h.most_ns = 0; /* never polls */
	haltpoll_halted(&h, 0);
	haltpoll_halted(&h, 1);
	assert_int_equal(h.limit_ns, 0);
}

static void polls_until_the_limit_and_then_halts(void **state)
{
	struct haltpoll h = haltpoll(0);
	(void)state;
	assert_int_equal(haltpoll_select(&h), IDLE_HALT); /* no limit yet */
	haltpoll_halted(&h, 100000);
	assert_int_equal(haltpoll_select(&h), IDLE_POLL);
	haltpoll_polled(&h, true);
	assert_int_equal(haltpoll_select(&h), IDLE_HALT); /* the limit is used up */
	haltpoll_halted(&h, 100000);                      /* an interrupt that brought no work */
	assert_int_equal(haltpoll_select(&h), IDLE_POLL);
	haltpoll_polled(&h, false); /* found some; the next idle time starts with a poll again */
	assert_int_equal(haltpoll_select(&h), IDLE_POLL);
	h.limit_ns = 0;
	assert_int_equal(haltpoll_select(&h), IDLE_HALT);
}

/* A poll teaches nothing. */
static void hits_do_not_move_the_limit(void **state)
{
	struct haltpoll h = haltpoll(50000);
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		haltpoll_polled(&h, i % 2);
	assert_int_equal(h.limit_ns, 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_numbers_within_bounds),
		cmocka_unit_test(a_lower_bound_counts_too),
		cmocka_unit_test(presets_are_those_of_linux),
		cmocka_unit_test(the_smart_window_grows_up_to_the_threshold),
		cmocka_unit_test(the_smart_window_shrinks_after_a_long_idle_time),
		cmocka_unit_test(the_smart_window_stays_when_it_was_long_enough),
		cmocka_unit_test(odd_factors_do_no_harm),
		cmocka_unit_test(the_limit_follows_the_halts),
		cmocka_unit_test(the_limit_obeys_its_parameters),
		cmocka_unit_test(polls_until_the_limit_and_then_halts),
		cmocka_unit_test(hits_do_not_move_the_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
