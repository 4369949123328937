/* SPDX-License-Identifier: Apache-2.0 */
/* net_bench.c - sends frames= frames of bytes= (1514) each, or receives them (receive=1), the CPU halted while there is
 * nothing to do: how long, for tests/bench/net.py. gso=1: frames up to 64 KiB, which the host may cut into segments, as
 * Linux sends TCP. Rings are used as Linux does: interrupts only when the ring is full or empty, notifications only
 * when they are wanted. */
#include "virtio_net.h"

enum {
	SIZE = 256,
	STRIDE = 66 * 1024,
	HEADERS = 54, /* Ethernet, IPv4, TCP */
};
#define OFFLOADS (VIRTIO_NET_F_CSUM | VIRTIO_NET_F_GUEST_CSUM | VIRTIO_NET_F_GUEST_TSO4 | VIRTIO_NET_F_HOST_TSO4)

static struct virtio v;
static struct vq rx, tx;
static uint64_t total, frames, bytes;

static void offer(struct vq *q, uint16_t count)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->avail->idx = (uint16_t)(q->avail->idx + count);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* In ring 3: as many as there is room for. */
static uint64_t push(uint64_t arg)
{
	uint64_t room = SIZE - (uint16_t)(tx.avail->idx - tx.used->idx),
		 n = total - frames < room ? total - frames : room;

	(void)arg;
	frames += n;
	offer(&tx, (uint16_t)n);
	return n;
}

/* In ring 3: takes all that came and gives the buffers back. */
static uint64_t take(uint64_t arg)
{
	uint16_t n = 0;

	(void)arg;
	for (; vq_has_used(&rx); n++) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		uint16_t id = (uint16_t)rx.used->ring[rx.seen & (SIZE - 1)].id;

		bytes += rx.used->ring[rx.seen++ & (SIZE - 1)].len - NET_HEADER;
		rx.avail->ring[(uint16_t)(rx.avail->idx + n) & (SIZE - 1)] = id;
	}
	frames += n;
	offer(&rx, n);
	return n;
}

/* A frame that leads nowhere, with the header of the device in front. */
static uint8_t *make_frame(uint32_t size, bool gso)
{
	static const uint8_t plain[] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
	static const uint8_t tcp[HEADERS] = {2, 0, 0, 0, 0,  9, 2, 0, 0,   0, 0,    1,    8,   0, 0x45, 0, 0, 0,
	                                     0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2,    2,    192, 0, 2,    9, 0, 9,
	                                     0, 9, 0, 0, 0,  1, 0, 0, 0,   1, 0x50, 0x10, 1,   0, 0,    0, 0, 0};
	/* NEEDS_CSUM, TCPV4; header length, segment size, where the checksum starts and is: virtio 1.2, 5.1.6. */
	static const uint8_t offload[NET_HEADER] = {1, 1, HEADERS, 0, 1448 & 0xff, 1448 >> 8, 34, 0, 16, 0, 0, 0};
	uint8_t *frame = virtio_alloc(NET_HEADER + size, 4096);
	uint32_t i, ip = size - 14;

	for (i = 0; i < NET_HEADER; i++)
		frame[i] = gso ? offload[i] : 0;
	for (i = 0; i < (gso ? sizeof(tcp) : sizeof(plain)); i++)
		frame[NET_HEADER + i] = gso ? tcp[i] : plain[i];
	if (gso) {
		frame[NET_HEADER + 16] = (uint8_t)(ip >> 8);
		frame[NET_HEADER + 17] = (uint8_t)ip;
	}
	return frame;
}

static uint64_t send(uint32_t size, bool gso)
{
	uint8_t *frame = make_frame(size, gso);
	uint64_t start;

	for (unsigned i = 0; i < SIZE; i++) {
		tx.desc[i].addr = (uint64_t)frame;
		tx.desc[i].len = NET_HEADER + size;
		tx.avail->ring[i] = (uint16_t)i;
	}
	start = rdtsc();
	while (frames < total) {
		ring3(push, 0);
		vq_kick_new(&tx, &tx.next);
		tx.avail->flags = 0;
		halt_until((uint16_t)(tx.avail->idx - tx.used->idx) <= SIZE / 2);
		tx.avail->flags = VQ_NO_INTERRUPT;
	}
	tx.avail->flags = 0;
	halt_until(tx.avail->idx == tx.used->idx);
	bytes = total * size;
	return rdtsc() - start;
}

static uint64_t receive(void)
{
	uint8_t *bufs = virtio_alloc((uint64_t)SIZE * STRIDE, 4096);
	uint64_t start;

	for (unsigned i = 0; i < SIZE; i++) {
		rx.desc[i].addr = (uint64_t)(bufs + (uint64_t)i * STRIDE);
		rx.desc[i].len = STRIDE;
		rx.desc[i].flags = VQ_WRITE;
		rx.avail->ring[i] = (uint16_t)i;
	}
	offer(&rx, SIZE);
	vq_kick(&rx);
	serial_print("net_bench: ready\n");
	halt_until(vq_has_used(&rx));
	start = rdtsc();
	while (frames < total) {
		rx.avail->flags = 0;
		halt_until(vq_has_used(&rx));
		rx.avail->flags = VQ_NO_INTERRUPT;
		if (ring3(take, 0))
			vq_kick_new(&rx, &rx.next);
	}
	return rdtsc() - start;
}

int main(void)
{
	uint32_t size = (uint32_t)param_u64("bytes", 1514);
	bool gso = param_u64("gso", 0);
	uint64_t ns;

	apic_setup_as(true);
	tsc_khz();
	total = param_u64("frames", 10000);
	if (!virtio_find(&v, VIRTIO_NET, 0))
		skip("no network interface");
	virtio_begin(&v, gso ? OFFLOADS : 0);
	check(!gso || (v.features & OFFLOADS) == OFFLOADS);
	vq_setup(&rx, &v, 0, SIZE);
	vq_setup(&tx, &v, 1, SIZE);
	virtio_ready(&v);
	ns = tsc_to_ns(param_u64("receive", 0) ? receive() : send(size, gso));
	serial_print("net_bench: %lu frames, %lu bytes, %lu ns\n", frames, bytes, ns);
	return 0;
}
