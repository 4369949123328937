/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio.h - between a virtio device and its transport: virtio 1.2, chapters 2 and 3.
 *
 * The transport owns the registers, the status, the negotiation and the queues, and calls the device down; the device
 * reaches up through struct virtio_up only. Locks, outer before inner: the transport's registers -> one queue ->
 * whatever the interrupt controller takes. A queue's lock is held whenever its ring is touched, and it is the only lock
 * a kick takes.
 */
#ifndef LULL_VIRTIO_H
#define LULL_VIRTIO_H

#include "virtq.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct virtio_dev;

#define VIRTIO_QUEUES_MAX 16

struct virtio_queue {
	pthread_mutex_t lock;
	/* Under lock. */
	bool live;         /* the driver said DRIVER_OK, this queue is ready, and nobody broke the rules */
	struct virtq ring; /* usable while live, and while the device drains */
};

/* What a device may ask of its transport. Any thread, with the queue's lock held or without any. */
struct virtio_up {
	/* Used buffers of a queue were published and the driver wants to hear of it. */
	void (*used)(void *ctx, unsigned queue);
	/* The configuration space changed. */
	void (*config)(void *ctx);
	/* The driver broke the rules: NEEDS_RESET. The device looks at no queue any more. why is for the log. */
	void (*broken)(void *ctx, unsigned queue, const char *why);
	/* There is more to do than one kick may take: kick this queue again, on the I/O thread. */
	void (*again)(void *ctx, unsigned queue);
	void *ctx;
};

struct virtio_dev_ops {
	const char *name;   /* as in "virtio-blk" */
	uint32_t id;        /* virtio 1.2, chapter 5 */
	uint16_t queue_max; /* entries of a queue at most: a power of two */
	uint16_t config_bytes;
	/* DRIVER_OK: features are negotiated, queues are ready or not. Transport's lock held. 0, or -errno:
	 * NEEDS_RESET. */
	int (*start)(struct virtio_dev *dev);
	/* There may be something in this queue. The notifying vCPU's thread or the I/O thread, queue locked and live.
	 * Takes a bounded number of chains. */
	void (*kick)(struct virtio_dev *dev, unsigned queue);
	/* The queue stops (reset of queue or device), locked, not live any more: on return every chain was pushed and
	 * nothing is in flight. May wait for the host. NULL: chains never outlive a kick. */
	void (*drain)(struct virtio_dev *dev, unsigned queue);
	/* Configuration space; offset + len is within config_bytes. Transport's lock held. NULL: zeros, ignored. */
	void (*config_read)(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len);
	void (*config_write)(struct virtio_dev *dev, uint32_t offset, const void *data, uint32_t len);
	/* The transport is gone. */
	void (*destroy)(struct virtio_dev *dev);
};

/* The device embeds it. */
struct virtio_dev {
	/* Constant, the device's. */
	const struct virtio_dev_ops *ops;
	uint64_t offered; /* its own feature bits; the transport adds those of rings and transport */
	unsigned queue_count;
	/* Constant, the transport's. */
	struct virtio_queue *queues;
	struct virtio_up up;
	/* The transport's: constant from start to reset. */
	uint64_t features;
};

static inline bool virtio_has(const struct virtio_dev *dev, unsigned feature)
{
	return dev->features >> feature & 1;
}

/* Publishes what was pushed and tells the driver if it wants to know. Queue locked. */
static inline void virtio_flush(struct virtio_dev *dev, unsigned queue)
{
	if (virtq_flush(&dev->queues[queue].ring))
		dev->up.used(dev->up.ctx, queue);
}

/* The driver broke a rule of this queue, which is locked. */
static inline void virtio_broken(struct virtio_dev *dev, unsigned queue, const char *why)
{
	dev->queues[queue].live = false;
	dev->up.broken(dev->up.ctx, queue, why);
}

#endif
