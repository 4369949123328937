/* SPDX-License-Identifier: Apache-2.0 */
/* What waiting costs on a host, from samples: robust against the neighbours' doings, and never wrong by much for long.
 */
#include "host_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void add(struct host_cost_mean *mean, uint64_t ns, unsigned times)
{
	while (times--)
		host_cost_add(mean, ns);
}

static void nothing_is_known_before_a_few_samples(void **state)
{
	struct host_cost cost = {0};

	(void)state;
	add(&cost.wake, 20000, HOST_COST_FIRST - 1);
	assert_int_equal(host_cost_read(&cost).wake_ns, 0);
	add(&cost.wake, 20000, 1);
	assert_int_equal(host_cost_read(&cost).wake_ns, 20000);
	assert_int_equal(host_cost_read(&cost).switch_ns, 0);
	assert_int_equal(host_cost_read(&cost).arm_ns, 0);
	add(&cost.sleep, 3000, HOST_COST_FIRST);
	assert_int_equal(host_cost_read(&cost).switch_ns, 3000);
}

static void a_late_start_does_not_count(void **state)
{
	struct host_cost cost = {0};

	(void)state;
	add(&cost.wake, 40000000, 3);
	add(&cost.wake, 20000, 1);
	add(&cost.wake, 30000, HOST_COST_FIRST - 4);
	assert_int_equal(host_cost_read(&cost).wake_ns, 20000);
}

static void the_mean_is_found(void **state)
{
	struct host_cost cost = {0};

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		add(&cost.wake, i % 2 ? 10000 : 30000, 1);
	assert_in_range(host_cost_read(&cost).wake_ns, 19000, 21000);
}

/* One in a hundred waits for a time slice: that is not what a wake costs. */
static void outliers_move_it_little(void **state)
{
	struct host_cost cost = {0};

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		add(&cost.wake, i % 100 == 50 ? 10000000 : 20000, 1);
	assert_in_range(host_cost_read(&cost).wake_ns, 20000, 24000);
}

static void a_host_that_changes_is_followed(void **state)
{
	struct host_cost cost = {0};

	(void)state;
	add(&cost.wake, 5000, 100);
	add(&cost.wake, 500000, 500);
	assert_in_range(host_cost_read(&cost).wake_ns, 450000, 500000);
	add(&cost.wake, 0, 2000);
	assert_int_equal(host_cost_read(&cost).wake_ns, 1); /* 0 would mean not known */
	add(&cost.wake, UINT64_MAX, 2000);
	assert_in_range(host_cost_read(&cost).wake_ns, 900000000, 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_before_a_few_samples),
		cmocka_unit_test(a_late_start_does_not_count),
		cmocka_unit_test(the_mean_is_found),
		cmocka_unit_test(outliers_move_it_little),
		cmocka_unit_test(a_host_that_changes_is_followed),
	};
	return cmocka_run_group_tests_name("host_cost", tests, NULL, NULL);
}
