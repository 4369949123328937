// SPDX-License-Identifier: Apache-2.0
/* virtio_net.c - the device, its link and its events, and the way from the guest to the host. */
#include "virtio_net_internal.h"

#include "util.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/epoll.h>

#define BIT64(n) (UINT64_C(1) << (n))

enum {
	CONFIG_BYTES = offsetof(struct virtio_net_config, mtu) + 2,
	FEATURE_GUEST_USO4 = 54, /* newer than some kernel headers */
	FEATURE_GUEST_USO6 = 55,
	VLAN_TAG = 4,
};

static struct virtio_net *net_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_net, dev);
}

static bool is_gone(const struct virtio_net *net)
{
	return atomic_load_explicit(&net->host->gone, memory_order_relaxed);
}

/* --------------------------------------------------------------------------- what the loop waits for */

void net_want(struct net_pair *p, uint32_t event, bool want)
{
	pthread_mutex_lock(&p->lock);
	uint32_t wanted = want && !is_gone(p->net) ? p->wanted | event : p->wanted & ~event;
	/* One that cannot be waited for is as good as gone, but nothing we use is like that. */
	if (wanted != p->wanted && p->net->loop && event_loop_set(p->net->loop, &p->source, wanted) == 0)
		p->wanted = wanted;
	pthread_mutex_unlock(&p->lock);
}

void net_lost(struct virtio_net *net)
{
	if (!net_host_lost(net->host))
		return;
	for (unsigned i = 0; i < net->host->pairs; i++) {
		net_want(&net->pairs[i], EPOLLIN | EPOLLOUT, false);
		net->dev.up.again(net->dev.up.ctx, 2 * i + 1); /* frames that wait are let go */
	}
	net->dev.up.config(net->dev.up.ctx);
}

/* ------------------------------------------------------------------- sending; the queue's lock is held */

static void count_frame(struct virtio_net *net, size_t bytes)
{
	struct net_counters *c = &net->host->tx;

	atomic_fetch_add_explicit(&c->frames, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->bytes, bytes - NET_HEADER_BYTES, memory_order_relaxed);
}

static void end_frame(struct net_pair *p, bool sent)
{
	if (sent)
		count_frame(p->net, p->frame.readable_bytes);
	else
		atomic_fetch_add_explicit(&p->net->host->tx.dropped, 1, memory_order_relaxed);
	virtq_push(&net_tx_queue(p)->ring, p->frame.head, 0);
	p->has_frame = false;
}

/* 1: a frame to send; else as virtq_pop(). */
static int next_frame(struct net_pair *p)
{
	p->frame.iov = p->frame_iov;
	p->frame.iov_max = NET_QUEUE_MAX;
	int ret = virtq_pop(&net_tx_queue(p)->ring, &p->frame);
	p->has_frame = ret > 0;
	if (ret < 0)
		virtio_broken(&p->net->dev, 2 * p->index + 1, "a chain that cannot be");
	if (ret > 0 && (p->frame.writable || p->frame.readable_bytes < NET_HEADER_BYTES)) {
		end_frame(p, false);
		virtio_broken(&p->net->dev, 2 * p->index + 1, "a frame without its header, or that is to be written");
		return -EPROTO;
	}
	return ret;
}

static bool fits_the_wire(const struct virtq_chain *frame)
{
	return frame->readable_bytes >= NET_HEADER_BYTES + NET_FRAME_MIN &&
	       frame->readable_bytes <= NET_HEADER_BYTES + NET_FRAME_MAX;
}

static void block(struct net_pair *p)
{
	p->blocked = true;
	atomic_fetch_add_explicit(&p->net->host->tx.waits, 1, memory_order_relaxed);
	net_want(p, EPOLLOUT, true);
}

/* What is not for the wire, and everything when there is none, is dropped, as a network does. False: it waits. */
static bool send_frame(struct net_pair *p)
{
	struct net_host *host = p->net->host;
	int ret = -EIO;

	if (!is_gone(p->net) && p->in_use && fits_the_wire(&p->frame))
		ret = host->ops->send(host, p->index, p->frame.iov, p->frame.readable);
	if (ret == -EAGAIN) {
		block(p);
		return false;
	}
	if (ret == -EPIPE)
		net_lost(p->net);
	if (ret >= 0)
		rate_limit_take(&p->net->tx_limit, p->frame.readable_bytes);
	end_frame(p, ret >= 0);
	if (ret == 1)
		block(p);
	return ret != 1;
}

/* True: the ring was empty in the end; else something else says when to go on, or nobody may. */
static bool send_all(struct net_pair *p, unsigned *budget)
{
	struct virtio_net *net = p->net;

	while (net_tx_queue(p)->live && (!p->blocked || is_gone(net))) {
		if (!p->has_frame) {
			if (!*budget) {
				net->dev.up.again(net->dev.up.ctx, 2 * p->index + 1);
				return false;
			}
			if (!rate_limit_open(&net->tx_limit))
				return false;
			int ret = next_frame(p);
			if (ret <= 0)
				return ret == 0;
			--*budget;
		}
		send_frame(p);
	}
	return false;
}

static void serve_sending(struct net_pair *p)
{
	struct virtq *ring = &net_tx_queue(p)->ring;
	unsigned budget = NET_QUEUE_MAX;

	do
		virtq_kick_off(ring);
	while (send_all(p, &budget) && virtq_kick_on(ring));
	virtio_flush(&p->net->dev, 2 * p->index + 1);
}

/* The host takes more, or never will again. */
static void resume_sending(struct net_pair *p)
{
	struct net_host *host = p->net->host;
	int ret = host->ops->flush && !is_gone(p->net) ? host->ops->flush(host, p->index) : 0;

	if (ret == -EAGAIN)
		return;
	if (ret < 0)
		net_lost(p->net);
	p->blocked = false;
	net_want(p, EPOLLOUT, false);
	serve_sending(p);
}

/* ------------------------------------------------------------------------------------ events */

static void on_input(struct net_pair *p)
{
	struct virtio_queue *q = net_rx_queue(p);

	pthread_mutex_lock(&q->lock);
	if (q->live && p->in_use && !is_gone(p->net))
		net_receive(p);
	else
		net_want(p, EPOLLIN, false);
	pthread_mutex_unlock(&q->lock);
}

static void on_output(struct net_pair *p)
{
	struct virtio_queue *q = net_tx_queue(p);

	pthread_mutex_lock(&q->lock);
	if (q->live)
		resume_sending(p);
	else
		net_want(p, EPOLLOUT, false);
	pthread_mutex_unlock(&q->lock);
}

static void on_event(void *ctx, uint32_t events)
{
	struct net_pair *p = ctx;

	if (events & EPOLLIN)
		on_input(p);
	if (events & EPOLLOUT)
		on_output(p);
	/* With either of the two, reading or writing has found out already. */
	if (!(events & (EPOLLIN | EPOLLOUT)))
		net_lost(p->net);
}

static void rx_reopened(void *ctx)
{
	struct virtio_net *net = ctx;

	for (unsigned i = 0; i < net->host->pairs; i++)
		net->dev.up.again(net->dev.up.ctx, 2 * i);
}

static void tx_reopened(void *ctx)
{
	struct virtio_net *net = ctx;

	for (unsigned i = 0; i < net->host->pairs; i++)
		net->dev.up.again(net->dev.up.ctx, 2 * i + 1);
}

/* ------------------------------------------------------------------------------------------- device */

static void set_in_use(struct net_pair *p, bool use)
{
	pthread_mutex_lock(&net_rx_queue(p)->lock);
	pthread_mutex_lock(&net_tx_queue(p)->lock);
	p->in_use = use;
	pthread_mutex_unlock(&net_tx_queue(p)->lock);
	pthread_mutex_unlock(&net_rx_queue(p)->lock);
	net_want(p, EPOLLIN, use);
}

int net_use_pairs(struct virtio_net *net, unsigned count)
{
	struct net_host *host = net->host;
	int ret = 0;

	for (unsigned i = 0; i < host->pairs && ret == 0; i++) {
		bool use = i < count;
		if (!use)
			set_in_use(&net->pairs[i], false);
		if (host->ops->use_pair)
			ret = host->ops->use_pair(host, i, use);
		if (use && ret == 0)
			set_in_use(&net->pairs[i], true);
	}
	return ret;
}

static int start(struct virtio_dev *dev)
{
	struct virtio_net *net = net_of(dev);
	const uint64_t large = BIT64(VIRTIO_NET_F_GUEST_TSO4) | BIT64(VIRTIO_NET_F_GUEST_TSO6) |
	                       BIT64(VIRTIO_NET_F_GUEST_UFO) | BIT64(FEATURE_GUEST_USO4) | BIT64(FEATURE_GUEST_USO6);

	net->mergeable = virtio_has(dev, VIRTIO_NET_F_MRG_RXBUF);
	net->ample = NET_HEADER_BYTES + NET_FRAME_MIN + VLAN_TAG + net->host->mtu;
	if (dev->features & large)
		net->ample = NET_HEADER_BYTES + NET_FRAME_MAX;
	/* 5.1.2: behind all pairs for a driver that knows of them, behind the first for one that does not. */
	net->control = UINT32_MAX;
	if (virtio_has(dev, VIRTIO_NET_F_CTRL_VQ))
		net->control = virtio_has(dev, VIRTIO_NET_F_MQ) ? 2 * net->host->pairs : 2;
	if (is_gone(net))
		return 0;
	int ret = net->host->ops->set_offloads ? net->host->ops->set_offloads(net->host, dev->features) : 0;
	if (ret == 0)
		ret = net_use_pairs(net, 1);
	if (ret == -EBADFD)
		net_lost(net);
	return ret == -EBADFD ? 0 : ret;
}

/* There are buffers again, or time. Input that the loop does not see is taken at once. */
static void resume_receiving(struct net_pair *p)
{
	if (!p->in_use || is_gone(p->net))
		return;
	if (net_pending(p))
		net_receive(p);
	else
		net_want(p, EPOLLIN, true);
}

static void kick(struct virtio_dev *dev, unsigned n)
{
	struct virtio_net *net = net_of(dev);

	if (n == net->control)
		net_control(net);
	else if (n / 2 >= net->host->pairs)
		;
	else if (n % 2)
		serve_sending(&net->pairs[n / 2]);
	else
		resume_receiving(&net->pairs[n / 2]);
}

static void drain(struct virtio_dev *dev, unsigned n)
{
	struct virtio_net *net = net_of(dev);

	if (n / 2 >= net->host->pairs)
		return;
	struct net_pair *p = &net->pairs[n / 2];
	if (n % 2 == 0) {
		net_want(p, EPOLLIN, false);
		net_give_back(p);
		return;
	}
	net_want(p, EPOLLOUT, false);
	p->blocked = false;
	if (p->has_frame)
		end_frame(p, false);
}

static void config_read(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len)
{
	const struct virtio_net *net = net_of(dev);
	struct virtio_net_config config = {
		.status = is_gone(net) ? 0 : VIRTIO_NET_S_LINK_UP,
		.max_virtqueue_pairs = (uint16_t)net->host->pairs,
		.mtu = (uint16_t)net->host->config.mtu,
	};

	memcpy(config.mac, net->host->mac, sizeof(config.mac));
	memcpy(data, (const uint8_t *)&config + offset, len);
}

static void destroy(struct virtio_dev *dev)
{
	struct virtio_net *net = net_of(dev);

	for (unsigned i = 0; i < net->host->pairs; i++) {
		net_want(&net->pairs[i], EPOLLIN | EPOLLOUT, false);
		pthread_mutex_destroy(&net->pairs[i].lock);
	}
	rate_limit_fini(&net->rx_limit);
	rate_limit_fini(&net->tx_limit);
	free(net->pairs);
	free(net);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-net",
	.id = VIRTIO_ID_NET,
	.queue_max = NET_QUEUE_MAX,
	.config_bytes = CONFIG_BYTES,
	.start = start,
	.kick = kick,
	.drain = drain,
	.config_read = config_read,
	.destroy = destroy,
};

static uint64_t offered(const struct net_host *host)
{
	uint64_t f =
		BIT64(VIRTIO_NET_F_MAC) | BIT64(VIRTIO_NET_F_STATUS) | BIT64(VIRTIO_NET_F_MRG_RXBUF) | host->offers;

	if (host->config.mtu)
		f |= BIT64(VIRTIO_NET_F_MTU);
	if (host->pairs > 1)
		f |= BIT64(VIRTIO_NET_F_MQ) | BIT64(VIRTIO_NET_F_CTRL_VQ);
	return f;
}

struct virtio_dev *virtio_net_create(struct net_host *host, struct event_loop *loop)
{
	struct virtio_net *net = calloc(1, sizeof(*net));
	struct net_pair *pairs = calloc(host->pairs, sizeof(*pairs));

	if (!net || !pairs) {
		free(net);
		free(pairs);
		return NULL;
	}
	net->dev.ops = &ops;
	net->dev.offered = offered(host);
	net->dev.queue_count = host->pairs > 1 ? 2 * host->pairs + 1 : 2;
	net->host = host;
	net->loop = loop;
	net->pairs = pairs;
	for (unsigned i = 0; i < host->pairs; i++) {
		pairs[i].net = net;
		pairs[i].index = i;
		pairs[i].source = (struct event_source){.fd = host->fds[i], .fn = on_event, .ctx = &pairs[i]};
		pthread_mutex_init(&pairs[i].lock, NULL);
	}
	rate_limit_init(&net->rx_limit, host->config.bytes_per_second, 0, loop, rx_reopened, net);
	rate_limit_init(&net->tx_limit, host->config.bytes_per_second, 0, loop, tx_reopened, net);
	return &net->dev;
}
