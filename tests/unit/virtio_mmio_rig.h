/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_mmio_rig.h - a transport in front of a device that only counts, for the tests of virtio_mmio.c. */
#ifndef LULL_TESTS_VIRTIO_MMIO_RIG_H
#define LULL_TESTS_VIRTIO_MMIO_RIG_H

#include "virtio_mmio.h"

#include "event_loop.h"
#include "fakes/virtq_driver.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	QUEUES = 3,
	QUEUE_MAX = 16,
	DEVICE_FEATURE = 5,
	RING_RESET = 40,
	ACK = VIRTIO_CONFIG_S_ACKNOWLEDGE,
	DRIVER = VIRTIO_CONFIG_S_DRIVER,
	OK = VIRTIO_CONFIG_S_DRIVER_OK,
	FEATURES_OK = VIRTIO_CONFIG_S_FEATURES_OK,
	BROKEN = VIRTIO_CONFIG_S_NEEDS_RESET,
	FAILED = VIRTIO_CONFIG_S_FAILED,
	REG_QUEUE_RESET = 0xc0,
};

struct rig {
	struct virtio_dev dev;
	struct driver d;
	struct driver_ring r;
	struct event_loop loop;
	unsigned starts, kicks[QUEUES], drains[QUEUES], pulses;
	int start_result;
	bool high, break_it, want_again;
	uint8_t config[6];
};

static struct rig rig;

static inline int start(struct virtio_dev *dev)
{
	(void)dev;
	rig.starts++;
	return rig.start_result;
}

/* Gives each chain back at once. */
static inline void kick(struct virtio_dev *dev, unsigned n)
{
	struct iovec iov[QUEUE_MAX];
	struct virtq_chain chain = {.iov = iov, .iov_max = QUEUE_MAX};
	struct virtq *q = &dev->queues[n].ring;

	rig.kicks[n]++;
	if (rig.want_again) {
		rig.want_again = false;
		dev->up.again(dev->up.ctx, n);
		return;
	}
	while (virtq_pop(q, &chain) == 1)
		virtq_push(q, chain.head, 0);
	if (rig.break_it)
		virtio_broken(dev, n, "the test says so");
	virtio_flush(dev, n);
	event_loop_stop(&rig.loop);
}

static inline void drain(struct virtio_dev *dev, unsigned n)
{
	assert_false(dev->queues[n].live);
	rig.drains[n]++;
}

static inline void config_read(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len)
{
	(void)dev;
	memcpy(data, rig.config + offset, len);
}

static inline void config_write(struct virtio_dev *dev, uint32_t offset, const void *data, uint32_t len)
{
	(void)dev;
	memcpy(rig.config + offset, data, len);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-test",
	.id = 42,
	.queue_max = QUEUE_MAX,
	.config_bytes = sizeof(rig.config),
	.start = start,
	.kick = kick,
	.drain = drain,
	.config_read = config_read,
	.config_write = config_write,
};

/* A pulse is a rise and a fall: two threads in it at a time would make one of two. */
static inline void set_line(void *chip, unsigned pin, bool level)
{
	(void)chip;
	assert_int_equal(pin, 16);
	assert_int_not_equal(rig.high, level);
	rig.high = level;
	rig.pulses += level;
}

static inline int set_up(void **state)
{
	(void)state;
	memset(&rig, 0, sizeof(rig));
	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.dev = (struct virtio_dev){.ops = &ops, .offered = 1u << DEVICE_FEATURE, .queue_count = QUEUES};
	const struct virtio_mmio_config config = {
		.dev = &rig.dev, .mem = &rig.d.mem, .line = {set_line, NULL, 16}, .loop = &rig.loop};
	rig.d.t = virtio_mmio_create(&config);
	driver_ring_open(&rig.d, &rig.r, QUEUE_MAX);
	memcpy(rig.config, "\1\2\3\4\5\6", 6);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	virtio_mmio_destroy(rig.d.t);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	return 0;
}

static inline unsigned status(void)
{
	return driver_read(&rig.d, VIRTIO_MMIO_STATUS);
}

static inline void set(unsigned reg, uint32_t value)
{
	driver_write(&rig.d, reg, value);
}

static inline uint32_t get(unsigned reg)
{
	return driver_read(&rig.d, reg);
}

/* Queue 0 works. */
static inline void bring_up(uint64_t features)
{
	assert_true(driver_negotiate(&rig.d, features));
	driver_ready(&rig.d, 0, &rig.r);
	assert_int_equal(get(VIRTIO_MMIO_QUEUE_READY), 1);
	driver_set_status(&rig.d, OK);
	assert_int_equal(status(), ACK | DRIVER | FEATURES_OK | OK);
}

static inline void offer(void)
{
	const struct driver_buf buf = {0, 4, true};

	driver_chain(&rig.r, &buf, 1);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
