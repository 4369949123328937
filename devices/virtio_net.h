/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_net.h - the network device: virtio 1.2, 5.1, with mergeable receive buffers, what the host end can offload,
 * and several pairs of queues where it has them.
 *
 * The thread that notifies sends, straight from the guest's buffers; what the host does not take now waits in the
 * queue, and the I/O thread goes on with it. The I/O thread receives, straight into the guest's buffers where the host
 * end allows; while there are none, frames wait in the host.
 */
#ifndef LULL_VIRTIO_NET_H
#define LULL_VIRTIO_NET_H

#include "virtio.h"

struct event_loop;
struct net_host;

/* host outlives it and has no other user. loop may be NULL for tests: then nothing is received. NULL: no memory. */
struct virtio_dev *virtio_net_create(struct net_host *host, struct event_loop *loop);

#endif
