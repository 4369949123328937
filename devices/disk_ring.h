/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_ring.h - one io_uring for one queue of a disk. Any thread submits and reaps under the queue's lock; only
 * disk_ring_peek(), _watch(), _quiet() and _loud() need none.
 *
 * A completion writes an eventfd that the event loop waits for, unless some vCPU polls: then the kernel is told not to
 * (IORING_CQ_EVENTFD_DISABLED). The permission is a count of pollers and a flag:
 *
 *     quiet   count 0 -> 1: set the flag             kernel   publish the completion     (a)
 *     loud    count 1 -> 0: clear the flag  (1)               look at the flag           (b)
 *             full barrier                  (2)
 *             look for completions          (3)
 *
 * If (b) saw the flag set, then (a) came before (1) was visible, and (3) finds the completion - provided that the
 * kernel has a full barrier between (a) and (b) as well. Linux has since 6.6, by waking its own waiters first; before
 * that it had not in each version (https://bugs.debian.org/1093243 is the same barrier missed by waiters). There (2) is
 * a membarrier(), which makes every thread of this process pass a barrier, and completions are only published by such:
 * the submitter's task work and the workers of io_uring. It costs microseconds, so it is left out when nothing is in
 * flight. Without membarrier() the flag is never set.
 *
 * Several threads: each sets before its own count down, and the last count down is followed by a clear, so no set
 * survives. A clear that comes late, when another thread has counted up again already, costs one write of the eventfd
 * and nothing else.
 */
#ifndef LULL_DISK_RING_H
#define LULL_DISK_RING_H

#include "disk_file.h"
#include "wake.h"

#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>

struct disk_ring {
	struct io_uring ring; /* queue's lock */
	int event_fd;
	bool can_quiet, needs_membarrier; /* constant once usable */
	atomic_bool usable;               /* set once, when the rest is there */
	atomic_uint pollers;
};

/* 0 or -errno: then io_uring is not to be had here. */
int disk_ring_open(struct disk_ring *r, unsigned entries);
void disk_ring_close(struct disk_ring *r); /* nothing is in flight, nobody polls */

/* Prepares an attempt; there is room, as long as no more than `entries` are in flight. tag comes back with the result.
 */
void disk_ring_add(struct disk_ring *r, const struct disk_io *io, void *tag);
/* Hands what was prepared to the kernel. 0; -EAGAIN: not all of it, the host is short of something: try again later. */
int disk_ring_submit(struct disk_ring *r);
/* A result, if there is one. */
bool disk_ring_take(struct disk_ring *r, void **tag, int *result);
/* Sleeps until there is one. */
void disk_ring_wait(struct disk_ring *r);

/* Without lock: might there be a result? A few loads. */
bool disk_ring_peek(const struct disk_ring *r);
/* What changes when a result comes; false: nothing, there is no ring yet. */
bool disk_ring_watch(const struct disk_ring *r, struct wake_watch *watch);
void disk_ring_quiet(struct disk_ring *r);
/* in_flight: whether there may be requests without a result. The caller then looks for completions, step (3). */
void disk_ring_loud(struct disk_ring *r, bool in_flight);

#endif
