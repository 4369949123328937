/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_vsock.h - the socket device: virtio 1.2, 5.10, streams between the guest and unix sockets of the host.
 *
 * The thread that notifies takes the guest's packets, straight from the guest's buffers to the host's sockets; what a
 * socket does not take now waits in a buffer of its connection, within the credit that the guest was given, and never
 * in the queue. The I/O thread, and whoever gives buffers, moves bytes straight from the sockets to the guest's
 * buffers, within the credit that the guest gave, and one connection after the other.
 */
#ifndef LULL_VIRTIO_VSOCK_H
#define LULL_VIRTIO_VSOCK_H

#include "virtio.h"

struct event_loop;
struct vsock_host;

/* host outlives it and has no other user. NULL: no memory or no descriptors. */
struct virtio_dev *virtio_vsock_create(struct vsock_host *host, struct event_loop *loop);

#endif
