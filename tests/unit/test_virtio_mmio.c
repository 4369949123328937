// SPDX-License-Identifier: Apache-2.0
/* test_virtio_mmio.c - registers, status machine, negotiation and configuration space. */
#include "virtio_mmio_rig.h"

/* ---------------------------------------------------------------------------------- who it is */

static void it_says_what_it_is(void **state)
{
	(void)state;
	assert_int_equal(get(0), 0x74726976);
	assert_int_equal(get(4), 2);
	assert_int_equal(get(8), 42);
	assert_int_equal(get(0xc), 0x4c4c554c);
	assert_int_equal(status(), 0);
	assert_int_equal(get(0xb0), UINT32_MAX);
	assert_int_equal(get(0xbc), UINT32_MAX);
	for (unsigned n = 0; n < QUEUES + 2; n++) {
		set(VIRTIO_MMIO_QUEUE_SEL, n);
		assert_int_equal(get(VIRTIO_MMIO_QUEUE_NUM_MAX), n < QUEUES ? QUEUE_MAX : 0);
		assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
	}
	set(VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
	assert_int_equal(get(VIRTIO_MMIO_DEVICE_FEATURES), 0);
	assert_int_equal(driver_offered(&rig.d), 1ull << DEVICE_FEATURE | 1ull << VIRTIO_F_VERSION_1 |
	                                                 1ull << VIRTIO_RING_F_INDIRECT_DESC |
	                                                 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << RING_RESET);
}

static void registers_take_32_bits_only(void **state)
{
	const unsigned sizes[] = {1, 2, 8};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unsigned at = 0; at < 0x100; at++) {
			assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, at, sizes[i]), 0);
			virtio_mmio_bus_ops.write(rig.d.t, at, sizes[i], ~0ull);
		}
	for (unsigned at = 1; at < 0x100; at += 4) {
		assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, at, 4), 0);
		virtio_mmio_bus_ops.write(rig.d.t, at, 4, ~0ull);
	}
	assert_int_equal(status(), 0);
	assert_int_equal(get(0), 0x74726976);
}

static void every_register_takes_any_write(void **state)
{
	const uint32_t values[] = {0, 1, 2, 0x80, 0xffff, UINT32_MAX};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned at = 0; at < VIRTIO_MMIO_BYTES; at += 4)
			for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
				if (at == VIRTIO_MMIO_STATUS && round == 0)
					continue;
				set(at, values[i]);
				get(at);
			}
		bring_up(0);
	}
}

/* -------------------------------------------------------------------------------------- status */

static void features_are_refused_that_were_not_offered(void **state)
{
	(void)state;
	assert_true(driver_negotiate(&rig.d, 1u << DEVICE_FEATURE));
	assert_true(virtio_has(&rig.dev, DEVICE_FEATURE));
	assert_false(driver_negotiate(&rig.d, 1u << (DEVICE_FEATURE + 1)));
	assert_false(driver_negotiate(&rig.d, 1ull << 63));
	set(VIRTIO_MMIO_STATUS, 0);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER);
	driver_features(&rig.d, 1u << DEVICE_FEATURE); /* without VERSION_1 */
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | FEATURES_OK);
	assert_int_equal(status(), ACK | DRIVER);
	driver_features(&rig.d, 1ull << VIRTIO_F_VERSION_1);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | FEATURES_OK);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK);
	assert_false(virtio_has(&rig.dev, DEVICE_FEATURE));
}

static void features_are_fixed_by_features_ok(void **state)
{
	(void)state;
	assert_true(driver_negotiate(&rig.d, 0));
	driver_features(&rig.d, 1u << DEVICE_FEATURE | 1ull << VIRTIO_F_VERSION_1);
	driver_set_status(&rig.d, OK);
	assert_false(virtio_has(&rig.dev, DEVICE_FEATURE));
}

static void steps_of_the_status_cannot_be_left_out(void **state)
{
	(void)state;
	driver_features(&rig.d, 1ull << VIRTIO_F_VERSION_1);
	set(VIRTIO_MMIO_STATUS, FEATURES_OK);
	assert_int_equal(status(), 0);
	set(VIRTIO_MMIO_STATUS, ACK | FEATURES_OK);
	assert_int_equal(status(), ACK);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | OK);
	assert_int_equal(status(), ACK | DRIVER);
	assert_int_equal(rig.starts, 0);
	/* All at once is fine. */
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | FEATURES_OK | OK);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK | OK);
	assert_int_equal(rig.starts, 1);
}

static void bits_are_taken_back_by_reset_only(void **state)
{
	(void)state;
	bring_up(0);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK | OK);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | FEATURES_OK | OK | FAILED | BROKEN | 0xffffff00);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK | OK | FAILED); /* NEEDS_RESET is not the driver's */
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER | FEATURES_OK | OK | FAILED);
	assert_int_equal(rig.starts, 1);
	set(VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(status(), 0);
	assert_int_equal(rig.drains[0], 1);
	assert_int_equal(rig.drains[1], 0); /* it was never ready */
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
	assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	offer();
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.kicks[0], 1); /* the one that came with DRIVER_OK */
}

static void a_device_that_cannot_start_needs_a_reset(void **state)
{
	(void)state;
	rig.start_result = -ENOMEM;
	assert_true(driver_negotiate(&rig.d, 0));
	driver_ready(&rig.d, 0, &rig.r);
	driver_set_status(&rig.d, OK);
	assert_true(driver_needs_reset(&rig.d));
	assert_int_equal(rig.pulses, 1);
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.kicks[0], 0);
	rig.start_result = 0;
	bring_up(0);
}

/* -------------------------------------------------------------------------------- configuration */

static void the_configuration_space_has_any_width_and_an_end(void **state)
{
	(void)state;
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x100, 1), 1);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x105, 1), 6);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x101, 2), 0x0302);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x102, 4), 0x06050403);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x103, 4), 0);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x106, 1), 0);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0x100, 8), 0);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, 0xfff, 1), 0);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, UINT64_MAX, 4), 0);
	virtio_mmio_bus_ops.write(rig.d.t, 0x104, 2, 0xaabb);
	virtio_mmio_bus_ops.write(rig.d.t, 0x105, 2, 0x1122);
	virtio_mmio_bus_ops.write(rig.d.t, UINT64_MAX, 4, 0x1122);
	assert_memory_equal(rig.config, "\1\2\3\4\xbb\xaa", 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(it_says_what_it_is),
		WITH_RIG(registers_take_32_bits_only),
		WITH_RIG(every_register_takes_any_write),
		WITH_RIG(features_are_refused_that_were_not_offered),
		WITH_RIG(features_are_fixed_by_features_ok),
		WITH_RIG(steps_of_the_status_cannot_be_left_out),
		WITH_RIG(bits_are_taken_back_by_reset_only),
		WITH_RIG(a_device_that_cannot_start_needs_a_reset),
		WITH_RIG(the_configuration_space_has_any_width_and_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
