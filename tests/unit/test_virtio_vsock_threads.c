// SPDX-License-Identifier: Apache-2.0
/* test_virtio_vsock_threads.c - a driver, the loop and programs of the host, each on a thread of its own, with resets
 * in between. For the thread sanitizer; a packet or an event that is lost lets it time out. */
#include "vsock_rig.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	CLIENTS = 3,
	ROUNDS = 30,
	STEPS = 300, /* packets of a round */
	BYTES = 6000,
};

static pthread_t loop_thread, clients[CLIENTS];
static atomic_bool over;
static atomic_uint finished, cut;

static void *run_loop(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

/* One connection whose bytes come back, unless it is cut. */
static void talk(unsigned seed)
{
	const struct sockaddr_un a = address_of("");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t out[BYTES], in[BYTES];
	const struct timeval patience = {.tv_usec = 200000}; /* the last ones are not taken any more */
	size_t got = 0;
	ssize_t n;
	char c = 0;

	fill(out, sizeof(out), seed);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0 &&
	    send(fd, "CONNECT 7\n", 10, MSG_NOSIGNAL) == 10) {
		while (c != '\n' && recv(fd, &c, 1, 0) == 1)
			;
		if (c == '\n' && send(fd, out, sizeof(out), MSG_NOSIGNAL) == BYTES) {
			shutdown(fd, SHUT_WR);
			while (got < BYTES && (n = recv(fd, in + got, BYTES - got, 0)) > 0)
				got += (size_t)n;
		}
	}
	assert_memory_equal(in, out, got);
	atomic_fetch_add(got == BYTES ? &finished : &cut, 1);
	close(fd);
}

static void *run_client(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!atomic_load(&over))
		talk(seed += CLIENTS);
	return NULL;
}

/* Each packet of the driver in a place of its own, as the device takes it at its leisure. */
static void answer(const struct virtio_vsock_hdr *h, unsigned op, uint32_t len, const void *bytes)
{
	static unsigned place;
	uint64_t at = rig.rx_at + (SIZE * (uint64_t)BUF_BYTES) + place++ % SIZE * 2 * BUF_BYTES;
	struct virtio_vsock_hdr out = header(op, h->src_port, h->dst_port);
	const struct driver_buf buf = {at, HEADER + len, false};
	uint32_t id, used;

	out.len = len;
	out.buf_alloc = 1u << 20;
	out.flags = op == VIRTIO_VSOCK_OP_SHUTDOWN ? 3 : 0;
	memcpy(driver_at(&rig.d, at), &out, HEADER);
	if (len)
		memcpy(driver_at(&rig.d, at + HEADER), bytes, len);
	driver_chain(&rig.ring[TX], &buf, 1);
	driver_kick(&rig.d, TX);
	while (driver_used(&rig.ring[TX], &id, &used))
		;
}

static void take(const struct virtio_vsock_hdr *h)
{
	switch (h->op) {
	case VIRTIO_VSOCK_OP_REQUEST:
		answer(h, VIRTIO_VSOCK_OP_RESPONSE, 0, NULL);
		break;
	case VIRTIO_VSOCK_OP_RW:
		answer(h, VIRTIO_VSOCK_OP_RW, h->len, h + 1);
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		answer(h, VIRTIO_VSOCK_OP_SHUTDOWN, 0, NULL);
		break;
	default:
		break;
	}
}

static bool play_one(void)
{
	static uint8_t packet[BUF_BYTES];
	uint32_t id, len;

	if (!driver_used(&rig.ring[RX], &id, &len))
		return false;
	memcpy(packet, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), len);
	guest_offers(1, BUF_BYTES);
	take((const void *)packet);
	return true;
}

static void threads_and_resets_harm_nothing(void **state)
{
	(void)state;
	driver_alloc(&rig.d, 3ull * SIZE * BUF_BYTES, 4096); /* answer()'s */
	uint64_t heap = rig.d.heap;
	assert_int_equal(pthread_create(&loop_thread, NULL, run_loop, &rig.loop), 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&clients[i], NULL, run_client, (void *)(uintptr_t)i), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(driver_at(&rig.d, heap), 0, rig.d.heap - heap);
		rig.d.heap = heap;
		start();
		for (unsigned steps = 0, idle = 0; steps < STEPS && idle < 2000;) {
			if (play_one()) {
				steps++;
				idle = 0;
			} else {
				idle++;
				poll(NULL, 0, 1);
			}
		}
		assert_false(driver_needs_reset(&rig.d));
		driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	event_loop_stop(&rig.loop);
	pthread_join(loop_thread, NULL);
	assert_true(atomic_load(&finished) >= ROUNDS); /* most of them */
	assert_true(atomic_load(&cut) <= ROUNDS * CLIENTS + CLIENTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(threads_and_resets_harm_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
