// SPDX-License-Identifier: Apache-2.0
/* virtio_net_control.c - the control queue, virtio 1.2, 5.1.6.5: how many pairs of queues the driver uses. Everything
 * else is answered with an error, as it was not offered. */
#include "virtio_net_internal.h"

#include <linux/virtio_net.h>

enum {
	BUDGET = 16, /* commands per kick: each costs system calls */
	COMMAND_BYTES = sizeof(struct virtio_net_ctrl_hdr),
};

static bool use_pairs(struct virtio_net *net, const struct virtq_chain *chain)
{
	uint8_t le[2];

	if (virtq_read(chain, COMMAND_BYTES, le, sizeof(le)) != sizeof(le))
		return false;
	unsigned count = le[0] | (unsigned)le[1] << 8;
	return count >= 1 && count <= net->host->pairs && net_use_pairs(net, count) == 0;
}

static bool obey(struct virtio_net *net, const struct virtq_chain *chain)
{
	struct virtio_net_ctrl_hdr command;

	if (virtq_read(chain, 0, &command, sizeof(command)) != sizeof(command))
		return false;
	return command.class == VIRTIO_NET_CTRL_MQ && command.cmd == VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET &&
	       virtio_has(&net->dev, VIRTIO_NET_F_MQ) && use_pairs(net, chain);
}

void net_control(struct virtio_net *net)
{
	struct virtio_queue *q = &net->dev.queues[net->control];
	struct iovec iov[NET_QUEUE_MAX];
	struct virtq_chain chain = {.iov = iov, .iov_max = NET_QUEUE_MAX};
	unsigned budget = BUDGET;
	int ret = 0;

	do {
		virtq_kick_off(&q->ring);
		while (budget && (ret = virtq_pop(&q->ring, &chain)) > 0) {
			uint8_t ack = obey(net, &chain) ? VIRTIO_NET_OK : VIRTIO_NET_ERR;
			uint32_t done = (uint32_t)virtq_write(&chain, 0, &ack, 1);
			virtq_push(&q->ring, chain.head, done);
			budget--;
		}
	} while (budget && ret == 0 && virtq_kick_on(&q->ring));
	if (ret < 0)
		virtio_broken(&net->dev, net->control, "a chain that cannot be");
	virtio_flush(&net->dev, net->control);
	if (!budget)
		net->dev.up.again(net->dev.up.ctx, net->control);
}
