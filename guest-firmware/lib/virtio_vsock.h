/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_vsock.h - a driver for the socket device: packets in and out, each in a buffer of its own. Connections and
 * credit are the guest's business. virtio 1.2, 5.10. */
#ifndef GUEST_VIRTIO_VSOCK_H
#define GUEST_VIRTIO_VSOCK_H

#include "virtio.h"

enum {
	VIRTIO_VSOCK = 19,
	VSOCK_HOST = 2,
	VSOCK_STREAM = 1,
	VSOCK_BUF = 4096, /* header and bytes */
	VSOCK_BUFS = 64,  /* of each direction */
};

enum {
	VSOCK_REQUEST = 1,
	VSOCK_RESPONSE = 2,
	VSOCK_RST = 3,
	VSOCK_SHUTDOWN = 4,
	VSOCK_RW = 5,
	VSOCK_CREDIT_UPDATE = 6,
	VSOCK_CREDIT_REQUEST = 7,
};
enum {
	VSOCK_NO_RECEIVE = 1, /* flags of VSOCK_SHUTDOWN */
	VSOCK_NO_SEND = 2,
};

struct vsock_packet {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port, len;
	uint16_t type, op;
	uint32_t flags, buf_alloc, fwd_cnt;
	uint8_t data[VSOCK_BUF - 44];
} __attribute__((packed));

struct vsock {
	struct virtio v;
	struct vq rx, tx, events;
	uint64_t cid;
	struct vsock_packet *bufs; /* those to receive first */
	volatile uint32_t *event;  /* what the device said last; all ones: nothing */
	uint32_t tx_free[VSOCK_BUFS], tx_count;
};

/* Skips the test when there is no such device. All buffers wait for packets. */
void vsock_start(struct vsock *s);

/* The rest also works in ring 3, but for the last two. */

/* The next packet, or NULL. The buffer is the caller's until it gives it back. */
struct vsock_packet *vsock_receive(struct vsock *s);
void vsock_done(struct vsock *s, struct vsock_packet *p);
/* Packets that went out are free again. */
void vsock_collect(struct vsock *s);
/* A packet to the host with its addresses filled in; NULL: all are under way. Goes out with vsock_send(). */
struct vsock_packet *vsock_packet(struct vsock *s, unsigned op, uint32_t host_port, uint32_t guest_port);
void vsock_send(struct vsock *s, struct vsock_packet *p);
static inline bool vsock_can_send(const struct vsock *s)
{
	return s->tx_count || vq_has_used(&s->tx);
}

/* Tells the device what there is to do, if it wants to hear of it. */
void vsock_kick(struct vsock *s);
/* Halts until a packet came, or the device took one. */
void vsock_wait(struct vsock *s);

#endif
