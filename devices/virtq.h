/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtq.h - the device's side of a split virtqueue: virtio 1.2, 2.7. The only file that touches rings.
 *
 * Ring and buffers are in memory that a hostile driver writes at the same time, so whatever is read from there is read
 * once into a local copy, checked, and only the copy is used. A device sees chains that are checked and translated
 * already.
 *
 * The contract with devices: every chain that virtq_pop() hands out goes back through virtq_push() exactly once, in any
 * order. After a negative return of virtq_pop() the ring is unusable: the device stops looking at it and needs a reset.
 *
 * No lock inside: the owner of the queue has one.
 */
#ifndef LULL_VIRTQ_H
#define LULL_VIRTQ_H

#include "guest_mem.h"

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define VIRTQ_SIZE_MAX 32768u /* 2.7: a power of two, at most this */

/* What the driver said, not yet believed. */
struct virtq_config {
	uint32_t size;
	gpa_t desc, avail, used;  /* descriptor area, driver area, device area */
	bool indirect, event_idx; /* negotiated */
};

struct virtq {
	/* Constant from virtq_init() on. */
	const struct guest_mem *mem;
	const uint8_t *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t size;
	bool indirect, event_idx;
	/* Ours; the driver's view of the indices is never read back. */
	uint16_t avail_next; /* the entry to take next */
	uint16_t used_next;  /* the entry to fill next */
	uint16_t used_told;  /* what the driver knows of it */
	uint16_t out;        /* chains popped and not pushed */
};

/* A request: buffers the device may read, then buffers it may write. All lengths are above 0. */
struct virtq_chain {
	struct iovec *iov; /* the caller's room */
	unsigned iov_max;  /* how much; a chain that needs more is a violation */
	unsigned readable; /* iov[0] up to here */
	unsigned writable; /* behind them */
	uint32_t readable_bytes, writable_bytes;
	uint16_t head;
};

/* 0, -EINVAL (size or alignment) or -EFAULT (not in RAM). Starts at index 0, as after a reset. */
int virtq_init(struct virtq *q, const struct guest_mem *mem, const struct virtq_config *config);

/* 1: a chain; 0: there is none; -EPROTO or -EFAULT: the driver broke the rules. */
int virtq_pop(struct virtq *q, struct virtq_chain *chain);

/* Gives a chain back with this many bytes written to its writable part. The driver sees it after virtq_flush(). */
void virtq_push(struct virtq *q, uint16_t head, uint32_t written);

/* Publishes what was pushed. True: the driver wants an interrupt for it. */
bool virtq_flush(struct virtq *q);

/* Asks the driver not to notify, or to do so from now on. virtq_kick_on() is true when something came before the driver
 * could know: then nobody will notify for that, and the caller looks again. */
void virtq_kick_off(struct virtq *q);
bool virtq_kick_on(struct virtq *q);

/* Copies from the readable or to the writable part, from an offset on; the number of bytes that were there. */
size_t virtq_read(const struct virtq_chain *chain, size_t offset, void *dst, size_t len);
size_t virtq_write(const struct virtq_chain *chain, size_t offset, const void *src, size_t len);

#endif
