// SPDX-License-Identifier: Apache-2.0
/* virtio_net_receive.c - from the host to the guest's buffers: how many to hold, and where each frame goes. */
#include "virtio_net_internal.h"

#include "util.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

enum {
	BUDGET = 64, /* frames per event; the loop comes back for more */
	NUM_BUFFERS_AT = 10,
};

enum room {
	ROOM_ENOUGH,
	ROOM_WAIT, /* the driver has more to give, and will notify */
	ROOM_FULL, /* it has given all it can */
};

enum outcome {
	GOT_FRAME,
	GOT_NOTHING, /* the host has none now */
	CANNOT,      /* no buffer, or not allowed now: somebody else says when to go on */
};

/* ----------------------------------------------------------------------------------- held buffers */

static void hold_chain(struct net_pair *p, const struct virtq_chain *chain)
{
	p->held[p->held_count++] = (struct net_buffer){chain->head, (uint16_t)chain->writable, chain->writable_bytes};
	p->held_iovs += chain->writable;
	p->held_bytes += chain->writable_bytes;
}

/* Pops receive buffers until there is so much room. */
static enum room hold(struct net_pair *p, size_t bytes)
{
	struct virtio_queue *q = net_rx_queue(p);
	struct virtq_chain chain = {.iov_max = NET_QUEUE_MAX};

	virtq_kick_off(&q->ring);
	while (p->held_bytes < bytes) {
		/* A chain of the ring takes a descriptor for each of its pieces. */
		if (p->held_iovs + NET_QUEUE_MAX > NET_IOV_MAX || p->held_count == q->ring.size ||
		    p->held_iovs >= q->ring.size)
			return ROOM_FULL;
		chain.iov = p->held_iov + p->held_iovs;
		int ret = virtq_pop(&q->ring, &chain);
		if (ret < 0)
			virtio_broken(&p->net->dev, 2 * p->index, "a chain that cannot be");
		if (ret < 0 || (ret == 0 && !virtq_kick_on(&q->ring)))
			return ROOM_WAIT;
		if (ret == 0)
			continue;
		if (chain.readable || chain.writable_bytes < NET_HEADER_BYTES) {
			virtq_push(&q->ring, chain.head, 0);
			virtio_broken(&p->net->dev, 2 * p->index,
			              "a receive buffer that takes no header or cannot be written");
			return ROOM_WAIT;
		}
		hold_chain(p, &chain);
	}
	return ROOM_ENOUGH;
}

static void forget_first(struct net_pair *p, unsigned count)
{
	unsigned iovs = 0;

	for (unsigned i = 0; i < count; i++) {
		iovs += p->held[i].iovs;
		p->held_bytes -= p->held[i].bytes;
	}
	p->held_count -= count;
	p->held_iovs -= iovs;
	memmove(p->held, p->held + count, p->held_count * sizeof(p->held[0]));
	memmove(p->held_iov, p->held_iov + iovs, p->held_iovs * sizeof(p->held_iov[0]));
}

void net_give_back(struct net_pair *p)
{
	for (unsigned i = 0; i < p->held_count; i++)
		virtq_push(&net_rx_queue(p)->ring, p->held[i].head, 0);
	forget_first(p, p->held_count);
}

/* 5.1.6.4: in the header of the first buffer. */
static void put_num_buffers(const struct net_pair *p, unsigned count)
{
	const struct virtq_chain first = {.iov = (struct iovec *)(uintptr_t)p->held_iov, .writable = p->held[0].iovs};
	const uint8_t bytes[2] = {(uint8_t)count, (uint8_t)(count >> 8)};

	virtq_write(&first, NUM_BUFFERS_AT, bytes, sizeof(bytes));
}

/* The frame is in the first of the held buffers. */
static void deliver(struct net_pair *p, size_t bytes)
{
	unsigned count = 0;

	for (size_t left = bytes; left; count++)
		left -= left < p->held[count].bytes ? left : p->held[count].bytes;
	put_num_buffers(p, count);
	for (unsigned i = 0; i < count; i++) {
		size_t n = bytes < p->held[i].bytes ? bytes : p->held[i].bytes;
		virtq_push(&net_rx_queue(p)->ring, p->held[i].head, (uint32_t)n);
		bytes -= n;
	}
	forget_first(p, count);
}

/* ------------------------------------------------------------------------------------------ frames */

static void count_frame(struct virtio_net *net, size_t bytes)
{
	struct net_counters *c = &net->host->rx;

	atomic_fetch_add_explicit(&c->frames, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->bytes, bytes - NET_HEADER_BYTES, memory_order_relaxed);
	rate_limit_take(&net->rx_limit, bytes - NET_HEADER_BYTES);
}

static enum outcome failed(struct virtio_net *net, ssize_t ret)
{
	if (ret == -EAGAIN)
		return GOT_NOTHING;
	net_lost(net);
	return CANNOT;
}

/* Moves one frame. One that does not fit is dropped, and the buffers wait for the next. */
static enum outcome move_frame(struct net_pair *p)
{
	struct net_host *host = p->net->host;
	uint8_t beyond;

	/* Where a frame that is too long shows. */
	p->held_iov[p->held_iovs] = (struct iovec){&beyond, 1};
	ssize_t n = host->ops->receive(host, p->index, p->held_iov, p->held_iovs + 1);
	if (n < 0)
		return failed(p->net, n);
	if ((size_t)n > p->held_bytes || n < (ssize_t)(NET_HEADER_BYTES + NET_FRAME_MIN)) {
		atomic_fetch_add_explicit(&host->rx.dropped, 1, memory_order_relaxed);
		return GOT_FRAME;
	}
	count_frame(p->net, (size_t)n);
	deliver(p, (size_t)n);
	return GOT_FRAME;
}

static enum outcome receive_one(struct net_pair *p)
{
	struct virtio_net *net = p->net;

	if (!rate_limit_open(&net->rx_limit))
		return CANNOT;
	/* Without mergeable buffers a frame has one, whatever its length. */
	enum room room = hold(p, net->mergeable ? net->ample : 1);
	if (!p->held_count || !net_rx_queue(p)->live)
		return CANNOT;
	ssize_t next = net->host->ops->next(net->host, p->index, room == ROOM_ENOUGH);
	if (next < 0)
		return failed(net, next);
	if (net->mergeable && hold(p, (size_t)next) == ROOM_WAIT) {
		atomic_fetch_add_explicit(&net->host->rx.waits, 1, memory_order_relaxed);
		return CANNOT;
	}
	return move_frame(p);
}

void net_receive(struct net_pair *p)
{
	enum outcome outcome = GOT_FRAME;

	for (unsigned budget = BUDGET; budget && outcome == GOT_FRAME; budget--)
		outcome = receive_one(p);
	net_want(p, EPOLLIN, outcome != CANNOT);
	if (outcome == GOT_FRAME && net_pending(p))
		p->net->dev.up.again(p->net->dev.up.ctx, 2 * p->index);
	virtio_flush(&p->net->dev, 2 * p->index);
}
