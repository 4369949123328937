/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wake protocol under every interleaving. vmm/wake.c itself is compiled here with a step() before each of its
 * atomic operations and system calls. Owner, posters, clock and signals are coroutines that stop at each step, and a
 * scheduler runs all orders of them, depth first; a lost wakeup is then simply a state in which nobody can run.
 * Two stress tests with real threads and the real futex follow; the thread sanitizer sees them too.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

static void step(void);
static long test_syscall(long number, ...);

#undef atomic_load_explicit
#undef atomic_store
#undef atomic_fetch_and
#undef atomic_fetch_or
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load_explicit(p, order) (step(), __c11_or_gnu_load(p, order))
#define atomic_store(p, v)             (step(), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_and(p, v)         (step(), atomic_fetch_and_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_or(p, v)          (step(), atomic_fetch_or_explicit(p, v, memory_order_seq_cst))
#define atomic_exchange(p, v)          (step(), atomic_exchange_explicit(p, v, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, e, v)                                                                        \
	(step(), atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst))
#define atomic_compare_exchange_weak(p, e, v)                                                                          \
	(step(), atomic_compare_exchange_weak_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst))
#ifdef __clang__
#define __c11_or_gnu_load(p, order) __c11_atomic_load(p, order)
#else
#define __c11_or_gnu_load(p, order) __atomic_load_n(p, order)
#endif
#define syscall test_syscall

#include "../../vmm/wake.c"

#undef syscall

/* ---- the scheduler ---- */

enum {
	OWNER,
	FIRST,
	SECOND,
	CLOCK,
	ACTORS
};
enum {
	DEPTH_MAX = 200,
	STACK_BYTES = 64 * 1024
};

enum blocked {
	NOT,
	IN_FUTEX,
	IN_GUEST,
	DONE
};

struct actor {
	void (*body)(void);
	enum blocked blocked;
	bool fresh; /* stands at the start of its body: can be started again */
	void *fiber;
	ucontext_t ctx;
	_Alignas(16) char stack[STACK_BYTES];
};

static struct {
	struct actor actors[ACTORS];
	ucontext_t main;
	void *main_fiber;
	struct actor *running; /* NULL: no coroutine, step() does nothing */
	/* the schedule: which of the runnable actors goes on at each depth, the one that just ran being number 0 */
	unsigned choice[DEPTH_MAX], options[DEPTH_MAX], depth, schedules;
	/* what happened in one run */
	struct wake wake;
	int futex_errno; /* of the sleep that ended */
	bool kicked;     /* a signal is pending or immediate_exit is set */
	unsigned work, consumed, sleeps, naps, entries, futex_wakes, kicks, timeouts,
		interrupts; /* naps: real sleeps */
} s;

#ifdef __SANITIZE_THREAD__
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#else
#define __tsan_get_current_fiber()           NULL
#define __tsan_create_fiber(flags)           NULL
#define __tsan_destroy_fiber(fiber)          ((void)(fiber))
#define __tsan_switch_to_fiber(fiber, flags) ((void)(fiber))
#endif

static void step(void)
{
	struct actor *a = s.running;

	if (!a)
		return;
	s.running = NULL;
	__tsan_switch_to_fiber(s.main_fiber, 0);
	swapcontext(&a->ctx, &s.main);
}

static void block_until_released(enum blocked how)
{
	s.running->blocked = how;
	step();
}

static void actor_main(void)
{
	for (;;) {
		s.running->body();
		block_until_released(DONE);
	}
}

static void start(unsigned who, void (*body)(void))
{
	struct actor *a = &s.actors[who];

	if (!a->fresh) {
		s.main_fiber = __tsan_get_current_fiber();
		a->fiber = __tsan_create_fiber(0);
		getcontext(&a->ctx);
		a->ctx.uc_stack.ss_sp = a->stack;
		a->ctx.uc_stack.ss_size = STACK_BYTES;
		makecontext(&a->ctx, actor_main, 0);
		a->fresh = true;
	}
	a->body = body;
	a->blocked = NOT;
}

/* After a lost wakeup the coroutines stand somewhere in their bodies. */
static void abandon_all(void)
{
	for (unsigned i = 0; i < ACTORS; i++) {
		if (s.actors[i].fresh)
			__tsan_destroy_fiber(s.actors[i].fiber);
		s.actors[i].fresh = false;
	}
}

static void go_on(struct actor *a)
{
	s.running = a;
	__tsan_switch_to_fiber(a->fiber, 0);
	swapcontext(&s.main, &a->ctx);
}

/* One run of the schedule in s.choice. False: somebody waits and nobody is left who could end that. Beyond max_switches
 * switches away from an actor that could have gone on, the actor that runs goes on. */
static bool run_once(unsigned max_switches)
{
	struct actor *last = NULL, *can[ACTORS];
	unsigned switches = 0, depth = 0;

	for (;;) {
		unsigned n = 0, unfinished = 0, pick = 0;

		if (last && last->blocked == NOT)
			can[n++] = last;
		for (unsigned i = 0; i < ACTORS; i++) {
			struct actor *a = &s.actors[i];

			unfinished += a->body && a->blocked != DONE;
			if (a->body && a->blocked == NOT && a != last)
				can[n++] = a;
		}
		if (n == 0) {
			s.depth = depth;
			return unfinished == 0;
		}
		if (n > 1) {
			assert_true(depth < DEPTH_MAX);
			if (last && can[0] == last && switches == max_switches)
				n = 1;
			s.options[depth] = n;
			pick = s.choice[depth++];
			switches += pick > 0 && can[0] == last;
		}
		last = can[pick];
		go_on(last);
	}
}

/* The next schedule, depth first. False: that was the last one. */
static bool next_schedule(void)
{
	s.schedules++;
	while (s.depth > 0) {
		unsigned d = s.depth - 1;

		if (++s.choice[d] < s.options[d])
			return true;
		s.choice[d] = 0;
		s.depth--;
	}
	return false;
}

/* The system calls of wake.c: the futex as the kernel has it when a coroutine runs, else the real one. */
static long test_syscall(long number, ...)
{
	va_list ap;
	uint32_t *word, value;
	const void *timeout;
	int op;

	va_start(ap, number);
	word = va_arg(ap, uint32_t *);
	op = va_arg(ap, int);
	value = va_arg(ap, uint32_t);
	timeout = op == FUTEX_WAIT_BITSET_PRIVATE ? va_arg(ap, const void *) : NULL;
	va_end(ap);
	if (!s.running)
		return syscall(number, word, op, value, timeout, NULL, FUTEX_BITSET_MATCH_ANY);

	step();
	if (op == FUTEX_WAKE_PRIVATE) {
		s.futex_wakes++;
		if (s.actors[OWNER].blocked == IN_FUTEX) {
			s.futex_errno = 0;
			s.actors[OWNER].blocked = NOT;
		}
		return 1;
	}
	if (*word != value) {
		errno = EAGAIN;
		return -1;
	}
	s.naps++;
	block_until_released(IN_FUTEX);
	errno = s.futex_errno;
	return s.futex_errno ? -1 : 0;
}

/* ---- the actors ---- */

static void kick(void *ctx)
{
	step();
	(*(unsigned *)ctx)++;
	s.kicked = true;
	if (s.actors[OWNER].blocked == IN_GUEST)
		s.actors[OWNER].blocked = NOT;
}

/* KVM_RUN: comes back when a signal is pending or immediate_exit is set, and leaves neither. A kick that was sent for
 * an earlier entry may end this one: spurious, harmless. */
static void guest(void)
{
	step();
	if (!s.kicked)
		block_until_released(IN_GUEST);
	s.kicked = false;
}

static bool take_work(void)
{
	unsigned found;

	step();
	found = s.work;
	s.work = 0;
	s.consumed += found;
	return found > 0;
}

static void owner_sleeps(unsigned posts)
{
	while (s.consumed < posts) {
		uint32_t ticket = wake_ticket(&s.wake);
		int ret;

		if (take_work())
			continue;
		s.sleeps++;
		unsigned naps = s.naps;
		ret = wake_block(&s.wake, ticket, WAKE_NEVER);
		assert_int_equal(ret == -EAGAIN, s.naps == naps);
		s.timeouts += ret == -ETIMEDOUT;
		s.interrupts += ret == -EINTR;
		assert_int_equal(s.wake.word & WAKE_STATE_MASK, WAKE_LOOKING);
		assert_true((ret != 0 && ret != -EAGAIN) || s.wake.word != ticket);
	}
}

static void owner_enters(unsigned posts)
{
	while (s.consumed < posts) {
		uint32_t ticket = wake_ticket(&s.wake);

		if (take_work())
			continue;
		if (wake_enter(&s.wake, ticket)) {
			s.entries++;
			guest();
		}
	}
}

static void sleeps_for_one(void)
{
	owner_sleeps(1);
}

static void sleeps_for_two(void)
{
	owner_sleeps(2);
}

static void enters_for_one(void)
{
	owner_enters(1);
}

static void enters_for_two(void)
{
	owner_enters(2);
}

/* A guest that is left for its own reasons as well, then halts: sleeps and entries in turn. */
static void enters_and_sleeps(void)
{
	while (s.consumed < 2) {
		uint32_t ticket = wake_ticket(&s.wake);

		if (take_work())
			continue;
		if (wake_enter(&s.wake, ticket)) {
			s.entries++;
			step();
			s.kicked = false; /* an exit of the guest's own */
		}
		ticket = wake_ticket(&s.wake);
		if (take_work())
			continue;
		s.sleeps++;
		wake_block(&s.wake, ticket, WAKE_NEVER);
	}
}

static void looks_before_the_ticket(void)
{
	while (s.consumed < 1) {
		uint32_t ticket;

		if (take_work())
			continue;
		ticket = wake_ticket(&s.wake);
		s.sleeps++;
		wake_block(&s.wake, ticket, WAKE_NEVER);
	}
}

static void posts_one(void)
{
	step();
	s.work++;
	wake_post(&s.wake, WAKE_DEVICE, 7);
}

static void posts_two(void)
{
	posts_one();
	posts_one();
}

static void posts_before_publishing(void)
{
	wake_post(&s.wake, WAKE_DEVICE, 7);
	step();
	s.work++;
}

static void end_of_sleep(int err)
{
	step();
	if (s.actors[OWNER].blocked == IN_FUTEX) {
		s.futex_errno = err;
		s.actors[OWNER].blocked = NOT;
	}
}

static void deadline_passes(void)
{
	end_of_sleep(ETIMEDOUT);
}

static void signal_arrives(void)
{
	end_of_sleep(EINTR);
}

static void futex_wakes_for_nothing(void)
{
	end_of_sleep(0);
}

struct cast {
	void (*owner)(void), (*first)(void), (*second)(void), (*clock)(void);
	unsigned posts, max_switches;
};

enum {
	EVERY_ORDER = 1000
};

/* Runs all schedules of this cast. False: one of them lost a wakeup. */
static bool holds(struct cast c)
{
	bool more = true;

	memset(s.choice, 0, sizeof(s.choice));
	for (s.schedules = 0; more; more = next_schedule()) {
		s.work = s.consumed = s.sleeps = s.entries = s.futex_wakes = s.kicks = s.timeouts = s.interrupts = 0;
		s.kicked = false;
		wake_init(&s.wake, kick, &s.kicks);
		for (unsigned i = 0; i < ACTORS; i++)
			s.actors[i].body = NULL;
		start(OWNER, c.owner);
		start(FIRST, c.first);
		if (c.second)
			start(SECOND, c.second);
		if (c.clock)
			start(CLOCK, c.clock);
		if (!run_once(c.max_switches)) {
			abandon_all();
			return false;
		}
		assert_int_equal(s.consumed, c.posts);
		assert_int_equal(s.wake.word / ONE_POST, c.posts);
		assert_in_range(s.futex_wakes, 0, s.sleeps);
		assert_in_range(s.kicks, 0, s.entries);
		assert_in_range(s.timeouts + s.interrupts, 0, 1);
	}
	return true;
}

static void a_post_at_every_step_ends_the_sleep(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_one, posts_one, NULL, NULL, 1, EVERY_ORDER}));
	assert_true(s.schedules > 200);
}

static void a_post_at_every_step_ends_the_guest(void **state)
{
	(void)state;
	assert_true(holds((struct cast){enters_for_one, posts_one, NULL, NULL, 1, EVERY_ORDER}));
	assert_true(s.schedules > 200);
}

static void two_posts_of_one_thread_end_the_sleep(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_two, posts_two, NULL, NULL, 2, 5}));
}

static void two_posts_of_one_thread_end_the_guest(void **state)
{
	(void)state;
	assert_true(holds((struct cast){enters_for_two, posts_two, NULL, NULL, 2, 5}));
}

static void posts_of_two_threads_end_the_sleep(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_two, posts_one, posts_one, NULL, 2, 3}));
}

static void posts_of_two_threads_end_the_guest(void **state)
{
	(void)state;
	assert_true(holds((struct cast){enters_for_two, posts_one, posts_one, NULL, 2, 3}));
}

static void a_late_kick_of_a_guest_that_was_left_does_not_hide_later_posts(void **state)
{
	(void)state;
	assert_true(holds((struct cast){enters_and_sleeps, posts_two, NULL, NULL, 2, 5}));
}

static void a_post_beside_the_deadline_is_not_lost(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_one, posts_one, NULL, deadline_passes, 1, 4}));
}

static void a_post_beside_a_signal_is_not_lost(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_one, posts_one, NULL, signal_arrives, 1, 4}));
}

static void a_futex_wake_meant_for_an_earlier_sleep_does_not_end_this_one(void **state)
{
	(void)state;
	assert_true(holds((struct cast){sleeps_for_one, posts_one, NULL, futex_wakes_for_nothing, 1, 4}));
}

/* The harness finds the mistakes it is there for. */
static void looking_before_the_ticket_is_found_to_lose_a_wakeup(void **state)
{
	(void)state;
	assert_false(holds((struct cast){looks_before_the_ticket, posts_one, NULL, NULL, 1, EVERY_ORDER}));
}

static void posting_before_publishing_is_found_to_lose_a_wakeup(void **state)
{
	(void)state;
	assert_false(holds((struct cast){sleeps_for_one, posts_before_publishing, NULL, NULL, 1, EVERY_ORDER}));
}

/* ---- single calls ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void count_kick(void *ctx)
{
	++*(unsigned *)ctx;
}

static void a_post_after_the_ticket_refuses_sleep_and_entry(void **state)
{
	struct wake w;
	uint32_t ticket;

	(void)state;
	wake_init(&w, NULL, NULL);
	ticket = wake_ticket(&w);
	assert_false(wake_posted(&w, ticket));
	assert_int_equal(wake_post(&w, WAKE_IPI, 1), WAKE_LOOKING);
	assert_true(wake_posted(&w, ticket));
	assert_int_equal(wake_block(&w, ticket, WAKE_NEVER), -EAGAIN);
	assert_false(wake_enter(&w, ticket));
	assert_true(wake_enter(&w, wake_ticket(&w)));
}

static void only_the_first_of_many_posts_kicks(void **state)
{
	unsigned kicks = 0;
	struct wake w;

	(void)state;
	wake_init(&w, count_kick, &kicks);
	assert_true(wake_enter(&w, wake_ticket(&w)));
	assert_int_equal(wake_post(&w, WAKE_IPI, 1), WAKE_IN_GUEST);
	assert_int_equal(wake_post(&w, WAKE_IPI, 1), WAKE_LOOKING);
	assert_int_equal(kicks, 1);
}

static void a_guest_left_without_a_kick_is_not_kicked_any_more(void **state)
{
	unsigned kicks = 0;
	struct wake w;

	(void)state;
	wake_init(&w, count_kick, &kicks);
	assert_true(wake_enter(&w, wake_ticket(&w)));
	wake_ticket(&w);
	assert_int_equal(wake_post(&w, WAKE_IPI, 1), WAKE_LOOKING);
	assert_int_equal(kicks, 0);
}

static void the_deadline_is_absolute_and_monotonic(void **state)
{
	uint64_t start_ns = now_ns();
	struct wake w;

	(void)state;
	wake_init(&w, NULL, NULL);
	assert_int_equal(wake_block(&w, wake_ticket(&w), start_ns + 3000000), -ETIMEDOUT);
	assert_true(now_ns() >= start_ns + 3000000);
	assert_int_equal(wake_block(&w, wake_ticket(&w), 0), -ETIMEDOUT);
	assert_int_equal(wake_post(&w, WAKE_TIMER, 1), WAKE_LOOKING);
}

static void causes_and_the_first_stamp_are_taken_once(void **state)
{
	struct wake w;
	uint64_t stamp;

	(void)state;
	wake_init(&w, NULL, NULL);
	assert_int_equal(wake_take(&w, &stamp), 0);
	assert_int_equal(stamp, 0);
	wake_post(&w, WAKE_TIMER, 100);
	wake_post(&w, WAKE_NMI, 200);
	assert_int_equal(wake_take(&w, &stamp), 1u << WAKE_TIMER | 1u << WAKE_NMI);
	assert_int_equal(stamp, 100);
	assert_int_equal(wake_take(&w, &stamp), 0);
	assert_int_equal(stamp, 0);
	wake_post(&w, WAKE_IPI, 0);
	assert_int_equal(wake_take(&w, &stamp), 1u << WAKE_IPI);
	assert_int_equal(stamp, 1);
}

static void the_count_wraps_without_touching_the_state(void **state)
{
	struct wake w;
	uint32_t ticket;

	(void)state;
	wake_init(&w, NULL, NULL);
	atomic_store(&w.word, UINT32_MAX & ~(uint32_t)WAKE_STATE_MASK);
	ticket = wake_ticket(&w);
	assert_true(wake_enter(&w, ticket));
	assert_int_equal(wake_post(&w, WAKE_IPI, 1), WAKE_IN_GUEST);
	assert_int_equal(wake_ticket(&w), 0);
	assert_int_equal(wake_block(&w, ticket, WAKE_NEVER), -EAGAIN);
}

/* ---- real threads ---- */

enum {
	ROUNDS = 20000
};

/* Two threads, each the owner of one word and the poster of the other's. ball is plain memory: only the words order
 * the accesses to it, which the thread sanitizer checks. */
static struct {
	struct wake wake[2];
	unsigned ball;
} pong;

static void play(unsigned me, uint32_t ticket)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		while (!wake_posted(&pong.wake[me], ticket))
			wake_block(&pong.wake[me], ticket, WAKE_NEVER);
		ticket = wake_ticket(&pong.wake[me]);
		pong.ball++;
		wake_post(&pong.wake[!me], WAKE_IPI, 1);
	}
}

static void *player(void *arg)
{
	(void)arg;
	play(1, 0);
	return NULL;
}

static void the_word_alone_orders_what_is_published(void **state)
{
	pthread_t thread;

	(void)state;
	wake_init(&pong.wake[0], NULL, NULL);
	wake_init(&pong.wake[1], NULL, NULL);
	assert_int_equal(wake_ticket(&pong.wake[1]), 0); /* player 1's ticket, taken before anybody posts */
	assert_int_equal(pthread_create(&thread, NULL, player, NULL), 0);
	wake_post(&pong.wake[0], WAKE_IPI, 1);
	play(0, 0);
	pthread_join(thread, NULL);
	assert_int_equal(pong.ball, 2 * ROUNDS);
}

static struct {
	struct wake wake;
	pthread_t owner;
	atomic_uint work, wakes;
} stress;

static void kick_by_signal(void *ctx)
{
	(void)ctx;
	pthread_kill(stress.owner, SIGUSR1);
}

static void *poster(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		atomic_fetch_add(&stress.work, 1);
		if (wake_post(&stress.wake, WAKE_DEVICE, 1) != WAKE_LOOKING)
			atomic_fetch_add(&stress.wakes, 1);
	}
	return NULL;
}

static void two_posters_never_lose_a_wakeup_of_an_owner_that_sleeps_enters_and_times_out(void **state)
{
	unsigned consumed = 0, waits = 0;
	pthread_t posters[2];
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* stays pending: the "guest" below cannot miss it */
	stress.owner = pthread_self();
	wake_init(&stress.wake, kick_by_signal, NULL);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&posters[i], NULL, poster, NULL), 0);
	for (unsigned i = 0; consumed < 2 * ROUNDS; i++) {
		uint32_t ticket = wake_ticket(&stress.wake);
		unsigned found = atomic_exchange(&stress.work, 0);

		consumed += found;
		if (found)
			continue;
		waits++;
		if (i % 3 == 0 && wake_enter(&stress.wake, ticket))
			sigwaitinfo(&set, NULL);
		else
			wake_block(&stress.wake, ticket, i % 3 == 1 ? now_ns() + 20000 : WAKE_NEVER);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(posters[i], NULL);
	assert_int_equal(consumed, 2 * ROUNDS);
	assert_true(stress.wakes <= waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_post_at_every_step_ends_the_sleep),
		cmocka_unit_test(a_post_at_every_step_ends_the_guest),
		cmocka_unit_test(two_posts_of_one_thread_end_the_sleep),
		cmocka_unit_test(two_posts_of_one_thread_end_the_guest),
		cmocka_unit_test(posts_of_two_threads_end_the_sleep),
		cmocka_unit_test(posts_of_two_threads_end_the_guest),
		cmocka_unit_test(a_late_kick_of_a_guest_that_was_left_does_not_hide_later_posts),
		cmocka_unit_test(a_post_beside_the_deadline_is_not_lost),
		cmocka_unit_test(a_post_beside_a_signal_is_not_lost),
		cmocka_unit_test(a_futex_wake_meant_for_an_earlier_sleep_does_not_end_this_one),
		cmocka_unit_test(looking_before_the_ticket_is_found_to_lose_a_wakeup),
		cmocka_unit_test(posting_before_publishing_is_found_to_lose_a_wakeup),
		cmocka_unit_test(a_post_after_the_ticket_refuses_sleep_and_entry),
		cmocka_unit_test(only_the_first_of_many_posts_kicks),
		cmocka_unit_test(a_guest_left_without_a_kick_is_not_kicked_any_more),
		cmocka_unit_test(the_deadline_is_absolute_and_monotonic),
		cmocka_unit_test(causes_and_the_first_stamp_are_taken_once),
		cmocka_unit_test(the_count_wraps_without_touching_the_state),
		cmocka_unit_test(the_word_alone_orders_what_is_published),
		cmocka_unit_test(two_posters_never_lose_a_wakeup_of_an_owner_that_sleeps_enters_and_times_out),
	};

	return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
