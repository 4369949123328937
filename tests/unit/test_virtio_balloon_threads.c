// SPDX-License-Identifier: Apache-2.0
/* test_virtio_balloon_threads.c - a driver, the loop that does the rest of its long lists, and somebody who moves the
 * target all the time, each on a thread of its own, with resets in between. What the driver has back must stay as it
 * is. For the thread sanitizer, too. */
#include "virtio_balloon_rig.h"

#include <poll.h>
#include <pthread.h>

enum {
	ROUNDS = 60,
	PAGES = 512,
	NAMED = 1024,
};

static atomic_bool over;

static void *run_loop(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

static void *move_target(void *arg)
{
	(void)arg;
	for (uint64_t page = 0; !atomic_load(&over); page = (page + 1) % PAGES) {
		assert_int_equal(balloon_host_set_target(rig.host, page * PAGE, NULL), 0);
		virtio_balloon_retarget(rig.dev);
		poll(NULL, 0, 0);
	}
	return NULL;
}

static void use_all(void)
{
	memset(driver_at(&rig.d, POOL), BUSY, PAGES * PAGE);
}

static void assert_all_used(void)
{
	for (unsigned page = 0; page < PAGES; page++)
		assert_true(is_kept(POOL + page * PAGE));
}

/* More than one kick does: the rest is the loop's. */
static void offer_lists(unsigned round)
{
	for (unsigned i = 0; i < NAMED; i++)
		pfns()[i] = pool((2 * i + round) % PAGES);
	const struct driver_buf list = {rig.list, NAMED * 4, false}, report = {POOL, PAGES * PAGE, true};
	driver_chain(&rig.rings[INFLATE], &list, 1);
	driver_kick(&rig.d, INFLATE);
	driver_chain(&rig.rings[4], &report, 1);
	driver_kick(&rig.d, 4);
}

static void pages_that_are_the_drivers_again_stay(void **state)
{
	pthread_t loop, mover;

	(void)state;
	rig_up("free-page-reporting,stats=1");
	assert_int_equal(pthread_create(&loop, NULL, run_loop, &rig.loop), 0);
	assert_int_equal(pthread_create(&mover, NULL, move_target, NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		bring_up(driver_offered(&rig.d));
		offer(STATS, rig.list, 10, false);
		use_all();
		offer_lists(round);
		if (round % 3 == 0) {
			driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
		} else {
			while (!came_back(INFLATE))
				poll(NULL, 0, 0);
			assert_true(came_back(4));
		}
		use_all();
		bring_up(driver_offered(&rig.d)); /* a late event of the loop's finds an empty queue */
		poll(NULL, 0, 1);
		assert_all_used();
	}
	atomic_store(&over, true);
	pthread_join(mover, NULL);
	event_loop_stop(&rig.loop);
	pthread_join(loop, NULL);
	assert_int_equal(rig.host->failed | rig.host->ignored_pages, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(pages_that_are_the_drivers_again_stay, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
