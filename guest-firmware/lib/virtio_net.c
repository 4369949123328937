/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_net.c - frames in and out, 64 at a time. */
#include "virtio_net.h"

static void offer(struct vq *q, unsigned n, uint32_t len, uint16_t flags, uint8_t *at)
{
	q->desc[n].addr = (uint64_t)at;
	q->desc[n].len = len;
	q->desc[n].flags = flags;
	q->avail->ring[q->avail->idx & (NET_BUFS - 1)] = (uint16_t)n;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->avail->idx++;
}

static void offer_rx(struct net *n, unsigned buf)
{
	offer(&n->rx, buf, NET_BUF, VQ_WRITE, n->bufs + buf * NET_BUF);
}

void net_start(struct net *n, unsigned nth, uint64_t wanted)
{
	unsigned i;

	if (!virtio_find(&n->v, VIRTIO_NET, nth))
		skip("no network interface");
	virtio_begin(&n->v, wanted | VIRTIO_NET_F_MAC);
	for (i = 0; i < 6; i++)
		n->mac[i] = *(volatile uint8_t *)(n->v.base + VIRTIO_CONFIG + i);
	vq_setup(&n->rx, &n->v, 0, NET_BUFS);
	vq_setup(&n->tx, &n->v, 1, NET_BUFS);
	n->tx.avail->flags = VQ_NO_INTERRUPT;
	n->bufs = virtio_alloc(NET_BUFS * NET_BUF, 4096);
	for (i = 0; i < NET_BUFS - 1; i++) /* the last one is net_own()'s */
		offer_rx(n, i);
	virtio_ready(&n->v);
	vq_kick(&n->rx);
}

uint8_t *net_receive(struct net *n, uint32_t *bytes)
{
	struct vq *q = &n->rx;
	uint32_t id;

	if (!vq_has_used(q))
		return NULL;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	id = q->used->ring[q->seen & (NET_BUFS - 1)].id;
	*bytes = q->used->ring[q->seen++ & (NET_BUFS - 1)].len - NET_HEADER;
	return n->bufs + id * NET_BUF + NET_HEADER;
}

static unsigned buf_of(const struct net *n, const uint8_t *frame)
{
	return (unsigned)((uint64_t)(frame - n->bufs) / NET_BUF);
}

void net_send(struct net *n, uint8_t *frame, uint32_t bytes)
{
	uint64_t *header = (uint64_t *)(frame - NET_HEADER);

	header[0] = 0;
	*(uint32_t *)&header[1] = 0;
	offer(&n->tx, buf_of(n, frame), NET_HEADER + bytes, 0, frame - NET_HEADER);
}

void net_drop(struct net *n, uint8_t *frame)
{
	offer_rx(n, buf_of(n, frame));
}

uint8_t *net_own(struct net *n)
{
	if (n->own_is_used)
		return NULL;
	n->own_is_used = true;
	return n->bufs + (NET_BUFS - 1) * NET_BUF + NET_HEADER;
}

void net_collect(struct net *n)
{
	struct vq *q = &n->tx;

	while (vq_has_used(q)) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		offer_rx(n, q->used->ring[q->seen++ & (NET_BUFS - 1)].id);
	}
}

void net_kick(struct net *n)
{
	vq_kick_new(&n->tx, &n->tx.next);
	vq_kick_new(&n->rx, &n->rx.next);
}

void net_wait(struct net *n)
{
	/* An interrupt for what went out is of use only while something did not. */
	n->tx.avail->flags = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (n->tx.used->idx == n->tx.avail->idx)
		n->tx.avail->flags = VQ_NO_INTERRUPT;
	halt_until(vq_has_used(&n->rx) || vq_has_used(&n->tx) || n->v.configs != n->configs);
	n->configs = n->v.configs;
	n->tx.avail->flags = VQ_NO_INTERRUPT;
}

void net_flush(struct net *n)
{
	n->tx.avail->flags = 0;
	halt_until(n->tx.used->idx == n->tx.avail->idx);
}
