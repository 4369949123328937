/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_halt.c - the halt engine on a clock of our own: 1 TSC tick is 1 ns, each look at the TSC takes LOOK_NS, each
 * turn of the poll loop TURN_NS. Events are placed, not raced: at a time, which the fake wait instruction and the fake
 * sleep honour.
 */
#include <stdint.h>
#include <time.h>

#define LULL_CLOCK_H /* instead of the real one */
enum {
	LOOK_NS = 1,
	TURN_NS = 50,
	LATENCY_NS = 3000, /* of a fake sleep */
	REFUSED_NS = 500,  /* of one that is refused */
	KHZ = 1000000,
};
static uint64_t fake_now;

static inline uint64_t clock_tsc(void)
{
	return fake_now += LOOK_NS;
}

static inline uint64_t clock_of(clockid_t clock)
{
	(void)clock;
	return fake_now;
}

static inline uint64_t clock_ns(void)
{
	return fake_now;
}

static inline uint64_t clock_tsc_to_ns(uint64_t tsc, uint64_t khz)
{
	(void)khz;
	return tsc;
}

static inline uint64_t clock_ns_to_tsc(uint64_t ns, uint64_t khz)
{
	(void)khz;
	return ns > INT64_MAX ? INT64_MAX : ns;
}

#include "../../vmm/halt.c"

#include "lull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------- the fake neighbours */

static struct wake word;
static uint64_t post_at[4]; /* times of posts, 0: none */
static uint64_t gap_at, gap_ns;
static uint64_t turn_ns; /* of the poll loop */
static unsigned sleeps;
static uint64_t slept_until; /* deadline of the last sleep */
static bool signal_next;     /* the next sleep ends by a signal at once */

static void run_posts(uint64_t until)
{
	for (unsigned i = 0; i < 4; i++) {
		if (post_at[i] && post_at[i] <= until) {
			post_at[i] = 0;
			atomic_fetch_add(&word.word, 4);
		}
	}
}

void cpu_wait(enum cpu_wait kind, _Atomic uint32_t *w, uint32_t expected, uint64_t until_tsc)
{
	(void)kind, (void)w, (void)expected, (void)until_tsc;
	fake_now += turn_ns;
	if (gap_at && fake_now >= gap_at) {
		fake_now += gap_ns;
		gap_at = 0;
	}
	run_posts(fake_now);
}

int cpu_wait_parse(enum cpu_wait *kind, const char *w, struct lull_error *err)
{
	(void)w, (void)err;
	*kind = CPU_WAIT_PAUSE;
	return 0;
}

/* When the request of this thread completes, its sleep ends; 0: it is somebody else's. */
static uint64_t own_io_done_at;

int wake_block_watching(struct wake *w, uint32_t ticket, uint64_t deadline_ns, const struct wake_watch *watch,
                        unsigned count)
{
	(void)watch;
	slept_until = deadline_ns;
	run_posts(fake_now);
	if (wake_posted(w, ticket)) {
		fake_now += REFUSED_NS;
		return -EAGAIN;
	}
	sleeps++;
	if (signal_next) {
		signal_next = false;
		return -EINTR;
	}
	uint64_t first = WAKE_NEVER;
	for (unsigned i = 0; i < 4; i++)
		if (post_at[i] && post_at[i] < first)
			first = post_at[i];
	assert_true(first != WAKE_NEVER || deadline_ns != WAKE_NEVER ||
	            own_io_done_at); /* or it would sleep for ever */
	if (count && own_io_done_at && own_io_done_at < first && own_io_done_at < deadline_ns) {
		fake_now = own_io_done_at + LATENCY_NS;
		own_io_done_at = 0;
		return -EINTR;
	}
	if (first <= deadline_ns) {
		fake_now = first;
		run_posts(fake_now);
		fake_now += LATENCY_NS;
		return 0;
	}
	fake_now = deadline_ns + LATENCY_NS;
	return -ETIMEDOUT;
}

static struct policy_plan script;
static struct policy_hint last_hint;
static unsigned asked;
static struct policy_sample samples[8];
static unsigned sample_count;

static struct policy_host last_told;

static void scripted_init(void *state, const uint64_t *values, const struct policy_host *host)
{
	(void)state, (void)values;
	last_told = *host;
}

static void scripted_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	(void)state;
	last_hint = *hint;
	asked++;
	*plan = script;
}

static void scripted_observe(void *state, const struct policy_sample *sample)
{
	(void)state;
	samples[sample_count++ % 8] = *sample;
}

static const struct policy scripted = {
	.name = "scripted",
	.state_bytes = 1,
	.init = scripted_init,
	.plan = scripted_plan,
	.observe = scripted_observe,
};

/* A device whose request ends at a time, and whose interrupt is for this vCPU. */
static uint64_t io_done_at;
static unsigned entered, left, io_polls;

static void hook_enter(void *ctx)
{
	(void)ctx;
	entered++;
}

static bool io_of_others; /* each look completes something, and it is for somebody else */

static bool hook_poll(void *ctx)
{
	(void)ctx;
	io_polls++;
	if (io_of_others) {
		fake_now += TURN_NS;
		assert_true(io_polls < 10000);
		return true;
	}
	if (!io_done_at || fake_now < io_done_at)
		return false;
	io_done_at = 0;
	atomic_fetch_add(&word.word, 4);
	return true;
}

static bool hook_leave(void *ctx)
{
	left++;
	return hook_poll(ctx);
}

static unsigned hook_in_flight(void *ctx)
{
	(void)ctx;
	return io_done_at != 0;
}

static unsigned hook_watch(void *ctx, struct wake_watch *watch, unsigned room)
{
	static const uint32_t tail;
	(void)ctx;
	assert_true(room > 0);
	*watch = (struct wake_watch){&tail, 0};
	return io_done_at != 0;
}

static const struct poll_hooks hooks = {
	.count = 1,
	.hooks = {{.enter = hook_enter,
                   .poll = hook_poll,
                   .leave = hook_leave,
                   .in_flight = hook_in_flight,
                   .watch = hook_watch}},
};

static struct halt_shared shared;
static struct halt h;

static int setup_with(const struct halt_config *config)
{
	fake_now = 1000000000;
	memset(post_at, 0, sizeof(post_at));
	gap_at = gap_ns = 0;
	turn_ns = TURN_NS;
	sleeps = sample_count = 0;
	io_done_at = own_io_done_at = entered = left = io_polls = 0;
	io_of_others = false;
	signal_next = false;
	atomic_store(&word.word, 8);
	atomic_store(&pollers, 0);
	script = (struct policy_plan){.sleep_ns = POLICY_NEVER};
	halt_shared_init(&shared);
	halt_shared_set(&shared, config);
	budget_init(&shared.vm_budget, config->vm_budget_percent);
	shared.sysfs = "/nonexistent";
	shared.proc = "/nonexistent";
	halt_init(&h, &shared, &hooks, &word, KHZ);
	return 0;
}

static int setup(void **state)
{
	const struct halt_config config = {.policy = {.policy = &scripted}, .power = POWER_IGNORE};
	(void)state;
	return setup_with(&config);
}

static uint32_t ticket(void)
{
	return atomic_load(&word.word);
}

static uint64_t get(const stat_t *s)
{
	return stat_get(s);
}

/* A halt from its start to the event, like the loop of a vCPU. */
static void one_halt(uint64_t event_after, uint64_t timer_after, enum wake_cause cause)
{
	uint64_t start = fake_now, event = start + event_after;
	uint64_t deadline = timer_after ? start + timer_after : WAKE_NEVER;
	post_at[0] = event_after ? event : 0;
	uint32_t before = ticket();
	for (unsigned turns = 0; turns < 10; turns++) {
		uint32_t t = ticket();
		if (t != before || fake_now >= deadline)
			break;
		halt_wait(&h, t, deadline);
	}
	assert_true(ticket() != before || fake_now >= deadline);
	halt_end(&h, cause, ticket() != before ? event : deadline);
}

/* The sample of the last halt: it is told when the next one starts. */
static const struct policy_sample *last_sample(void)
{
	tell_policy(&h);
	assert_true(sample_count > 0);
	return &samples[(sample_count - 1) % 8];
}

/* ------------------------------------------------------------------------------------ phases */

static void completions_for_others_do_not_make_a_timer_late(void **state)
{
	(void)state;
	uint64_t start = fake_now;
	script = (struct policy_plan){.poll_ns = POLICY_NEVER, .sleep_ns = POLICY_NEVER};
	io_done_at = UINT64_MAX;
	io_of_others = true;
	one_halt(0, 20000, WAKE_TIMER);
	assert_true(fake_now - start < 21000);
	assert_int_equal(sleeps, 0);
}

static void a_plan_without_polling_sleeps_at_once(void **state)
{
	(void)state;
	one_halt(100000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 1);
	assert_int_equal(get(&h.stats.attempted_poll), 0);
	assert_int_equal(get(&h.stats.sources[WAKE_IPI].slept), 1);
}

static void a_post_before_the_first_look_is_a_hit_of_length_0(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	uint32_t t = ticket();
	atomic_fetch_add(&word.word, 4);
	halt_wait(&h, t, WAKE_NEVER);
	halt_end(&h, WAKE_IPI, fake_now);
	assert_int_equal(sleeps, 0);
	assert_int_equal(last_sample()->halt_ns, 0);
	assert_int_equal(get(&h.stats.successful_poll), 1);
}

static void a_post_within_the_window_is_seen_without_sleeping(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	one_halt(4000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 0);
	const struct policy_sample *s = last_sample();
	assert_in_range(s->event_ns, 3990, 4000);
	assert_in_range(s->halt_ns, 3800, 4000); /* the turn before: it found nothing */
	assert_true(s->latency_ns <= 2 * TURN_NS);
	assert_int_equal(s->wake_ns[0], POLICY_NEVER);
	assert_int_equal(get(&h.stats.successful_poll), 1);
	assert_int_equal(get(&h.stats.sources[WAKE_IPI].polled), 1);
}

/* What one vCPU has seen of the host, the next one is told at its first halt, and whoever takes up a new policy. */
static void policies_are_told_what_the_host_costs(void **state)
{
	struct halt other;
	(void)state;
	halt_init(&other, &shared, &hooks, &word, KHZ);
	for (unsigned i = 0; i <= HOST_COST_FIRST; i++)
		one_halt(40000, 0, WAKE_IPI);
	assert_int_equal(last_told.wake_ns, 0);
	post_at[0] = fake_now + 1000;
	halt_wait(&other, ticket(), WAKE_NEVER);
	halt_end(&other, WAKE_IPI, 0);
	assert_in_range(last_told.wake_ns, LATENCY_NS, LATENCY_NS + 10);
	assert_true(last_told.switch_ns >= LATENCY_NS); /* the fake CPU time is the time */
	last_told = (struct policy_host){0};
	const struct halt_config config = shared.config;
	halt_shared_set(&shared, &config);
	one_halt(40000, 0, WAKE_IPI);
	assert_in_range(last_told.wake_ns, LATENCY_NS, LATENCY_NS + 10);
}

/* Between the last look and the sleep: what that took is neither a wake latency nor the price of a sleep. */
static void a_post_that_refuses_the_sleep_teaches_nothing_of_sleeps(void **state)
{
	(void)state;
	stat_add(&h.stats.halts, SWITCH_EVERY - 1); /* the next one measures the switch */
	uint32_t t = ticket();
	atomic_fetch_add(&word.word, 4);
	halt_wait(&h, t, WAKE_NEVER);
	halt_end(&h, WAKE_IPI, fake_now - 1);
	assert_int_equal(sleeps, 0);
	const struct policy_sample *s = last_sample();
	assert_int_equal(s->wake_ns[0], POLICY_NEVER);
	assert_int_equal(s->wake_ns[1], POLICY_NEVER);
	assert_int_equal(s->switch_ns, 0);
	assert_int_equal(get(&h.stats.wakeup), 0);
	assert_int_equal(get(&h.stats.wait_ns), 0);
	assert_int_equal(get(&h.stats.sources[WAKE_IPI].wakes), 1);
	assert_int_equal(get(&h.stats.sources[WAKE_IPI].slept), 0);
	stat_add(&h.stats.halts, SWITCH_EVERY - 1);
	one_halt(40000, 0, WAKE_IPI); /* as it is with a sleep */
	assert_true(last_sample()->switch_ns >= LATENCY_NS);
	assert_int_equal(get(&h.stats.wakeup), 1);
}

/* A post and a completion of its own at the same time: the post must not hide the completion. */
static void a_sleep_that_was_refused_still_looks_at_completions(void **state)
{
	(void)state;
	io_done_at = fake_now;
	uint32_t t = ticket();
	atomic_fetch_add(&word.word, 4);
	halt_wait(&h, t, WAKE_NEVER);
	assert_int_equal(sleeps, 0);
	assert_int_equal(io_done_at, 0);
	halt_end(&h, WAKE_DEVICE, fake_now);
	assert_int_equal(get(&h.stats.sources[WAKE_INLINE].wakes), 1);
	assert_int_equal(last_sample()->wake_ns[0], POLICY_NEVER);
}

/* The same right behind a poll, in some of the gaps between two looks: KVM calls that a successful poll. */
static void a_post_between_poll_and_sleep_is_a_successful_poll(void **state)
{
	unsigned found = 0;
	for (uint64_t offset = 9900; offset < 10200; offset++) {
		setup(state);
		script.poll_ns = 10000;
		one_halt(offset, 0, WAKE_IPI);
		if (sleeps || get(&h.stats.sources[WAKE_IPI].polled))
			continue;
		found++;
		assert_int_equal(last_sample()->wake_ns[0], POLICY_NEVER);
		assert_int_equal(get(&h.stats.successful_poll), 1);
		assert_int_equal(get(&h.stats.sources[WAKE_IPI].slept), 0);
	}
	assert_true(found > 0);
}

static void a_sleep_whose_end_has_passed_is_none(void **state)
{
	(void)state;
	script = (struct policy_plan){.poll_ns = 10000, .sleep_ns = 5000, .spin_ns = 20000};
	one_halt(15000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 0);
	assert_int_equal(last_sample()->wake_ns[0], POLICY_NEVER);
	assert_int_equal(get(&h.stats.prewakes), 0);
}

static void a_post_after_the_window_finds_a_sleeper(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	one_halt(40000, 0, WAKE_DEVICE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(slept_until, WAKE_NEVER);
	const struct policy_sample *s = last_sample();
	assert_in_range(s->event_ns, 39990, 40000);
	assert_in_range(s->wake_ns[0], LATENCY_NS, LATENCY_NS + 10);
	assert_in_range(s->poll_ns, 10000, 10000 + 2 * TURN_NS);
	assert_in_range(s->halt_ns, 43000, 43010);
	assert_int_equal(get(&h.stats.successful_poll), 0);
	assert_int_equal(get(&h.stats.attempted_poll), 1);
	assert_int_equal(get(&h.stats.wakeup), 1);
}

static void a_timer_within_the_window_is_polled_for(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	one_halt(0, 5000, WAKE_TIMER);
	assert_int_equal(sleeps, 0);
	assert_int_equal(last_sample()->source, POLICY_TIMER);
	assert_true(last_sample()->latency_ns <= 2 * TURN_NS);
}

static void the_sleep_ends_at_the_timer(void **state)
{
	(void)state;
	uint64_t start = fake_now;
	script.poll_ns = 1000;
	one_halt(0, 70000, WAKE_TIMER);
	assert_int_equal(sleeps, 1);
	assert_in_range(slept_until, start + 70000, start + 70000 + 2 * LOOK_NS);
	assert_in_range(last_sample()->wake_ns[0], LATENCY_NS, LATENCY_NS + 10);
}

static void a_prewake_sleeps_short_and_spins_to_the_timer(void **state)
{
	(void)state;
	uint64_t start = fake_now;
	script = (struct policy_plan){.sleep_ns = 60000, .spin_ns = 90000};
	one_halt(0, 70000, WAKE_TIMER);
	assert_int_equal(sleeps, 1);
	assert_in_range(slept_until, start + 60000, start + 60000 + 4 * LOOK_NS);
	const struct policy_sample *s = last_sample();
	assert_in_range(s->wake_ns[0], LATENCY_NS, LATENCY_NS + 10);
	assert_int_equal(s->wake_ns[1], POLICY_NEVER);
	assert_true(s->latency_ns <= 2 * TURN_NS);
	assert_in_range(s->spin_ns, 6800, 7100);
	assert_int_equal(get(&h.stats.prewakes), 1);
	assert_int_equal(get(&h.stats.sources[WAKE_TIMER].polled), 1);
}

static void a_spin_that_finds_nothing_sleeps_on(void **state)
{
	(void)state;
	script = (struct policy_plan){.sleep_ns = 20000, .spin_ns = 30000};
	one_halt(50000, 0, WAKE_DEVICE);
	assert_int_equal(sleeps, 2);
	assert_in_range(last_sample()->wake_ns[1], LATENCY_NS, LATENCY_NS + 10);
}

static void an_event_before_the_prewake_wakes_as_usual(void **state)
{
	(void)state;
	script = (struct policy_plan){.sleep_ns = 60000, .spin_ns = 90000};
	one_halt(10000, 70000, WAKE_IPI);
	assert_int_equal(sleeps, 1);
	assert_int_equal(get(&h.stats.prewakes), 0);
	assert_in_range(last_sample()->wake_ns[0], LATENCY_NS, LATENCY_NS + 10);
}

static void a_prewake_that_is_not_before_the_timer_is_no_prewake(void **state)
{
	(void)state;
	uint64_t start = fake_now;
	script = (struct policy_plan){.sleep_ns = 70000, .spin_ns = 90000};
	one_halt(0, 70000, WAKE_TIMER);
	assert_in_range(slept_until, start + 70000, start + 70004);
	assert_int_equal(get(&h.stats.prewakes), 0);
}

static void a_post_for_nothing_goes_on_with_the_plan_where_it_was(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	post_at[1] = fake_now + 30000; /* not for this guest */
	uint64_t deadline = fake_now + 100000;
	halt_wait(&h, ticket(), deadline);
	assert_int_equal(sleeps, 1);
	uint64_t polled = h.sample.poll_ns;
	halt_wait(&h, ticket(), deadline);
	assert_int_equal(sleeps, 2);
	assert_int_equal(h.sample.poll_ns, polled);
	halt_end(&h, WAKE_TIMER, deadline);
	assert_int_equal(get(&h.stats.halts), 1);
}

static void a_signal_ends_the_wait_and_not_the_halt(void **state)
{
	(void)state;
	signal_next = true;
	uint64_t deadline = fake_now + 100000;
	halt_wait(&h, ticket(), deadline);
	assert_int_equal(sleeps, 1);
	halt_wait(&h, ticket(), deadline);
	assert_true(fake_now >= deadline);
	assert_int_equal(get(&h.stats.halts), 1);
}

static void a_deadline_in_the_past_does_not_sleep(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	halt_wait(&h, ticket(), fake_now - 1);
	assert_int_equal(sleeps, 0);
}

static void a_request_in_the_halt_teaches_nothing(void **state)
{
	(void)state;
	uint32_t t = ticket();
	post_at[0] = fake_now + 100;
	halt_wait(&h, t, WAKE_NEVER);
	halt_disturb(&h);
	halt_end(&h, WAKE_IPI, fake_now);
	assert_int_equal(last_sample()->source, POLICY_REQUEST);
}

static void an_end_without_a_halt_is_nothing(void **state)
{
	(void)state;
	halt_end(&h, WAKE_IPI, fake_now);
	assert_int_equal(get(&h.stats.sources[WAKE_IPI].wakes), 0);
	assert_false(h.sample_pending);
}

static void a_polling_vcpu_completes_its_own_io(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	uint32_t t = ticket();
	io_done_at = fake_now + 4000;
	uint64_t done = io_done_at;
	halt_wait(&h, t, WAKE_NEVER);
	assert_true(ticket() != t);
	halt_end(&h, WAKE_DEVICE, done);
	assert_true(last_hint.io);
	assert_int_equal(sleeps, 0);
	assert_int_equal(entered, 1);
	assert_int_equal(left, 1);
	assert_int_equal(get(&h.stats.sources[WAKE_INLINE].polled), 1);
	assert_int_equal(get(&h.stats.sources[WAKE_DEVICE].wakes), 0);
}

static void a_completion_between_the_last_look_and_the_leave_is_not_slept_over(void **state)
{
	(void)state;
	script.poll_ns = 1000;
	uint32_t t = ticket();
	io_done_at = fake_now + 999; /* within the last turn: only the leave can see it */
	halt_wait(&h, t, fake_now + 50000);
	assert_int_equal(left, 1);
	assert_true(ticket() != t);
	assert_int_equal(sleeps, 0);
}

/* A halt with a request in flight, slept through; the I/O thread has completed the request, or woke for another reason.
 */
static uint64_t event_of_a_slept_halt(uint64_t event_after, bool completed)
{
	uint64_t event = fake_now + event_after;
	uint32_t t = ticket();
	post_at[0] = event;
	io_done_at = fake_now + 1000000;
	halt_wait(&h, t, WAKE_NEVER);
	if (completed)
		io_done_at = 0;
	halt_end(&h, WAKE_DEVICE, event);
	io_done_at = 0;
	return last_sample()->event_ns;
}

static void a_completion_slept_through_counts_when_a_poll_would_have_seen_it(void **state)
{
	(void)state;
	assert_in_range(event_of_a_slept_halt(40000, true), 39000, 40000); /* no poll has shown anything yet */
	script.poll_ns = 10000;
	uint32_t t = ticket();
	io_done_at = fake_now + 4000;
	uint64_t done = io_done_at;
	halt_wait(&h, t, WAKE_NEVER);
	halt_end(&h, WAKE_DEVICE, done);
	script.poll_ns = 0;
	assert_in_range(event_of_a_slept_halt(40000, true), 3900, 4000);
	assert_in_range(event_of_a_slept_halt(2000, true), 1900, 2000);
	assert_in_range(event_of_a_slept_halt(40000, false), 39000, 40000);
	/* A poll that saw nothing is believed, too: the disk has become slower. */
	script.poll_ns = 10000;
	assert_in_range(event_of_a_slept_halt(800000, true), 799000, 800000);
	script.poll_ns = 0;
	assert_in_range(event_of_a_slept_halt(90000, true), 80000, 89999);
	assert_in_range(event_of_a_slept_halt(200000, true), 103000, 104000);
}

static void a_sleeping_vcpu_completes_its_own_io(void **state)
{
	(void)state;
	uint32_t t = ticket();
	io_done_at = own_io_done_at = fake_now + 40000;
	halt_wait(&h, t, WAKE_NEVER);
	assert_true(ticket() != t);
	halt_end(&h, WAKE_DEVICE, fake_now);
	assert_int_equal(sleeps, 1);
	assert_int_equal(entered, 0);
	assert_int_equal(get(&h.stats.sources[WAKE_INLINE].slept), 1);
	assert_true(last_sample()->wake_ns[0] == POLICY_NEVER); /* the stamp was put after the wake */
	assert_true(last_sample()->wake_ns[1] == POLICY_NEVER);
}

static void without_io_in_flight_devices_are_left_alone(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	one_halt(4000, 0, WAKE_DEVICE);
	assert_false(last_hint.io);
	assert_int_equal(entered, 0);
	assert_int_equal(io_polls, 0);
	assert_int_equal(get(&h.stats.sources[WAKE_DEVICE].polled), 1);
}

static void the_hint_has_the_timer_and_the_live_limit(void **state)
{
	(void)state;
	atomic_store(&shared.max_ns, 7777);
	one_halt(0, 12345, WAKE_TIMER);
	assert_in_range(last_hint.timer_ns, 12330, 12345);
	assert_int_equal(last_hint.max_ns, 7777);
	assert_true(last_hint.may_poll);
	one_halt(10, 0, WAKE_IPI);
	assert_int_equal(last_hint.timer_ns, POLICY_NEVER);
}

/* -------------------------------------------------------------------------------- permissions */

static void check_refused(enum halt_refusal why)
{
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 1);
	assert_int_equal(get(&h.stats.attempted_poll), 0);
	for (unsigned i = 0; i < HALT_REFUSALS; i++)
		assert_int_equal(get(&h.stats.refused[i]), i == why);
	assert_false(last_hint.may_poll);
	assert_false(last_sample()->may_poll);
}

static void the_off_switch_wins(void **state)
{
	(void)state;
	script.poll_ns = 10000;
	h.guest_allows = false;
	atomic_store(&shared.off, true);
	unsigned before = asked, told = sample_count;
	one_halt(5000, 0, WAKE_IPI);
	one_halt(5000, 0, WAKE_IPI);
	for (unsigned i = 0; i < HALT_REFUSALS; i++)
		assert_int_equal(get(&h.stats.refused[i]), i == HALT_REFUSED_OFF ? 2 : 0);
	assert_int_equal(get(&h.stats.attempted_poll), 0);
	assert_int_equal(sleeps, 2);
	assert_int_equal(asked, before); /* the policy is left alone, before and after */
	assert_int_equal(sample_count, told);
	atomic_store(&shared.off, false);
	h.guest_allows = true;
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 2); /* polled again at once */
}

static void a_guest_that_polls_itself_is_not_polled_for(void **state)
{
	(void)state;
	script = (struct policy_plan){.poll_ns = 10000, .sleep_ns = 20000, .spin_ns = 30000};
	h.guest_allows = false;
	check_refused(HALT_REFUSED_GUEST);
	assert_int_equal(last_sample()->spin_ns, 0);
}

static void the_host_is_asked_again_after_some_polling(void **state)
{
	unsigned polls = 1;
	(void)state;
	script.poll_ns = 10000;
	one_halt(5000, 0, WAKE_IPI);
	h.contention.hold_until_ns = POLICY_NEVER; /* the host needs the CPU, but nobody has told us */
	while (get(&h.stats.refused[HALT_REFUSED_CONTENTION]) == 0 && polls < 100) {
		one_halt(5000, 0, WAKE_IPI);
		polls++;
	}
	assert_in_range(polls, 4, 6); /* of 5 us each, and 20 us of them are free */
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(get(&h.stats.refused[HALT_REFUSED_CONTENTION]), 2); /* a no is asked for each time */
}

static void a_gap_ends_the_poll_and_the_next_ones(void **state)
{
	(void)state;
	script.poll_ns = 500000;
	gap_at = fake_now + 1000;
	gap_ns = 200000;
	one_halt(400000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 1);
	assert_int_equal(get(&h.stats.gaps), 1);
	assert_true(last_sample()->gap_ns > 0);
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(get(&h.stats.refused[HALT_REFUSED_CONTENTION]), 1);
	fake_now += CONTENTION_HOLD_NS;
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(get(&h.stats.refused[HALT_REFUSED_CONTENTION]), 1);
	assert_int_equal(get(&h.stats.successful_poll), 1);
}

static void enough_pollers_are_enough(void **state)
{
	const struct halt_config config = {.policy = {.policy = &scripted}, .power = POWER_IGNORE, .max_pollers = 2};
	(void)state;
	setup_with(&config);
	script.poll_ns = 10000;
	atomic_store(&pollers, 1);
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(get(&h.stats.successful_poll), 1);
	assert_int_equal(atomic_load(&pollers), 1);
	atomic_store(&pollers, 2);
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(get(&h.stats.refused[HALT_REFUSED_POLLERS]), 1);
	assert_int_equal(sleeps, 1);
	assert_int_equal(atomic_load(&pollers), 2);
}

/* A storm of halts that are all polled to their end. */
static uint64_t poll_share_permille(unsigned vcpu_percent, unsigned vm_percent)
{
	const struct halt_config config = {
		.policy = {.policy = &scripted},
		.power = POWER_IGNORE,
		.vcpu_budget_percent = vcpu_percent,
		.vm_budget_percent = vm_percent,
	};
	setup_with(&config);
	script.poll_ns = 200000;
	turn_ns = 5000; /* or ten seconds take seconds */
	uint64_t start = fake_now;
	while (fake_now - start < 10000000000)
		one_halt(190000, 0, WAKE_TIMER);
	return (get(&h.stats.poll_success_ns) + get(&h.stats.poll_fail_ns)) * 1000 / (fake_now - start);
}

static void a_storm_stays_within_the_budget(void **state)
{
	(void)state;
	assert_true(poll_share_permille(0, 0) > 950);
	/* 10 s, and one full bucket to start with: 1 % more. */
	assert_in_range(poll_share_permille(20, 0), 150, 203);
	assert_true(get(&h.stats.refused[HALT_REFUSED_BUDGET]) > 0);
	assert_in_range(poll_share_permille(0, 10), 70, 102);
	assert_in_range(poll_share_permille(50, 10), 70, 102);
}

static void a_policy_that_never_polls_asks_nothing(void **state)
{
	const struct halt_config config = {.policy = {.policy = &policy_none}, .power = POWER_STRICT};
	(void)state;
	setup_with(&config);
	h.guest_allows = false;
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(h.power.reads, 0);
	assert_int_equal(get(&h.stats.refused[HALT_REFUSED_GUEST]), 0);
}

static void another_policy_is_taken_up_at_the_next_halt(void **state)
{
	struct halt_config config = {.policy = {.policy = &policy_none}};
	(void)state;
	script.poll_ns = 10000;
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 0);
	halt_shared_set(&shared, &config);
	one_halt(5000, 0, WAKE_IPI);
	assert_int_equal(sleeps, 1);
	assert_int_equal(sample_count, 1); /* the old policy has seen its last halt */
}

static void the_live_limit_cuts_every_window(void **state)
{
	(void)state;
	script = (struct policy_plan){.poll_ns = 10000, .sleep_ns = 20000, .spin_ns = 40000};
	atomic_store(&shared.max_ns, 2000);
	one_halt(60000, 0, WAKE_IPI);
	const struct policy_sample *s = last_sample();
	assert_in_range(s->poll_ns, 1900, 2100);
	assert_int_equal(s->spin_ns, 0);
}

/* --------------------------------------------------------------------------------- statistics */

static void buckets_are_those_of_kvm(void **state)
{
	static const struct {
		uint64_t ns;
		unsigned bucket;
	} rows[] = {{0, 0},           {1, 1},           {2, 2},
	            {3, 2},           {4, 3},           {1023, 10},
	            {1024, 11},       {1ull << 29, 30}, {(1ull << 30) - 1, 30},
	            {1ull << 30, 31}, {1ull << 31, 31}, {UINT64_MAX, 31}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		stat_t hist[HALT_BUCKETS] = {0};
		count_bucket(hist, rows[i].ns);
		assert_int_equal(stat_get(&hist[rows[i].bucket]), 1);
	}
}

static void words_are_parsed(void **state)
{
	struct halt_config config;
	struct lull_error err;
	const struct halt_words good = {
		.policy = "fixed:5000", .power = "strict", .budget = "20,vm=50", .max_pollers = 3};
	(void)state;
	assert_int_equal(halt_parse(&config, &good, &err), 0);
	assert_ptr_equal(config.policy.policy, &policy_fixed);
	assert_int_equal(config.power, POWER_STRICT);
	assert_int_equal(config.vcpu_budget_percent, 20);
	assert_int_equal(config.vm_budget_percent, 50);
	const char *const bad[] = {"", "101", "20%", "20,30", "vm", "vm=", "-1"};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct halt_words words = {.budget = bad[i]};
		assert_int_equal(halt_parse(&config, &words, &err), -EINVAL);
		assert_non_null(strstr(err.text, "poll-budget"));
	}
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_plan_without_polling_sleeps_at_once),
		TEST(a_post_before_the_first_look_is_a_hit_of_length_0),
		TEST(a_post_within_the_window_is_seen_without_sleeping),
		TEST(policies_are_told_what_the_host_costs),
		TEST(a_post_that_refuses_the_sleep_teaches_nothing_of_sleeps),
		TEST(a_sleep_that_was_refused_still_looks_at_completions),
		TEST(a_post_between_poll_and_sleep_is_a_successful_poll),
		TEST(a_sleep_whose_end_has_passed_is_none),
		TEST(a_post_after_the_window_finds_a_sleeper),
		TEST(a_timer_within_the_window_is_polled_for),
		TEST(the_sleep_ends_at_the_timer),
		TEST(a_prewake_sleeps_short_and_spins_to_the_timer),
		TEST(a_spin_that_finds_nothing_sleeps_on),
		TEST(an_event_before_the_prewake_wakes_as_usual),
		TEST(a_prewake_that_is_not_before_the_timer_is_no_prewake),
		TEST(a_post_for_nothing_goes_on_with_the_plan_where_it_was),
		TEST(a_signal_ends_the_wait_and_not_the_halt),
		TEST(a_deadline_in_the_past_does_not_sleep),
		TEST(a_request_in_the_halt_teaches_nothing),
		TEST(an_end_without_a_halt_is_nothing),
		TEST(a_polling_vcpu_completes_its_own_io),
		TEST(a_sleeping_vcpu_completes_its_own_io),
		TEST(a_completion_slept_through_counts_when_a_poll_would_have_seen_it),
		TEST(a_completion_between_the_last_look_and_the_leave_is_not_slept_over),
		TEST(without_io_in_flight_devices_are_left_alone),
		TEST(completions_for_others_do_not_make_a_timer_late),
		TEST(the_hint_has_the_timer_and_the_live_limit),
		TEST(the_off_switch_wins),
		TEST(a_guest_that_polls_itself_is_not_polled_for),
		TEST(the_host_is_asked_again_after_some_polling),
		TEST(a_gap_ends_the_poll_and_the_next_ones),
		TEST(enough_pollers_are_enough),
		TEST(a_storm_stays_within_the_budget),
		TEST(a_policy_that_never_polls_asks_nothing),
		TEST(another_policy_is_taken_up_at_the_next_halt),
		TEST(the_live_limit_cuts_every_window),
		TEST(buckets_are_those_of_kvm),
		TEST(words_are_parsed),
	};
	return cmocka_run_group_tests_name("halt", tests, NULL, NULL);
}
