/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_host.h - the host's end of a network interface: where frames go and come from. It lives as long as the VM, so
 * that a reset of the guest closes no tap and breaks no connection.
 *
 * Frames have a struct virtio_net_hdr_v1 in front on our side, whatever the other side knows of it. Nothing here
 * blocks: -EAGAIN means wait for the pair's descriptor, -EPIPE that the other end has gone for good. A pair is received
 * from by one thread at a time and sent to by one thread at a time; the two may be different ones.
 */
#ifndef LULL_NET_HOST_H
#define LULL_NET_HOST_H

#include "net_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct log;
struct lull_error;
struct net_host;
struct net_stream;

#define NET_HEADER_BYTES 12u /* virtio 1.2, 5.1.6: struct virtio_net_hdr with num_buffers */
#define NET_FRAME_MAX                                                                                                  \
	65550u              /* 5.1.6.3.1: what a receive buffer without its header holds at least with segmentation    \
	                     */
#define NET_FRAME_MIN   14u /* an Ethernet header */
#define NET_MTU_DEFAULT 1500u

struct net_host_ops {
	/* Is there a frame to receive? Its length, header included; 0: one of unknown length may be there, up to the
	 * room that was said to be ample; -errno. */
	ssize_t (*next)(struct net_host *h, unsigned pair, bool ample);
	/* Is there input on our side already, for which the descriptor does not become readable? */
	bool (*pending)(const struct net_host *h, unsigned pair);
	/* Moves that frame: its length, header included, may be more than the room, which is then full. -errno.
	 * num_buffers is the caller's. */
	ssize_t (*receive)(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count);
	/* Takes a frame whole or not at all. 1: it took it, and flush() has to finish that before the next one; 0;
	 * -errno, others than the two above for a frame that cannot be sent ever. */
	int (*send)(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count);
	int (*flush)(struct net_host *h, unsigned pair); /* NULL when send() never returns 1 */
	/* What the driver takes in headers: negotiated feature bits. NULL when nothing is offered. */
	int (*set_offloads)(struct net_host *h, uint64_t features);
	/* May this pair be used from now on? NULL when there is one pair. */
	int (*use_pair)(struct net_host *h, unsigned pair, bool use);
	void (*close)(struct net_host *h);
};

struct net_counters {
	atomic_ulong frames, bytes;
	atomic_ulong dropped; /* frames that the guest's buffers or the host's interface would not take */
	atomic_ulong waits;   /* times a frame waited for the host, or the host for a buffer */
};

/* A frame that was read before the guest had buffers for it. */
struct net_parked {
	uint8_t *data; /* made when it is needed first */
	size_t bytes;  /* 0: none */
};

struct net_host {
	/* Constant from net_host_open() on. */
	struct net_config config;
	const struct log *log;
	const struct net_host_ops *ops;
	char name[160];     /* "tap vm0", "socket /run/x": what messages call it */
	char interface[16]; /* of a tap, else "" */
	uint8_t mac[6];
	uint64_t offers; /* feature bits: what headers may say in both directions */
	unsigned mtu;    /* of the host's side: what to expect at most */
	unsigned pairs;
	int fds[NET_PAIRS_MAX];
	bool is_new; /* the tap is ours and goes with us */
	/* The receiving thread's. */
	struct net_parked parked[NET_PAIRS_MAX];
	struct net_stream *stream; /* its halves are the sender's and the receiver's */
	/* Any thread. */
	atomic_bool gone;
	struct net_counters rx, tx;
};

/* spec is the text of `--net`. Says what is wrong and what to do about it. */
struct net_host *net_host_open(const char *spec, const struct log *log, struct lull_error *err);
void net_host_close(struct net_host *h); /* NULL is fine */

/* The other end has gone: says so, once. True: it is news. */
bool net_host_lost(struct net_host *h);

/* ---- net_tap.c, net_socket.c: fill name, ops and what belongs to them; the caller closes on failure ---- */
int net_tap_open(struct net_host *h, struct lull_error *err);
int net_tap_adopt(struct net_host *h, struct lull_error *err); /* fds[0] is set */
int net_socket_open(struct net_host *h, struct lull_error *err);
int net_socket_adopt(struct net_host *h, struct lull_error *err); /* the same */

#endif
