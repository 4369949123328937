/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_virtio.h - a virtio driver that does what the fuzzer's bytes say: registers, ring words, memory, notifications.
 */
#ifndef LULL_TESTS_FUZZ_VIRTIO_H
#define LULL_TESTS_FUZZ_VIRTIO_H

#include "fakes/virtq_driver.h"

#include "event_loop.h"

#include <sys/epoll.h>

enum {
	FUZZ_RINGS = 4,
	FUZZ_MEMORY = 0x20000, /* what the bytes may change, and what is zeroed before each run */
	FUZZ_BUFFERS = 0x10000,
};

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline uint64_t fuzz_take(struct fuzz_input *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++) {
		value = value << 8 | (in->left ? *in->at : 0);
		in->at += in->left != 0;
		in->left -= in->left != 0;
	}
	return value;
}

struct fuzz_rig {
	struct driver d;
	struct driver_ring rings[FUZZ_RINGS];
	struct event_loop loop;
	unsigned queues;
	struct virtio_dev *dev;
};

/* Memory stays from run to run, for speed. */
static inline const struct driver *fuzz_memory(void)
{
	static struct driver kept;

	if (!kept.mem.count)
		driver_open(&kept);
	return &kept;
}

static inline void fuzz_open(struct fuzz_rig *f, struct virtio_dev *dev, struct event_loop *loop)
{
	const struct virtio_mmio_config config = {.dev = dev, .mem = &fuzz_memory()->mem, .loop = loop};

	f->d = *fuzz_memory();
	f->dev = dev;
	memset(driver_at(&f->d, 0), 0, FUZZ_MEMORY);
	f->d.t = virtio_mmio_create(&config);
	f->queues = dev->queue_count < FUZZ_RINGS ? dev->queue_count : FUZZ_RINGS;
}

static inline void fuzz_close(struct fuzz_rig *f)
{
	virtio_mmio_destroy(f->d.t);
	f->dev->ops->destroy(f->dev);
}

/* What the loop's thread would do next, most times at most: a descriptor may always be ready. */
static inline void fuzz_loop(struct fuzz_rig *f, unsigned most)
{
	struct epoll_event event;

	for (unsigned i = 0; i < most && epoll_wait(f->loop.epoll_fd, &event, 1, 0) == 1; i++) {
		const struct event_source *src = event.data.ptr;
		src->fn(src->ctx, event.events);
	}
}

/* Everything by the rules, so that the bytes that follow get deep. */
static inline void fuzz_bring_up(struct fuzz_rig *f, uint64_t features)
{
	driver_negotiate(&f->d, features & driver_offered(&f->d));
	f->d.heap = 0x1000;
	for (unsigned n = 0; n < f->queues; n++) {
		driver_ring_open(&f->d, &f->rings[n], (uint16_t)(4u << n));
		driver_ready(&f->d, n, &f->rings[n]);
	}
	driver_set_status(&f->d, VIRTIO_CONFIG_S_DRIVER_OK);
}

/* A chain of what the bytes say, made like one of a driver. */
static inline void fuzz_chain(struct fuzz_rig *f, struct fuzz_input *in)
{
	struct driver_ring *r = &f->rings[fuzz_take(in, 1) % f->queues];
	struct driver_buf bufs[8];
	unsigned count = 1 + fuzz_take(in, 1) % 8;

	if (!r->desc)
		return;
	for (unsigned i = 0; i < count; i++) {
		uint64_t word = fuzz_take(in, 2);
		bufs[i] = (struct driver_buf){FUZZ_BUFFERS + word % 0x1000 * 8,
		                              (uint32_t)(word >> 12 << fuzz_take(in, 1) % 13), fuzz_take(in, 1) & 1};
		bufs[i].len += !bufs[i].len;
	}
	driver_chain(r, bufs, count);
}

/* One step; the number of the step's kind is left for the caller when it is none of these. */
static inline unsigned fuzz_step(struct fuzz_rig *f, struct fuzz_input *in)
{
	unsigned kind = (unsigned)fuzz_take(in, 1) % 16, width = 1u << fuzz_take(in, 1) % 4;
	uint64_t a = fuzz_take(in, 2);

	switch (kind) {
	case 0:
		driver_write(&f->d, (unsigned)a % 0x110 & ~3u, (uint32_t)fuzz_take(in, 4));
		break;
	case 1:
		virtio_mmio_bus_ops.write(f->d.t, a % VIRTIO_MMIO_BYTES, width, fuzz_take(in, width));
		break;
	case 2:
		virtio_mmio_bus_ops.read(f->d.t, a % VIRTIO_MMIO_BYTES, width);
		break;
	case 3:
		guest_mem_write(&f->d.mem, gpa(a * 2), &(uint64_t){fuzz_take(in, width)}, width);
		break;
	case 4:
		fuzz_bring_up(f, fuzz_take(in, 8));
		break;
	case 5:
	case 6:
		fuzz_chain(f, in);
		break;
	case 7:
	case 8:
		driver_kick(&f->d, (unsigned)a % (f->queues + 1));
		break;
	case 9:
		if (f->rings[a % f->queues].avail) /* an index of any size */
			f->rings[a % f->queues].avail->idx = (uint16_t)fuzz_take(in, 2);
		break;
	case 10:
		if (f->rings[a % f->queues].desc) /* any descriptor */
			driver_desc(&f->rings[a % f->queues], (unsigned)fuzz_take(in, 1) % f->rings[a % f->queues].size,
			            fuzz_take(in, width), (uint32_t)fuzz_take(in, 4), (unsigned)fuzz_take(in, 1) & 7,
			            (unsigned)fuzz_take(in, 1));
		break;
	default:
		return kind;
	}
	return 0;
}

#endif
