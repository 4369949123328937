// SPDX-License-Identifier: Apache-2.0
/* test_virtio_mmio_queue.c - queues and interrupts of the transport. */
#include "virtio_mmio_rig.h"

#include <pthread.h>

/* -------------------------------------------------------------------------------------- queues */

static void a_queue_works_from_driver_ok_on(void **state)
{
	(void)state;
	assert_true(driver_negotiate(&rig.d, 0));
	driver_ready(&rig.d, 0, &rig.r);
	offer();
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.kicks[0], 0);
	driver_set_status(&rig.d, OK);
	/* What was there before is looked at without a notification. */
	assert_int_equal(rig.kicks[0], 1);
	assert_int_equal(rig.r.used->idx, 1);
	assert_int_equal(rig.pulses, 1);
	driver_kick(&rig.d, 1); /* not ready */
	driver_kick(&rig.d, QUEUES);
	driver_kick(&rig.d, UINT32_MAX);
	assert_int_equal(rig.kicks[1], 0);
	driver_ready(&rig.d, 1, &rig.r);
	assert_int_equal(rig.kicks[1], 1);
}

static void a_queue_is_not_ready_before_features_ok(void **state)
{
	(void)state;
	driver_ready(&rig.d, 0, &rig.r);
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
	set(VIRTIO_MMIO_STATUS, ACK | DRIVER);
	driver_ready(&rig.d, 0, &rig.r);
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
}

static void a_queue_that_cannot_be_needs_a_reset(void **state)
{
	struct virtq_config good = rig.r.config, bad[6];

	(void)state;
	good = rig.r.config;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].size = 0;
	bad[1].size = 3;
	bad[2].size = QUEUE_MAX * 2;
	bad[3].desc = gpa(8);
	bad[4].avail = gpa(~0ull - 1);
	bad[5].used = gpa(DRIVER_RAM);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_true(driver_negotiate(&rig.d, 0));
		rig.r.config = bad[i];
		driver_ready(&rig.d, 0, &rig.r);
		assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
		assert_true(driver_needs_reset(&rig.d));
		assert_int_equal(rig.pulses, 0); /* before DRIVER_OK nobody is told */
		driver_set_status(&rig.d, OK);
		assert_int_equal(rig.starts, 0);
	}
}

static void a_ready_queue_cannot_be_changed(void **state)
{
	(void)state;
	assert_true(driver_negotiate(&rig.d, 0));
	driver_ready(&rig.d, 0, &rig.r);
	set(VIRTIO_MMIO_QUEUE_NUM, 3);
	set(VIRTIO_MMIO_QUEUE_DESC_LOW, 0xfffffff0);
	set(VIRTIO_MMIO_QUEUE_READY, 1);
	driver_set_status(&rig.d, OK);
	offer();
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.r.used->idx, 1);
	assert_false(driver_needs_reset(&rig.d));
}

static void a_queue_can_be_stopped_and_started_again(void **state)
{
	(void)state;
	bring_up(1ull << RING_RESET);
	for (unsigned i = 1; i < 5; i++) {
		set(i % 2 ? REG_QUEUE_RESET : VIRTIO_MMIO_QUEUE_READY, i % 2);
		assert_int_equal(get(REG_QUEUE_RESET), 0); /* it is over */
		assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
		assert_int_equal(rig.drains[0], i);
		unsigned kicks = rig.kicks[0];
		driver_kick(&rig.d, 0);
		assert_int_equal(rig.kicks[0], kicks);
		driver_ring_open(&rig.d, &rig.r, 4);
		driver_ready(&rig.d, 0, &rig.r);
		offer();
		driver_kick(&rig.d, 0);
		assert_int_equal(rig.r.used->idx, 1);
	}
}

static void a_queue_reset_has_to_be_negotiated(void **state)
{
	(void)state;
	bring_up(0);
	set(REG_QUEUE_RESET, 1);
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 1);
	assert_int_equal(rig.drains[0], 0);
}

/* ----------------------------------------------------------------------------------- interrupts */

static void an_interrupt_is_an_edge_and_a_bit(void **state)
{
	(void)state;
	bring_up(0);
	for (unsigned i = 1; i < 4; i++) {
		offer();
		driver_kick(&rig.d, 0);
		assert_int_equal(rig.pulses, i);
		assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
		set(VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_CONFIG);
		assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
		if (i == 3)
			break;
		set(VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
		assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	}
	rig.r.avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	offer();
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.pulses, 3);
}

static void a_configuration_change_is_told(void **state)
{
	uint32_t generation = get(VIRTIO_MMIO_CONFIG_GENERATION);

	(void)state;
	rig.dev.up.config(rig.dev.up.ctx);
	assert_int_equal(rig.pulses, 0); /* nobody is there yet */
	assert_int_equal(get(VIRTIO_MMIO_CONFIG_GENERATION), generation + 1);
	bring_up(0);
	rig.dev.up.config(rig.dev.up.ctx);
	assert_int_equal(rig.pulses, 1);
	assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG);
	assert_int_equal(get(VIRTIO_MMIO_CONFIG_GENERATION), generation + 2);
}

static void a_broken_ring_needs_a_reset_and_says_so_once(void **state)
{
	(void)state;
	bring_up(0);
	driver_ready(&rig.d, 1, &rig.r);
	rig.break_it = true;
	driver_kick(&rig.d, 0);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK | OK | BROKEN);
	assert_int_equal(get(VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_CONFIG);
	assert_int_equal(rig.pulses, 1);
	unsigned kicks = rig.kicks[0] + rig.kicks[1];
	driver_kick(&rig.d, 0);
	driver_kick(&rig.d, 1); /* of the whole device */
	assert_int_equal(rig.kicks[0] + rig.kicks[1], kicks);
	driver_ready(&rig.d, 2, &rig.r);
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 0);
	assert_int_equal(rig.pulses, 1);
	rig.break_it = false;
	driver_ring_open(&rig.d, &rig.r, QUEUE_MAX);
	bring_up(0);
	offer();
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.r.used->idx, 1);
}

static void what_is_left_over_is_kicked_on_the_loop(void **state)
{
	(void)state;
	bring_up(0);
	rig.want_again = true;
	offer();
	unsigned kicks = rig.kicks[0];
	atomic_store(&rig.loop.stop, false); /* of the kick at DRIVER_OK */
	driver_kick(&rig.d, 0);
	assert_int_equal(rig.kicks[0], kicks + 1);
	assert_int_equal(rig.r.used->idx, 0);
	event_loop_run(&rig.loop);
	assert_int_equal(rig.kicks[0], kicks + 2);
	assert_int_equal(rig.r.used->idx, 1);
}

/* -------------------------------------------------------------------------------- many threads */

static void *kick_often(void *arg)
{
	for (unsigned i = 0; i < 2000; i++) {
		driver_kick(&rig.d, (unsigned)(uintptr_t)arg);
		rig.dev.up.config(rig.dev.up.ctx);
	}
	return NULL;
}

/* set_line() fails when two pulses overlap; the sanitizers see the rest. */
static void kicks_resets_and_interrupts_of_several_threads_mix(void **state)
{
	pthread_t threads[2];

	(void)state;
	bring_up(0);
	for (uintptr_t n = 0; n < 2; n++)
		assert_int_equal(pthread_create(&threads[n], NULL, kick_often, (void *)n), 0);
	for (unsigned i = 0; i < 500; i++)
		bring_up(0);
	for (unsigned n = 0; n < 2; n++)
		pthread_join(threads[n], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(a_queue_works_from_driver_ok_on),
		WITH_RIG(a_queue_is_not_ready_before_features_ok),
		WITH_RIG(a_queue_that_cannot_be_needs_a_reset),
		WITH_RIG(a_ready_queue_cannot_be_changed),
		WITH_RIG(a_queue_can_be_stopped_and_started_again),
		WITH_RIG(a_queue_reset_has_to_be_negotiated),
		WITH_RIG(an_interrupt_is_an_edge_and_a_bit),
		WITH_RIG(a_configuration_change_is_told),
		WITH_RIG(a_broken_ring_needs_a_reset_and_says_so_once),
		WITH_RIG(what_is_left_over_is_kicked_on_the_loop),
		WITH_RIG(kicks_resets_and_interrupts_of_several_threads_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
