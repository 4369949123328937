/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_blk_rig.h - a disk with a file behind it and a driver in front, for the tests of virtio_blk.c. */
#ifndef LULL_TESTS_VIRTIO_BLK_RIG_H
#define LULL_TESTS_VIRTIO_BLK_RIG_H

#include "virtio_blk.h"
#include "virtio_blk_internal.h"

#include "fakes/virtq_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/virtio_blk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	DISK_BYTES = 1 << 20,
	RING = 256,
};

struct rig {
	char path[64];
	struct disk_file *file;
	struct virtio_dev *dev;
	struct driver d;
	struct driver_ring r;
	struct event_loop loop;
	atomic_uint pulses;
	uint64_t header, status, data; /* guest addresses: one page each */
};

static struct rig rig;

static inline void set_line(void *chip, unsigned pin, bool level)
{
	(void)chip, (void)pin;
	atomic_fetch_add(&rig.pulses, level);
}

static inline void *guest(uint64_t addr)
{
	return driver_at(&rig.d, addr);
}

static inline struct blk_queue *queue_of(unsigned n)
{
	return &container_of(rig.dev, struct virtio_blk, dev)->queues[n];
}

/* Negotiates whatever is offered of these. */
static inline void bring_up(uint64_t features)
{
	driver_ring_open(&rig.d, &rig.r, RING);
	assert_true(driver_negotiate(&rig.d, features & driver_offered(&rig.d)));
	driver_ready(&rig.d, 0, &rig.r);
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
	assert_false(driver_needs_reset(&rig.d));
}

static inline void plug(void)
{
	rig.dev = virtio_blk_create(rig.file, &rig.loop);
	assert_non_null(rig.dev);
	const struct virtio_mmio_config config = {
		.dev = rig.dev, .mem = &rig.d.mem, .line = {set_line, NULL, 16}, .loop = &rig.loop};
	rig.d.t = virtio_mmio_create(&config);
	assert_non_null(rig.d.t);
}

static inline void unplug(void)
{
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
}

/* more: of the text of the disk. */
static inline void open_rig(const char *more)
{
	char spec[128];

	memset(&rig, 0, sizeof(rig));
	snprintf(rig.path, sizeof(rig.path), "build/blk-test.XXXXXX");
	int fd = mkstemp(rig.path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, DISK_BYTES), 0);
	close(fd);
	snprintf(spec, sizeof(spec), "path=%s%s", rig.path, more);
	rig.file = disk_file_open(spec, NULL, NULL);
	assert_non_null(rig.file);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	driver_open(&rig.d);
	rig.header = driver_alloc(&rig.d, 4096, 4096);
	rig.status = driver_alloc(&rig.d, 4096, 4096);
	rig.data = driver_alloc(&rig.d, 65536, 4096);
	plug();
}

static inline void close_rig(void)
{
	unplug();
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	disk_file_close(rig.file);
	unlink(rig.path);
}

/* Puts request number n of a header, data and a status into the ring. */
static inline void put(unsigned n, uint32_t type, uint64_t sector, uint64_t data, uint32_t len)
{
	const struct virtio_blk_outhdr h = {.type = type, .sector = sector};
	bool out = type == VIRTIO_BLK_T_OUT || type >= VIRTIO_BLK_T_DISCARD;
	const struct driver_buf bufs[] = {
		{rig.header + n * 16, 16, false}, {data, len, !out}, {rig.status + n, 1, true}};
	const struct driver_buf bare[] = {bufs[0], bufs[2]};

	memcpy(guest(bufs[0].addr), &h, sizeof(h));
	*(uint8_t *)guest(rig.status + n) = 0xee;
	if (len)
		driver_chain(&rig.r, bufs, 3);
	else
		driver_chain(&rig.r, bare, 2);
}

static void on_tick(void *ctx, uint32_t events)
{
	uint64_t count;
	struct event_source *src = ctx;

	(void)events;
	(void)!read(src->fd, &count, sizeof(count));
	event_loop_stop(&rig.loop);
}

/* Lets the I/O thread's work happen here until so many entries are used. */
static inline void wait_used(uint16_t idx)
{
	struct itimerspec soon = {.it_value = {0, 1000000}};
	struct event_source tick = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), .fn = on_tick, .ctx = &tick};

	event_loop_set(&rig.loop, &tick, EPOLLIN);
	for (unsigned i = 0; i < 5000 && __atomic_load_n(&rig.r.used->idx, __ATOMIC_ACQUIRE) != idx; i++) {
		timerfd_settime(tick.fd, 0, &soon, NULL);
		event_loop_run(&rig.loop);
	}
	event_loop_set(&rig.loop, &tick, 0);
	close(tick.fd);
	assert_int_equal(rig.r.used->idx, idx);
}

static inline unsigned status_of(unsigned n)
{
	return *(uint8_t *)guest(rig.status + n);
}

/* One request, from the notification to its status; written bytes must be what they should. */
static inline unsigned request(uint32_t type, uint64_t sector, uint32_t len)
{
	uint32_t id, written;

	put(0, type, sector, rig.data, len);
	driver_kick(&rig.d, 0);
	wait_used((uint16_t)(rig.r.seen + 1));
	assert_true(driver_used(&rig.r, &id, &written));
	if (status_of(0) == VIRTIO_BLK_S_OK && (type == VIRTIO_BLK_T_IN || type == VIRTIO_BLK_T_GET_ID))
		assert_int_equal(written, len + 1);
	return status_of(0);
}

#endif
