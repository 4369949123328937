/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_vsock.c - packets in and out, 64 at a time. */
#include "virtio_vsock.h"

enum {
	HEADER = 44,
};

static void offer(struct vq *q, unsigned n, uint32_t len, uint16_t flags, const volatile void *at)
{
	q->desc[n].addr = (uint64_t)at;
	q->desc[n].len = len;
	q->desc[n].flags = flags;
	q->avail->ring[q->avail->idx & (q->size - 1)] = (uint16_t)n;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->avail->idx++;
}

void vsock_start(struct vsock *s)
{
	unsigned i;

	if (!virtio_find(&s->v, VIRTIO_VSOCK, 0))
		skip("no vsock");
	virtio_begin(&s->v, 1);
	s->cid = virtio_read(&s->v, VIRTIO_CONFIG) | (uint64_t)virtio_read(&s->v, VIRTIO_CONFIG + 4) << 32;
	vq_setup(&s->rx, &s->v, 0, VSOCK_BUFS);
	vq_setup(&s->tx, &s->v, 1, VSOCK_BUFS);
	vq_setup(&s->events, &s->v, 2, 2);
	s->tx.avail->flags = VQ_NO_INTERRUPT;
	if (!s->bufs) {
		s->bufs = virtio_alloc(2 * VSOCK_BUFS * VSOCK_BUF, 4096);
		s->event = virtio_alloc(4, 4);
	}
	for (i = 0; i < VSOCK_BUFS; i++) {
		offer(&s->rx, i, VSOCK_BUF, VQ_WRITE, &s->bufs[i]);
		s->tx_free[i] = i;
	}
	s->tx_count = VSOCK_BUFS;
	*s->event = ~0u;
	offer(&s->events, 0, 4, VQ_WRITE, s->event);
	virtio_ready(&s->v);
	vq_kick(&s->rx);
	vq_kick(&s->events);
}

struct vsock_packet *vsock_receive(struct vsock *s)
{
	struct vq *q = &s->rx;

	if (!vq_has_used(q))
		return NULL;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return &s->bufs[q->used->ring[q->seen++ & (VSOCK_BUFS - 1)].id];
}

void vsock_done(struct vsock *s, struct vsock_packet *p)
{
	offer(&s->rx, (unsigned)(p - s->bufs), VSOCK_BUF, VQ_WRITE, p);
}

void vsock_collect(struct vsock *s)
{
	while (vq_has_used(&s->tx)) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		s->tx_free[s->tx_count++] = s->tx.used->ring[s->tx.seen++ & (VSOCK_BUFS - 1)].id;
	}
}

struct vsock_packet *vsock_packet(struct vsock *s, unsigned op, uint32_t host_port, uint32_t guest_port)
{
	struct vsock_packet *p;

	if (!s->tx_count)
		vsock_collect(s);
	if (!s->tx_count)
		return NULL;
	p = &s->bufs[VSOCK_BUFS + s->tx_free[--s->tx_count]];
	p->src_cid = s->cid;
	p->dst_cid = VSOCK_HOST;
	p->src_port = guest_port;
	p->dst_port = host_port;
	p->len = 0;
	p->type = VSOCK_STREAM;
	p->op = (uint16_t)op;
	p->flags = 0;
	return p;
}

void vsock_send(struct vsock *s, struct vsock_packet *p)
{
	offer(&s->tx, (unsigned)(p - s->bufs) - VSOCK_BUFS, HEADER + p->len, 0, p);
}

void vsock_kick(struct vsock *s)
{
	vq_kick_new(&s->tx, &s->tx.next);
	vq_kick_new(&s->rx, &s->rx.next);
}

void vsock_wait(struct vsock *s)
{
	vsock_collect(s);
	/* An interrupt for what went out is of use only while something did not. */
	s->tx.avail->flags = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (s->tx.used->idx == s->tx.avail->idx)
		s->tx.avail->flags = VQ_NO_INTERRUPT;
	halt_until(vq_has_used(&s->rx) || vq_has_used(&s->tx));
	s->tx.avail->flags = VQ_NO_INTERRUPT;
}
