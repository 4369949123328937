/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_console.h - the console device: virtio 1.2, 5.3, one port, with the emergency write.
 *
 * What the guest prints waits in the guest while the host's end is busy, and is dropped and counted once the host has
 * taken nothing for a fifth of a second: a driver spins until its buffer comes back, so none is kept for a reader who
 * may never come.
 */
#ifndef LULL_VIRTIO_CONSOLE_H
#define LULL_VIRTIO_CONSOLE_H

#include "virtio.h"

struct chardev;
struct event_loop;

/* cd outlives it and has no other user. On the loop's thread, or while it does not run. NULL: no memory. */
struct virtio_dev *virtio_console_create(struct chardev *cd, struct event_loop *loop);

#endif
