/* SPDX-License-Identifier: Apache-2.0 */
/* The cost-aware policy, behaviour by behaviour. What it is worth on whole traces is measured in tests/policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../vmm/policy_cost.c"

/* A host on which a wake takes 10 us and a switch 3 us; with lambda 2 B is 23 us. */
#define WAKE 10000
#define B    23000

struct rig {
	struct cost c;
	struct policy_hint hint;
	struct policy_plan plan;
	uint64_t wake_ns; /* of this host from now on */
};

static void set_up(struct rig *r, const char *text)
{
	const struct policy_host host = {.wake_ns = WAKE, .switch_ns = 3000, .arm_ns = 1000};
	struct policy_spec spec;

	assert_int_equal(policy_parse(&spec, text, NULL, NULL), 0);
	*r = (struct rig){.wake_ns = WAKE};
	r->hint = (struct policy_hint){.timer_ns = POLICY_NEVER, .max_ns = POLICY_NEVER, .may_poll = true};
	policy_init(&spec, &r->c, &host);
}

static const struct policy_plan *plan(struct rig *r)
{
	policy_cost.plan(&r->c, &r->hint, &r->plan);
	return &r->plan;
}

/* What the engine would have seen of this plan and an event at d. */
static struct policy_sample outcome(const struct rig *r, uint64_t d)
{
	const struct policy_plan *p = &r->plan;
	struct policy_sample s = {.event_ns = d,
	                          .wake_ns = {POLICY_NEVER, POLICY_NEVER},
	                          .max_ns = r->hint.max_ns,
	                          .source = d == r->hint.timer_ns ? POLICY_TIMER : POLICY_OTHER,
	                          .may_poll = r->hint.may_poll};

	s.halt_ns = d;
	s.poll_ns = d <= p->poll_ns ? d : p->poll_ns;
	if (d <= p->poll_ns)
		return s;
	if (p->sleep_ns != POLICY_NEVER && d > p->sleep_ns) {
		uint64_t runs = p->sleep_ns + r->wake_ns;
		s.wake_ns[0] = r->wake_ns;
		s.spin_ns = d > runs ? (d < p->spin_ns ? d : p->spin_ns) - runs : 0;
		s.latency_ns = d > runs ? 0 : runs - d;
		if (d <= p->spin_ns)
			return s;
	}
	s.wake_ns[1] = s.latency_ns = r->wake_ns;
	s.halt_ns = d + r->wake_ns;
	return s;
}

/* One halt that ends at d. */
static void halt(struct rig *r, uint64_t d)
{
	plan(r);
	struct policy_sample s = outcome(r, d);
	policy_cost.observe(&r->c, &s);
	r->hint.now_ns += s.halt_ns;
}

static void halts(struct rig *r, int n, uint64_t d)
{
	for (int i = 0; i < n; i++)
		halt(r, d);
}

static void it_starts_by_polling_for_the_price_of_a_sleep(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	assert_int_equal(plan(&r)->poll_ns, B);
	assert_int_equal(r.plan.sleep_ns, POLICY_NEVER);
	set_up(&r, "cost:powersave");
	assert_int_equal(plan(&r)->poll_ns, 5500);
	set_up(&r, "cost:latency");
	assert_int_equal(plan(&r)->poll_ns, 83000);
}

static void its_own_keys_win_over_what_was_measured(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost:wake=20us,switch=5us");
	assert_int_equal(plan(&r)->poll_ns, 45000);
}

static void it_knows_presets_without_a_measured_host(void **unused)
{
	struct policy_spec spec;
	struct cost c;
	struct policy_view view;
	(void)unused;
	assert_int_equal(policy_parse(&spec, "cost", NULL, NULL), 0);
	policy_init(&spec, &c, NULL);
	policy_cost.view(&c, &view);
	assert_int_equal(view.wake_ns, 10000);
	assert_int_equal(view.cost_ns, 23000);
}

static void an_idle_guest_is_not_polled_for(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 3, 50000000);
	assert_int_equal(plan(&r)->poll_ns, 0);
}

static void quick_replies_are_polled_for_and_no_longer_than_that(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 60; i++) {
		halts(&r, 9, 12000);
		halts(&r, 1, 3000000); /* now and then no reply: a longer window than needed costs */
	}
	halt(&r, 12000);
	assert_in_range(plan(&r)->poll_ns, 12000, 14400);
}

static void replies_slower_than_a_sleep_are_not_polled_for(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost:spin=off");
	halts(&r, 60, 2 * B + 1000);
	assert_int_equal(plan(&r)->poll_ns, 0);
}

static void regular_late_replies_are_slept_for_and_spun_for(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 200, 100000);
	assert_int_equal(plan(&r)->poll_ns, 0);
	assert_in_range(r.plan.sleep_ns, 80000, 95000);
	assert_in_range(r.plan.spin_ns, 100000, r.plan.sleep_ns + WAKE + B);
}

static void a_timer_that_is_near_is_polled_for(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 3, 50000000);
	r.hint.timer_ns = 12000;
	assert_int_equal(plan(&r)->poll_ns, 12000);
	r.hint.timer_ns = 14000; /* more than lead and switch */
	assert_int_equal(plan(&r)->poll_ns, 0);
}

static void a_timer_that_is_far_is_met_by_waking_early(void **unused)
{
	struct rig r;
	struct policy_view view;
	(void)unused;
	set_up(&r, "cost");
	r.hint.timer_ns = 4000000;
	halts(&r, 100, 4000000);
	plan(&r);
	policy_cost.view(&r.c, &view);
	assert_in_range(view.lead_ns, 9000, 11000);
	assert_int_equal(r.plan.poll_ns, 0);
	assert_in_range(4000000 - r.plan.sleep_ns, view.lead_ns - 1, view.lead_ns + 1);
	assert_in_range(r.plan.spin_ns - 4000000, 3 * view.lead_ns - 3, 3 * view.lead_ns + 3);
	set_up(&r, "cost:prewake=off");
	r.hint.timer_ns = 4000000;
	halts(&r, 100, 4000000);
	assert_int_equal(plan(&r)->sleep_ns, POLICY_NEVER);
}

static void the_lead_follows_a_slower_and_a_faster_host(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.hint.timer_ns = 4000000;
	r.wake_ns = 60000;
	halts(&r, 100, 4000000);
	assert_in_range(4000000 - plan(&r)->sleep_ns, 55000, 66000);
	r.wake_ns = 5000;
	halts(&r, 100, 4000000);
	assert_in_range(4000000 - plan(&r)->sleep_ns, 4000, 6500);
}

struct early {
	uint64_t spins_ns, latency_ns; /* of all halts */
};

/* 1000 timers on a host whose wakes take low to high ns, after busy_ns of work each. */
static struct early early_wakes(uint64_t timer_ns, uint64_t busy_ns, uint32_t low, uint32_t high)
{
	struct early sum = {0};
	struct rig r;
	uint32_t random = 1;
	set_up(&r, "cost");
	r.hint.timer_ns = timer_ns;
	r.hint.busy_ns = busy_ns;
	for (int i = 0; i < 1000; i++) {
		random = random * 1664525 + 1013904223;
		r.wake_ns = low + (random >> 8) % (high - low);
		plan(&r);
		struct policy_sample s = outcome(&r, timer_ns);
		policy_cost.observe(&r.c, &s);
		r.hint.now_ns += s.halt_ns;
		sum.spins_ns += s.spin_ns;
		sum.latency_ns += s.latency_ns;
	}
	return sum;
}

static void early_wakes_of_an_idle_guest_cost_next_to_nothing(void **unused)
{
	/* 0.6 % for each lambda of the work and the switches, and what may be left over once. */
	const uint64_t least = 1000 * (100000 + 3000) * 12 / 1000, slack = 2 * B + 100000;
	(void)unused;
	const struct early idle = early_wakes(100000000, 100000, 60000, 100000);
	assert_in_range(idle.spins_ns, least / 2, least + slack);
	assert_true(idle.latency_ns < 1000 * 80000ull * 3 / 10); /* most of it is hidden all the same */
	/* Wakes that take 10 us or 500 us: no lead is right, and it stays cheap. */
	assert_true(early_wakes(100000000, 100000, 10000, 500000).spins_ns < least + slack + 500000);
	/* With more work, or more timers, or when the work is not known, nearly all is hidden. */
	assert_true(early_wakes(100000000, 1000000, 60000, 100000).latency_ns < 1000 * 80000ull / 10);
	assert_true(early_wakes(4000000, 100000, 60000, 100000).latency_ns < 1000 * 80000ull / 10);
	assert_true(early_wakes(100000000, 0, 60000, 100000).latency_ns < 1000 * 80000ull / 10);
}

static void early_wakes_of_an_idle_guest_in_debt_come_later(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.hint.timer_ns = 100000000;
	r.hint.busy_ns = 100000;
	halts(&r, 50, r.hint.timer_ns);
	const uint64_t lead = r.hint.timer_ns - plan(&r)->sleep_ns;
	assert_true(lead > 0);
	/* What the host took away during a spin is not paid for, */
	struct policy_sample s = outcome(&r, r.hint.timer_ns);
	s.spin_ns = 2 * (uint64_t)B;
	s.gap_ns = r.hint.now_ns + r.hint.timer_ns;
	policy_cost.observe(&r.c, &s);
	r.hint.now_ns += 1000000000;
	assert_in_range(r.hint.timer_ns - plan(&r)->sleep_ns, lead - lead / 8, lead + lead / 8);
	/* but a spin is. */
	s.gap_ns = 0;
	policy_cost.observe(&r.c, &s);
	assert_in_range(r.hint.timer_ns - plan(&r)->sleep_ns, lead * 3 / 8, lead * 5 / 8);
}

static void wake_latency_after_short_and_long_idle_is_kept_apart(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost:spin=off");
	for (int i = 0; i < 100; i++) {
		r.wake_ns = 20000;
		r.hint.timer_ns = 150000;
		halt(&r, 150000);
		r.wake_ns = 80000;
		r.hint.timer_ns = 4000000;
		halt(&r, 4000000);
	}
	r.hint.timer_ns = 150000;
	assert_in_range(150000 - plan(&r)->sleep_ns, 18000, 24000);
	r.hint.timer_ns = 4000000;
	assert_in_range(4000000 - plan(&r)->sleep_ns, 75000, 90000);
}

static void a_class_without_samples_follows_the_other(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.wake_ns = 40000;
	halts(&r, 100, 4000000);
	r.hint.timer_ns = 190000;
	assert_in_range(190000 - plan(&r)->sleep_ns, 36000, 48000);
}

/* Else the first hundred halts of a guest are planned for some other host. */
static void the_first_sleeps_count_more_if_nothing_was_told(void **unused)
{
	struct rig r;
	struct policy_spec spec;
	(void)unused;
	set_up(&r, "cost:prewake=off");
	r.wake_ns = 42000;
	halt(&r, 4000000);
	assert_in_range((uint64_t)r.c.wake[1], 11999, 12001); /* a sixteenth of the way */
	assert_int_equal(policy_parse(&spec, "cost:prewake=off", NULL, NULL), 0);
	policy_init(&spec, &r.c, NULL);
	halt(&r, 4000000);
	assert_in_range((uint64_t)r.c.wake[1], 41999, 42001);
	assert_in_range((uint64_t)r.c.wake[0], 41999, 42001);
	r.wake_ns = 22000;
	halt(&r, 4000000);
	assert_in_range((uint64_t)r.c.wake[1], 31999, 32001); /* the mean of both */
}

static void halts_with_a_disk_request_are_learnt_apart(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 100; i++) {
		r.hint.io = true;
		halt(&r, 10000);
		r.hint.io = false;
		halt(&r, 3000000);
	}
	r.hint.io = true;
	assert_in_range(plan(&r)->poll_ns, 10000, B);
	halt(&r, 10000);
	r.hint.io = false;
	assert_int_equal(plan(&r)->poll_ns, 0);
}

static void without_permission_it_sleeps_and_still_learns(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 3, 50000000);
	assert_int_equal(plan(&r)->poll_ns, 0);
	r.hint.may_poll = false;
	r.hint.timer_ns = 5000;
	for (int i = 0; i < 60; i++) {
		assert_int_equal(plan(&r)->poll_ns, 0);
		assert_int_equal(r.plan.sleep_ns, POLICY_NEVER);
		r.hint.timer_ns = POLICY_NEVER;
		halt(&r, 12000);
	}
	r.hint.may_poll = true;
	assert_in_range(plan(&r)->poll_ns, 12000, B);
}

static void no_plan_polls_beyond_the_live_limit(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.hint.max_ns = 5000;
	for (uint64_t i = 0; i < 1000; i++) {
		r.hint.timer_ns = i % 3 ? POLICY_NEVER : i % 7 * 10000 + 1;
		plan(&r);
		assert_true(r.plan.poll_ns <= 5000);
		assert_true(r.plan.sleep_ns == POLICY_NEVER); /* the lead is longer than the limit */
		halt(&r, i % 3 ? 1000 + i * 37 % 60000 : r.hint.timer_ns);
	}
}

static void windows_above_the_live_limit_are_not_chosen(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.hint.max_ns = 10000;
	halts(&r, 100, 20000); /* worth polling for, but not in 10 us */
	assert_int_equal(plan(&r)->poll_ns, 0);
}

static void a_request_teaches_nothing(void **unused)
{
	struct rig r;
	struct cost before;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 20, 12000);
	plan(&r);
	before = r.c;
	struct policy_sample s = outcome(&r, 3000000);
	s.source = POLICY_REQUEST;
	policy_cost.observe(&r.c, &s);
	assert_memory_equal(&before, &r.c, sizeof(before));
	s.source = POLICY_OTHER;
	s.invalid = true;
	policy_cost.observe(&r.c, &s);
	assert_memory_equal(&before, &r.c, sizeof(before));
}

static void polling_for_long_is_interrupted_to_measure_a_sleep(void **unused)
{
	struct rig r;
	int sleeps = 0;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 5000; i++) {
		halt(&r, 10000);
		sleeps += r.plan.poll_ns < 10000;
	}
	/* 5000 times 10 us, one sleep for every 128 B of 23 us */
	assert_in_range(sleeps, 14, 19);
}

static void an_adversary_drives_it_to_the_guard_and_not_beyond(void **unused)
{
	struct rig r;
	float worst = 0;
	bool guarded = false;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 20000; i++) {
		plan(&r);
		uint64_t d = r.plan.poll_ns + 1;
		if (r.plan.sleep_ns != POLICY_NEVER)
			d = r.plan.spin_ns + 1;
		guarded = guarded || (r.c.debt > 8 * r.c.b && r.plan.poll_ns == (uint64_t)r.c.b);
		halt(&r, d);
		worst = r.c.debt > worst ? r.c.debt : worst;
	}
	assert_true(guarded);
	assert_true(worst <= 11 * r.c.b);
}

static void the_guard_lets_no_early_wake_through(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	r.c.debt = 9 * r.c.b;
	r.hint.timer_ns = 4000000;
	assert_int_equal(plan(&r)->poll_ns, B);
	assert_int_equal(r.plan.sleep_ns, POLICY_NEVER);
	r.hint.timer_ns = 9000; /* at hand: costs no more than the optimum */
	assert_int_equal(plan(&r)->poll_ns, 9000);
}

static void a_sleep_may_be_reported_in_either_phase(void **unused)
{
	struct rig a, b;
	(void)unused;
	set_up(&a, "cost");
	set_up(&b, "cost");
	for (uint64_t i = 0; i < 200; i++) {
		a.wake_ns = b.wake_ns = 5000 + i * 977 % 10000; /* the account takes the mean in both */
		plan(&a);
		plan(&b);
		struct policy_sample s = outcome(&a, 30000 + i * 7919 % 100000);
		if (a.plan.sleep_ns == POLICY_NEVER && s.wake_ns[1] != POLICY_NEVER)
			s.wake_ns[1] = POLICY_NEVER, s.wake_ns[0] = a.wake_ns;
		policy_cost.observe(&a.c, &s);
		s = outcome(&b, s.event_ns);
		policy_cost.observe(&b.c, &s);
	}
	assert_memory_equal(&a.c, &b.c, sizeof(a.c));
}

static void credit_is_limited(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 10000, 20000);
	assert_true(r.c.debt >= -16.01f * r.c.b);
}

static void a_gap_stops_polling_for_2_ms_and_twice_as_long_if_repeated(void **unused)
{
	static const uint64_t back_off_us[] = {2000, 4000, 8000, 16000, 20000, 20000};
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 20, 12000);
	for (size_t i = 0; i < sizeof(back_off_us) / sizeof(back_off_us[0]); i++) {
		uint64_t at = r.hint.now_ns + 12000;
		plan(&r);
		struct policy_sample s = outcome(&r, 12000);
		s.gap_ns = at;
		policy_cost.observe(&r.c, &s);
		r.hint.now_ns = at + back_off_us[i] * 1000 - 1;
		assert_int_equal(plan(&r)->poll_ns, 0);
		r.hint.now_ns++;
		assert_int_not_equal(plan(&r)->poll_ns, 0);
		r.hint.now_ns += 19000000;
	}
	r.hint.now_ns += 2000000; /* more than 20 ms after the end of the last one */
	plan(&r);
	struct policy_sample s = outcome(&r, 12000);
	s.gap_ns = r.hint.now_ns;
	policy_cost.observe(&r.c, &s);
	r.hint.now_ns += 2000000;
	assert_int_not_equal(plan(&r)->poll_ns, 0);
}

static void a_starved_wake_counts_as_a_gap(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost");
	halts(&r, 200, 12000);
	for (int late = 0; late < 2; late++) {
		do
			plan(&r);
		while (r.plan.poll_ns >= 12000 && (halt(&r, 12000), true)); /* until the forced sleep */
		r.wake_ns = late ? 1500000 : 100000;
		halt(&r, 12000);
		r.wake_ns = WAKE;
		if (late)
			assert_int_equal(plan(&r)->poll_ns, 0);
		else
			assert_int_not_equal(plan(&r)->poll_ns, 0);
	}
}

static void a_measured_switch_changes_the_price(void **unused)
{
	struct rig r;
	struct policy_view view;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 200; i++) {
		plan(&r);
		struct policy_sample s = outcome(&r, 3000000);
		s.switch_ns = 20000;
		policy_cost.observe(&r.c, &s);
	}
	policy_cost.view(&r.c, &view);
	assert_in_range(view.cost_ns, 39000, 41000);
}

static void windows_have_a_cap_at_extreme_lambda(void **unused)
{
	struct rig r;
	(void)unused;
	set_up(&r, "cost:lambda=100,spin=off");
	halts(&r, 100, 400000);
	assert_in_range(plan(&r)->poll_ns, 400000, 500000);
	halts(&r, 300, 900000);
	assert_true(plan(&r)->poll_ns <= 500000);
}

static uint64_t xorshift(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Anything up to 2^64, short times as likely as long ones. */
static uint64_t any_time(uint64_t *s)
{
	uint64_t x = xorshift(s);
	return xorshift(s) % 16 ? x >> (xorshift(s) % 64) : POLICY_NEVER;
}

static void senseless_samples_do_no_harm(void **unused)
{
	struct rig r;
	uint64_t s = 88172645463325252u;
	(void)unused;
	set_up(&r, "cost:lambda=1000");
	for (int i = 0; i < 200000; i++) {
		r.hint = (struct policy_hint){any_time(&s), any_time(&s), any_time(&s), s & 1, s & 2, any_time(&s)};
		plan(&r);
		assert_true(r.plan.poll_ns <= r.hint.max_ns);
		struct policy_sample sample = {
			.event_ns = any_time(&s),
			.halt_ns = any_time(&s),
			.latency_ns = any_time(&s),
			.poll_ns = any_time(&s),
			.spin_ns = any_time(&s),
			.wake_ns = {any_time(&s), any_time(&s)},
			.switch_ns = any_time(&s),
			.gap_ns = xorshift(&s) % 8 ? 0 : any_time(&s),
			.max_ns = any_time(&s),
			.source = (enum policy_source)(xorshift(&s) % 3),
			.may_poll = s & 4,
		};
		policy_cost.observe(&r.c, &sample);
		assert_true(r.c.b > 0 && r.c.b <= 2e12f);
		assert_true(r.c.debt == r.c.debt && r.c.wake[0] > 0 && r.c.wake[1] > 0);
	}
	/* and it finds back */
	r.hint = (struct policy_hint){.timer_ns = POLICY_NEVER, .max_ns = POLICY_NEVER, .may_poll = true};
	for (int i = 0; i < 600; i++) {
		r.hint.now_ns = UINT64_MAX; /* after every back-off */
		halt(&r, i < 500 ? 50000000 : 12000);
	}
	r.hint.now_ns = UINT64_MAX;
	assert_true(plan(&r)->poll_ns >= 12000);
}

/* The same decisions from every compiler and build: change the number only together with the policy. */
static void decisions_are_the_same_in_every_build(void **unused)
{
	struct rig r;
	uint64_t s = 88172645463325252u, sum = 0;
	(void)unused;
	set_up(&r, "cost");
	for (int i = 0; i < 100000; i++) {
		r.hint.io = xorshift(&s) % 4 == 0;
		r.hint.timer_ns = xorshift(&s) % 3 ? POLICY_NEVER : 1 + xorshift(&s) % 5000000;
		r.wake_ns = 5000 + xorshift(&s) % 10000;
		uint64_t d = 1 + (xorshift(&s) % 8 ? xorshift(&s) % 40000 : xorshift(&s) % 4000000);
		halt(&r, d < r.hint.timer_ns ? d : r.hint.timer_ns);
		sum = (sum ^ r.plan.poll_ns ^ r.plan.sleep_ns * 3 ^ r.plan.spin_ns * 5) * 0x9e3779b97f4a7c15u;
	}
	assert_int_equal(sum, 0x54b26cfda15953b1u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_starts_by_polling_for_the_price_of_a_sleep),
		cmocka_unit_test(its_own_keys_win_over_what_was_measured),
		cmocka_unit_test(it_knows_presets_without_a_measured_host),
		cmocka_unit_test(an_idle_guest_is_not_polled_for),
		cmocka_unit_test(quick_replies_are_polled_for_and_no_longer_than_that),
		cmocka_unit_test(replies_slower_than_a_sleep_are_not_polled_for),
		cmocka_unit_test(regular_late_replies_are_slept_for_and_spun_for),
		cmocka_unit_test(a_timer_that_is_near_is_polled_for),
		cmocka_unit_test(a_timer_that_is_far_is_met_by_waking_early),
		cmocka_unit_test(the_lead_follows_a_slower_and_a_faster_host),
		cmocka_unit_test(early_wakes_of_an_idle_guest_cost_next_to_nothing),
		cmocka_unit_test(early_wakes_of_an_idle_guest_in_debt_come_later),
		cmocka_unit_test(wake_latency_after_short_and_long_idle_is_kept_apart),
		cmocka_unit_test(a_class_without_samples_follows_the_other),
		cmocka_unit_test(the_first_sleeps_count_more_if_nothing_was_told),
		cmocka_unit_test(halts_with_a_disk_request_are_learnt_apart),
		cmocka_unit_test(without_permission_it_sleeps_and_still_learns),
		cmocka_unit_test(no_plan_polls_beyond_the_live_limit),
		cmocka_unit_test(windows_above_the_live_limit_are_not_chosen),
		cmocka_unit_test(a_request_teaches_nothing),
		cmocka_unit_test(polling_for_long_is_interrupted_to_measure_a_sleep),
		cmocka_unit_test(an_adversary_drives_it_to_the_guard_and_not_beyond),
		cmocka_unit_test(the_guard_lets_no_early_wake_through),
		cmocka_unit_test(a_sleep_may_be_reported_in_either_phase),
		cmocka_unit_test(credit_is_limited),
		cmocka_unit_test(a_gap_stops_polling_for_2_ms_and_twice_as_long_if_repeated),
		cmocka_unit_test(a_starved_wake_counts_as_a_gap),
		cmocka_unit_test(a_measured_switch_changes_the_price),
		cmocka_unit_test(windows_have_a_cap_at_extreme_lambda),
		cmocka_unit_test(senseless_samples_do_no_harm),
		cmocka_unit_test(decisions_are_the_same_in_every_build),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
