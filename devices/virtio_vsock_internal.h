/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_vsock_internal.h - shared by virtio_vsock.c (queues), vsock_packet.c (what the guest's packets do),
 * vsock_conn.c (life of connections) and vsock_stream.c (the host's end of one) only. */
#ifndef LULL_VIRTIO_VSOCK_INTERNAL_H
#define LULL_VIRTIO_VSOCK_INTERNAL_H

#include "event_loop.h"
#include "log.h"
#include "virtio_vsock.h"
#include "vsock_host.h"

#include <linux/virtio_vsock.h>

enum {
	VSOCK_RX = 0,
	VSOCK_TX = 1,
	VSOCK_EVENT = 2,
	VSOCK_QUEUE_MAX = 256,
	VSOCK_CONNS_MAX = 4096,
	VSOCK_BUCKETS = 1024,
	VSOCK_STRAYS_MAX = 64,
	VSOCK_LINE_MAX = 32,
	VSOCK_PACKET_MAX = 1 << 16,  /* bytes of one packet */
	VSOCK_KICK_COST = 1 << 18,   /* of one kick, in bytes */
	VSOCK_PACKET_COST = 1 << 12, /* what a packet costs besides its bytes */
	VSOCK_ROOM_MAX = 1 << 18,    /* what a connection may hold for the host */
	VSOCK_ROOM_MIN = 1 << 12,
	VSOCK_ROOM_ALL = 1 << 24, /* of all connections that have more than the least */
};

enum vsock_state {
	VSOCK_GREETING, /* the host's line is still to come; has no ports yet */
	VSOCK_CALLING,  /* the guest is asked */
	VSOCK_DIALING,  /* who listens on the host has no room now */
	VSOCK_OPEN,
	VSOCK_FLUSHING, /* over for the guest; the host gets the rest */
	VSOCK_DEAD,     /* the loop's thread frees it: an event of it may be on its way */
};

enum vsock_debt {
	VSOCK_OWES_RST = 1, /* nothing else is said any more */
	VSOCK_OWES_REQUEST = 2,
	VSOCK_OWES_RESPONSE = 4,
	VSOCK_OWES_SHUTDOWN = 8,
	VSOCK_OWES_QUESTION = 16, /* CREDIT_REQUEST */
	VSOCK_OWES_CREDIT = 32,   /* CREDIT_UPDATE */
};

/* In a ring of them; by itself: in none. */
struct vsock_link {
	struct vsock_link *prev, *next;
};

/* All of it under the receive queue's lock, which is the lock of the whole device. */
struct vsock_conn {
	struct virtio_vsock *v;
	struct event_source source; /* the host's end; fd -1: closed */
	uint32_t waits;             /* what the loop waits for there */
	struct vsock_link in;       /* one of the device's lists, by state */
	struct vsock_link turn;     /* among those that have something for the guest */
	struct vsock_conn *next;    /* in its bucket */
	bool in_table;
	enum vsock_state state;
	unsigned debts;
	uint32_t host_port, guest_port;
	/* To the guest; bytes of all time are modulo 2^32. */
	uint32_t sent, guest_took, guest_room; /* the last two as the guest said */
	bool readable;                         /* the host may have bytes */
	bool ended;                            /* it has no more, or the guest wants none */
	bool asked;                            /* for credit, since there was some */
	/* From the guest. */
	uint32_t got, passed, told; /* to the host; of that, what the guest knows */
	uint32_t room;              /* what the guest may have under way */
	bool deaf;                  /* the host takes no more */
	bool hung_up;               /* the host's end is closed */
	bool is_cut;                /* the host knows that the guest sends no more */
	unsigned shut, guest_shut;  /* VIRTIO_VSOCK_SHUTDOWN_*: by the host, by the guest */
	uint8_t *rest;              /* what the host has not taken; NULL: nothing */
	uint32_t rest_size, rest_from, rest_to;
	char line[VSOCK_LINE_MAX]; /* GREETING */
	unsigned line_bytes;
	uint64_t give_up_ns; /* DIALING */
};

/* A packet that no connection knows: to be answered with RST. */
struct vsock_stray {
	uint64_t cid; /* which the guest took for ours */
	uint32_t host_port, guest_port;
	uint16_t type;
};

struct virtio_vsock {
	struct virtio_dev dev;
	/* Constant. */
	struct vsock_host *host;
	struct event_loop *loop;
	uint32_t seed;
	struct log_limit limit;
	/* Under the transmit queue's lock. */
	struct iovec tx_iov[VSOCK_QUEUE_MAX];
	/* The rest under the receive queue's, which is the inner one. */
	bool broken;               /* the driver broke a rule of any queue */
	bool stalled;              /* the transmit queue waits for room among the strays */
	struct virtq_chain buffer; /* popped and not used yet */
	struct iovec rx_iov[VSOCK_QUEUE_MAX], rx_cut[VSOCK_QUEUE_MAX];
	bool has_buffer;
	struct event_source listener, timer;
	bool listens, timer_is_due;
	unsigned count;    /* connections, dead ones too */
	unsigned pause_ms; /* until the next try to reach those without room */
	uint64_t promised; /* the sum of the rooms of connections */
	uint32_t next_port;
	struct vsock_link live, dialing, dead, turns;
	struct vsock_conn *table[VSOCK_BUCKETS];
	struct vsock_stray strays[VSOCK_STRAYS_MAX];
	unsigned stray_from, stray_to; /* free-running */
};

static inline bool vsock_owes(const struct vsock_conn *c, unsigned debts)
{
	return c->debts & debts;
}

static inline uint32_t vsock_rest(const struct vsock_conn *c)
{
	return c->rest_to - c->rest_from;
}

/* How many bytes the guest has room for. */
static inline uint32_t vsock_credit(const struct vsock_conn *c)
{
	uint32_t under_way = c->sent - c->guest_took;

	return under_way < c->guest_room ? c->guest_room - under_way : 0;
}

/* virtio_vsock.c: sends the guest what it can be sent now. */
void vsock_pump(struct virtio_vsock *v);

/* ---- vsock_packet.c ---- */
/* A packet of the guest; iov holds its len bytes, and may be changed. */
void vsock_packet(struct virtio_vsock *v, const struct virtio_vsock_hdr *h, struct iovec *iov, unsigned count);
/* What came of a try to reach the host for the guest: a descriptor, or -errno. */
void vsock_dialed(struct vsock_conn *c, int fd);

/* ---- vsock_conn.c ---- */
void vsock_conns_init(struct virtio_vsock *v);
struct vsock_conn *vsock_new(struct virtio_vsock *v, enum vsock_state state, int fd); /* NULL: no room; fd is open */
struct vsock_conn *vsock_find(const struct virtio_vsock *v, uint32_t host_port, uint32_t guest_port);
void vsock_enter(struct vsock_conn *c, uint32_t host_port, uint32_t guest_port); /* the table, where it is not yet */
/* Over for the guest, which knows; the host gets what is left, if it should. */
void vsock_leave(struct vsock_conn *c, bool flush);
/* Ends it for both sides at once. */
void vsock_reset(struct vsock_conn *c);
/* After anything that happened to it: it gets its turn, or the loop waits for what it needs. */
void vsock_settle(struct vsock_conn *c);
void vsock_end_turn(struct vsock_conn *c);
void vsock_cut_all(struct virtio_vsock *v);
void vsock_dial(struct vsock_conn *c); /* later, and again */
void vsock_listen(struct virtio_vsock *v, bool want);
void vsock_at(struct virtio_vsock *v, unsigned ms); /* the timer, 0: at once */
void vsock_on_listener(void *ctx, uint32_t events);
void vsock_on_timer(void *ctx, uint32_t events);
void vsock_destroy_all(struct virtio_vsock *v); /* without the lock: the transport is gone */

/* ---- vsock_stream.c ---- */
void vsock_on_host(void *ctx, uint32_t events);
/* Bytes of the guest. */
void vsock_take(struct vsock_conn *c, struct iovec *iov, unsigned count, uint32_t len);
void vsock_flush(struct vsock_conn *c);
/* Bytes for the guest, more than 0; 0: none now. */
uint32_t vsock_give(struct vsock_conn *c, const struct iovec *iov, unsigned count);
/* The guest has said in guest_shut what it does not do any more. */
void vsock_follow_shut(struct vsock_conn *c);
void vsock_answered(struct vsock_conn *c); /* the guest has said yes to a connection of the host's */
void vsock_drop_rest(struct vsock_conn *c);
void vsock_close_host(struct vsock_conn *c);

#endif
