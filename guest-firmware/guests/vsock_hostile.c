/* SPDX-License-Identifier: Apache-2.0 */
/* vsock_hostile.c - a vsock driver that breaks one rule after the other. Each time the device answers with RST or wants
 * a reset, and works afterwards. */
#include "virtio_vsock.h"

static struct vsock s;

/* The answer to a packet of no connection, made as the arguments say. */
static void expect_rst(uint64_t src_cid, uint64_t dst_cid, unsigned type, unsigned op, uint32_t len, uint32_t flags)
{
	struct vsock_packet *p = vsock_packet(&s, op, 4000000000u, 5);

	p->src_cid = src_cid;
	p->dst_cid = dst_cid;
	p->type = (uint16_t)type;
	p->len = len;
	p->flags = flags;
	vsock_send(&s, p);
	vsock_kick(&s);
	vsock_wait(&s);
	p = vsock_receive(&s);
	check(p != NULL);
	check_eq(p->op, VSOCK_RST);
	check_eq(p->src_port, 4000000000u);
	check_eq(p->dst_port, 5);
	vsock_done(&s, p);
	vsock_kick(&s);
	check(!(virtio_read(&s.v, VIRTIO_STATUS) & VIRTIO_NEEDS_RESET));
}

static void packets_that_cannot_be(void)
{
	unsigned op;

	for (op = 0; op < 12; op++)
		if (op != VSOCK_RST)
			expect_rst(s.cid, VSOCK_HOST, VSOCK_STREAM, op, 0, ~0u);
	expect_rst(s.cid, VSOCK_HOST, VSOCK_STREAM, 0xffff, 100, 0);
	expect_rst(s.cid, VSOCK_HOST, VSOCK_STREAM, VSOCK_RW, 4000, 0);
	expect_rst(s.cid, VSOCK_HOST, 2, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid, VSOCK_HOST, 0xffff, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid, s.cid, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid, 1, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid, ~0ull, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid + 1, VSOCK_HOST, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
	expect_rst(s.cid | 1ull << 32, VSOCK_HOST, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
	expect_rst(VSOCK_HOST, VSOCK_HOST, VSOCK_STREAM, VSOCK_REQUEST, 0, 0);
}

/* A chain of any kind in the transmit queue; the device must want a reset. */
static void expect_broken(const struct vq_buf *bufs, unsigned readable, unsigned writable)
{
	uint32_t configs = s.v.configs;

	vq_add(&s.tx, bufs, readable, writable);
	vq_kick(&s.tx);
	halt_until(s.v.configs != configs);
	check(virtio_read(&s.v, VIRTIO_STATUS) & VIRTIO_NEEDS_RESET);
	vq_kick(&s.rx); /* deaf, and alive */
	vq_kick(&s.events);
	vsock_start(&s);
	expect_rst(s.cid, VSOCK_HOST, VSOCK_STREAM, VSOCK_RW, 0, 0);
	s.tx.next = 32; /* the descriptors of the next chain */
}

static void chains_that_cannot_be(void)
{
	struct vsock_packet *p = &s.bufs[VSOCK_BUFS];
	const struct vq_buf shorter[] = {{p, 43}};
	const struct vq_buf halves[] = {{p, 20}, {p, 23}};
	const struct vq_buf whole[] = {{p, 44}, {p, 100}};
	const struct vq_buf nowhere[] = {{p, 44}, {(void *)0xc0000000ull, 100}};

	s.tx.next = 32;
	expect_broken(shorter, 1, 0);
	expect_broken(halves, 2, 0);
	p->len = 101;
	expect_broken(whole, 2, 0);
	p->len = 0xffffffff;
	expect_broken(whole, 2, 0);
	p->len = 0;
	expect_broken(whole, 1, 1);
	expect_broken(whole, 0, 2);
	p->len = 100;
	expect_broken(nowhere, 2, 0);
}

/* No buffer is given back and every packet asks for an answer: the device takes a bounded number, and sleeps. */
static void answers_without_end(void)
{
	struct vsock_packet *p;
	unsigned i, taken = 0;

	for (i = 0; i < 4 * VSOCK_BUFS && (p = vsock_packet(&s, VSOCK_RW, 9, i)); i++) {
		vsock_send(&s, p);
		vq_kick(&s.tx);
	}
	check(i < 4 * VSOCK_BUFS);
	delay_us(20000);
	while (taken < i) { /* each buffer that comes back brings an answer */
		halt_until(vq_has_used(&s.rx));
		while ((p = vsock_receive(&s))) {
			check_eq(p->op, VSOCK_RST);
			taken++;
			vsock_done(&s, p);
		}
		vq_kick(&s.rx);
	}
}

int main(void)
{
	apic_setup();
	vsock_start(&s);
	packets_that_cannot_be();
	answers_without_end();
	vsock_start(&s);
	chains_that_cannot_be();
	return 0;
}
