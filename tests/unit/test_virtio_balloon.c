// SPDX-License-Identifier: Apache-2.0
/* test_virtio_balloon.c - pages come back to the host, whole ranges at a time, and read as zero; the target and the
 * driver's statistics get where they belong. */
#include "virtio_balloon_rig.h"

#include <malloc.h>

static void pages_that_are_given_up_are_gone(void **state)
{
	(void)state;
	rig_up("size=1M");
	for (unsigned i = 0; i < 3; i++)
		pfns()[i] = pool(5 + i);
	assert_true(offer(INFLATE, rig.list, 3 * 4, false));
	assert_gone(5, 3);
	assert_int_equal(rig.calls, 1);
	assert_int_equal(rig.host->inflated_pages, 3);
	assert_int_equal(rig.host->ignored_pages | rig.host->failed, 0);
	/* And are memory again when they are used. */
	memset(driver_at(&rig.d, POOL + 5 * PAGE), BUSY, 3 * PAGE);
	assert_true(offer(DEFLATE, rig.list, 3 * 4, false));
	assert_gone(0, 0);
	assert_int_equal(rig.host->deflated_pages, 3);
	assert_int_equal(rig.calls, 1);
}

static void a_range_in_any_order_is_one_call(void **state)
{
	(void)state;
	rig_up("on");
	for (unsigned i = 0; i < 256; i++)
		pfns()[i] = pool(100 + (i * 77) % 256);
	const struct driver_buf bufs[] = {{rig.list, 100 * 4, false}, {rig.list + 400, 156 * 4, false}};
	driver_chain(&rig.rings[INFLATE], bufs, 2);
	driver_kick(&rig.d, INFLATE);
	assert_true(came_back(INFLATE));
	assert_int_equal(rig.calls, 1);
	assert_int_equal(rig.bytes, MiB(1));
	assert_gone(100, 256);
}

static void the_same_page_twice_counts_once(void **state)
{
	(void)state;
	rig_up("on");
	for (unsigned i = 0; i < 8; i++)
		pfns()[i] = pool(7 + i % 2);
	assert_true(offer(INFLATE, rig.list, 8 * 4, false));
	assert_int_equal(rig.calls, 1);
	assert_gone(7, 2);
	assert_int_equal(rig.host->inflated_pages, 2);
}

static void ranges_apart_are_a_call_each(void **state)
{
	(void)state;
	rig_up("on");
	for (unsigned i = 0; i < 10; i++)
		pfns()[i] = pool(2 * (9 - i));
	assert_true(offer(INFLATE, rig.list, 10 * 4, false));
	assert_int_equal(rig.calls, 10);
	for (unsigned page = 0; page < 20; page++)
		assert_true((page % 2 ? is_kept : is_gone)(POOL + page * PAGE));
}

static void several_chains_are_done_with_one_notification(void **state)
{
	(void)state;
	rig_up("on");
	pfns()[0] = pool(1);
	pfns()[1] = pool(2);
	const struct driver_buf bufs[] = {{rig.list, 4, false}, {rig.list + 4, 4, false}};
	driver_chain(&rig.rings[INFLATE], &bufs[0], 1);
	driver_chain(&rig.rings[INFLATE], &bufs[1], 1);
	driver_kick(&rig.d, INFLATE);
	assert_true(came_back(INFLATE) && came_back(INFLATE));
	assert_gone(1, 2);
	/* It wants to hear of the third one: 2.7.10. */
	assert_int_equal(*(uint16_t *)(void *)&rig.rings[INFLATE].used->ring[RING], 2);
}

/* ---------------------------------------------------------------------------------------- reports */

static void reports_are_taken(unsigned queue)
{
	const struct driver_buf bufs[] = {
		{POOL + 8 * PAGE, 4 * PAGE, true}, {POOL + 2 * PAGE, PAGE, true}, {POOL + 12 * PAGE, PAGE, true}};

	driver_chain(&rig.rings[queue], bufs, 3);
	driver_kick(&rig.d, queue);
	assert_true(came_back(queue));
	assert_int_equal(rig.calls, 2); /* two of them touch */
	for (unsigned page = 0; page < 20; page++) {
		bool gone = page == 2 || (page >= 8 && page < 13);
		assert_true((gone ? is_gone : is_kept)(POOL + page * PAGE));
	}
	assert_int_equal(rig.host->reported_pages, 6);
	assert_int_equal(rig.host->inflated_pages, 0);
}

static void reports_come_on_the_queue_of_the_specification(void **state)
{
	(void)state;
	rig_up("free-page-reporting,stats=10");
	reports_are_taken(4);
}

static void reports_come_without_a_gap_behind_the_statistics(void **state)
{
	(void)state;
	rig_up("free-page-reporting,stats=10");
	reports_are_taken(3);
}

static void reports_come_in_place_of_the_statistics(void **state)
{
	(void)state;
	rig_up("free-page-reporting");
	reports_are_taken(2);
}

static void only_whole_pages_of_a_report_are_taken(void **state)
{
	(void)state;
	rig_up("on");
	assert_true(offer(4, POOL + PAGE - 1, 2 * PAGE + 2, true));
	assert_true(offer(4, POOL + 10 * PAGE + 1, 2 * PAGE - 2, true));
	assert_true(offer(4, POOL + 20 * PAGE + 1, 5, true));
	assert_gone(1, 2);
	assert_int_equal(rig.host->reported_pages, 2);
}

static void pages_with_a_poison_are_left_alone(void **state)
{
	(void)state;
	rig_up("on");
	virtio_mmio_bus_ops.write(rig.d.t, VIRTIO_MMIO_CONFIG + 12, 4, 0xaaaaaaaa);
	assert_true(offer(4, POOL, PAGE, true));
	assert_int_equal(rig.calls, 0);
	virtio_mmio_bus_ops.write(rig.d.t, VIRTIO_MMIO_CONFIG + 12, 4, 0); /* init_on_free */
	assert_true(offer(4, POOL, PAGE, true));
	assert_gone(0, 1);
}

static void a_poison_that_was_not_negotiated_is_none(void **state)
{
	(void)state;
	rig_open("on");
	bring_up(FEATURE(REPORTING));
	virtio_mmio_bus_ops.write(rig.d.t, VIRTIO_MMIO_CONFIG + 12, 4, 0xaaaaaaaa);
	assert_true(offer(4, POOL, PAGE, true));
	assert_int_equal(rig.calls, 1);
}

static void reports_may_overlap(void **state)
{
	const struct driver_buf bufs[] = {
		{POOL + 3 * PAGE, PAGE, true}, {POOL + 2 * PAGE, 5 * PAGE, true}, {POOL + 6 * PAGE, 2 * PAGE, true}};

	(void)state;
	rig_up("on");
	driver_chain(&rig.rings[4], bufs, 3);
	driver_kick(&rig.d, 4);
	assert_true(came_back(4));
	assert_int_equal(rig.calls, 1);
	assert_gone(2, 6);
}

static void a_report_that_was_not_negotiated_is_not_looked_at(void **state)
{
	(void)state;
	rig_open("on");
	bring_up(0);
	memset(driver_at(&rig.d, POOL), BUSY, DRIVER_RAM - POOL);
	for (unsigned queue = 2; queue < QUEUES; queue++)
		assert_false(offer(queue, POOL, PAGE, true));
	assert_gone(0, 0);
	assert_false(driver_needs_reset(&rig.d));
}

/* ----------------------------------------------------------------------------------- configuration */

static void what_is_offered_is_what_was_asked_for(void **state)
{
	static const struct {
		const char *spec;
		uint64_t features;
	} cases[] = {
		{"size=0", 0},
		{"on", FEATURE(REPORTING) | FEATURE(PAGE_POISON)},
		{"deflate-on-oom", FEATURE(DEFLATE_ON_OOM)},
		{"stats=1", FEATURE(STATS_VQ)},
		{"deflate-on-oom,free-page-reporting,stats=1",
	         FEATURE(REPORTING) | FEATURE(PAGE_POISON) | FEATURE(DEFLATE_ON_OOM) | FEATURE(STATS_VQ)},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_open(cases[i].spec);
		assert_int_equal(driver_offered(&rig.d) & 0xffffff, cases[i].features);
		assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_DEVICE_ID), 5);
		tear_down(NULL);
	}
	rig_open("on");
}

static void the_target_can_be_moved(void **state)
{
	(void)state;
	rig_open("size=1M");
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 256);
	assert_int_equal(balloon_host_set_target(rig.host, MiB(2), NULL), 0);
	virtio_balloon_retarget(rig.dev);
	assert_int_equal(rig.pulses, 0); /* there is no driver */
	bring_up(0);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 512);
	uint32_t generation = driver_read(&rig.d, VIRTIO_MMIO_CONFIG_GENERATION);
	assert_int_equal(balloon_host_set_target(rig.host, 0, NULL), 0);
	virtio_balloon_retarget(rig.dev);
	assert_int_equal(rig.pulses, 1);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG);
	assert_int_not_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG_GENERATION), generation);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 0);
}

static void the_driver_says_how_far_it_is(void **state)
{
	(void)state;
	rig_up("size=1M");
	driver_write(&rig.d, VIRTIO_MMIO_CONFIG + 4, 200);
	assert_int_equal(rig.host->actual_pages, 200);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + 4), 200);
	/* The target is not the driver's. */
	driver_write(&rig.d, VIRTIO_MMIO_CONFIG, 7);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 256);
	/* Another driver starts with nothing given up. */
	bring_up(0);
	assert_int_equal(rig.host->actual_pages, 0);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 256);
}

/* ------------------------------------------------------------------------------------- statistics */

static void put_stat(unsigned i, unsigned tag, uint64_t value)
{
	const struct virtio_balloon_stat stat = {(uint16_t)tag, value};

	memcpy((uint8_t *)driver_at(&rig.d, rig.list) + i * sizeof(stat), &stat, sizeof(stat));
}

static void statistics_are_asked_for_again(void **state)
{
	(void)state;
	rig_up("stats=1");
	put_stat(0, VIRTIO_BALLOON_S_MEMFREE, 1234567);
	put_stat(1, VIRTIO_BALLOON_S_MEMTOT, UINT64_MAX);
	put_stat(2, 999, 5);
	assert_false(offer(STATS, rig.list, 3 * 10, false)); /* the device keeps it */
	assert_int_equal(rig.host->guest_has, 1u << VIRTIO_BALLOON_S_MEMFREE | 1u << VIRTIO_BALLOON_S_MEMTOT);
	assert_int_equal(rig.host->guest[VIRTIO_BALLOON_S_MEMFREE], 1234567);
	assert_int_equal(rig.host->guest[VIRTIO_BALLOON_S_MEMTOT], UINT64_MAX);
	assert_int_equal(rig.host->guest_updates, 1);
	step_loop(5000);
	assert_int_equal(rig.pulses, 1);
	assert_true(came_back(STATS));
	step_loop(1500); /* a driver that does not answer is not asked again */
	assert_int_equal(rig.pulses, 1);
	put_stat(0, VIRTIO_BALLOON_S_SWAP_IN, 1);
	assert_false(offer(STATS, rig.list, 10 + 9, false)); /* and nine bytes that are none */
	assert_int_equal(rig.host->guest_has, 1u << VIRTIO_BALLOON_S_SWAP_IN);
	assert_int_equal(rig.host->guest_updates, 2);
	step_loop(5000);
	assert_true(came_back(STATS));
}

static void a_reset_gives_the_buffer_back_and_asks_no_more(void **state)
{
	(void)state;
	rig_up("stats=1");
	put_stat(0, VIRTIO_BALLOON_S_MEMFREE, 1);
	assert_false(offer(STATS, rig.list, 10, false));
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	step_loop(1500);
	assert_int_equal(rig.pulses, 0);
	bring_up(driver_offered(&rig.d));
	assert_int_equal(rig.host->guest_has, 0);
	assert_false(offer(STATS, rig.list, 10, false)); /* the old one is not in the way */
	assert_int_equal(rig.rings[STATS].used->idx, 0);
}

static void a_second_buffer_sends_the_first_one_back(void **state)
{
	(void)state;
	rig_up("stats=10");
	assert_false(offer(STATS, rig.list, 10, false));
	assert_true(offer(STATS, rig.list + 100, 10, false));
	assert_false(came_back(STATS));
	assert_int_equal(rig.rings[STATS].used->ring[0].id, 0);
}

/* ------------------------------------------------------------------------------------------- cost */

static void it_is_small(void **state)
{
	(void)state;
	rig_open("on");
	assert_in_range(malloc_usable_size(rig.dev) + malloc_usable_size(rig.d.t), 1, KiB(32));
}

#define BALLOON(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BALLOON(pages_that_are_given_up_are_gone),
		BALLOON(a_range_in_any_order_is_one_call),
		BALLOON(the_same_page_twice_counts_once),
		BALLOON(ranges_apart_are_a_call_each),
		BALLOON(several_chains_are_done_with_one_notification),
		BALLOON(reports_come_on_the_queue_of_the_specification),
		BALLOON(reports_come_without_a_gap_behind_the_statistics),
		BALLOON(reports_come_in_place_of_the_statistics),
		BALLOON(only_whole_pages_of_a_report_are_taken),
		BALLOON(pages_with_a_poison_are_left_alone),
		BALLOON(a_poison_that_was_not_negotiated_is_none),
		BALLOON(reports_may_overlap),
		BALLOON(a_report_that_was_not_negotiated_is_not_looked_at),
		BALLOON(what_is_offered_is_what_was_asked_for),
		BALLOON(the_target_can_be_moved),
		BALLOON(the_driver_says_how_far_it_is),
		BALLOON(statistics_are_asked_for_again),
		BALLOON(a_reset_gives_the_buffer_back_and_asks_no_more),
		BALLOON(a_second_buffer_sends_the_first_one_back),
		BALLOON(it_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
