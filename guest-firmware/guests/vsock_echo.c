/* SPDX-License-Identifier: Apache-2.0 */
/* vsock_echo.c - connections over virtio-vsock. Port 7 gives back what comes in, port 2 takes connections and never
 * reads, port 9 ends the guest, others refuse. calls=N port=P: opens N connections to port P of the host first, sends
 * each a text and its end, and expects the text and the end back. tests/vsock/peer.c is the other side.
 * restart=1: the first end is a reset of the machine, the second must have been told that connections were cut. */
#include "virtio_vsock.h"

enum {
	CONNS = 4096,
	ROOM = 2048, /* of each connection; a packet has more */
	PORT_SINK = 2,
	PORT_ECHO = 7,
	PORT_END = 9,
	CALL_BYTES = 1500,
	CALL_WINDOW = 200,
	FIRST_PORT = 20000,
};

enum state {
	FREE,
	CALLING,
	OPEN,
	CLOSING, /* the host's RST is awaited */
};

struct conn {
	uint32_t host_port, guest_port;
	uint32_t room, passed; /* the host's, as it said */
	uint32_t sent, got, took;
	uint32_t have;                        /* bytes in data */
	uint8_t state, is_call, ended, asked; /* ended: the host sends no more */
	uint8_t has_work;
	uint8_t data[ROOM];
};

static struct vsock s;
static struct conn *conns;
static uint16_t work[CONNS]; /* connections that have something to send */
static uint32_t work_from, work_to;
static uint32_t open_count, calls, called, answered, bad, strays;
static uint32_t call_port;
static volatile bool ended;

static struct conn *find(uint32_t host_port, uint32_t guest_port, bool make)
{
	uint32_t at = (host_port * 7 + guest_port) % CONNS, i;
	struct conn *free = NULL;

	for (i = 0; i < CONNS; i++, at = (at + 1) % CONNS) {
		struct conn *c = &conns[at];
		if (c->state != FREE && c->host_port == host_port && c->guest_port == guest_port)
			return c;
		if (c->state == FREE && !free)
			free = c;
		if (c->state == FREE && !c->host_port) /* never used: nothing is behind it */
			break;
	}
	if (!make || !free)
		return NULL;
	free->host_port = host_port;
	free->guest_port = guest_port;
	free->room = free->passed = free->sent = free->got = free->took = free->have = 0;
	free->is_call = free->ended = free->asked = 0;
	open_count++;
	return free;
}

static void drop(struct conn *c)
{
	c->state = FREE;
	open_count--;
}

static void want_work(struct conn *c)
{
	if (!c->has_work)
		work[work_to++ % CONNS] = (uint16_t)(c - conns);
	c->has_work = 1;
}

/* In ring 3, and a packet was seen to be free. */
static void send(struct conn *c, unsigned op, uint32_t flags)
{
	struct vsock_packet *p = vsock_packet(&s, op, c->host_port, c->guest_port);

	p->flags = flags;
	p->buf_alloc = ROOM;
	p->fwd_cnt = c->took;
	vsock_send(&s, p);
}

static uint8_t call_byte(const struct conn *c, uint32_t n)
{
	return (uint8_t)(n * 7 + (n >> 8) + c->guest_port);
}

/* Sends what a connection has, as far as there are packets and credit. False: no packet is left. */
static bool send_data(struct conn *c)
{
	while (c->have) {
		uint32_t credit = c->room - (c->sent - c->passed), i;
		struct vsock_packet *p;

		if (!credit)
			return true; /* the host says when there is more */
		p = vsock_packet(&s, VSOCK_RW, c->host_port, c->guest_port);
		if (!p)
			return false;
		p->len = c->have < credit ? c->have : credit;
		for (i = 0; i < p->len; i++)
			p->data[i] = c->data[i];
		for (i = p->len; i < c->have; i++)
			c->data[i - p->len] = c->data[i];
		c->have -= p->len;
		c->sent += p->len;
		c->took += c->is_call ? 0 : p->len;
		p->buf_alloc = ROOM;
		p->fwd_cnt = c->took;
		vsock_send(&s, p);
	}
	return true;
}

static void close_both(struct conn *c)
{
	send(c, VSOCK_SHUTDOWN, VSOCK_NO_RECEIVE | VSOCK_NO_SEND);
	c->state = CLOSING;
}

static void do_work(void)
{
	while (work_from != work_to && vsock_can_send(&s)) {
		struct conn *c = &conns[work[work_from % CONNS]];

		if (c->state == OPEN && (!send_data(c) || !vsock_can_send(&s)))
			return;
		work_from++;
		c->has_work = 0;
		if (c->state != OPEN || c->have)
			continue;
		if (c->is_call && c->asked == 0) {
			c->asked = 1;
			send(c, VSOCK_SHUTDOWN, VSOCK_NO_SEND);
		} else if (c->ended) {
			close_both(c);
		}
	}
}

static void on_answer(struct conn *c, const struct vsock_packet *p)
{
	uint32_t i;

	for (i = 0; i < p->len; i++)
		bad += p->data[i] != call_byte(c, c->got + i);
	c->got += p->len;
	c->took += p->len;
}

static void on_data(struct conn *c, const struct vsock_packet *p)
{
	uint32_t i;

	if (c->is_call) {
		on_answer(c, p);
		return;
	}
	c->got += p->len;
	if (c->got - c->took > ROOM || c->have + p->len > ROOM) { /* the device may not */
		bad++;
		return;
	}
	if (c->guest_port == PORT_SINK)
		return;
	for (i = 0; i < p->len; i++)
		c->data[c->have++] = p->data[i];
	want_work(c);
}

static void refuse(const struct vsock_packet *p)
{
	struct vsock_packet *answer;

	if (p->op == VSOCK_RST)
		return;
	answer = vsock_packet(&s, VSOCK_RST, p->src_port, p->dst_port);
	vsock_send(&s, answer);
}

static void on_request(const struct vsock_packet *p)
{
	struct conn *c = NULL;

	if (p->dst_port == PORT_END)
		ended = true;
	if (p->dst_port == PORT_ECHO || p->dst_port == PORT_SINK)
		c = find(p->src_port, p->dst_port, true);
	if (!c) {
		refuse(p);
		return;
	}
	c->state = OPEN;
	c->room = p->buf_alloc;
	send(c, VSOCK_RESPONSE, 0);
}

static void on_response(struct conn *c)
{
	bad += c->state != CALLING;
	c->state = OPEN;
	for (c->have = 0; c->have < CALL_BYTES; c->have++)
		c->data[c->have] = call_byte(c, c->have);
	want_work(c);
}

static void on_shutdown(struct conn *c, uint32_t flags)
{
	c->ended |= flags >> 1 & 1;
	if (c->is_call && (flags & VSOCK_NO_SEND) && c->got != CALL_BYTES)
		bad++;
	if (flags == (VSOCK_NO_RECEIVE | VSOCK_NO_SEND)) { /* nobody is there any more */
		answered += c->is_call && c->got == CALL_BYTES;
		send(c, VSOCK_RST, 0);
		drop(c);
	} else if (c->state == OPEN) {
		want_work(c);
	}
}

static void on_rst(struct conn *c)
{
	if (c->is_call && c->state == CALLING) { /* the host was busy for too long */
		send(c, VSOCK_REQUEST, 0);
		return;
	}
	if (c->is_call)
		answered += c->state == CLOSING && c->got == CALL_BYTES;
	else
		strays += c->state != CLOSING;
	drop(c);
}

static void take(const struct vsock_packet *p)
{
	struct conn *c = find(p->src_port, p->dst_port, false);

	if (p->src_cid != VSOCK_HOST || p->dst_cid != s.cid || p->type != VSOCK_STREAM)
		bad++;
	if (!c && p->op == VSOCK_REQUEST) {
		on_request(p);
		return;
	}
	if (!c) {
		refuse(p);
		return;
	}
	c->room = p->buf_alloc;
	c->passed = p->fwd_cnt;
	switch (p->op) {
	case VSOCK_RESPONSE:
		on_response(c);
		break;
	case VSOCK_RST:
		on_rst(c);
		break;
	case VSOCK_SHUTDOWN:
		on_shutdown(c, p->flags);
		break;
	case VSOCK_RW:
		on_data(c, p);
		break;
	case VSOCK_CREDIT_REQUEST:
		send(c, VSOCK_CREDIT_UPDATE, 0);
		break;
	case VSOCK_CREDIT_UPDATE:
		break;
	default:
		bad++;
	}
	if (c->state == OPEN && c->have)
		want_work(c);
}

static void call(void)
{
	while (called < calls && called - answered < CALL_WINDOW && vsock_can_send(&s)) {
		struct conn *c = find(call_port, FIRST_PORT + called, true);

		c->is_call = 1;
		c->state = CALLING;
		send(c, VSOCK_REQUEST, 0);
		called++;
	}
}

/* In ring 3: all that is there. A packet is taken when its answer has a place. */
static uint64_t serve(uint64_t arg)
{
	struct vsock_packet *p;

	(void)arg;
	vsock_collect(&s);
	do_work();
	while (vsock_can_send(&s) && (p = vsock_receive(&s))) {
		take(p);
		vsock_done(&s, p);
		do_work();
	}
	call();
	return 0;
}

/* Calls and echoes: there is nothing to do but wait. */
static bool is_done(void)
{
	return ended || (calls && answered == calls);
}

int main(void)
{
	apic_setup();
	vsock_start(&s);
	check_eq(s.cid, param_u64("cid", 3));
	conns = virtio_alloc(sizeof(*conns) * CONNS, 4096);
	calls = (uint32_t)param_u64("calls", 0);
	call_port = (uint32_t)param_u64("port", 0);
	serial_print("vsock: ready\n");
	ring3(serve, 0);
	vsock_kick(&s);
	while (!is_done()) {
		vsock_wait(&s);
		ring3(serve, 0);
		vsock_kick(&s);
	}
	serial_print("vsock: %u open, %u of %u calls answered, %u bad, %u reset\n", open_count, answered, calls, bad,
	             strays);
	if (!param_u64("restart", 0)) {
		check_eq(*s.event, ~0u);
	} else if (*s.event) {
		out8(0xcf9, 6);
		halt_until(false);
	}
	return bad != 0 || answered != calls;
}
