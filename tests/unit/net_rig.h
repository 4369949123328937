/* SPDX-License-Identifier: Apache-2.0 */
/* net_rig.h - a network device between a driver and a peer at the other end of a socket; the test steps the loop. */
#ifndef LULL_TESTS_NET_RIG_H
#define LULL_TESTS_NET_RIG_H

#include "event_loop.h"
#include "fakes/virtq_driver.h"
#include "log.h"
#include "net_host.h"
#include "virtio_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_net.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RX = 0,
	TX = 1,
	SIZE = 64,
	HEADER = NET_HEADER_BYTES,
	RING_RESET = 40,
	REG_QUEUE_RESET = 0xc0,
	BUF_BYTES = 2048,
};

struct net_rig {
	struct driver d;
	struct driver_ring ring[5]; /* rx and tx of two pairs, control */
	struct event_loop loop;
	struct log log;
	struct net_host *host;
	struct virtio_dev *dev;
	int peer;
	unsigned warnings;
	char warning[512];
	uint64_t tx_at, rx_at; /* guest addresses for frames */
};

static struct net_rig rig;

static inline void on_log(void *ctx, enum lull_log_level level, const char *line)
{
	(void)ctx;
	if (level <= LULL_LOG_WARN) {
		rig.warnings++;
		snprintf(rig.warning, sizeof(rig.warning), "%s", line);
	}
}

static inline void plug(void)
{
	rig.dev = virtio_net_create(rig.host, &rig.loop);
	const struct virtio_mmio_config config = {
		.dev = rig.dev, .mem = &rig.d.mem, .loop = &rig.loop, .log = &rig.log};
	rig.d.t = virtio_mmio_create(&config);
}

static inline void unplug(void)
{
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
}

static inline void open_rig(const char *spec)
{
	struct lull_error err;

	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.log = (struct log){.fn = on_log, .level = LULL_LOG_DEBUG};
	rig.host = net_host_open(spec, &rig.log, &err);
	if (!rig.host)
		fail_msg("%s: %s", spec, err.text);
	plug();
	rig.tx_at = driver_alloc(&rig.d, 1 << 17, 4096);
	rig.rx_at = driver_alloc(&rig.d, SIZE * BUF_BYTES, 4096);
}

/* With more words behind the descriptor, such as ",mtu=9000". */
static inline int set_up_words(const char *words)
{
	int fds[2];
	char spec[128];

	memset(&rig, 0, sizeof(rig));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	snprintf(spec, sizeof(spec), "fd=%d%s", fds[0], words);
	open_rig(spec);
	close(fds[0]); /* it made its own */
	rig.peer = fds[1];
	return 0;
}

static inline int set_up(void **state)
{
	(void)state;
	return set_up_words("");
}

static inline int tear_down(void **state)
{
	(void)state;
	unplug();
	net_host_close(rig.host);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	if (rig.peer >= 0)
		close(rig.peer);
	return 0;
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline bool step(int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(rig.loop.epoll_fd, &event, 1, timeout_ms) != 1)
		return false;
	const struct event_source *src = event.data.ptr;
	src->fn(src->ctx, event.events);
	return true;
}

/* Until the loop would sleep; something that keeps waking it fails the test. */
static inline void settle(void)
{
	unsigned steps = 0;

	while (step(0))
		assert_true(++steps < 1000);
}

static inline void bring_up(uint64_t features)
{
	unsigned queues = rig.host->pairs > 1 ? 2 * rig.host->pairs + 1 : 2;

	assert_true(driver_negotiate(&rig.d, features));
	for (unsigned n = 0; n < queues && n < ARRAY_SIZE(rig.ring); n++) {
		driver_ring_open(&rig.d, &rig.ring[n], SIZE);
		driver_ready(&rig.d, n, &rig.ring[n]);
	}
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
	assert_false(driver_needs_reset(&rig.d));
}

static inline void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

/* ---- the guest ---- */

/* A frame of so many bytes, header and body in pieces of their own; its head. */
static inline uint16_t guest_sends(uint32_t len, unsigned seed)
{
	uint8_t *at = driver_at(&rig.d, rig.tx_at);
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + HEADER, len, false}};

	memset(at, 0, HEADER);
	fill(at + HEADER, len, seed);
	uint16_t head = driver_chain(&rig.ring[TX], bufs, len ? 2 : 1);
	driver_kick(&rig.d, TX);
	return head;
}

/* A receive buffer of so many bytes. Buffer n of the ring is at rx_at + n * BUF_BYTES. */
static inline void guest_offers(uint32_t len)
{
	const struct driver_buf buf = {rig.rx_at + rig.ring[RX].next * (uint64_t)BUF_BYTES, len, true};

	assert_true(len <= BUF_BYTES);
	driver_chain(&rig.ring[RX], &buf, 1);
}

static inline void guest_offers_many(unsigned count, uint32_t len)
{
	for (unsigned i = 0; i < count; i++)
		guest_offers(len);
	driver_kick(&rig.d, RX);
}

/* The next received frame, joined from its buffers, must be that one. */
static inline void assert_guest_receives(uint32_t len, unsigned seed, unsigned buffers)
{
	static uint8_t got[1 << 17], want[1 << 17];
	struct virtio_net_hdr_v1 header;
	uint32_t id = 0, bytes = 0;
	size_t done = 0;

	for (unsigned i = 0; i < buffers; i++) {
		assert_true(driver_used(&rig.ring[RX], &id, &bytes));
		assert_true(bytes <= BUF_BYTES && done + bytes <= sizeof(got));
		memcpy(got + done, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), bytes);
		done += bytes;
	}
	assert_int_equal(done, HEADER + len);
	memcpy(&header, got, sizeof(header));
	assert_int_equal(header.num_buffers, buffers);
	assert_int_equal(header.gso_type, VIRTIO_NET_HDR_GSO_NONE);
	fill(want, len, seed);
	assert_memory_equal(got + HEADER, want, len);
}

static inline bool guest_has_received(void)
{
	return rig.ring[RX].used->idx != rig.ring[RX].seen;
}

/* ---- the peer ---- */

static inline void peer_sends_raw(const void *data, size_t len)
{
	assert_int_equal(send(rig.peer, data, len, MSG_DONTWAIT), len);
}

static inline void peer_sends(uint32_t len, unsigned seed)
{
	static uint8_t data[1 << 17];
	uint32_t be = htonl(len);

	memcpy(data, &be, 4);
	fill(data + 4, len, seed);
	peer_sends_raw(data, 4 + len);
}

/* Waits for that many bytes. */
static inline void peer_reads(void *data, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(rig.peer, (uint8_t *)data + got, len - got, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && step(1000))
			continue;
		assert_true(n > 0);
		got += (size_t)n;
	}
}

static inline void assert_peer_receives(uint32_t len, unsigned seed)
{
	static uint8_t got[1 << 17], want[1 << 17];
	uint32_t be;

	peer_reads(&be, 4);
	assert_int_equal(ntohl(be), len);
	peer_reads(got, len);
	fill(want, len, seed);
	assert_memory_equal(got, want, len);
}

static inline bool peer_has_something(void)
{
	uint8_t byte;

	return recv(rig.peer, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* ---- link and configuration ---- */

static inline bool link_is_up(void)
{
	return virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + 6, 2) & VIRTIO_NET_S_LINK_UP;
}

#define FEATURE(name) (1ull << VIRTIO_NET_F_##name)

#endif
