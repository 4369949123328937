/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_net.h - a driver for network devices. A frame has one buffer, and is answered from where it came to. */
#ifndef GUEST_VIRTIO_NET_H
#define GUEST_VIRTIO_NET_H

#include "virtio.h"

enum {
	VIRTIO_NET = 1,
	NET_HEADER = 12, /* struct virtio_net_hdr_v1, in front of each frame */
	NET_BUF = 2048,
	NET_BUFS = 64, /* descriptor n of both queues is for buffer n */
};
#define VIRTIO_NET_F_CSUM       (1ull << 0)
#define VIRTIO_NET_F_GUEST_CSUM (1ull << 1)
#define VIRTIO_NET_F_MAC        (1ull << 5)
#define VIRTIO_NET_F_GUEST_TSO4 (1ull << 7)
#define VIRTIO_NET_F_HOST_TSO4  (1ull << 11)
#define VIRTIO_NET_F_STATUS     (1ull << 16)

struct net {
	struct virtio v;
	struct vq rx, tx;
	uint8_t *bufs;
	uint8_t mac[6];
	bool own_is_used;
	uint32_t configs; /* changes of the configuration that net_wait() has told */
};

/* Skips the test when there is no such interface. All buffers wait for frames. */
void net_start(struct net *n, unsigned nth, uint64_t wanted);

/* The rest also works in ring 3, but for the last three. */

/* The next frame, or NULL. The buffer is the caller's until it gives it to one of the two below. */
uint8_t *net_receive(struct net *n, uint32_t *bytes);
void net_send(struct net *n, uint8_t *frame, uint32_t bytes); /* afterwards it waits for a frame again */
void net_drop(struct net *n, uint8_t *frame);
/* A buffer for one frame of our own; NULL the second time. Sent, it is one of those that wait for frames. */
uint8_t *net_own(struct net *n);

/* Buffers that were sent wait for frames again. */
void net_collect(struct net *n);

/* Tells the device what there is to do, if it wants to hear of it. */
void net_kick(struct net *n);
/* Halts until a frame came or went out or the configuration changed. */
void net_wait(struct net *n);
/* Halts until everything went out. */
void net_flush(struct net *n);

static inline bool net_link_is_up(const struct net *n)
{
	return virtio_read(&n->v, VIRTIO_CONFIG + 4) >> 16 & 1;
}

#endif
