/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_balloon.h - the traditional memory balloon: virtio 1.2, 5.5. Memory that the guest gives up, or reports as
 * free, goes back to the host and reads as zero when it is used again.
 *
 * The driver's pages are hostile: of what it names only whole pages of RAM above a floor are taken, which keeps lull's
 * own tables out. Pages are sorted and merged, so that the host is asked once per range, and one notification does
 * a bounded amount of work; the rest is done on the I/O thread in pieces of that size. A chain goes back to the
 * driver when all of it is done, so a page is never taken that the driver could be using again.
 *
 * Not offered: free page hints, which are for migration.
 */
#ifndef LULL_VIRTIO_BALLOON_H
#define LULL_VIRTIO_BALLOON_H

#include "virtio.h"

struct balloon_host;
struct event_loop;

/* host outlives it. Nothing below floor, a guest-physical address, is taken. NULL: no memory. */
struct virtio_dev *virtio_balloon_create(struct balloon_host *host, const struct guest_mem *mem, uint64_t floor,
                                         struct event_loop *loop);

/* The host's target was changed: the driver is told. Any thread. */
void virtio_balloon_retarget(struct virtio_dev *dev);

#endif
