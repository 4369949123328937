/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest_lock.c - the locks of the tiny guests, compiled for the host: who sleeps, who leaves the queue, who is
 * woken; then threads that are marked preempted at random. */
#include <sched.h>
/* Threads that wait make room: here are more of them than CPUs. */
#define __builtin_ia32_pause() ((void)sched_yield())
#include "guest-firmware/lib/lock.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#define THREADS 6u
#define PASSES  3000u

static uint8_t flags[LOCK_CPUS];
static const struct lock_host told = {.flags = flags, .stride = 1}, untold;
static struct queue_lock queue;
static struct mutex *const mutex = &queue.mutex;

static int setup(void **state)
{
	(void)state;
	memset(flags, 0, sizeof(flags));
	memset(&queue, 0, sizeof(queue));
	queue_init(&queue);
	return 0;
}

static void a_free_mutex_is_taken_though_its_last_owner_is_preempted(void **state)
{
	(void)state;
	flags[3] = 1;
	assert_true(mutex_lock(mutex, &told, 3));
	assert_int_equal(mutex_unlock(mutex, 3), LOCK_NOBODY);
	assert_true(mutex_lock(mutex, &told, 0));
	assert_int_equal(mutex->owner, 1);
}

static void nobody_spins_for_a_preempted_owner(void **state)
{
	(void)state;
	assert_true(mutex_lock(mutex, &told, 2));
	flags[2] = 1;
	assert_false(mutex_lock(mutex, &told, 1));
	assert_false(queue_lock(&queue, &told, 1));
	flags[2] = 2; /* the other bit is KVM's */
	flags[1] = 1; /* our own says nothing */
	assert_true(mutex_sleeps(mutex, 1));
	assert_true(mutex_is_asleep(mutex, 1));
	assert_int_equal(mutex_unlock(mutex, 2), 1);
	assert_false(mutex_is_asleep(mutex, 1));
}

static void who_finds_it_free_does_not_sleep(void **state)
{
	(void)state;
	assert_false(mutex_sleeps(mutex, 5));
	assert_false(mutex_is_asleep(mutex, 5));
	assert_int_equal(mutex->owner, 6);
	assert_int_equal(mutex_unlock(mutex, 5), LOCK_NOBODY);
}

static void sleepers_are_woken_one_by_one_and_in_turn(void **state)
{
	static const int order[] = {9, 15, 0, 4, LOCK_NOBODY};
	(void)state;
	assert_true(mutex_lock(mutex, &told, 7));
	assert_true(mutex_sleeps(mutex, 0));
	assert_true(mutex_sleeps(mutex, 4));
	assert_true(mutex_sleeps(mutex, 9));
	assert_true(mutex_sleeps(mutex, 15));
	unsigned from = 7;
	for (unsigned i = 0; i < 5; i++) {
		int who = mutex_wake(mutex, from);
		assert_int_equal(who, order[i]);
		from = (unsigned)who;
	}
}

/* CPU `cpu` in line, as after its first steps. */
static void stands_in_line(unsigned cpu)
{
	assert_false(line_up(&queue, cpu));
}

static void the_turn_goes_round_in_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5 * LOCK_SLOTS; i++) {
		assert_true(line_up(&queue, 0));
		stands_in_line(1);
		stands_in_line(2);
		pass_turn(&queue, 0);
		assert_true(wait_for_turn(&queue, &told, 1));
		pass_turn(&queue, 1);
		assert_true(wait_for_turn(&queue, &told, 2));
		pass_turn(&queue, 2);
	}
	assert_int_equal(queue.tickets, 15 * LOCK_SLOTS);
}

static void who_stands_behind_a_preempted_one_leaves(void **state)
{
	(void)state;
	assert_true(line_up(&queue, 0));
	stands_in_line(1);
	stands_in_line(2);
	flags[1] = 1;
	assert_false(front_is_preempted(&queue, &told, 1));
	assert_true(front_is_preempted(&queue, &told, 2));
	assert_false(front_is_preempted(&queue, &untold, 2));
	assert_false(wait_for_turn(&queue, &told, 2));
	flags[1] = 0;
	flags[0] = 1; /* the first one */
	assert_false(wait_for_turn(&queue, &told, 1));
	/* Both are passed over; the next one has its turn at once. */
	pass_turn(&queue, 0);
	assert_true(line_up(&queue, 3));
	pass_turn(&queue, 3);
}

static void who_stands_behind_one_that_left_looks_past_him(void **state)
{
	(void)state;
	assert_true(line_up(&queue, 0));
	stands_in_line(1);
	stands_in_line(2);
	flags[0] = 1;
	assert_false(wait_for_turn(&queue, &told, 1));
	assert_true(front_is_preempted(&queue, &told, 2));
	flags[0] = 0;
	flags[1] = 1; /* he is not in the way any more */
	assert_false(front_is_preempted(&queue, &told, 2));
	pass_turn(&queue, 0);
	assert_true(wait_for_turn(&queue, &told, 2));
}

static void who_comes_back_in_time_has_his_place_again(void **state)
{
	(void)state;
	assert_true(line_up(&queue, 0));
	stands_in_line(1);
	flags[0] = 1;
	assert_false(wait_for_turn(&queue, &told, 1));
	for (unsigned i = 0; i < 100; i++) { /* draws no other ticket, however often */
		stands_in_line(1);
		assert_false(wait_for_turn(&queue, &told, 1));
	}
	stands_in_line(2);
	stands_in_line(1);
	assert_int_equal(queue.tickets, 3);
	pass_turn(&queue, 0);
	assert_true(wait_for_turn(&queue, &told, 1));
	pass_turn(&queue, 1);
	assert_true(wait_for_turn(&queue, &told, 2));
	pass_turn(&queue, 2);
	assert_true(line_up(&queue, 1)); /* and a new one when the old one is used */
}

/* Nobody waits: the next ticket has its turn, and nothing else is left. */
static void assert_is_at_rest(void)
{
	for (unsigned i = 0; i < LOCK_SLOTS; i++)
		assert_int_equal(queue.slot[i] & ~(uint32_t)GONE & ~(uint32_t)WHOSE,
		                 i == queue.tickets % LOCK_SLOTS ? TURN : FREE);
}

static void who_comes_back_too_late_gets_a_new_ticket(void **state)
{
	(void)state;
	assert_true(line_up(&queue, 0));
	stands_in_line(1);
	flags[0] = 1;
	assert_false(wait_for_turn(&queue, &told, 1));
	pass_turn(&queue, 0);
	assert_true(line_up(&queue, 1));
	assert_int_equal(queue.tickets, 3);
	pass_turn(&queue, 1);
	assert_is_at_rest();
}

/* ------------------------------------------------------------------------------------ threads */

static uint64_t guarded;
static bool with_queue;
static uint32_t inside, crowds, sleeps;
static pthread_barrier_t start;

static void one_pass(unsigned cpu, bool linger)
{
	for (;;) {
		if (with_queue ? queue_lock(&queue, &told, cpu) : mutex_lock(mutex, &told, cpu))
			break;
		if (!mutex_sleeps(mutex, cpu))
			break;
		__atomic_fetch_add(&sleeps, 1, __ATOMIC_RELAXED);
		while (mutex_is_asleep(mutex, cpu)) /* who is not woken stays here: the test times out */
			sched_yield();
	}
	crowds += __atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED) != 0;
	guarded++;
	if (linger) /* the others come meanwhile */
		sched_yield();
	__atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
	mutex_unlock(mutex, cpu);
}

static void *compete(void *arg)
{
	unsigned cpu = (unsigned)(uintptr_t)arg, dice = cpu * 7919 + 1;
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < PASSES; i++) {
		dice = dice * 1103515245 + 12345;
		__atomic_store_n(&flags[cpu], dice >> 16 & 1, __ATOMIC_RELAXED);
		one_pass(cpu, dice >> 20 & 1);
	}
	return NULL;
}

static void race(bool queued)
{
	pthread_t threads[THREADS];
	setup(NULL);
	pthread_barrier_init(&start, NULL, THREADS);
	with_queue = queued;
	guarded = crowds = sleeps = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, compete, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	assert_int_equal(guarded, THREADS * PASSES);
	assert_int_equal(crowds, 0);
	assert_int_equal(mutex->sleepers, 0);
	if (queued)
		assert_is_at_rest();
	assert_true(sleeps > 0);
}

static void threads_share_a_mutex(void **state)
{
	(void)state;
	race(false);
}

static void threads_share_a_queue(void **state)
{
	(void)state;
	race(true);
}

static void *add_up(void *arg)
{
	for (unsigned i = 0; i < PASSES; i++) {
		spin_lock(arg);
		guarded++;
		spin_unlock(arg);
	}
	return NULL;
}

static void threads_share_a_spinlock(void **state)
{
	static struct spinlock spin;
	pthread_t threads[2];
	(void)state;
	guarded = 0;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_up, &spin), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(guarded, 2 * PASSES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_free_mutex_is_taken_though_its_last_owner_is_preempted, setup),
		cmocka_unit_test_setup(nobody_spins_for_a_preempted_owner, setup),
		cmocka_unit_test_setup(who_finds_it_free_does_not_sleep, setup),
		cmocka_unit_test_setup(sleepers_are_woken_one_by_one_and_in_turn, setup),
		cmocka_unit_test_setup(the_turn_goes_round_in_order, setup),
		cmocka_unit_test_setup(who_stands_behind_a_preempted_one_leaves, setup),
		cmocka_unit_test_setup(who_stands_behind_one_that_left_looks_past_him, setup),
		cmocka_unit_test_setup(who_comes_back_in_time_has_his_place_again, setup),
		cmocka_unit_test_setup(who_comes_back_too_late_gets_a_new_ticket, setup),
		cmocka_unit_test(threads_share_a_mutex),
		cmocka_unit_test(threads_share_a_queue),
		cmocka_unit_test(threads_share_a_spinlock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
