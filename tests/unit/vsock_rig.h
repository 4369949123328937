/* SPDX-License-Identifier: Apache-2.0 */
/* vsock_rig.h - a vsock device between a driver and unix sockets in a directory of its own; the test steps the loop. */
#ifndef LULL_TESTS_VSOCK_RIG_H
#define LULL_TESTS_VSOCK_RIG_H

#include "event_loop.h"
#include "fakes/virtq_driver.h"
#include "log.h"
#include "virtio_vsock.h"
#include "vsock_host.h"

#include <errno.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_vsock.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RX = 0,
	TX = 1,
	EVENT = 2,
	CID = 77,
	SIZE = 64,
	HEADER = sizeof(struct virtio_vsock_hdr),
	BUF_BYTES = 4096,
	DATA_MAX = 1 << 16,
	RING_RESET = 40,
	REG_QUEUE_RESET = 0xc0,
};

struct vsock_rig {
	struct driver d;
	struct driver_ring ring[3];
	struct event_loop loop;
	struct log log;
	struct vsock_host *host;
	struct virtio_dev *dev;
	char dir[32], path[48];
	unsigned warnings;
	char warning[512];
	uint64_t tx_at, rx_at; /* guest addresses */
	uint32_t room, took;   /* what the guest says of itself in each packet */
};

static struct vsock_rig rig;

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
	rig.dev = virtio_vsock_create(rig.host, &rig.loop);
	assert_non_null(rig.dev);
	const struct virtio_mmio_config config = {
		.dev = rig.dev, .mem = &rig.d.mem, .loop = &rig.loop, .log = &rig.log};
	rig.d.t = virtio_mmio_create(&config);
}

static inline void unplug(void)
{
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
}

static inline int set_up(void **state)
{
	struct lull_error err;
	char spec[96];

	(void)state;
	memset(&rig, 0, sizeof(rig));
	strcpy(rig.dir, "/tmp/lull-vsock-XXXXXX");
	assert_non_null(mkdtemp(rig.dir));
	snprintf(rig.path, sizeof(rig.path), "%s/v", rig.dir);
	snprintf(spec, sizeof(spec), "cid=%d,socket=%s", CID, rig.path);
	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.log = (struct log){.fn = on_log, .level = LULL_LOG_DEBUG};
	rig.host = vsock_host_open(spec, &rig.log, &err);
	if (!rig.host)
		fail_msg("%s: %s", spec, err.text);
	plug();
	rig.tx_at = driver_alloc(&rig.d, HEADER + DATA_MAX, 4096);
	rig.rx_at = driver_alloc(&rig.d, SIZE * BUF_BYTES, 4096);
	rig.room = 1 << 18;
	return 0;
}

static inline int tear_down(void **state)
{
	char command[64];

	(void)state;
	unplug();
	vsock_host_close(rig.host);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	snprintf(command, sizeof(command), "rm -rf %s", rig.dir);
	return system(command);
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
		assert_true(++steps < 20000);
}

static inline void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

/* ---- the guest ---- */

static inline void bring_up(void)
{
	assert_true(driver_negotiate(&rig.d, 1ull << RING_RESET));
	for (unsigned n = 0; n < 3; n++) {
		driver_ring_open(&rig.d, &rig.ring[n], SIZE);
		driver_ready(&rig.d, n, &rig.ring[n]);
	}
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
	assert_false(driver_needs_reset(&rig.d));
}

/* Buffer n of the ring is at rx_at + n * BUF_BYTES. */
static inline void guest_offers(unsigned count, uint32_t len)
{
	for (unsigned i = 0; i < count; i++) {
		const struct driver_buf buf = {rig.rx_at + rig.ring[RX].next * (uint64_t)BUF_BYTES, len, true};
		driver_chain(&rig.ring[RX], &buf, 1);
	}
	driver_kick(&rig.d, RX);
}

static inline void start(void)
{
	bring_up();
	guest_offers(SIZE - 1, BUF_BYTES);
}

static inline struct virtio_vsock_hdr header(unsigned op, uint32_t host_port, uint32_t guest_port)
{
	return (struct virtio_vsock_hdr){
		.src_cid = CID,
		.dst_cid = 2,
		.src_port = guest_port,
		.dst_port = host_port,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = (uint16_t)op,
		.buf_alloc = rig.room,
		.fwd_cnt = rig.took,
	};
}

/* Header and bytes in pieces of their own; len of the header says how many bytes. */
static inline void guest_sends_as(const struct virtio_vsock_hdr *h, unsigned seed)
{
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + HEADER, h->len, false}};
	uint32_t id, len;

	memcpy(driver_at(&rig.d, rig.tx_at), h, HEADER);
	fill(driver_at(&rig.d, rig.tx_at + HEADER), h->len, seed);
	driver_chain(&rig.ring[TX], bufs, h->len ? 2 : 1);
	driver_kick(&rig.d, TX);
	while (driver_used(&rig.ring[TX], &id, &len))
		assert_int_equal(len, 0);
}

static inline void guest_says(unsigned op, uint32_t host_port, uint32_t guest_port)
{
	const struct virtio_vsock_hdr h = header(op, host_port, guest_port);

	guest_sends_as(&h, 0);
}

static inline void guest_shuts(unsigned flags, uint32_t host_port, uint32_t guest_port)
{
	struct virtio_vsock_hdr h = header(VIRTIO_VSOCK_OP_SHUTDOWN, host_port, guest_port);

	h.flags = flags;
	guest_sends_as(&h, 0);
}

static inline void guest_writes(uint32_t len, unsigned seed, uint32_t host_port, uint32_t guest_port)
{
	struct virtio_vsock_hdr h = header(VIRTIO_VSOCK_OP_RW, host_port, guest_port);

	h.len = len;
	guest_sends_as(&h, seed);
}

/* The next packet, whose buffer is offered again; NULL: there is none. Bytes follow the header. */
static inline const struct virtio_vsock_hdr *guest_hears(void)
{
	static uint8_t packet[BUF_BYTES];
	uint32_t id, len;

	settle();
	if (!driver_used(&rig.ring[RX], &id, &len))
		return NULL;
	assert_in_range(len, HEADER, BUF_BYTES);
	memcpy(packet, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), len);
	const struct virtio_vsock_hdr *h = (const struct virtio_vsock_hdr *)(void *)packet;
	assert_int_equal(h->len, len - HEADER);
	guest_offers(1, BUF_BYTES);
	return h;
}

static inline struct virtio_vsock_hdr assert_hears(unsigned op, uint32_t host_port, uint32_t guest_port)
{
	const struct virtio_vsock_hdr *h = guest_hears();

	if (!h)
		fail_msg("operation %u does not come", op);
	assert_int_equal(h->op, op);
	assert_int_equal(h->src_cid, 2);
	assert_int_equal(h->dst_cid, CID);
	assert_int_equal(h->src_port, host_port);
	assert_int_equal(h->dst_port, guest_port);
	assert_int_equal(h->type, VIRTIO_VSOCK_TYPE_STREAM);
	return *h;
}

/* So many bytes in any number of packets, of that contents. Takes them: the next packet says so. */
static inline void assert_guest_reads(uint32_t len, unsigned seed)
{
	static uint8_t got[1 << 20], want[1 << 20];
	uint32_t done = 0;

	while (done < len) {
		const struct virtio_vsock_hdr *h = guest_hears();
		assert_non_null(h);
		assert_int_equal(h->op, VIRTIO_VSOCK_OP_RW);
		assert_true(h->len && done + h->len <= len);
		memcpy(got + done, h + 1, h->len);
		done += h->len;
	}
	fill(want, len, seed);
	assert_memory_equal(got, want, len);
	rig.took += len;
}

/* ---- the host ---- */

static inline struct sockaddr_un address_of(const char *suffix)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s%s", rig.path, suffix);
	return a;
}

static inline int host_connects(const char *line)
{
	const struct sockaddr_un a = address_of("");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	return fd;
}

static inline int host_listens(const char *suffix, int backlog)
{
	const struct sockaddr_un a = address_of(suffix);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

/* The host's text must be exactly that now. */
static inline void assert_host_reads(int fd, const char *text)
{
	char got[256];

	settle();
	ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
	got[n > 0 ? n : 0] = '\0';
	assert_string_equal(got, text);
}

static inline void assert_host_reads_bytes(int fd, uint32_t len, unsigned seed)
{
	static uint8_t got[1 << 20], want[1 << 20];
	uint32_t done = 0;

	while (done < len) {
		ssize_t n = recv(fd, got + done, len - done, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && step(1000))
			continue;
		assert_true(n > 0);
		done += (uint32_t)n;
	}
	fill(want, len, seed);
	assert_memory_equal(got, want, len);
}

/* The other end is shut. */
static inline void assert_host_is_at_end(int fd)
{
	char byte;

	settle();
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
}

/* ---- connections ---- */

/* Of the host to this port of the guest; the host's port. */
static inline uint32_t host_opens(int *fd, uint32_t guest_port)
{
	char text[48];

	snprintf(text, sizeof(text), "CONNECT %u\n", guest_port);
	*fd = host_connects(text);
	const struct virtio_vsock_hdr *h = guest_hears();
	assert_non_null(h);
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_REQUEST);
	assert_int_equal(h->dst_port, guest_port);
	uint32_t port = h->src_port;
	guest_says(VIRTIO_VSOCK_OP_RESPONSE, port, guest_port);
	snprintf(text, sizeof(text), "OK %u\n", port);
	assert_host_reads(*fd, text);
	return port;
}

/* Of the guest to a listener of the host's. */
static inline int guest_opens(int listener, uint32_t host_port, uint32_t guest_port)
{
	guest_says(VIRTIO_VSOCK_OP_REQUEST, host_port, guest_port);
	assert_hears(VIRTIO_VSOCK_OP_RESPONSE, host_port, guest_port);
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

#endif
