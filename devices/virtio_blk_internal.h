/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_blk_internal.h - what the parts of the block device share: requests, and queues of them. */
#ifndef LULL_VIRTIO_BLK_INTERNAL_H
#define LULL_VIRTIO_BLK_INTERNAL_H

#include "disk_file.h"
#include "disk_ring.h"
#include "event_loop.h"
#include "log.h"
#include "rate_limit.h"
#include "virtio_blk.h"

enum {
	BLK_QUEUE_MAX = 256,                       /* entries of a virtqueue */
	BLK_IOV_MAX = VIRTIO_BLK_SEGMENTS_MAX + 2, /* header, data, status */
	BLK_REQUESTS = 128,                        /* of one queue in flight */
	BLK_SECTOR = 512,
	BLK_CONFIG_BYTES = 60,           /* up to write_zeroes_may_unmap */
	BLK_RANGE_SECTORS_MAX = 1 << 22, /* of one discard: 2 GiB */
};

struct blk_queue;

/* One request, from pop to push. */
struct blk_request {
	struct blk_queue *queue;
	struct blk_request *next_free;
	struct virtq_chain chain;
	struct disk_io io;
	uint8_t *status;   /* in guest memory: the last byte of the chain */
	uint32_t in_bytes; /* writable bytes before it */
	struct iovec iov[BLK_IOV_MAX];
};

/* Under the lock of the virtqueue, except where said. */
struct blk_queue {
	struct virtio_blk *blk;       /* constant */
	unsigned index;               /* constant */
	struct blk_request *requests; /* BLK_REQUESTS of them; a page is touched when it is used first */
	struct blk_request *free;
	unsigned fresh; /* requests from here on were never used */
	bool starved;   /* popping stopped because no request was free */
	bool has_ring, tried_ring;
	struct disk_ring ring;
	struct event_source done; /* the ring's eventfd */
	atomic_uint in_flight;    /* written under lock, read by anyone */
};

struct virtio_blk {
	struct virtio_dev dev;
	/* Constant. */
	struct disk_file *file;
	struct event_loop *loop;
	struct blk_queue *queues;
	/* Any thread. */
	struct rate_limit limit;
	struct log_limit log_limit;
};

/* Reads a popped chain: a VIRTIO_BLK_S_* when the request is answered already, -1 when request->io is to be carried
 * out, -EPROTO when there is not even a place for an answer. */
int blk_parse(const struct virtio_blk *blk, struct blk_request *request);
/* Answers: status byte, and what the driver is told to have been written. */
void blk_answer(struct blk_request *request, int status);

void blk_config(const struct virtio_blk *blk, uint8_t config[BLK_CONFIG_BYTES]);
uint64_t blk_features(const struct disk_file *file);

#endif
