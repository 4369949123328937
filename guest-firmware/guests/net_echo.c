/* SPDX-License-Identifier: Apache-2.0 */
/* net_echo.c - answers ARP, ICMP echo requests and UDP to port 7 at 192.0.2.2, and frames of type 0x88b5 whose checksum
 * it verifies. Ends on UDP to port 9, or on such a frame that says so; link=down: also when the link goes down, and
 * then only that is right. announce=1: it asks for 192.0.2.1 first, so that the other side learns its address. */
#include "virtio_net.h"

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_ARP = 0x0806,
	TYPE_TEST = 0x88b5,
	ICMP = 1,
	UDP = 17,
	PORT_ECHO = 7,
	PORT_END = 9,
	ARP_BYTES = 42,
};

/* Behind the Ethernet header. tests/net/peer.c has the other side. */
struct test_frame {
	uint32_t seq, is_last;
	uint64_t hash; /* of what follows */
	uint8_t data[];
} __attribute__((packed));

static const uint8_t our_ip[4] = {192, 0, 2, 2}, their_ip[4] = {192, 0, 2, 1};
static struct net net;
static uint32_t bad, frames;
static volatile bool ended;

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static bool same(const uint8_t *a, const uint8_t *b, unsigned len)
{
	while (len--)
		if (a[len] != b[len])
			return false;
	return true;
}

static void copy(uint8_t *to, const uint8_t *from, unsigned len)
{
	while (len--)
		to[len] = from[len];
}

static void swap(uint8_t *a, uint8_t *b, unsigned len)
{
	while (len--) {
		uint8_t t = a[len];
		a[len] = b[len];
		b[len] = t;
	}
}

static uint64_t hash(const uint8_t *p, uint32_t len)
{
	uint64_t h = len, word;

	for (; len >= 8; p += 8, len -= 8) {
		__builtin_memcpy(&word, p, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; len; p++, len--)
		h = (h ^ *p) * 0x9e3779b97f4a7c15ull;
	return h;
}

/* Each returns whether the frame, changed in place, is an answer. */

static bool answer_arp(uint8_t *f, uint32_t bytes)
{
	if (bytes < ARP_BYTES || be16(f + 20) != 1 || !same(f + 38, our_ip, 4))
		return false;
	f[21] = 2; /* a reply */
	copy(f + 32, f + 22, 10);
	copy(f + 22, net.mac, 6);
	copy(f + 28, our_ip, 4);
	return true;
}

static bool answer_icmp(uint8_t *icmp)
{
	uint32_t sum;

	if (icmp[0] != 8)
		return false;
	icmp[0] = 0;
	sum = be16(icmp + 2) + 0x0800; /* one's complement: what left the message joins its checksum */
	sum = (sum & 0xffff) + (sum >> 16);
	icmp[2] = (uint8_t)(sum >> 8);
	icmp[3] = (uint8_t)sum;
	return true;
}

/* Swapping addresses and ports leaves every checksum as it is. */
static bool answer_ipv4(uint8_t *f, uint32_t bytes)
{
	uint8_t *l4 = f + 14 + (f[14] & 15) * 4;

	if (bytes < 42 || l4 + 8 > f + bytes || !same(f + 30, our_ip, 4))
		return false;
	if (f[23] == UDP && be16(l4 + 2) == PORT_END)
		ended = true;
	if (f[23] == ICMP ? !answer_icmp(l4) : f[23] != UDP || be16(l4 + 2) != PORT_ECHO)
		return false;
	if (f[23] == UDP)
		swap(l4, l4 + 2, 2);
	swap(f + 26, f + 30, 4);
	return true;
}

static bool answer_test(uint8_t *f, uint32_t bytes)
{
	const struct test_frame *t = (const struct test_frame *)(f + 14);

	if (bytes < 14 + sizeof(*t))
		return false;
	frames++;
	if (hash(t->data, bytes - 14 - sizeof(*t)) != t->hash)
		bad++;
	if (t->is_last)
		ended = true;
	return true;
}

static bool answer(uint8_t *f, uint32_t bytes)
{
	bool yes = false;

	if (bytes < 14)
		return false;
	switch (be16(f + 12)) {
	case TYPE_ARP:
		yes = answer_arp(f, bytes);
		break;
	case TYPE_IPV4:
		yes = answer_ipv4(f, bytes);
		break;
	case TYPE_TEST:
		yes = answer_test(f, bytes);
		break;
	}
	copy(f, f + 6, 6);
	copy(f + 6, net.mac, 6);
	return yes;
}

/* In ring 3: all that is there. */
static uint64_t serve(uint64_t arg)
{
	uint32_t bytes = 0;
	uint8_t *f;

	(void)arg;
	net_collect(&net);
	while ((f = net_receive(&net, &bytes))) {
		if (answer(f, bytes))
			net_send(&net, f, bytes);
		else
			net_drop(&net, f);
	}
	return 0;
}

static void announce(void)
{
	static const uint8_t head[] = {0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1};
	uint8_t *f = net_own(&net);
	unsigned i;

	for (i = 0; i < 6; i++) {
		f[i] = 0xff;
		f[32 + i] = 0;
	}
	copy(f + 6, net.mac, 6);
	copy(f + 12, head, sizeof(head));
	copy(f + 22, net.mac, 6);
	copy(f + 28, our_ip, 4);
	copy(f + 38, their_ip, 4);
	net_send(&net, f, ARP_BYTES);
	net_kick(&net);
}

int main(void)
{
	bool until_down = param_is("link", "down");

	apic_setup();
	net_start(&net, (unsigned)param_u64("net", 0), VIRTIO_NET_F_STATUS);
	check(net_link_is_up(&net));
	serial_print("net: ready\n");
	if (param_u64("announce", 0))
		announce();
	while (!ended && (net_link_is_up(&net) || !until_down)) {
		net_wait(&net);
		ring3(serve, 0);
		net_kick(&net);
	}
	if (until_down)
		halt_until(net.v.configs && !net_link_is_up(&net)); /* and it is told of it */
	net_flush(&net);
	serial_print("net: %u frames, %u of them bad\n", frames, bad);
	return bad != 0;
}
