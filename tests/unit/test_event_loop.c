/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop, with real descriptors. */
#include "event_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
	struct event_loop loop;
	struct event_source a, b, end;
	unsigned calls_a, calls_b;
	uint32_t events;
};

static int event(unsigned count)
{
	int fd = eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(fd >= 0);
	return fd;
}

static void on_end(void *ctx, uint32_t events)
{
	struct rig *rig = ctx;
	(void)events;
	event_loop_stop(&rig->loop);
}

static void on_a(void *ctx, uint32_t events)
{
	struct rig *rig = ctx;
	rig->events = events;
	rig->calls_a++;
	event_loop_set(&rig->loop, &rig->a, 0);
	event_loop_set(&rig->loop, &rig->b, 0);
	event_loop_set(&rig->loop, &rig->end, EPOLLIN);
}

static void on_b(void *ctx, uint32_t events)
{
	struct rig *rig = ctx;
	rig->calls_b++;
	on_a(ctx, events);
	rig->calls_a--;
}

static int set_up(void **state)
{
	static struct rig rig;
	memset(&rig, 0, sizeof(rig));
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.a = (struct event_source){.fd = event(1), .fn = on_a, .ctx = &rig};
	rig.b = (struct event_source){.fd = event(1), .fn = on_b, .ctx = &rig};
	rig.end = (struct event_source){.fd = event(1), .fn = on_end, .ctx = &rig};
	*state = &rig;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *rig = *state;
	event_loop_fini(&rig->loop);
	close(rig->a.fd);
	close(rig->b.fd);
	close(rig->end.fd);
	return 0;
}

static void a_callback_gets_its_events(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN | EPOLLOUT), 0);
	event_loop_run(&rig->loop);
	assert_int_equal(rig->calls_a, 1);
	assert_int_equal(rig->events, EPOLLIN | EPOLLOUT);
}

/* Both are ready at the same time, and the first one called removes both. */
static void a_source_removed_by_another_is_not_called(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->b, EPOLLIN), 0);
	event_loop_run(&rig->loop);
	assert_int_equal(rig->calls_a + rig->calls_b, 1);
}

static void a_change_replaces_what_is_waited_for(void **state)
{
	struct rig *rig = *state;
	uint64_t count;
	assert_int_equal(read(rig->a.fd, &count, 8), 8); /* writable, not readable */
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLOUT), 0);
	event_loop_run(&rig->loop);
	assert_int_equal(rig->events, EPOLLOUT);
}

static void removing_what_is_not_there_is_fine(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, 0), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, 0), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, 0), 0);
}

static void a_regular_file_cannot_be_waited_for(void **state)
{
	struct rig *rig = *state;
	FILE *file = tmpfile();
	struct event_source src = {.fd = fileno(file), .fn = on_end, .ctx = rig};
	assert_int_equal(event_loop_set(&rig->loop, &src, EPOLLIN), -EPERM);
	assert_int_equal(event_loop_set(&rig->loop, &src, 0), 0);
	fclose(file);
}

static void a_stop_before_the_run_is_not_lost(void **state)
{
	struct rig *rig = *state;
	event_loop_stop(&rig->loop);
	event_loop_run(&rig->loop);
	/* It was for that run: the next one works again. */
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN), 0);
	event_loop_run(&rig->loop);
	assert_int_equal(rig->calls_a, 1);
}

static void *run(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

static void a_stop_from_another_thread_wakes_it(void **state)
{
	struct rig *rig = *state;
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, run, &rig->loop), 0);
		event_loop_stop(&rig->loop);
		pthread_join(thread, NULL);
	}
}

static struct event_loop *interrupted;
static volatile sig_atomic_t signals;

static void on_alarm(int signal)
{
	(void)signal;
	if (++signals == 5)
		event_loop_stop(interrupted);
}

static void a_signal_does_not_end_it(void **state)
{
	struct rig *rig = *state;
	struct sigaction action = {.sa_handler = on_alarm}, old;
	const struct itimerval every = {{.tv_usec = 2000}, {.tv_usec = 2000}}, never = {0};

	interrupted = &rig->loop;
	signals = 0;
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	event_loop_run(&rig->loop);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_true(signals >= 5);
}

static void a_source_added_by_another_thread_is_served(void **state)
{
	struct rig *rig = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, &rig->loop), 0);
	assert_int_equal(event_loop_set(&rig->loop, &rig->a, EPOLLIN), 0);
	pthread_join(thread, NULL);
	assert_int_equal(rig->calls_a, 1);
}

/* After a wake-up there is nothing left that could wake it again. */
static void a_stop_leaves_nothing_to_wake_for(void **state)
{
	struct rig *rig = *state;
	struct epoll_event event_out;
	event_loop_stop(&rig->loop);
	event_loop_stop(&rig->loop);
	assert_int_equal(epoll_wait(rig->loop.epoll_fd, &event_out, 1, 0), 1);
	rig->loop.wake.fn(rig->loop.wake.ctx, EPOLLIN);
	assert_int_equal(epoll_wait(rig->loop.epoll_fd, &event_out, 1, 0), 0);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(a_callback_gets_its_events),
		WITH_RIG(a_source_removed_by_another_is_not_called),
		WITH_RIG(a_change_replaces_what_is_waited_for),
		WITH_RIG(removing_what_is_not_there_is_fine),
		WITH_RIG(a_regular_file_cannot_be_waited_for),
		WITH_RIG(a_stop_before_the_run_is_not_lost),
		WITH_RIG(a_stop_from_another_thread_wakes_it),
		WITH_RIG(a_signal_does_not_end_it),
		WITH_RIG(a_source_added_by_another_thread_is_served),
		WITH_RIG(a_stop_leaves_nothing_to_wake_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
