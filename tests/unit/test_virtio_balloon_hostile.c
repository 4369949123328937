// SPDX-License-Identifier: Apache-2.0
/* test_virtio_balloon_hostile.c - a driver that names pages it should not, too many of them, or the very memory it
 * names them in: nothing but its own RAM above the floor is ever taken, and no notification works for long. */
#include "virtio_balloon_rig.h"

static void pages_that_are_not_ram_are_ignored(void **state)
{
	static const uint32_t bad[] = {
		DRIVER_RAM / PAGE,
		DRIVER_RAM / PAGE + 1,
		GUEST_MEM_HOLE_BASE / PAGE, /* where devices are */
		0xfee00,
		GUEST_MEM_HOLE_END / PAGE,
		UINT32_MAX,
		UINT32_MAX - 1,
		1u << 31,
	};

	(void)state;
	rig_up("on");
	memcpy(pfns(), bad, sizeof(bad));
	pfns()[ARRAY_SIZE(bad)] = pool(3);
	assert_true(offer(INFLATE, rig.list, sizeof(bad) + 4, false));
	assert_gone(3, 1);
	assert_int_equal(rig.calls, 1);
	assert_int_equal(rig.host->ignored_pages, ARRAY_SIZE(bad));
	assert_false(driver_needs_reset(&rig.d));
}

static void nothing_below_the_floor_is_taken(void **state)
{
	(void)state;
	rig_up("on");
	memset(driver_at(&rig.d, FLOOR - PAGE), BUSY, 2 * PAGE);
	for (unsigned i = 0; i < 256; i++)
		pfns()[i] = i;
	assert_true(offer(INFLATE, rig.list, 256 * 4, false));
	assert_int_equal(rig.calls, 0);
	assert_int_equal(rig.host->ignored_pages, 256);
	assert_true(offer(4, FLOOR - PAGE, PAGE, true));
	assert_int_equal(rig.calls, 0);
	assert_true(offer(4, 0x1000, FLOOR - 0x1000 + PAGE, true)); /* over the floor: the part above it */
	assert_int_equal(rig.calls, 1);
	assert_int_equal(rig.addr, FLOOR);
	assert_int_equal(rig.bytes, PAGE);
	assert_true(is_kept(FLOOR - PAGE));
	assert_true(is_gone(FLOOR));
}

static void all_of_memory_in_one_report(void **state)
{
	(void)state;
	rig_up("on");
	assert_true(offer(4, 0, DRIVER_RAM, true)); /* the rings, too, if they were above the floor */
	assert_int_equal(rig.calls, 1);
	assert_int_equal(rig.bytes, DRIVER_RAM - FLOOR);
	assert_true(is_gone(DRIVER_RAM - PAGE));
}

static void a_list_that_gives_itself_up_is_read_once(void **state)
{
	uint32_t *list;

	(void)state;
	rig_up("on");
	list = driver_at(&rig.d, POOL);
	for (unsigned i = 0; i < 512; i++) /* half a page of memory names them, the first of them is itself */
		list[i] = pool(i % 2 ? 0 : i);
	assert_true(offer(INFLATE, POOL, 512 * 4, false));
	/* What had not been read when it went is zero now, which is below the floor. */
	assert_int_equal(rig.host->inflated_pages, 128);
	assert_int_equal(rig.host->ignored_pages, 256);
	assert_false(driver_needs_reset(&rig.d));
}

/* Every second page, so that nothing merges: 1024 calls in all. */
static void offer_long_list(void)
{
	for (unsigned i = 0; i < 1024; i++)
		pfns()[i] = pool(2 * (i % 256));
	const struct driver_buf buf = {rig.list, 1024 * 4, false};
	driver_chain(&rig.rings[INFLATE], &buf, 1);
	driver_kick(&rig.d, INFLATE);
}

static void a_long_list_is_worked_off_in_pieces(void **state)
{
	unsigned first;

	(void)state;
	rig_up("on");
	offer_long_list();
	first = rig.calls;
	assert_in_range(first, 256, 512);
	assert_false(came_back(INFLATE)); /* not before all of it is done */
	step_loop(0);
	assert_int_equal(rig.calls, 1024);
	assert_true(came_back(INFLATE));
	assert_int_equal(rig.pulses, 1);
}

static void a_reset_ends_it(void **state)
{
	unsigned before;

	(void)state;
	rig_up("on");
	offer_long_list();
	before = rig.calls;
	assert_false(came_back(INFLATE));
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	memset(driver_at(&rig.d, POOL), BUSY, DRIVER_RAM - POOL);
	step_loop(0);
	assert_int_equal(rig.calls, before);
	assert_gone(0, 0);
	bring_up(driver_offered(&rig.d));
	step_loop(0);
	assert_int_equal(rig.calls, before);
}

static void a_reset_of_the_queue_ends_it(void **state)
{
	unsigned before;

	(void)state;
	rig_up("on");
	offer_long_list();
	before = rig.calls;
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, INFLATE);
	driver_write(&rig.d, 0xc0, 1);
	step_loop(0);
	assert_int_equal(rig.calls, before);
}

static void many_chains_are_worked_off_in_pieces(void **state)
{
	unsigned first;

	(void)state;
	rig_up("on");
	for (unsigned i = 0; i < 256; i++)
		pfns()[i] = pool(2 * i);
	for (unsigned i = 0; i < 20; i++) {
		const struct driver_buf buf = {rig.list, 256 * 4, false};
		driver_chain(&rig.rings[INFLATE], &buf, 1);
	}
	driver_kick(&rig.d, INFLATE);
	first = rig.calls;
	assert_in_range(first, 256, 512);
	step_loop(0);
	assert_int_equal(rig.calls, 20 * 256);
	for (unsigned i = 0; i < 20; i++)
		assert_true(came_back(INFLATE));
}

static void expect_broken(unsigned queue, uint64_t addr, uint32_t bytes, bool writable)
{
	rig_up("free-page-reporting,stats=10");
	offer(queue, addr, bytes, writable);
	assert_true(driver_needs_reset(&rig.d));
	assert_int_equal(rig.calls, 0);
	driver_kick(&rig.d, queue); /* it is deaf now */
	step_loop(0);
	assert_int_equal(rig.calls, 0);
	bring_up(driver_offered(&rig.d)); /* and well again */
	pfns()[0] = pool(0);
	assert_true(offer(INFLATE, rig.list, 4, false));
	assert_int_equal(rig.calls, 1);
	tear_down(NULL);
}

static void broken_rules_need_a_reset(void **state)
{
	(void)state;
	for (unsigned queue = 0; queue < QUEUES; queue++) {
		expect_broken(queue, DRIVER_RAM - 4, 8, queue > STATS); /* over the end of RAM */
		expect_broken(queue, POOL, 4, queue <= STATS);          /* of the wrong direction */
	}
	expect_broken(INFLATE, POOL, DRIVER_RAM / PAGE * 4 + 4, false); /* more pages than there are */
	expect_broken(DEFLATE, POOL, DRIVER_RAM / PAGE * 4 + 4, false);
	rig_open("on");
}

static void bytes_that_are_no_page_number_are_nothing(void **state)
{
	(void)state;
	rig_up("on");
	pfns()[0] = pool(0);
	pfns()[1] = pool(1);
	assert_true(offer(INFLATE, rig.list, 3, false));
	assert_int_equal(rig.calls, 0);
	assert_true(offer(INFLATE, rig.list, 7, false));
	assert_gone(0, 1);
}

static void a_host_that_keeps_the_pages_is_counted(void **state)
{
	(void)state;
	rig_up("on");
	rig.error = EINVAL;
	pfns()[0] = pool(0);
	assert_true(offer(INFLATE, rig.list, 4, false));
	assert_true(offer(4, POOL, PAGE, true));
	assert_int_equal(rig.host->failed, 2);
	assert_int_equal(rig.host->inflated_pages | rig.host->reported_pages, 0);
	assert_gone(0, 0);
	assert_false(driver_needs_reset(&rig.d));
}

static void a_flood_of_statistics_is_looked_at_in_part(void **state)
{
	struct virtio_balloon_stat stat = {VIRTIO_BALLOON_S_MEMFREE, 1};

	(void)state;
	rig_up("stats=10");
	for (unsigned i = 0; i < 1000; i++)
		memcpy((uint8_t *)driver_at(&rig.d, rig.list) + i * sizeof(stat), &stat, sizeof(stat));
	stat.tag = VIRTIO_BALLOON_S_MEMTOT;
	memcpy((uint8_t *)driver_at(&rig.d, rig.list) + 999 * sizeof(stat), &stat, sizeof(stat));
	assert_false(offer(STATS, rig.list, 10000, false));
	assert_int_equal(rig.host->guest_has, 1u << VIRTIO_BALLOON_S_MEMFREE);
	assert_false(driver_needs_reset(&rig.d));
}

static void configuration_of_any_width_and_place(void **state)
{
	(void)state;
	rig_up("size=1M");
	for (unsigned width = 1; width <= 8; width *= 2)
		for (unsigned at = 0; at < 32; at++) {
			virtio_mmio_bus_ops.write(rig.d.t, VIRTIO_MMIO_CONFIG + at, width, UINT64_MAX);
			virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + at, width);
		}
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), 256);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + 8), 0);
	assert_int_equal(rig.host->actual_pages, UINT32_MAX); /* the driver's word, believed by nobody */
	assert_int_equal(rig.host->target_pages, 256);
}

#define BALLOON(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BALLOON(pages_that_are_not_ram_are_ignored),
		BALLOON(nothing_below_the_floor_is_taken),
		BALLOON(all_of_memory_in_one_report),
		BALLOON(a_list_that_gives_itself_up_is_read_once),
		BALLOON(a_long_list_is_worked_off_in_pieces),
		BALLOON(a_reset_ends_it),
		BALLOON(a_reset_of_the_queue_ends_it),
		BALLOON(many_chains_are_worked_off_in_pieces),
		BALLOON(broken_rules_need_a_reset),
		BALLOON(bytes_that_are_no_page_number_are_nothing),
		BALLOON(a_host_that_keeps_the_pages_is_counted),
		BALLOON(a_flood_of_statistics_is_looked_at_in_part),
		BALLOON(configuration_of_any_width_and_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
