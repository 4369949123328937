/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_blk.h - the block device: virtio 1.2, 5.2.
 *
 * The thread that kicks a queue submits its requests. Completions are reaped, under the queue's lock, by whoever is
 * first: that thread when they are there at once, a vCPU that polls in a halt, else the I/O thread. Requests complete
 * in any order.
 */
#ifndef LULL_VIRTIO_BLK_H
#define LULL_VIRTIO_BLK_H

#include "poll_hook.h"
#include "virtio.h"

struct disk_file;
struct event_loop;

#define VIRTIO_BLK_SEGMENTS_MAX 126 /* of one request's data */

/* file outlives it. loop may be NULL for tests: then only drain() and polling complete what takes time. NULL: no
 * memory. */
struct virtio_dev *virtio_blk_create(struct disk_file *file, struct event_loop *loop);

/* How a polling vCPU completes this disk's requests. */
struct poll_hook virtio_blk_poll_hook(struct virtio_dev *dev);

#endif
