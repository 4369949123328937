// SPDX-License-Identifier: Apache-2.0
/* test_virtio_net_threads.c - a driver, the loop and a peer that sends everything back, each on a thread of its own,
 * with resets in between. For the thread sanitizer; a frame that is lost lets it time out. */
#include "net_rig.h"

#include <poll.h>
#include <pthread.h>

enum {
	ROUNDS = 20,
	FRAMES = 300, /* of a round */
	WINDOW = 12,
	BUFFERS = 48,
	OFFERED = 1000, /* bytes of a buffer: long frames need two */
};

static pthread_t loop_thread, peer_thread;

static void *run_loop(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

/* Sends back what comes, until there is nothing more. */
static void *run_peer(void *arg)
{
	static uint8_t data[1 << 16];
	ssize_t n;

	(void)arg;
	while ((n = recv(rig.peer, data, sizeof(data), 0)) > 0)
		for (ssize_t done = 0, sent; done < n; done += sent) {
			sent = send(rig.peer, data + done, (size_t)(n - done), MSG_NOSIGNAL);
			if (sent <= 0)
				return NULL;
		}
	return NULL;
}

static uint32_t length_of(unsigned frame)
{
	return 60 + frame * 97 % 1400;
}

static void offer_again(uint32_t id)
{
	const struct driver_buf buf = {rig.rx_at + id * (uint64_t)BUF_BYTES, OFFERED, true};
	struct driver_ring *r = &rig.ring[RX];

	driver_desc(r, id, buf.addr, buf.len, VRING_DESC_F_WRITE, 0);
	driver_offer(r, id);
}

/* Each frame of this round in the place of its number, so that the device may read it at any time. */
static void send_one(unsigned frame)
{
	uint64_t at = rig.tx_at + frame % WINDOW * 2048;
	uint32_t len = length_of(frame), id = 0, used = 0;
	const struct driver_buf buf = {at, HEADER + len, false};
	uint8_t *bytes = driver_at(&rig.d, at);

	while (driver_used(&rig.ring[TX], &id, &used))
		;
	memset(bytes, 0, HEADER);
	fill(bytes + HEADER, len, frame);
	driver_chain(&rig.ring[TX], &buf, 1);
	driver_kick(&rig.d, TX);
}

/* True: all of a frame was there and is the expected one. */
static bool receive_one(unsigned frame)
{
	static uint8_t want[2048];
	uint32_t id = 0, bytes = 0, len = length_of(frame), done = 0, skip = HEADER;

	fill(want, len, frame);
	while (done < len) {
		if (!driver_used(&rig.ring[RX], &id, &bytes)) {
			if (!done)
				return false;
			continue; /* its buffers become visible together, or nearly so */
		}
		const uint8_t *at = driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES);
		assert_true(bytes > skip && done + bytes - skip <= len);
		assert_memory_equal(at + skip, want + done, bytes - skip);
		done += bytes - skip;
		skip = 0;
		offer_again(id);
	}
	return true;
}

static void play(void)
{
	unsigned sent = 0, got = 0;

	while (got < FRAMES) {
		while (sent < FRAMES && sent - got < WINDOW)
			send_one(sent++);
		if (receive_one(got)) {
			got++;
			driver_kick(&rig.d, RX);
		} else {
			poll(NULL, 0, 0);
		}
	}
}

static void threads_and_resets_lose_no_frame(void **state)
{
	(void)state;
	uint64_t heap = rig.d.heap;
	assert_int_equal(pthread_create(&loop_thread, NULL, run_loop, &rig.loop), 0);
	assert_int_equal(pthread_create(&peer_thread, NULL, run_peer, NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(driver_at(&rig.d, heap), 0, rig.d.heap - heap);
		rig.d.heap = heap;
		bring_up(FEATURE(MRG_RXBUF));
		for (uint32_t id = 0; id < BUFFERS; id++)
			offer_again(id);
		driver_kick(&rig.d, RX);
		play();
		driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	}
	assert_int_equal(rig.host->rx.frames, ROUNDS * FRAMES);
	assert_int_equal(rig.host->rx.dropped + rig.host->tx.dropped, 0);
	shutdown(rig.peer, SHUT_RDWR);
	pthread_join(peer_thread, NULL);
	event_loop_stop(&rig.loop);
	pthread_join(loop_thread, NULL);
}

/* Resets while frames are on their way: nothing to expect of them but that all goes on. */
static void resets_amid_traffic_harm_nothing(void **state)
{
	(void)state;
	uint64_t heap = rig.d.heap;
	assert_int_equal(pthread_create(&loop_thread, NULL, run_loop, &rig.loop), 0);
	assert_int_equal(pthread_create(&peer_thread, NULL, run_peer, NULL), 0);
	for (unsigned round = 0; round < 10 * ROUNDS; round++) {
		memset(driver_at(&rig.d, heap), 0, rig.d.heap - heap);
		rig.d.heap = heap;
		bring_up(round % 2 ? FEATURE(MRG_RXBUF) : 0);
		for (uint32_t id = 0; id < round % BUFFERS; id++)
			offer_again(id);
		driver_kick(&rig.d, RX);
		for (unsigned frame = 0; frame < round % WINDOW; frame++)
			send_one(frame);
		driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	}
	shutdown(rig.peer, SHUT_RDWR);
	pthread_join(peer_thread, NULL);
	event_loop_stop(&rig.loop);
	pthread_join(loop_thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(threads_and_resets_lose_no_frame),
		WITH_RIG(resets_amid_traffic_harm_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
