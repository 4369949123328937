/* SPDX-License-Identifier: Apache-2.0 */
/* The timer of a local APIC: SDM vol. 3, 11.5.4. */
#include "lapic_fixture.h"

/* ------------------------------------------------------------------------------------ timer */

static void divide_values(void **state)
{
	static const struct {
		uint32_t value, divisor;
	} table[] = {{0x0, 2}, {0x1, 4}, {0x2, 8}, {0x3, 16}, {0x8, 32}, {0x9, 64}, {0xa, 128}, {0xb, 1}};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		start(f, 0x40, table[i].value, 1000);
		assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + 1000ull * table[i].divisor);
	}
}

static void one_shot_counts_down_and_fires_once(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, 0x40, DIVIDE_2, 1000);
	assert_int_equal(rd(f, 0, CURRENT), 1000);
	f->now = begin + 1;
	assert_int_equal(rd(f, 0, CURRENT), 1000);
	f->now = begin + 2;
	assert_int_equal(rd(f, 0, CURRENT), 999);
	f->now = begin + 1999;
	assert_int_equal(rd(f, 0, CURRENT), 1);
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	f->now = begin + 2000;
	assert_true(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(f->notified[0], 0);
	assert_int_equal(rd(f, 0, CURRENT), 0);
	assert_int_equal(rd(f, 0, INITIAL), 1000);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
	f->now += 1000000;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
}

static void looking_at_the_count_fires_what_is_due(void **state)
{
	struct fixture *f = *state;

	start(f, 0x40, DIVIDE_1, 1000);
	f->now += 1000;
	assert_int_equal(rd(f, 0, CURRENT), 0);
	assert_int_equal(lapic_pending(f->cpu[0]), 0x40);
}

static void initial_count_zero_stops(void **state)
{
	struct fixture *f = *state;

	start(f, PERIODIC | 0x40, DIVIDE_1, 1000000);
	wr(f, 0, INITIAL, 0);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	assert_int_equal(rd(f, 0, CURRENT), 0);
	f->now += 5000000;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
}

static void writing_the_initial_count_again_restarts(void **state)
{
	struct fixture *f = *state;

	start(f, 0x40, DIVIDE_1, 1000);
	f->now += 900;
	wr(f, 0, INITIAL, 1000);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + 1000);
}

static void periodic_fires_each_period_without_drift(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, PERIODIC | 0x40, DIVIDE_1, 1000000);
	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(lapic_timer_deadline(f->cpu[0]), begin + i * 1000000ull);
		f->now = begin + i * 1000000ull + i * 777ull; /* late, more each time */
		assert_true(lapic_timer_expire(f->cpu[0], f->now));
		assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
		lapic_eoi(f->cpu[0]);
		assert_int_equal(rd(f, 0, CURRENT), 1000000 - i * 777);
	}
}

static void periodic_skips_what_it_missed(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, PERIODIC | 0x40, DIVIDE_1, 1000000);
	f->now = begin + 1000000ull * 1000000ull + 5;
	assert_true(lapic_timer_expire(f->cpu[0], f->now));
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now - 5 + 1000000);
}

static void tiny_periods_are_stretched(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, PERIODIC | 0x40, DIVIDE_1, 1);
	assert_int_equal(rd(f, 0, INITIAL), 1);
	assert_int_equal(rd(f, 0, CURRENT), 1); /* never above the initial count */
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), begin + LAPIC_TIMER_MIN_PERIOD_NS);
	f->now = UINT64_MAX - 10; /* as many periods late as can be */
	assert_true(lapic_timer_expire(f->cpu[0], f->now));
	assert_true(lapic_timer_deadline(f->cpu[0]) > f->now);
	start(f, 0x40, DIVIDE_1, 1); /* a short one-shot is the guest's own business */
	assert_true(lapic_timer_deadline(f->cpu[0]) == f->now + 1);
}

static void longest_count_does_not_overflow(void **state)
{
	struct fixture *f = make(5000123, true, true);

	(void)state;
	start(f, PERIODIC | 0x40, 0xa, UINT32_MAX);
	assert_int_equal(rd(f, 0, CURRENT), UINT32_MAX);
	/* 2^32 - 1 counts of 128 ns, in 5.000123 ticks each */
	assert_int_equal(lapic_timer_deadline(f->cpu[0]) - f->now, 2748846688766ull);
	f->now += 2748846688766ull / 2;
	assert_in_range(rd(f, 0, CURRENT), UINT32_MAX / 2 - 1, UINT32_MAX / 2 + 1);
	teardown((void **)&f);
}

static void count_is_right_at_an_odd_tsc_rate(void **state)
{
	struct fixture *f = make(2893202, true, true);
	uint64_t begin = f->now;

	(void)state;
	start(f, 0x40, DIVIDE_1, 1000000);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), begin + 2893202);
	for (uint32_t us = 1; us < 1000; us++) {
		f->now = begin + us * 2893202ull / 1000;
		assert_in_range(rd(f, 0, CURRENT), 1000000 - us * 1000, 1000000 - us * 1000 + 1);
	}
	teardown((void **)&f);
}

static void divide_change_keeps_the_count_that_is_left(void **state)
{
	static const uint32_t divides[] = {0xb, 0x0, 0x1, 0x2, 0x3, 0x8, 0x9, 0xa};
	struct fixture *f = *state;

	start(f, 0x40, DIVIDE_2, 1000);
	f->now += 800; /* 600 left */
	for (unsigned i = 0; i < ARRAY_SIZE(divides); i++) {
		wr(f, 0, DIVIDE, divides[i]);
		assert_int_equal(rd(f, 0, CURRENT), 600);
		assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + (600ull << i));
	}
}

static void divide_change_of_a_stopped_timer_starts_nothing(void **state)
{
	struct fixture *f = *state;

	start(f, 0x40, DIVIDE_1, 10);
	f->now += 10;
	wr(f, 0, DIVIDE, 0xa);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	assert_int_equal(rd(f, 0, CURRENT), 0);
}

static void masked_timer_runs_but_does_not_interrupt(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, MASKED | PERIODIC | 0x40, DIVIDE_1, 1000000);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	f->now = begin + 2500000;
	assert_int_equal(rd(f, 0, CURRENT), 500000);
	wr(f, 0, LVT_TIMER, PERIODIC | 0x40);
	assert_int_equal(lapic_pending(f->cpu[0]), -1); /* what expired while masked is gone */
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), begin + 3000000);
	start(f, MASKED | 0x40, DIVIDE_1, 1000);
	f->now += 2000;
	wr(f, 0, LVT_TIMER, 0x40);
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
}

static void one_shot_and_periodic_change_without_a_restart(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	start(f, 0x40, DIVIDE_1, 1000000);
	f->now = begin + 600000;
	wr(f, 0, LVT_TIMER, PERIODIC | 0x40);
	assert_int_equal(rd(f, 0, CURRENT), 400000);
	f->now = begin + 1000000;
	assert_int_equal(rd(f, 0, CURRENT), 1000000); /* wrapped */
	f->now = begin + 1700000;
	wr(f, 0, LVT_TIMER, 0x40);
	assert_int_equal(rd(f, 0, CURRENT), 300000);
	f->now = begin + 2000000;
	assert_int_equal(rd(f, 0, CURRENT), 0);
	wr(f, 0, LVT_TIMER, PERIODIC | 0x40);
	assert_int_equal(rd(f, 0, CURRENT), 0); /* stays stopped */
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
}

static void disabling_by_software_silences_the_timer(void **state)
{
	struct fixture *f = *state;

	start(f, 0x40, DIVIDE_1, 1000);
	wr(f, 0, SVR, 0xff);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	f->now += 1000;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
}

static void deadline_mode(struct fixture *f, uint64_t deadline)
{
	enable(f, 0);
	wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
	assert_int_equal(wrmsr(f, 0, MSR_IA32_TSC_DEADLINE, deadline), 0);
}

static void deadline_fires_once_and_then_reads_zero(void **state)
{
	struct fixture *f = *state;
	uint64_t deadline = f->now + 500;

	deadline_mode(f, deadline);
	assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), deadline);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), deadline);
	assert_int_equal(rd(f, 0, CURRENT), 0);
	f->now = deadline - 1;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	f->now = deadline;
	assert_true(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
	assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	f->now += 1000;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
}

static void deadline_in_the_past_fires_at_once(void **state)
{
	struct fixture *f = *state;

	deadline_mode(f, 1);
	assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
	lapic_eoi(f->cpu[0]);
	assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
	deadline_mode(f, f->now);
	assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
}

static void deadline_zero_disarms(void **state)
{
	struct fixture *f = *state;

	deadline_mode(f, f->now + 10);
	assert_int_equal(wrmsr(f, 0, MSR_IA32_TSC_DEADLINE, 0), 0);
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	f->now += 100;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
}

static void deadline_is_ignored_in_other_modes(void **state)
{
	static const uint32_t modes[] = {0, PERIODIC, PERIODIC | DEADLINE};
	struct fixture *f = *state;

	enable(f, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(modes); i++) {
		wr(f, 0, LVT_TIMER, modes[i] | 0x40);
		assert_int_equal(wrmsr(f, 0, MSR_IA32_TSC_DEADLINE, f->now + 10), 0);
		assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
		assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	}
}

static void initial_count_is_ignored_in_deadline_mode(void **state)
{
	struct fixture *f = *state;

	deadline_mode(f, f->now + 500);
	wr(f, 0, INITIAL, 100);
	assert_int_equal(rd(f, 0, INITIAL), 0);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + 500);
	wr(f, 0, DIVIDE, 0xa);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + 500);
}

static void switching_to_or_from_deadline_mode_disarms(void **state)
{
	static const uint32_t modes[] = {0, PERIODIC};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(modes); i++) {
		start(f, modes[i] | 0x40, DIVIDE_1, 1000000);
		wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
		assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
		assert_int_equal(rd(f, 0, INITIAL), 0);
		assert_int_equal(rd(f, 0, CURRENT), 0);
		assert_int_equal(wrmsr(f, 0, MSR_IA32_TSC_DEADLINE, f->now + 10), 0);
		wr(f, 0, LVT_TIMER, modes[i] | 0x40);
		assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
		assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
		wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
		assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
	}
	deadline_mode(f, f->now + 10);
	wr(f, 0, LVT_TIMER, DEADLINE | 0x41); /* only another vector: stays armed */
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now + 10);
}

static void masked_deadline_expires_in_silence(void **state)
{
	struct fixture *f = *state;

	deadline_mode(f, f->now + 10);
	wr(f, 0, LVT_TIMER, MASKED | DEADLINE | 0x40);
	assert_true(lapic_timer_deadline(f->cpu[0]) == WAKE_NEVER);
	f->now += 10;
	wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
	assert_int_equal(rdmsr(f, 0, MSR_IA32_TSC_DEADLINE), 0);
}

static void deadlines_are_in_guest_tsc(void **state)
{
	static const struct {
		int64_t offset;
		uint64_t now, deadline, fires;
	} table[] = {
		{-1000000, 2000000, 1500000, 2500000},
		{1000000, 2000000, 3000100, 2000100},
		{-1000000, 2000000, UINT64_MAX, WAKE_NEVER},  /* host TSC would wrap */
		{-11, 10, UINT64_MAX, WAKE_NEVER},            /* guest TSC is 2^64 - 1: due */
		{INT64_MIN, 1000, (1ull << 63) + 1500, 1500}, /* guest TSC is 2^63 + 1000 */
		{INT64_MAX, 1001, (1ull << 63) + 1500, 1501}, /* guest TSC is 2^63 + 1000 */
	};
	struct fixture *f = *state;

	enable(f, 0);
	wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		lapic_reset(f->cpu[0], false);
		f->now = table[i].now;
		lapic_set_tsc_offset(f->cpu[0], table[i].offset);
		deadline_mode(f, table[i].deadline);
		if (table[i].now + (uint64_t)table[i].offset >= table[i].deadline) {
			assert_int_equal(lapic_ack(f->cpu[0]), 0x40);
		} else {
			assert_true(lapic_timer_deadline(f->cpu[0]) == table[i].fires);
			assert_int_equal(lapic_ack(f->cpu[0]), -1);
		}
	}
}

static void a_new_offset_moves_an_armed_deadline(void **state)
{
	struct fixture *f = *state;
	uint64_t deadline = f->now + 1000;

	deadline_mode(f, deadline);
	lapic_set_tsc_offset(f->cpu[0], 400);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), deadline - 400);
	lapic_set_tsc_offset(f->cpu[0], -400);
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), deadline + 400);
	lapic_set_tsc_offset(f->cpu[0], INT64_MAX); /* now in the past */
	assert_int_equal(lapic_timer_deadline(f->cpu[0]), f->now);
	assert_true(lapic_timer_expire(f->cpu[0], f->now));
}

static void description_names_what_matters_and_is_cut_to_size(void **state)
{
	struct fixture *f = *state;
	char text[1024], cut[1024];

	start(f, PERIODIC | 0x40, DIVIDE_1, 1000000);
	post(f, 0, 0x91, true);
	lapic_ack(f->cpu[0]);
	post(f, 0, 0x33, false);
	lapic_describe(f->cpu[0], text, sizeof(text));
	assert_non_null(strstr(text, "apic 0: xapic"));
	assert_non_null(strstr(text, "irr: 33\n"));
	assert_non_null(strstr(text, "isr: 91\n"));
	assert_non_null(strstr(text, "tmr: 91\n"));
	assert_non_null(strstr(text, "periodic"));
	for (size_t size = 1; size < sizeof(cut); size++) {
		memset(cut, '#', sizeof(cut));
		lapic_describe(f->cpu[0], cut, size);
		assert_int_equal(strlen(cut), size <= strlen(text) ? size - 1 : strlen(text));
		assert_memory_equal(cut, text, strlen(cut));
	}
	lapic_describe(f->cpu[0], NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(divide_values),
		T(one_shot_counts_down_and_fires_once),
		T(looking_at_the_count_fires_what_is_due),
		T(initial_count_zero_stops),
		T(writing_the_initial_count_again_restarts),
		T(periodic_fires_each_period_without_drift),
		T(periodic_skips_what_it_missed),
		T(tiny_periods_are_stretched),
		T(longest_count_does_not_overflow),
		T(count_is_right_at_an_odd_tsc_rate),
		T(divide_change_keeps_the_count_that_is_left),
		T(divide_change_of_a_stopped_timer_starts_nothing),
		T(masked_timer_runs_but_does_not_interrupt),
		T(one_shot_and_periodic_change_without_a_restart),
		T(disabling_by_software_silences_the_timer),
		T(deadline_fires_once_and_then_reads_zero),
		T(deadline_in_the_past_fires_at_once),
		T(deadline_zero_disarms),
		T(deadline_is_ignored_in_other_modes),
		T(initial_count_is_ignored_in_deadline_mode),
		T(switching_to_or_from_deadline_mode_disarms),
		T(masked_deadline_expires_in_silence),
		T(deadlines_are_in_guest_tsc),
		T(a_new_offset_moves_an_armed_deadline),
		T(description_names_what_matters_and_is_cut_to_size),
	};

	return cmocka_run_group_tests_name("lapic_timer", tests, NULL, NULL);
}
