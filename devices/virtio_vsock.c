// SPDX-License-Identifier: Apache-2.0
/* virtio_vsock.c - the device and its three queues: packets to the guest, from the guest, and events. Knows no sockets.
 */
#include "virtio_vsock_internal.h"

#include "util.h"

#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
	HEADER = sizeof(struct virtio_vsock_hdr),
	FEATURE_STREAM = 0, /* newer than some kernel headers */
};

static struct virtio_vsock *vsock_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_vsock, dev);
}

/* That queue is locked, and the receive queue. */
static void breaks_rule(struct virtio_vsock *v, unsigned queue, const char *why)
{
	v->broken = true;
	vsock_listen(v, false);
	virtio_broken(&v->dev, queue, why);
}

/* ------------------------------------------------------------------------ to the guest; its queue is locked */

static bool find_buffer(struct virtio_vsock *v)
{
	struct virtq *ring = &v->dev.queues[VSOCK_RX].ring;
	int ret;

	if (v->has_buffer)
		return true;
	v->buffer.iov = v->rx_iov;
	v->buffer.iov_max = VSOCK_QUEUE_MAX;
	virtq_kick_off(ring);
	do
		ret = virtq_pop(ring, &v->buffer);
	while (ret == 0 && virtq_kick_on(ring));
	v->has_buffer = ret > 0;
	if (ret < 0)
		breaks_rule(v, VSOCK_RX, "a chain that cannot be");
	if (ret > 0 && (v->buffer.readable || v->buffer.writable_bytes < HEADER)) {
		v->has_buffer = false;
		virtq_push(ring, v->buffer.head, 0);
		breaks_rule(v, VSOCK_RX, "a receive buffer that takes no header or cannot be written");
	}
	return v->has_buffer;
}

static void put_packet(struct virtio_vsock *v, const struct virtio_vsock_hdr *h)
{
	virtq_write(&v->buffer, 0, h, HEADER);
	virtq_push(&v->dev.queues[VSOCK_RX].ring, v->buffer.head, HEADER + h->len);
	v->has_buffer = false;
}

static void put_stray(struct virtio_vsock *v)
{
	const struct vsock_stray *s = &v->strays[v->stray_from++ % VSOCK_STRAYS_MAX];
	const struct virtio_vsock_hdr h = {
		.src_cid = s->cid,
		.dst_cid = v->host->config.cid,
		.src_port = s->host_port,
		.dst_port = s->guest_port,
		.type = s->type,
		.op = VIRTIO_VSOCK_OP_RST,
	};

	put_packet(v, &h);
}

/* The room behind the header, up to the guest's credit. Its pieces. */
static unsigned cut_room(struct virtio_vsock *v, uint32_t limit)
{
	size_t skip = HEADER;
	unsigned n = 0;

	for (unsigned i = 0; i < v->buffer.writable && limit; i++) {
		const struct iovec *iov = &v->buffer.iov[i];
		size_t cut = skip < iov->iov_len ? skip : iov->iov_len, len = iov->iov_len - cut;
		skip -= cut;
		if (!len)
			continue;
		len = len < limit ? len : limit;
		v->rx_cut[n++] = (struct iovec){(uint8_t *)iov->iov_base + cut, len};
		limit -= (uint32_t)len;
	}
	return n;
}

static uint32_t take_from_host(struct vsock_conn *c)
{
	uint32_t limit = vsock_credit(c);

	if (c->state != VSOCK_OPEN || !c->readable || c->ended || !limit)
		return 0;
	unsigned pieces = cut_room(c->v, limit < VSOCK_PACKET_MAX ? limit : VSOCK_PACKET_MAX);
	if (!pieces) { /* buffers for headers alone will not do for ever */
		breaks_rule(c->v, VSOCK_RX, "a receive buffer without room for bytes");
		return 0;
	}
	return vsock_give(c, c->v->rx_cut, pieces);
}

/* The next of what a connection has to say, in this order. 0: nothing. */
static uint16_t choose_op(struct vsock_conn *c, uint32_t *len)
{
	static const struct {
		unsigned debt;
		uint16_t op;
	} late[] = {
		{VSOCK_OWES_RST, VIRTIO_VSOCK_OP_RST},
		{VSOCK_OWES_SHUTDOWN, VIRTIO_VSOCK_OP_SHUTDOWN},
		{VSOCK_OWES_QUESTION, VIRTIO_VSOCK_OP_CREDIT_REQUEST},
		{VSOCK_OWES_CREDIT, VIRTIO_VSOCK_OP_CREDIT_UPDATE},
	};

	if (vsock_owes(c, VSOCK_OWES_REQUEST))
		return VIRTIO_VSOCK_OP_REQUEST;
	if (vsock_owes(c, VSOCK_OWES_RESPONSE))
		return VIRTIO_VSOCK_OP_RESPONSE;
	*len = vsock_owes(c, VSOCK_OWES_RST) ? 0 : take_from_host(c);
	if (*len || c->v->broken)
		return *len ? VIRTIO_VSOCK_OP_RW : 0;
	for (size_t i = 0; i < ARRAY_SIZE(late); i++)
		if (vsock_owes(c, late[i].debt))
			return late[i].op;
	return 0;
}

static void forget_debt(struct vsock_conn *c, uint16_t op)
{
	c->told = c->passed;
	c->debts &= ~(unsigned)VSOCK_OWES_CREDIT; /* every packet says it */
	switch (op) {
	case VIRTIO_VSOCK_OP_REQUEST:
		c->debts &= ~(unsigned)VSOCK_OWES_REQUEST;
		break;
	case VIRTIO_VSOCK_OP_RESPONSE:
		c->debts &= ~(unsigned)VSOCK_OWES_RESPONSE;
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		c->debts &= ~(unsigned)VSOCK_OWES_SHUTDOWN;
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		c->debts &= ~(unsigned)VSOCK_OWES_QUESTION;
		break;
	case VIRTIO_VSOCK_OP_RST:
		vsock_leave(c, c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND);
		break;
	default:
		break;
	}
}

/* It is in no list of turns. How many bytes went. */
static uint32_t take_turn(struct vsock_conn *c)
{
	uint32_t len = 0;
	uint16_t op = choose_op(c, &len);
	const struct virtio_vsock_hdr h = {
		.src_cid = VSOCK_CID_HOST,
		.dst_cid = c->v->host->config.cid,
		.src_port = c->host_port,
		.dst_port = c->guest_port,
		.len = len,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.flags = op == VIRTIO_VSOCK_OP_SHUTDOWN ? c->shut : 0,
		.buf_alloc = c->room,
		.fwd_cnt = c->passed,
	};

	if (op) {
		put_packet(c->v, &h);
		forget_debt(c, op);
	}
	vsock_settle(c);
	return len;
}

/* One connection after the other, a packet each time. */
static void send_all(struct virtio_vsock *v)
{
	const struct virtio_queue *q = &v->dev.queues[VSOCK_RX];
	int64_t budget = VSOCK_KICK_COST;

	while (q->live && !v->broken) {
		bool has_stray = v->stray_from != v->stray_to;
		struct vsock_link *turn = v->turns.next;
		if ((!has_stray && turn == &v->turns) || !find_buffer(v))
			return;
		if (budget <= 0) {
			v->dev.up.again(v->dev.up.ctx, VSOCK_RX);
			return;
		}
		budget -= VSOCK_PACKET_COST;
		if (has_stray) {
			put_stray(v);
			continue;
		}
		struct vsock_conn *c = container_of(turn, struct vsock_conn, turn);
		vsock_end_turn(c);
		budget -= take_turn(c);
	}
}

void vsock_pump(struct virtio_vsock *v)
{
	if (v->dev.queues[VSOCK_RX].live) {
		send_all(v);
		virtio_flush(&v->dev, VSOCK_RX);
	}
	if (v->stalled && v->stray_to - v->stray_from < VSOCK_STRAYS_MAX / 2) {
		v->stalled = false;
		v->dev.up.again(v->dev.up.ctx, VSOCK_TX);
	}
}

/* --------------------------------------------------------------------- from the guest; both queues are locked */

/* The header is copied and gone from the pieces; what is left of them is no longer than it says. */
static bool open_packet(struct virtq_chain *chain, struct virtio_vsock_hdr *h, unsigned *skip)
{
	size_t cut = HEADER, left;
	unsigned i = 0, count;

	if (chain->writable || virtq_read(chain, 0, h, HEADER) != HEADER || h->len > chain->readable_bytes - HEADER)
		return false;
	for (; i < chain->readable && cut >= chain->iov[i].iov_len; i++)
		cut -= chain->iov[i].iov_len;
	*skip = i;
	if (cut) {
		chain->iov[i].iov_base = (uint8_t *)chain->iov[i].iov_base + cut;
		chain->iov[i].iov_len -= cut;
	}
	for (left = h->len, count = i; left && count < chain->readable; count++) {
		if (chain->iov[count].iov_len > left)
			chain->iov[count].iov_len = left;
		left -= chain->iov[count].iov_len;
	}
	chain->readable = count;
	return true;
}

/* Until the ring is empty, which is true, or there is a reason to stop. */
static bool take_all(struct virtio_vsock *v, int64_t *budget)
{
	struct virtio_queue *q = &v->dev.queues[VSOCK_TX];
	struct virtq_chain chain = {.iov = v->tx_iov, .iov_max = VSOCK_QUEUE_MAX};
	struct virtio_vsock_hdr h = {0};
	unsigned skip;

	while (*budget > 0) {
		/* 5.10.6.1.2: a queue that is full here does not stop the other, as long as answers find room. */
		v->stalled = v->stray_to - v->stray_from == VSOCK_STRAYS_MAX;
		if (v->stalled)
			return false;
		int ret = virtq_pop(&q->ring, &chain);
		if (ret < 0)
			breaks_rule(v, VSOCK_TX, "a chain that cannot be");
		if (ret <= 0)
			return ret == 0;
		bool good = open_packet(&chain, &h, &skip);
		if (good)
			vsock_packet(v, &h, chain.iov + skip, chain.readable - skip);
		virtq_push(&q->ring, chain.head, 0);
		if (!good) {
			breaks_rule(v, VSOCK_TX, "a packet without its header, shorter than it says, or to be written");
			return false;
		}
		*budget -= VSOCK_PACKET_COST + (int64_t)h.len;
	}
	v->dev.up.again(v->dev.up.ctx, VSOCK_TX);
	return false;
}

static void serve_guest(struct virtio_vsock *v)
{
	struct virtq *ring = &v->dev.queues[VSOCK_TX].ring;
	int64_t budget = VSOCK_KICK_COST;

	if (!v->broken) {
		do
			virtq_kick_off(ring);
		while (take_all(v, &budget) && virtq_kick_on(ring));
		virtio_flush(&v->dev, VSOCK_TX);
	}
	vsock_pump(v);
}

/* -------------------------------------------------------------------------------- events; their queue is locked */

/* 5.10.6.6: connections are gone without a word to the driver that was there then, or to this one. */
static void tell_event(struct virtio_vsock *v)
{
	const struct virtio_vsock_event event = {.id = VIRTIO_VSOCK_EVENT_TRANSPORT_RESET};
	struct virtq *ring = &v->dev.queues[VSOCK_EVENT].ring;
	struct iovec iov[VSOCK_QUEUE_MAX];
	struct virtq_chain chain = {.iov = iov, .iov_max = VSOCK_QUEUE_MAX};

	if (!atomic_load(&v->host->interrupted))
		return;
	int ret;
	do
		ret = virtq_pop(ring, &chain);
	while (ret == 0 && virtq_kick_on(ring));
	if (ret == 0)
		return;
	bool good = ret > 0 && !chain.readable && chain.writable_bytes >= sizeof(event);
	if (good) {
		atomic_store(&v->host->interrupted, false);
		virtq_write(&chain, 0, &event, sizeof(event));
	}
	if (ret > 0)
		virtq_push(ring, chain.head, good ? sizeof(event) : 0);
	if (!good) {
		pthread_mutex_lock(&v->dev.queues[VSOCK_RX].lock);
		breaks_rule(v, VSOCK_EVENT, "a buffer for an event that cannot be or is too small");
		pthread_mutex_unlock(&v->dev.queues[VSOCK_RX].lock);
	}
	virtio_flush(&v->dev, VSOCK_EVENT);
}

/* ------------------------------------------------------------------------------------------- device */

static int start(struct virtio_dev *dev)
{
	struct virtio_vsock *v = vsock_of(dev);

	pthread_mutex_lock(&dev->queues[VSOCK_RX].lock);
	v->broken = false;
	pthread_mutex_unlock(&dev->queues[VSOCK_RX].lock);
	return 0;
}

static void kick(struct virtio_dev *dev, unsigned n)
{
	struct virtio_vsock *v = vsock_of(dev);

	if (n == VSOCK_EVENT) {
		tell_event(v);
	} else if (n == VSOCK_TX) {
		pthread_mutex_lock(&dev->queues[VSOCK_RX].lock);
		serve_guest(v);
		pthread_mutex_unlock(&dev->queues[VSOCK_RX].lock);
	} else {
		vsock_listen(v, !v->broken);
		vsock_pump(v);
	}
}

/* Without one of its queues no connection can live. The receive queue is locked. */
static void cut(struct virtio_vsock *v)
{
	vsock_cut_all(v);
	if (atomic_load(&v->host->interrupted))
		v->dev.up.again(v->dev.up.ctx, VSOCK_EVENT);
}

static void drain(struct virtio_dev *dev, unsigned n)
{
	struct virtio_vsock *v = vsock_of(dev);

	if (n == VSOCK_RX) {
		vsock_listen(v, false);
		if (v->has_buffer)
			virtq_push(&dev->queues[VSOCK_RX].ring, v->buffer.head, 0);
		v->has_buffer = false;
		cut(v);
	} else if (n == VSOCK_TX) {
		pthread_mutex_lock(&dev->queues[VSOCK_RX].lock);
		cut(v);
		pthread_mutex_unlock(&dev->queues[VSOCK_RX].lock);
	}
}

static void config_read(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len)
{
	const struct virtio_vsock_config config = {.guest_cid = vsock_of(dev)->host->config.cid};

	memcpy(data, (const uint8_t *)&config + offset, len);
}

static void destroy(struct virtio_dev *dev)
{
	struct virtio_vsock *v = vsock_of(dev);

	vsock_destroy_all(v);
	event_loop_set(v->loop, &v->listener, 0);
	event_loop_set(v->loop, &v->timer, 0);
	close(v->timer.fd);
	free(v);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-vsock",
	.id = VIRTIO_ID_VSOCK,
	.queue_max = VSOCK_QUEUE_MAX,
	.config_bytes = sizeof(struct virtio_vsock_config),
	.start = start,
	.kick = kick,
	.drain = drain,
	.config_read = config_read,
	.destroy = destroy,
};

struct virtio_dev *virtio_vsock_create(struct vsock_host *host, struct event_loop *loop)
{
	struct virtio_vsock *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->dev.ops = &ops;
	v->dev.offered = UINT64_C(1) << FEATURE_STREAM;
	v->dev.queue_count = 3;
	v->host = host;
	v->loop = loop;
	v->listener = (struct event_source){.fd = host->listener.fd, .fn = vsock_on_listener, .ctx = v};
	v->timer = (struct event_source){.fn = vsock_on_timer, .ctx = v};
	v->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	vsock_conns_init(v);
	if (v->timer.fd < 0 || event_loop_set(loop, &v->timer, EPOLLIN) < 0) {
		if (v->timer.fd >= 0)
			close(v->timer.fd);
		free(v);
		return NULL;
	}
	return &v->dev;
}
