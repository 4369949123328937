/* SPDX-License-Identifier: Apache-2.0 */
/* test_wake_watch.c - a sleep that ends when the kernel, on the sleeper's own thread, wrote a word: here as in a disk,
 * the tail of a completion queue of io_uring. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool without_waitv;
static long test_syscall(long number, ...);
#define syscall test_syscall
#include "../../vmm/wake.c"
#undef syscall

#include "clock.h"

#include <liburing.h>

enum {
	LONG_NS = 2000000000, /* nothing here takes so long, and no test waits for it in vain */
	SHORT_NS = 2000000,
};

static long test_syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_futex_waitv && without_waitv) {
		errno = ENOSYS;
		return -1;
	}
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static struct wake w;
static struct io_uring ring;
static int ends[2];

static struct wake_watch tail_of_the_ring(void)
{
	return (struct wake_watch){ring.cq.ktail, *ring.cq.khead};
}

static bool has_completion(void)
{
	return __atomic_load_n(ring.cq.ktail, __ATOMIC_ACQUIRE) != *ring.cq.khead;
}

static int setup(void **state)
{
	(void)state;
	without_waitv = false;
	wake_init(&w, NULL, NULL);
	if (pipe(ends) < 0)
		return -1;
	if (io_uring_queue_init(4, &ring, 0) == 0)
		return 0;
	close(ends[0]);
	close(ends[1]);
	ends[0] = -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (ends[0] < 0)
		return 0;
	io_uring_queue_exit(&ring);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static bool waitv_is_there(void)
{
	return !(syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS) && ends[0] >= 0;
}

/* A request of this thread that ends when something is written. */
static void read_from_the_pipe(void)
{
	static char byte;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, ends[0], &byte, 1, 0);
	assert_int_equal(io_uring_submit(&ring), 1);
	assert_false(has_completion());
}

static void *write_when_asleep(void *arg)
{
	(void)arg;
	while ((atomic_load(&w.word) & WAKE_STATE_MASK) != WAKE_ASLEEP)
		sched_yield();
	assert_int_equal(write(ends[1], "x", 1), 1);
	return NULL;
}

static void a_completion_on_the_sleepers_thread_ends_the_sleep(void **state)
{
	(void)state;
	if (!waitv_is_there())
		skip();
	for (unsigned i = 0; i < 100; i++) {
		pthread_t writer;
		read_from_the_pipe();
		const struct wake_watch watch = tail_of_the_ring();
		assert_int_equal(pthread_create(&writer, NULL, write_when_asleep, NULL), 0);
		uint32_t ticket = wake_ticket(&w);
		assert_int_equal(wake_block_watching(&w, ticket, clock_ns() + LONG_NS, &watch, 1), -EINTR);
		pthread_join(writer, NULL);
		assert_true(has_completion());
		assert_false(wake_posted(&w, ticket)); /* and the owner is looking again */
		io_uring_cq_advance(&ring, 1);
	}
}

static void a_word_that_has_changed_already_prevents_the_sleep(void **state)
{
	uint32_t word = 1;
	const struct wake_watch watch = {&word, 0};

	(void)state;
	if (!waitv_is_there())
		skip();
	assert_int_equal(wake_block_watching(&w, wake_ticket(&w), clock_ns() + LONG_NS, &watch, 1), -EINTR);
}

static void the_deadline_ends_it_as_without_a_watch(void **state)
{
	const uint32_t word = 0;
	const struct wake_watch watch = {&word, 0};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t until = clock_ns() + SHORT_NS;
		without_waitv = i == 1;
		assert_int_equal(wake_block_watching(&w, wake_ticket(&w), until, &watch, 1), -ETIMEDOUT);
		assert_true(clock_ns() >= until);
	}
}

static void *post_when_asleep(void *arg)
{
	(void)arg;
	while ((atomic_load(&w.word) & WAKE_STATE_MASK) != WAKE_ASLEEP)
		sched_yield();
	wake_post(&w, WAKE_IPI, 1);
	return NULL;
}

static void a_post_ends_it_as_without_a_watch(void **state)
{
	const uint32_t word = 0;
	const struct wake_watch watch = {&word, 0};

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		pthread_t poster;
		without_waitv = i % 2;
		assert_int_equal(pthread_create(&poster, NULL, post_when_asleep, NULL), 0);
		assert_int_equal(wake_block_watching(&w, wake_ticket(&w), WAKE_NEVER, &watch, 1), 0);
		pthread_join(poster, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_completion_on_the_sleepers_thread_ends_the_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(a_word_that_has_changed_already_prevents_the_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(the_deadline_ends_it_as_without_a_watch, setup, teardown),
		cmocka_unit_test_setup_teardown(a_post_ends_it_as_without_a_watch, setup, teardown),
	};
	return cmocka_run_group_tests_name("wake_watch", tests, NULL, NULL);
}
