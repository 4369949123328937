// SPDX-License-Identifier: Apache-2.0
/* test_rate_limit.c - token buckets by a clock of our own, and the timer by the real one. */
#include "rate_limit.h"

#include "clock.h"
#include "util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_bucket_without_a_limit_never_waits(void **state)
{
	struct rate_bucket b = {0};

	(void)state;
	rate_bucket_take(&b, UINT64_MAX, 1);
	assert_int_equal(rate_bucket_wait_ns(&b, 1), 0);
}

static void a_burst_is_free_and_then_time_decides(void **state)
{
	struct rate_bucket b = {.per_second = 1000};
	uint64_t now = 5000000000;
	unsigned taken = 0;

	(void)state;
	while (rate_bucket_wait_ns(&b, now) == 0 && taken < 1000) {
		rate_bucket_take(&b, 1, now);
		taken++;
	}
	assert_in_range(taken, 100, 101);
	/* From now on one a millisecond. */
	for (unsigned ms = 0; ms < 500; ms++) {
		uint64_t wait = rate_bucket_wait_ns(&b, now);
		assert_in_range(wait, 1, 1000000);
		now += wait;
		assert_int_equal(rate_bucket_wait_ns(&b, now), 0);
		rate_bucket_take(&b, 1, now);
	}
	/* A pause fills it, but never beyond a burst. */
	now += 3600000000000;
	for (taken = 0; rate_bucket_wait_ns(&b, now) == 0 && taken < 1000; taken++)
		rate_bucket_take(&b, 1, now);
	assert_in_range(taken, 100, 101);
}

static void a_request_larger_than_the_bucket_is_let_through_and_paid_for(void **state)
{
	struct rate_bucket b = {.per_second = 1000};

	(void)state;
	assert_int_equal(rate_bucket_wait_ns(&b, 0), 0);
	rate_bucket_take(&b, 10000, 0);
	assert_int_equal(rate_bucket_wait_ns(&b, 0), 10000000000 - RATE_BURST_NS);
}

static void absurd_amounts_saturate(void **state)
{
	const uint64_t far = INT64_MAX;
	struct rate_bucket b = {.per_second = 1};

	(void)state;
	rate_bucket_take(&b, UINT64_MAX, 1000);
	rate_bucket_take(&b, UINT64_MAX, 1000);
	assert_in_range(rate_bucket_wait_ns(&b, 1000), far - 2 * RATE_BURST_NS, far);
}

static unsigned reopenings;

static void on_reopened(void *ctx)
{
	struct rate_limit *r = ctx;

	reopenings++;
	event_loop_stop(r->loop);
}

static void who_was_refused_is_called_when_it_is_time(void **state)
{
	struct event_loop loop;
	struct rate_limit r;

	(void)state;
	assert_int_equal(event_loop_init(&loop), 0);
	rate_limit_init(&r, 1 << 20, 0, &loop, on_reopened, &r);
	reopenings = 0;
	assert_true(rate_limit_open(&r));
	assert_true(r.timer.fd < 0); /* none before it is needed */
	rate_limit_take(&r, (1 << 20) / 8);
	uint64_t start = clock_ns();
	assert_false(rate_limit_open(&r));
	assert_false(rate_limit_open(&r));
	event_loop_run(&loop);
	assert_int_equal(reopenings, 1);
	assert_true(clock_ns() - start >= 20000000); /* 125 ms of debt, less a burst of 100 */
	assert_true(rate_limit_open(&r));
	rate_limit_fini(&r);
	event_loop_fini(&loop);
}

static void no_limit_and_no_loop_let_everything_through(void **state)
{
	struct rate_limit r;

	(void)state;
	rate_limit_init(&r, 1, 1, NULL, on_reopened, &r);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(rate_limit_open(&r));
		rate_limit_take(&r, 1 << 30);
	}
	rate_limit_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_without_a_limit_never_waits),
		cmocka_unit_test(a_burst_is_free_and_then_time_decides),
		cmocka_unit_test(a_request_larger_than_the_bucket_is_let_through_and_paid_for),
		cmocka_unit_test(absurd_amounts_saturate),
		cmocka_unit_test(who_was_refused_is_called_when_it_is_time),
		cmocka_unit_test(no_limit_and_no_loop_let_everything_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
