/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_net_internal.h - shared by virtio_net.c (device, sending), virtio_net_receive.c and virtio_net_control.c only.
 */
#ifndef LULL_VIRTIO_NET_INTERNAL_H
#define LULL_VIRTIO_NET_INTERNAL_H

#include "event_loop.h"
#include "net_host.h"
#include "rate_limit.h"
#include "virtio_net.h"

enum {
	NET_QUEUE_MAX = 256,
	NET_IOV_MAX = 1023, /* readv() takes one more */
};

struct virtio_net;

/* A receive buffer that was popped and is not used yet. */
struct net_buffer {
	uint16_t head, iovs;
	uint32_t bytes;
};

struct net_pair {
	/* Constant. */
	struct virtio_net *net;
	unsigned index;
	/* Under lock, a leaf. */
	pthread_mutex_t lock;
	uint32_t wanted; /* EPOLLIN, EPOLLOUT: what the loop waits for */
	struct event_source source;
	/* Under both queues' locks to write, under one to read. */
	bool in_use;
	/* Under the receive queue's lock: buffers in order, their iovecs one behind the other. */
	struct net_buffer held[NET_QUEUE_MAX];
	struct iovec held_iov[NET_IOV_MAX + 1];
	unsigned held_count, held_iovs;
	size_t held_bytes;
	/* Under the transmit queue's lock. */
	struct virtq_chain frame; /* popped, and not taken by the host yet */
	struct iovec frame_iov[NET_QUEUE_MAX];
	bool has_frame;
	bool blocked; /* the host takes nothing, the loop waits for it */
};

struct virtio_net {
	struct virtio_dev dev;
	/* Constant. */
	struct net_host *host;
	struct event_loop *loop;
	/* Constant from start to reset. */
	bool mergeable;
	size_t ample;     /* room for any frame that can come */
	unsigned control; /* the control queue's number, or one that is not there */
	struct rate_limit rx_limit, tx_limit;
	struct net_pair *pairs;
};

static inline struct virtio_queue *net_rx_queue(const struct net_pair *p)
{
	return &p->net->dev.queues[2 * (size_t)p->index];
}

static inline struct virtio_queue *net_tx_queue(const struct net_pair *p)
{
	return &p->net->dev.queues[2 * (size_t)p->index + 1];
}

/* Is there input that the loop does not see? The receive queue is locked. */
static inline bool net_pending(const struct net_pair *p)
{
	return p->net->host->ops->pending(p->net->host, p->index);
}

/* virtio_net.c; any thread. */
void net_want(struct net_pair *p, uint32_t event, bool want);
void net_lost(struct virtio_net *net); /* the host's other end has gone */
int net_use_pairs(struct virtio_net *net, unsigned count);

/* virtio_net_receive.c; the receive queue is locked. */
void net_receive(struct net_pair *p); /* live */
void net_give_back(struct net_pair *p);

/* virtio_net_control.c; the control queue is locked and live. */
void net_control(struct virtio_net *net);

#endif
