// SPDX-License-Identifier: Apache-2.0
/* test_virtio_rng.c - buffers come back full, up to a limit per buffer and per second. */
#include "virtio_rng.h"

#include "event_loop.h"
#include "fakes/virtq_driver.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct {
	struct virtio_dev *dev;
	struct driver d;
	struct driver_ring r;
	struct event_loop loop;
	uint64_t buf;
} rig;

static int set_up(void **state)
{
	(void)state;
	memset(&rig, 0, sizeof(rig));
	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.dev = virtio_rng_create(&rig.loop);
	const struct virtio_mmio_config config = {.dev = rig.dev, .mem = &rig.d.mem, .loop = &rig.loop};
	rig.d.t = virtio_mmio_create(&config);
	driver_ring_open(&rig.d, &rig.r, 64);
	rig.buf = driver_alloc(&rig.d, 65536, 4096);
	assert_true(driver_negotiate(&rig.d, 0));
	driver_ready(&rig.d, 0, &rig.r);
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	return 0;
}

static uint32_t ask(uint32_t len)
{
	const struct driver_buf bufs[] = {{rig.buf, len / 3, true}, {rig.buf + len / 3, len - len / 3, true}};
	uint32_t id, written = 0;

	driver_chain(&rig.r, bufs, 2);
	driver_kick(&rig.d, 0);
	assert_true(driver_used(&rig.r, &id, &written));
	return written;
}

static void a_buffer_is_filled_with_what_nobody_knows(void **state)
{
	static const uint8_t zeros[64];
	uint8_t before[64];

	(void)state;
	assert_int_equal(ask(64), 64);
	memcpy(before, driver_at(&rig.d, rig.buf), 64);
	assert_memory_not_equal(before, zeros, 64);
	assert_int_equal(ask(64), 64);
	assert_memory_not_equal(before, driver_at(&rig.d, rig.buf), 64);
}

static void a_large_buffer_is_filled_in_part(void **state)
{
	(void)state;
	memset(driver_at(&rig.d, rig.buf), 0, 65536);
	assert_int_equal(ask(65536), 4096);
	for (unsigned i = 4096; i < 65536; i++)
		assert_int_equal(((uint8_t *)driver_at(&rig.d, rig.buf))[i], 0);
}

static void buffers_that_cannot_be_written_get_nothing(void **state)
{
	const struct driver_buf buf = {rig.buf, 16, false};
	uint32_t id, written;

	(void)state;
	driver_chain(&rig.r, &buf, 1);
	driver_kick(&rig.d, 0);
	assert_true(driver_used(&rig.r, &id, &written));
	assert_int_equal(written, 0);
}

static void a_greedy_driver_has_to_wait(void **state)
{
	const struct driver_buf buf = {rig.buf, 4096, true};
	uint32_t id, written, bytes = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		driver_chain(&rig.r, &buf, 1);
		driver_kick(&rig.d, 0);
		if (!driver_used(&rig.r, &id, &written))
			break;
		bytes += written;
	}
	/* A burst, and what came in meanwhile. */
	assert_in_range(bytes, VIRTIO_RNG_BYTES_PER_SECOND / 10, VIRTIO_RNG_BYTES_PER_SECOND / 4);
	assert_false(driver_needs_reset(&rig.d));
}

static void a_bad_chain_breaks_it(void **state)
{
	(void)state;
	driver_desc(&rig.r, 0, DRIVER_RAM, 1, VRING_DESC_F_WRITE, 0);
	driver_offer(&rig.r, 0);
	driver_kick(&rig.d, 0);
	assert_true(driver_needs_reset(&rig.d));
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(a_buffer_is_filled_with_what_nobody_knows),
		WITH_RIG(a_large_buffer_is_filled_in_part),
		WITH_RIG(buffers_that_cannot_be_written_get_nothing),
		WITH_RIG(a_greedy_driver_has_to_wait),
		WITH_RIG(a_bad_chain_breaks_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
