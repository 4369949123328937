/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_balloon_rig.h - a balloon between a driver and a host whose madvise() is counted, and fails when told to. */
#ifndef LULL_TESTS_VIRTIO_BALLOON_RIG_H
#define LULL_TESTS_VIRTIO_BALLOON_RIG_H

#include "virtio_balloon.h"

#include "balloon_host.h"
#include "event_loop.h"
#include "fakes/virtq_driver.h"

#include <errno.h>
#include <linux/virtio_balloon.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	INFLATE = 0,
	DEFLATE = 1,
	STATS = 2,
	QUEUES = 5,
	RING = 32,
	PAGE = 4096,
	BUSY = 0x55, /* what is in a page that is used */
};

#define FLOOR         MiB(1)
#define POOL          MiB(2) /* pages from here to the end of RAM are for the balloon */
#define FEATURE(name) (UINT64_C(1) << VIRTIO_BALLOON_F_##name)

static struct {
	struct virtio_dev *dev;
	struct balloon_host *host;
	struct driver d;
	struct driver_ring rings[QUEUES];
	struct event_loop loop;
	uint64_t list; /* where lists of page numbers and statistics are */
	atomic_uint pulses;
	/* The host's madvise(). */
	atomic_uint calls;
	atomic_ulong addr, bytes; /* of the last one: guest-physical */
	int error;
} rig;

/* In front of the C library's. */
int madvise(void *at, size_t bytes, int advice)
{
	if (advice == MADV_DONTNEED || advice == MADV_REMOVE) {
		rig.calls++;
		rig.bytes = bytes;
		if (rig.d.mem.count)
			rig.addr = guest_mem_gpa(&rig.d.mem, at).value;
		if (rig.error) {
			errno = rig.error;
			return -1;
		}
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

static inline void set_line(void *chip, unsigned pin, bool level)
{
	(void)chip, (void)pin;
	rig.pulses += level;
}

static inline void rig_open(const char *spec)
{
	memset(&rig, 0, sizeof(rig));
	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.host = balloon_host_open(spec, DRIVER_RAM, NULL);
	assert_non_null(rig.host);
	rig.dev = virtio_balloon_create(rig.host, &rig.d.mem, FLOOR, &rig.loop);
	const struct virtio_mmio_config config = {
		.dev = rig.dev, .mem = &rig.d.mem, .line = {set_line, NULL, 16}, .loop = &rig.loop};
	rig.d.t = virtio_mmio_create(&config);
	for (unsigned n = 0; n < QUEUES; n++)
		driver_ring_open(&rig.d, &rig.rings[n], RING);
	rig.list = driver_alloc(&rig.d, MiB(1) / 2, PAGE);
}

static inline void bring_up(uint64_t features)
{
	assert_true(driver_negotiate(&rig.d, features));
	for (unsigned n = 0; n < QUEUES; n++) {
		struct driver_ring *r = &rig.rings[n];
		r->avail->idx = r->used->idx = r->next = r->seen = 0;
		driver_ready(&rig.d, n, r);
	}
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
}

/* With all that the device offers. */
static inline void rig_up(const char *spec)
{
	rig_open(spec);
	bring_up(driver_offered(&rig.d));
	memset(driver_at(&rig.d, POOL), BUSY, DRIVER_RAM - POOL);
	rig.calls = 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
	balloon_host_close(rig.host);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	return 0;
}

static inline void step_loop(int timeout_ms)
{
	struct epoll_event event;

	while (epoll_wait(rig.loop.epoll_fd, &event, 1, timeout_ms) == 1) {
		const struct event_source *src = event.data.ptr;
		src->fn(src->ctx, event.events);
		timeout_ms = 0;
	}
}

static inline bool came_back(unsigned queue)
{
	uint32_t id, written = 1;

	if (!driver_used(&rig.rings[queue], &id, &written))
		return false;
	assert_int_equal(written, 0);
	return true;
}

/* One buffer from notification to notification. */
static inline bool offer(unsigned queue, uint64_t addr, uint32_t bytes, bool writable)
{
	const struct driver_buf buf = {addr, bytes, writable};

	driver_chain(&rig.rings[queue], &buf, 1);
	driver_kick(&rig.d, queue);
	return came_back(queue);
}

static inline uint32_t *pfns(void)
{
	return driver_at(&rig.d, rig.list);
}

static inline uint32_t pool(unsigned page)
{
	return (uint32_t)(POOL / PAGE) + page;
}

static inline bool is_gone(uint64_t addr)
{
	uint8_t *at = driver_at(&rig.d, addr), resident = 0;

	assert_int_equal(mincore(at, PAGE, &resident), 0);
	if (resident & 1)
		return false;
	for (unsigned i = 0; i < PAGE; i++)
		assert_int_equal(at[i], 0);
	return true;
}

static inline bool is_kept(uint64_t addr)
{
	const uint8_t *at = driver_at(&rig.d, addr);

	for (unsigned i = 0; i < PAGE; i++)
		if (at[i] != BUSY)
			return false;
	return true;
}

/* Of the pool those pages are gone, the others are as they were. */
static inline void assert_gone(unsigned first, unsigned count)
{
	for (unsigned page = 0; page < (DRIVER_RAM - POOL) / PAGE; page++) {
		bool gone = page >= first && page < first + count;
		assert_true((gone ? is_gone : is_kept)(POOL + page * PAGE));
	}
}

#endif
