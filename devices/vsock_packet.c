// SPDX-License-Identifier: Apache-2.0
/* vsock_packet.c - what the guest's packets do: virtio 1.2, 5.10.6. Whatever cannot be is answered with RST. Knows no
 * rings. */
#include "virtio_vsock_internal.h"

#include <errno.h>
#include <unistd.h>

enum {
	SHUT_BOTH = VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND,
};

/* The caller made sure that there is room among the strays. */
static void refuse(struct virtio_vsock *v, const struct virtio_vsock_hdr *h)
{
	if (h->op == VIRTIO_VSOCK_OP_RST) /* no answer to an answer */
		return;
	v->strays[v->stray_to++ % VSOCK_STRAYS_MAX] = (struct vsock_stray){
		.cid = h->dst_cid, .host_port = h->dst_port, .guest_port = h->src_port, .type = h->type};
}

static void violation(struct virtio_vsock *v, const char *what)
{
	log_guest(v->host->log, &v->limit, LULL_LOG_WARN, "virtio-vsock: driver error: %s", what);
}

static void forbid(struct vsock_conn *c, const char *what)
{
	violation(c->v, what);
	vsock_reset(c);
}

/* ------------------------------------------------------------------------------- connections of the guest */

void vsock_dialed(struct vsock_conn *c, int fd)
{
	struct vsock_counters *counters = &c->v->host->counters;

	c->state = VSOCK_OPEN;
	if (fd < 0) {
		atomic_fetch_add_explicit(&counters->refused, 1, memory_order_relaxed);
		c->debts = VSOCK_OWES_RST;
		return;
	}
	atomic_fetch_add_explicit(&counters->opened, 1, memory_order_relaxed);
	c->source.fd = fd;
	c->debts = VSOCK_OWES_RESPONSE;
	c->readable = true;
}

static void guest_calls(struct virtio_vsock *v, const struct virtio_vsock_hdr *h)
{
	int fd = vsock_host_connect(v->host, h->dst_port);
	struct vsock_conn *c = vsock_new(v, fd == -EAGAIN ? VSOCK_DIALING : VSOCK_OPEN, -1);

	if (!c) {
		if (fd >= 0)
			close(fd);
		atomic_fetch_add_explicit(&v->host->counters.refused, 1, memory_order_relaxed);
		refuse(v, h);
		return;
	}
	vsock_enter(c, h->dst_port, h->src_port);
	c->guest_room = h->buf_alloc;
	c->guest_took = h->fwd_cnt;
	if (fd == -EAGAIN)
		vsock_dial(c);
	else
		vsock_dialed(c, fd);
	vsock_settle(c);
}

/* ------------------------------------------------------------------------------------ of a known connection */

static void on_response(struct vsock_conn *c)
{
	if (c->state == VSOCK_CALLING && !vsock_owes(c, VSOCK_OWES_REQUEST))
		vsock_answered(c);
	else
		forbid(c, "a response that nobody asked for");
}

static void on_data(struct vsock_conn *c, const struct virtio_vsock_hdr *h, struct iovec *iov, unsigned count)
{
	if (c->state != VSOCK_OPEN || (c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND))
		forbid(c, "bytes for a connection that is not open");
	else if (h->len > c->room - (c->got - c->passed))
		forbid(c, "more bytes than there was credit for");
	else if (h->len)
		vsock_take(c, iov, count, h->len);
}

/* With both halves shut the guest waits for RST; what it sent before goes on to the host. */
static void on_shutdown(struct vsock_conn *c, uint32_t flags)
{
	if (c->state != VSOCK_OPEN) {
		vsock_reset(c);
		return;
	}
	c->guest_shut |= flags & SHUT_BOTH;
	vsock_follow_shut(c);
	if (c->guest_shut != SHUT_BOTH)
		return;
	c->debts = VSOCK_OWES_RST;
	if (!vsock_rest(c))
		vsock_close_host(c);
}

static void on_rst(struct vsock_conn *c)
{
	struct vsock_counters *counters = &c->v->host->counters;

	if (c->state == VSOCK_CALLING)
		atomic_fetch_add_explicit(&counters->refused, 1, memory_order_relaxed);
	else if (c->shut != SHUT_BOTH) /* else it is the guest's last word */
		atomic_fetch_add_explicit(&counters->resets, 1, memory_order_relaxed);
	vsock_leave(c, c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND);
}

static void on_packet(struct vsock_conn *c, const struct virtio_vsock_hdr *h, struct iovec *iov, unsigned count)
{
	bool was_dry = !vsock_credit(c);

	c->guest_room = h->buf_alloc;
	c->guest_took = h->fwd_cnt;
	if (was_dry && c->state == VSOCK_OPEN && !c->ended && vsock_credit(c))
		c->readable = true; /* most likely */
	switch (h->op) {
	case VIRTIO_VSOCK_OP_RESPONSE:
		on_response(c);
		break;
	case VIRTIO_VSOCK_OP_RST:
		on_rst(c);
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		on_shutdown(c, h->flags);
		break;
	case VIRTIO_VSOCK_OP_RW:
		on_data(c, h, iov, count);
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		if (c->state == VSOCK_OPEN)
			c->debts |= VSOCK_OWES_CREDIT;
		break;
	default: /* REQUEST, too: it knows nothing of the connection that there is */
		forbid(c, "an operation that does not exist or fit");
	}
}

void vsock_packet(struct virtio_vsock *v, const struct virtio_vsock_hdr *h, struct iovec *iov, unsigned count)
{
	if (h->type != VIRTIO_VSOCK_TYPE_STREAM || h->src_cid != v->host->config.cid || h->dst_cid != VSOCK_CID_HOST) {
		if (h->src_cid != v->host->config.cid)
			violation(v, "a packet from another context");
		refuse(v, h);
		return;
	}
	struct vsock_conn *c = vsock_find(v, h->dst_port, h->src_port);
	if (!c && h->op == VIRTIO_VSOCK_OP_REQUEST) {
		guest_calls(v, h);
	} else if (!c) {
		refuse(v, h);
	} else if (!vsock_owes(c, VSOCK_OWES_RST)) {
		on_packet(c, h, iov, count);
		vsock_settle(c);
	} else if (h->op == VIRTIO_VSOCK_OP_RST) {
		vsock_leave(c, c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND);
	}
}
