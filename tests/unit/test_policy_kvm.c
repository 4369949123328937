/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KVM's rule, one transition per row: parameters, window before, one halt, window polled and window after. The rows
 * were worked out by hand from the description of kvm_vcpu_halt() (cap, poll, adjust), not from our code. Then whole
 * trajectories, and the guest governor's rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../vmm/policy_kvm.c"

#define ANY UINT64_MAX

struct params {
	uint32_t max, grow, start, shrink;
};

static const struct params new = {200000, 2, 10000, 2}; /* Linux 6.12 and later */
static const struct params old = {200000, 2, 10000, 0}; /* Linux 6.1 */
static const struct params grow3 = {200000, 3, 10000, 2};
static const struct params grow1 = {200000, 1, 10000, 2};
static const struct params grow0 = {200000, 0, 10000, 2};
static const struct params shrink1 = {200000, 2, 10000, 1};
static const struct params shrink3 = {200000, 2, 10000, 3};
static const struct params start0 = {200000, 2, 0, 2};
static const struct params start_big = {200000, 2, 300000, 2}; /* first growth is above the limit */
static const struct params off = {0, 2, 10000, 2};
static const struct params small = {5000, 2, 10000, 2}; /* limit below the first window */
static const struct params huge = {UINT32_MAX, 2, 10000, 2};
static const struct params wrap = {UINT32_MAX, 65536, 10000, 2};

enum {
	FORBIDDEN = 1, /* poll control is 0 */
	INVALID = 2,
	REQUEST = 4,
};

#define ROW(n, q, b, h, po, a, ...)                                                                                    \
	{                                                                                                              \
		.name = n, .p = q, .before = b, .halt_ns = h, .polled = po, .after = a, ##__VA_ARGS__                  \
	}

static const struct row {
	const char *name;
	const struct params *p;
	uint32_t before;
	uint64_t halt_ns;
	uint32_t polled, after;
	unsigned flags;
	uint64_t max_before, max_after; /* live limit; 0: ANY, 1 stands for 0 */
} rows[] = {
	/* growing from nothing */
	ROW("first short halt starts the window", &new, 0, 50000, 0, 10000),
	ROW("first halt of 1 ns", &new, 0, 1, 0, 10000),
	ROW("a halt of 0 ns hits the empty window", &new, 0, 0, 0, 0),
	ROW("just below the limit still starts", &new, 0, 199999, 0, 10000),
	ROW("exactly the limit starts nothing", &new, 0, 200000, 0, 0),
	ROW("above the limit starts nothing", &new, 0, 200001, 0, 0),
	ROW("a second starts nothing", &new, 0, 1000000000, 0, 0),
	ROW("4.3 s, more than 32 bits, start nothing", &new, 0, 4294967296ull + 50000, 0, 0),
	/* growing */
	ROW("10 us double", &new, 10000, 15000, 10000, 20000),
	ROW("20 us double", &new, 20000, 20001, 20000, 40000),
	ROW("40 us double", &new, 40000, 150000, 40000, 80000),
	ROW("80 us double", &new, 80000, 80001, 80000, 160000),
	ROW("160 us double past the limit: no clamp here", &new, 160000, 199999, 160000, 320000),
	ROW("past the limit is cut before the next poll", &new, 320000, 100, 200000, 200000),
	ROW("odd windows double", &new, 12345, 20000, 12345, 24690),
	ROW("below the start value, growth goes to it", &new, 1, 5000, 1, 10000),
	ROW("4999 doubled is below the start value", &new, 4999, 6000, 4999, 10000),
	ROW("5000 doubled is the start value", &new, 5000, 6000, 5000, 10000),
	ROW("6000 doubled is above it", &new, 6000, 7000, 6000, 12000),
	ROW("growth by three", &grow3, 10000, 11000, 10000, 30000),
	ROW("growth by three from 0", &grow3, 0, 11000, 0, 10000),
	ROW("growth by one keeps", &grow1, 20000, 30000, 20000, 20000),
	ROW("growth by one still starts", &grow1, 0, 30000, 0, 10000),
	ROW("growth 0 never grows", &grow0, 20000, 30000, 20000, 20000),
	ROW("growth 0 never starts", &grow0, 0, 30000, 0, 0),
	ROW("start value 0 never starts", &start0, 0, 30000, 0, 0),
	ROW("start value 0 grows what is there", &start0, 7, 30000, 7, 14),
	ROW("start value above the limit", &start_big, 0, 100, 0, 300000),
	ROW("and it is cut to the limit", &start_big, 300000, 100, 200000, 200000),
	ROW("growth wraps at 32 bits to 0, then start", &wrap, 65536, 70000, 65536, 10000),
	ROW("growth wraps to a rest above start", &wrap, 65537, 70000, 65537, 65536),
	ROW("2^31 doubled wraps to 0", &huge, 2147483648u, 3000000000u, 2147483648u, 10000),
	/* hits */
	ROW("hit on the first look", &new, 50000, 0, 50000, 50000),
	ROW("hit within the window", &new, 50000, 30000, 50000, 50000),
	ROW("late hit exactly at the window", &new, 50000, 50000, 50000, 50000),
	ROW("one ns after the window grows", &new, 50000, 50001, 50000, 100000),
	ROW("hit at the limit", &new, 200000, 199999, 200000, 200000),
	ROW("exactly window and limit", &new, 200000, 200000, 200000, 200000),
	/* between */
	ROW("exactly the limit keeps a smaller window", &new, 50000, 200000, 50000, 50000),
	/* shrinking */
	ROW("200 us halve", &new, 200000, 200001, 200000, 100000),
	ROW("100 us halve", &new, 100000, 1000000, 100000, 50000),
	ROW("50 us halve", &new, 50000, 1000000, 50000, 25000),
	ROW("25 us halve", &new, 25000, 1000000, 25000, 12500),
	ROW("12.5 us snap to 0", &new, 12500, 1000000, 12500, 0),
	ROW("20 us halve to the start value and stay", &new, 20000, 1000000, 20000, 10000),
	ROW("19.999 us snap to 0", &new, 19999, 1000000, 19999, 0),
	ROW("10 us snap to 0", &new, 10000, 1000000, 10000, 0),
	ROW("1 ns snaps to 0", &new, 1, 1000000, 1, 0),
	ROW("0 stays 0", &new, 0, 1000000, 0, 0),
	ROW("divisor 0 drops to 0", &old, 200000, 1000000, 200000, 0),
	ROW("divisor 0 drops the smallest to 0", &old, 10000, 200001, 10000, 0),
	ROW("divisor 1 keeps", &shrink1, 50000, 1000000, 50000, 50000),
	ROW("divisor 1 still snaps what is below start", &shrink1, 9999, 1000000, 9999, 0),
	ROW("divisor 3 rounds down", &shrink3, 100000, 1000000, 100000, 33333),
	ROW("divisor 3 snaps", &shrink3, 29999, 1000000, 29999, 0),
	ROW("start value 0 never snaps", &start0, 9, 1000000, 9, 4),
	ROW("start value 0 ends at 0 by rounding", &start0, 1, 1000000, 1, 0),
	ROW("halts beyond 32 bits shrink", &new, 200000, 4294967296ull + 100, 200000, 100000),
	/* limits that change */
	ROW("limit 0 clears the window", &off, 50000, 100, 0, 0),
	ROW("limit 0 clears after a long halt", &off, 50000, 1000000, 0, 0),
	ROW("limit 0 at halt and after it: nothing starts", &off, 0, 100, 0, 0),
	ROW("the cap comes first", &new, 200000, 30000, 30000, 30000, .max_before = 30000, .max_after = 30000),
	ROW("the cap comes first, then shrinking", &new, 200000, 30001, 30000, 15000, .max_before = 30000,
            .max_after = 30000),
	ROW("the cap is kept if the limit is raised meanwhile", &new, 200000, 29999, 30000, 30000, .max_before = 30000,
            .max_after = ANY),
	ROW("raised meanwhile: grows from the cap", &new, 200000, 30001, 30000, 60000, .max_before = 30000,
            .max_after = ANY),
	ROW("lowered meanwhile: judged by the new limit", &new, 100000, 150000, 100000, 50000, .max_before = ANY,
            .max_after = 120000),
	ROW("lowered meanwhile below the window: a hit keeps it", &new, 100000, 90000, 100000, 100000,
            .max_before = ANY, .max_after = 50000),
	ROW("switched off meanwhile", &new, 100000, 90000, 100000, 0, .max_before = ANY, .max_after = 1),
	ROW("window at the limit does not grow", &new, 30000, 30000, 30000, 30000, .max_before = 30000,
            .max_after = 30000),
	ROW("a limit above the option does not raise it", &new, 320000, 100, 200000, 200000, .max_before = 500000,
            .max_after = 500000),
	ROW("limit below the start value: first growth", &small, 0, 4000, 0, 10000),
	ROW("limit below the start value: cut to it", &small, 10000, 4000, 5000, 5000),
	ROW("limit below the start value: shrinks to 0", &small, 10000, 6000, 5000, 0),
	ROW("biggest limit, biggest window", &huge, UINT32_MAX, 4294967295ull, UINT32_MAX, UINT32_MAX),
	ROW("biggest limit, longer halt", &huge, UINT32_MAX, 4294967296ull, UINT32_MAX, 2147483647u),
	/* polling not allowed */
	ROW("forbidden: no poll, no growth", &new, 0, 50000, 0, 0, .flags = FORBIDDEN),
	ROW("forbidden: frozen on what would grow", &new, 50000, 60000, 0, 50000, .flags = FORBIDDEN),
	ROW("forbidden: frozen on what would shrink", &new, 50000, 1000000, 0, 50000, .flags = FORBIDDEN),
	ROW("forbidden: frozen on limit 0 after the halt", &new, 50000, 100, 0, 50000, .flags = FORBIDDEN,
            .max_before = ANY, .max_after = 1),
	ROW("forbidden: the cap still applies", &new, 320000, 100, 0, 200000, .flags = FORBIDDEN),
	ROW("forbidden: the cap to a live limit", &new, 50000, 100, 0, 20000, .flags = FORBIDDEN, .max_before = 20000,
            .max_after = ANY),
	ROW("forbidden: cap 0", &off, 50000, 100, 0, 0, .flags = FORBIDDEN),
	ROW("forbidden and invalid: frozen", &new, 50000, 100, 0, 50000, .flags = FORBIDDEN | INVALID),
	/* woken for nothing */
	ROW("invalid shrinks even a hit", &new, 50000, 100, 50000, 25000, .flags = INVALID),
	ROW("invalid shrinks what would grow", &new, 50000, 60000, 50000, 25000, .flags = INVALID),
	ROW("invalid snaps", &new, 12500, 100, 12500, 0, .flags = INVALID),
	ROW("invalid, divisor 0", &old, 200000, 100, 200000, 0, .flags = INVALID),
	ROW("invalid comes before limit 0", &new, 50000, 100, 50000, 25000, .flags = INVALID, .max_before = ANY,
            .max_after = 1),
	ROW("invalid on an empty window", &new, 0, 100, 0, 0, .flags = INVALID),
	/* ours */
	ROW("a request teaches nothing", &new, 50000, 60000, 50000, 50000, .flags = REQUEST),
	ROW("a request after a long halt teaches nothing", &new, 50000, 1000000, 50000, 50000, .flags = REQUEST),
};

static uint64_t limit(uint64_t max)
{
	if (max == 0)
		return ANY;
	return max == 1 ? 0 : max;
}

static void every_transition(void **unused)
{
	(void)unused;
	int wrong = 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct kvm_window k = {r->before, r->p->max, r->p->grow, r->p->start, r->p->shrink};
		bool may_poll = !(r->flags & FORBIDDEN);
		struct policy_hint hint = {
			.timer_ns = POLICY_NEVER, .max_ns = limit(r->max_before), .may_poll = may_poll};
		struct policy_plan plan;
		policy_kvm.plan(&k, &hint, &plan);
		struct policy_sample sample = {.halt_ns = r->halt_ns,
		                               .event_ns = r->halt_ns,
		                               .wake_ns = {POLICY_NEVER, POLICY_NEVER},
		                               .max_ns = limit(r->max_after),
		                               .source = r->flags & REQUEST ? POLICY_REQUEST : POLICY_OTHER,
		                               .may_poll = may_poll,
		                               .invalid = r->flags & INVALID};
		policy_kvm.observe(&k, &sample);
		if (plan.poll_ns != r->polled || plan.sleep_ns != POLICY_NEVER || k.window != r->after) {
			print_error("%s: polled %llu, window %u; expected %u, %u\n", r->name,
			            (unsigned long long)plan.poll_ns, k.window, r->polled, r->after);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void there_are_at_least_60_transitions(void **unused)
{
	(void)unused;
	assert_true(sizeof(rows) / sizeof(rows[0]) >= 60);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(rows[i].name, rows[j].name);
}

/* One halt of a policy made from text; returns what it polled. */
static uint64_t halt(const struct policy *policy, void *state, uint64_t event_ns, uint64_t wake_ns, bool may_poll)
{
	struct policy_hint hint = {.timer_ns = POLICY_NEVER, .max_ns = POLICY_NEVER, .may_poll = may_poll};
	struct policy_plan plan;
	policy->plan(state, &hint, &plan);
	bool hit = event_ns <= plan.poll_ns;
	struct policy_sample sample = {
		.event_ns = event_ns,
		.halt_ns = hit ? event_ns : event_ns + wake_ns,
		.poll_ns = hit ? event_ns : plan.poll_ns,
		.wake_ns = {POLICY_NEVER, hit ? POLICY_NEVER : wake_ns},
		.max_ns = POLICY_NEVER,
		.source = POLICY_OTHER,
		.may_poll = may_poll,
	};
	policy->observe(state, &sample);
	return plan.poll_ns;
}

struct machine {
	struct policy_spec spec;
	_Alignas(64) unsigned char state[POLICY_STATE_BYTES];
};

static void set_up(struct machine *m, const char *text)
{
	assert_int_equal(policy_parse(&m->spec, text, NULL, NULL), 0);
	assert_true(m->spec.policy->state_bytes <= sizeof(m->state));
	policy_init(&m->spec, m->state, NULL);
}

static void trajectory(const char *text, uint64_t event_ns, uint64_t wake_ns, const uint64_t *expected, size_t n)
{
	struct machine m;
	set_up(&m, text);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(halt(m.spec.policy, m.state, event_ns, wake_ns, true), expected[i]);
}

static void defaults_go_up_by_doubling_and_stay_at_the_limit(void **unused)
{
	(void)unused;
	trajectory("kvm", 190000, 5000, (const uint64_t[]){0, 10000, 20000, 40000, 80000, 160000, 200000, 200000}, 8);
}

static void wake_latency_counts_as_halt_time(void **unused)
{
	(void)unused;
	/* 190 us + 15 us of wake latency is above the limit, so no window ever starts: the trap of measuring that way.
	 */
	trajectory("kvm", 190000, 15000, (const uint64_t[]){0, 0, 0, 0}, 4);
}

static void both_shrink_defaults_go_down_as_documented(void **unused)
{
	static const struct {
		const char *text;
		uint64_t down[6];
	} c[] = {
		{"kvm:shrink=2", {200000, 100000, 50000, 25000, 12500, 0}},
		{"kvm:shrink=0", {200000, 0, 0, 0, 0, 0}},
	};
	(void)unused;
	for (size_t i = 0; i < 2; i++) {
		struct machine m;
		set_up(&m, c[i].text);
		for (int n = 0; n < 6; n++)
			halt(m.spec.policy, m.state, 190000, 5000, true);
		for (int n = 0; n < 6; n++)
			assert_int_equal(halt(m.spec.policy, m.state, 5000000, 5000, true), c[i].down[n]);
	}
}

static void the_window_is_resumed_when_polling_is_allowed_again(void **unused)
{
	struct machine m;
	(void)unused;
	set_up(&m, "kvm");
	for (int n = 0; n < 4; n++)
		halt(m.spec.policy, m.state, 90000, 5000, true);
	for (int n = 0; n < 100; n++)
		assert_int_equal(halt(m.spec.policy, m.state, 5000000, 5000, false), 0);
	assert_int_equal(halt(m.spec.policy, m.state, 70000, 5000, true), 80000);
}

/* The guest governor: drivers/cpuidle/governors/haltpoll.c, in words in the design notes. */
static void governor_starts_at_50_us_and_clamps_at_200(void **unused)
{
	(void)unused;
	trajectory("haltpoll", 380000, 1000, (const uint64_t[]){0, 0, 0}, 3); /* 381 us asleep: too long */
	trajectory("haltpoll", 199000, 1000, (const uint64_t[]){0, 50000, 100000, 100000}, 4);
	trajectory("haltpoll:grow=3", 350000, 1000, (const uint64_t[]){0, 0}, 2);
	trajectory("haltpoll:start=24ms,max=2400us", 2000000, 1000, (const uint64_t[]){0, 2400000, 2400000}, 3);
}

static void governor_judges_by_the_time_asleep_only(void **unused)
{
	struct machine m;
	(void)unused;
	set_up(&m, "haltpoll");
	assert_int_equal(halt(m.spec.policy, m.state, 150000, 1000, true), 0);
	assert_int_equal(halt(m.spec.policy, m.state, 150000, 1000, true), 50000);  /* 101 us asleep */
	assert_int_equal(halt(m.spec.policy, m.state, 250000, 1000, true), 100000); /* 151 us */
	assert_int_equal(halt(m.spec.policy, m.state, 300000, 1000, true), 200000); /* 101 us: below the limit, keeps */
	assert_int_equal(halt(m.spec.policy, m.state, 450000, 1000, true), 200000); /* 251 us: shrinks */
	assert_int_equal(halt(m.spec.policy, m.state, 60000, 1000, true), 100000);
}

static void governor_does_not_snap_to_zero(void **unused)
{
	struct machine m;
	uint64_t window = 50000;
	(void)unused;
	set_up(&m, "haltpoll");
	halt(m.spec.policy, m.state, 100000, 1000, true);
	for (int n = 0; n < 17; n++, window /= 2)
		assert_int_equal(halt(m.spec.policy, m.state, 5000000, 1000, true), window);
	set_up(&m, "haltpoll:allow_shrink=0");
	halt(m.spec.policy, m.state, 100000, 1000, true);
	for (int n = 0; n < 5; n++)
		assert_int_equal(halt(m.spec.policy, m.state, 5000000, 1000, true), 50000);
	set_up(&m, "haltpoll:shrink=0");
	halt(m.spec.policy, m.state, 100000, 1000, true);
	halt(m.spec.policy, m.state, 5000000, 1000, true);
	assert_int_equal(halt(m.spec.policy, m.state, 5000000, 1000, true), 0);
}

static void fixed_policies_obey_limit_and_permission(void **unused)
{
	static const struct {
		const char *text;
		uint64_t max, expected;
		bool may_poll;
	} c[] = {
		{"none", ANY, 0, true},
		{"fixed:30us", ANY, 30000, true},
		{"fixed:30us", 20000, 20000, true},
		{"fixed:30us", ANY, 0, false},
		{"fixed:30us", 0, 0, true},
		{"always", ANY, ANY, true},
		{"always", 1000000, 1000000, true},
		{"always", ANY, 0, false},
		{"fixed:0", ANY, 0, true},
	};
	(void)unused;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct machine m;
		struct policy_plan plan;
		struct policy_hint hint = {.timer_ns = 5000, .max_ns = c[i].max, .may_poll = c[i].may_poll};
		set_up(&m, c[i].text);
		m.spec.policy->plan(m.state, &hint, &plan);
		assert_int_equal(plan.poll_ns, c[i].expected);
		assert_int_equal(plan.sleep_ns, POLICY_NEVER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition),
		cmocka_unit_test(there_are_at_least_60_transitions),
		cmocka_unit_test(defaults_go_up_by_doubling_and_stay_at_the_limit),
		cmocka_unit_test(wake_latency_counts_as_halt_time),
		cmocka_unit_test(both_shrink_defaults_go_down_as_documented),
		cmocka_unit_test(the_window_is_resumed_when_polling_is_allowed_again),
		cmocka_unit_test(governor_starts_at_50_us_and_clamps_at_200),
		cmocka_unit_test(governor_judges_by_the_time_asleep_only),
		cmocka_unit_test(governor_does_not_snap_to_zero),
		cmocka_unit_test(fixed_policies_obey_limit_and_permission),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
