// SPDX-License-Identifier: Apache-2.0
/* test_virtio_blk_poll.c - who completes a request: a polling vCPU, or the I/O thread. The completion is placed at
 * every step of enter, poll and leave, and must be found by one of the two.
 *
 * The "disk" is a pipe: a read from it ends when the test writes. */
#include "virtio_blk_rig.h"

#include <poll.h>
#include <pthread.h>

static struct poll_hook hook;
static int pipe_fds[2], file_fd;

static const uint64_t all = ~0ull & ~(1ull << VIRTIO_RING_F_EVENT_IDX);

static int set_up(void **state)
{
	(void)state;
	open_rig(",ro,engine=io_uring");
	assert_int_equal(pipe(pipe_fds), 0);
	file_fd = rig.file->fd;
	rig.file->fd = pipe_fds[0];
	hook = virtio_blk_poll_hook(rig.dev);
	bring_up(all);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	rig.file->fd = file_fd;
	close_rig();
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return 0;
}

static void submit(unsigned n)
{
	put(n, VIRTIO_BLK_T_IN, 0, rig.data, 512);
	driver_kick(&rig.d, 0);
}

static void complete(void)
{
	static const uint8_t sector[512];

	assert_int_equal(write(pipe_fds[1], sector, sizeof(sector)), sizeof(sector));
}

/* Would the I/O thread wake up? */
static bool io_thread_hears(void)
{
	struct pollfd p = {.fd = queue_of(0)->done.fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static unsigned ended(void)
{
	return rig.r.used->idx;
}

/* False: there is no io_uring here. Else one request went through. */
static bool works(void)
{
	if (!queue_of(0)->has_ring)
		return false;
	submit(0);
	complete();
	wait_used(1);
	return true;
}

static void before_enter(void **state)
{
	(void)state;
	if (!works())
		skip();
	submit(1);
	assert_int_equal(hook.in_flight(hook.ctx), 1);
	complete();
	assert_true(io_thread_hears());
	hook.enter(hook.ctx);
	assert_true(hook.poll(hook.ctx));
	assert_int_equal(ended(), 2);
	assert_int_equal(hook.in_flight(hook.ctx), 0);
	assert_false(hook.leave(hook.ctx));
}

static void while_polling(void **state)
{
	(void)state;
	if (!works())
		skip();
	submit(1);
	hook.enter(hook.ctx);
	assert_false(hook.poll(hook.ctx));
	unsigned pulses = atomic_load(&rig.pulses);
	unsigned long counted = atomic_load(&rig.file->inline_done);
	complete();
	assert_false(io_thread_hears());
	assert_int_equal(ended(), 1);
	assert_true(hook.poll(hook.ctx));
	assert_int_equal(ended(), 2);
	assert_int_equal(atomic_load(&rig.pulses), pulses + 1);
	assert_int_equal(atomic_load(&rig.file->inline_done), counted + 1);
	assert_false(hook.poll(hook.ctx));
	assert_false(hook.leave(hook.ctx));
	assert_false(io_thread_hears());
}

static void between_the_last_look_and_leave(void **state)
{
	(void)state;
	if (!works())
		skip();
	submit(1);
	hook.enter(hook.ctx);
	assert_false(hook.poll(hook.ctx));
	complete();
	assert_false(io_thread_hears());
	assert_true(hook.leave(hook.ctx));
	assert_int_equal(ended(), 2);
}

/* Steps (1) and (3) of disk_ring.h, taken apart. */
static void between_the_permission_and_the_look(void **state)
{
	(void)state;
	if (!works())
		skip();
	struct disk_ring *ring = &queue_of(0)->ring;
	submit(1);
	hook.enter(hook.ctx);
	disk_ring_loud(ring, true);
	complete();
	assert_true(io_thread_hears());
	assert_true(disk_ring_peek(ring));
	wait_used(2);
	assert_false(disk_ring_peek(ring));
	/* The same with the barrier that older kernels need. */
	ring->needs_membarrier = true;
	submit(2);
	hook.enter(hook.ctx);
	complete();
	assert_false(io_thread_hears());
	disk_ring_loud(ring, true);
	assert_true(disk_ring_peek(ring));
	hook.enter(hook.ctx);
	assert_true(hook.leave(hook.ctx));
	assert_int_equal(ended(), 3);
}

static void after_leave(void **state)
{
	(void)state;
	if (!works())
		skip();
	submit(1);
	hook.enter(hook.ctx);
	assert_false(hook.leave(hook.ctx));
	complete();
	assert_true(io_thread_hears());
	wait_used(2);
}

static void the_last_of_several_pollers_gives_the_permission_back(void **state)
{
	(void)state;
	if (!works())
		skip();
	submit(1);
	submit(2);
	hook.enter(hook.ctx);
	hook.enter(hook.ctx);
	hook.enter(hook.ctx);
	assert_false(hook.leave(hook.ctx));
	complete();
	assert_false(io_thread_hears());
	assert_true(hook.poll(hook.ctx));
	assert_false(hook.leave(hook.ctx));
	assert_false(io_thread_hears());
	assert_false(hook.leave(hook.ctx));
	complete();
	assert_true(io_thread_hears());
	wait_used(3);
}

/* A kick is a poller too: what it submits while another polls must stay quiet after it. */
static void a_kick_does_not_end_the_quiet_of_others(void **state)
{
	(void)state;
	if (!works())
		skip();
	hook.enter(hook.ctx);
	submit(1);
	complete();
	assert_false(io_thread_hears());
	assert_true(hook.poll(hook.ctx));
	assert_false(hook.leave(hook.ctx));
}

static void what_completes_at_once_is_answered_by_the_kick(void **state)
{
	(void)state;
	if (!works())
		skip();
	complete(); /* the data is there before it is asked for */
	unsigned pulses = atomic_load(&rig.pulses);
	submit(1);
	assert_int_equal(ended(), 2);
	assert_int_equal(atomic_load(&rig.pulses), pulses + 1);
	assert_false(io_thread_hears());
}

static void *leave(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)hook.leave(hook.ctx);
}

/* A completion that comes when somebody else holds the lock and has looked already: poll() does not wait, leave() does.
 */
static void while_somebody_else_holds_the_lock(void **state)
{
	pthread_t thread;
	void *found;

	(void)state;
	if (!works())
		skip();
	struct virtio_queue *q = &rig.dev->queues[0];
	submit(1);
	hook.enter(hook.ctx);
	pthread_mutex_lock(&q->lock);
	complete();
	assert_false(hook.poll(hook.ctx));
	assert_int_equal(pthread_create(&thread, NULL, leave, NULL), 0);
	usleep(10000);
	assert_int_equal(ended(), 1);
	pthread_mutex_unlock(&q->lock);
	pthread_join(thread, &found);
	assert_true(found || io_thread_hears());
	wait_used(2);
}

static void hooks_of_a_disk_without_io_uring_find_nothing(void **state)
{
	(void)state;
	open_rig(",engine=sync");
	hook = virtio_blk_poll_hook(rig.dev);
	for (unsigned i = 0; i < 3; i++) {
		hook.enter(hook.ctx);
		assert_false(hook.poll(hook.ctx));
		if (i == 1) {
			bring_up(all);
			assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
		}
		assert_false(hook.leave(hook.ctx));
		assert_int_equal(hook.in_flight(hook.ctx), 0);
	}
	close_rig();
}

/* ------------------------------------------------------------------------------- everything at once */

static atomic_bool stop;

/* As the halt engine does it. */
static void *poller(void *arg)
{
	unsigned *found = arg;

	while (!atomic_load(&stop)) {
		hook.enter(hook.ctx);
		for (unsigned i = 0; i < 2000; i++)
			*found += hook.poll(hook.ctx);
		*found += hook.leave(hook.ctx);
		usleep(20);
	}
	return NULL;
}

static void *io_thread(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

static void nothing_is_lost_between_pollers_and_the_io_thread(void **state)
{
	pthread_t threads[3];
	unsigned found[2] = {0};
	const uint16_t count = 3000;
	static uint8_t content[DISK_BYTES];

	(void)state;
	open_rig(",engine=io_uring,direct");
	/* Holes would be read at once. */
	assert_int_equal(pwrite(rig.file->page_fd, content, DISK_BYTES, 0), DISK_BYTES);
	assert_int_equal(fdatasync(rig.file->page_fd), 0);
	hook = virtio_blk_poll_hook(rig.dev);
	bring_up(all);
	atomic_store(&stop, false);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, poller, &found[i]), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, io_thread, &rig.loop), 0);
	for (uint16_t i = 0; i < count; i++) {
		put(i % 64, VIRTIO_BLK_T_IN, i % 100 * 8, rig.data, 4096);
		driver_kick(&rig.d, 0);
		/* Each must come back; up to four are out at a time. */
		unsigned ms = 0;
		while ((uint16_t)(i + 1 - __atomic_load_n(&rig.r.used->idx, __ATOMIC_ACQUIRE)) > i % 4u) {
			usleep(50);
			if (++ms == 100000)
				fail_msg("request %u is lost", i);
		}
	}
	for (unsigned ms = 0; __atomic_load_n(&rig.r.used->idx, __ATOMIC_ACQUIRE) != count && ms < 5000; ms++)
		usleep(1000);
	assert_int_equal(rig.r.used->idx, count);
	atomic_store(&stop, true);
	event_loop_stop(&rig.loop);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print_message("%u completions were found by pollers\n", found[0] + found[1]);
	close_rig();
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(before_enter),
		WITH_RIG(while_polling),
		WITH_RIG(between_the_last_look_and_leave),
		WITH_RIG(between_the_permission_and_the_look),
		WITH_RIG(after_leave),
		WITH_RIG(the_last_of_several_pollers_gives_the_permission_back),
		WITH_RIG(a_kick_does_not_end_the_quiet_of_others),
		WITH_RIG(what_completes_at_once_is_answered_by_the_kick),
		WITH_RIG(while_somebody_else_holds_the_lock),
		cmocka_unit_test(hooks_of_a_disk_without_io_uring_find_nothing),
		cmocka_unit_test(nothing_is_lost_between_pollers_and_the_io_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
