// SPDX-License-Identifier: Apache-2.0
/* test_virtio_vsock.c - the device as drivers and hosts use it: both directions, half close, reset, credit, restarts.
 */
#include "vsock_rig.h"

#include <malloc.h>

enum {
	SHUT_BOTH = VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND,
};

static void says_who_it_is(void **state)
{
	(void)state;
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_VSOCK);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), CID);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + 4), 0);
	assert_true(driver_offered(&rig.d) & 1); /* streams */
}

static void the_host_opens_a_connection(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 1024);
	assert_int_equal(send(fd, "hello", 5, 0), 5);
	settle();
	const struct virtio_vsock_hdr *h = guest_hears();
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(h->len, 5);
	assert_memory_equal(h + 1, "hello", 5);
	guest_writes(1000, 3, port, 1024);
	assert_host_reads_bytes(fd, 1000, 3);
	assert_int_equal(atomic_load(&rig.host->counters.opened), 1);
	close(fd);
}

static void what_follows_the_line_is_not_lost(void **state)
{
	(void)state;
	start();
	int fd = host_connects("CONNECT 5\nmore");
	uint32_t port = guest_hears()->src_port;
	assert_null(guest_hears()); /* nothing before the guest agreed */
	close(fd);                  /* even if the host has gone already */
	assert_null(guest_hears());
	guest_says(VIRTIO_VSOCK_OP_RESPONSE, port, 5);
	const struct virtio_vsock_hdr *h = guest_hears();
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(h + 1, "more", 4);
	do
		h = guest_hears();
	while (h && h->op == VIRTIO_VSOCK_OP_SHUTDOWN && h->flags != SHUT_BOTH);
	assert_non_null(h);
}

static void a_line_may_come_in_pieces(void **state)
{
	(void)state;
	start();
	int fd = host_connects("CONN");
	assert_null(guest_hears());
	assert_int_equal(send(fd, "ECT 4294967295", 14, 0), 14);
	assert_null(guest_hears());
	assert_int_equal(send(fd, "\r\n", 2, 0), 2);
	const struct virtio_vsock_hdr *h = guest_hears();
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_REQUEST);
	assert_int_equal(h->dst_port, UINT32_MAX);
	close(fd);
}

static void other_lines_are_hung_up_on(void **state)
{
	static const char *const lines[] = {"CONNECT\n",
	                                    "CONNECT x\n",
	                                    "CONNECT 4294967296\n",
	                                    "CONNECT 1 \n",
	                                    "CONNECT -1\n",
	                                    "GET / HTTP\n",
	                                    "\n",
	                                    "CONNECT  1\n",
	                                    "CONNECT 1\r\r\n",
	                                    "CONNECT 1\n\n",
	                                    "CONNECT 000000000000000000000000001"};

	char byte;

	(void)state;
	start();
	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++) {
		int fd = host_connects(lines[i]);
		if (!strcmp(lines[i], "CONNECT 1\n\n")) { /* a good one with a byte behind it */
			assert_int_equal(guest_hears()->op, VIRTIO_VSOCK_OP_REQUEST);
		} else {
			settle();
			assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
			assert_null(guest_hears());
		}
		close(fd);
	}
}

static void the_guest_says_no(void **state)
{
	(void)state;
	start();
	int fd = host_connects("CONNECT 9\n");
	uint32_t port = guest_hears()->src_port;
	guest_says(VIRTIO_VSOCK_OP_RST, port, 9);
	assert_host_is_at_end(fd);
	assert_null(guest_hears()); /* no answer to an answer */
	assert_int_equal(atomic_load(&rig.host->counters.refused), 1);
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
	close(fd);
}

static void a_host_that_waits_no_more_is_taken_back(void **state)
{
	(void)state;
	start();
	int fd = host_connects("CONNECT 9\n");
	uint32_t port = guest_hears()->src_port;
	close(fd);
	assert_hears(VIRTIO_VSOCK_OP_RST, port, 9);
	guest_says(VIRTIO_VSOCK_OP_RESPONSE, port, 9); /* too late */
	assert_hears(VIRTIO_VSOCK_OP_RST, port, 9);
}

static void the_guest_opens_a_connection(void **state)
{
	(void)state;
	start();
	int listener = host_listens("_52", 8);
	int fd = guest_opens(listener, 52, 7000);
	guest_writes(100, 1, 52, 7000);
	assert_host_reads_bytes(fd, 100, 1);
	assert_int_equal(send(fd, "answer", 6, 0), 6);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_RW, 52, 7000).len, 6);
	close(fd);
	close(listener);
}

static void nobody_listens_for_the_guest(void **state)
{
	(void)state;
	start();
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 7000);
	assert_hears(VIRTIO_VSOCK_OP_RST, 52, 7000);
	close(host_listens("_53", 1)); /* a file without a listener */
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 53, 7000);
	assert_hears(VIRTIO_VSOCK_OP_RST, 53, 7000);
	assert_int_equal(atomic_load(&rig.host->counters.refused), 2);
}

/* A listener that is behind is not one that is not there. */
static void a_full_listener_is_tried_again(void **state)
{
	int listener, fd = -1;
	unsigned calls = 0;

	(void)state;
	start();
	listener = host_listens("_52", 0);
	do
		guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 7000 + calls);
	while (++calls < 5); /* the backlog takes one */
	assert_hears(VIRTIO_VSOCK_OP_RESPONSE, 52, 7000);
	assert_null(guest_hears());
	for (unsigned i = 0; i < calls; i++) {
		while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
			assert_true(step(1000));
		close(fd);
	}
	close(listener);
}

static void half_closes_are_halves(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 10);
	shutdown(fd, SHUT_WR);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_SHUTDOWN, port, 10).flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_writes(500, 5, port, 10); /* the other half goes on */
	assert_host_reads_bytes(fd, 500, 5);
	guest_shuts(VIRTIO_VSOCK_SHUTDOWN_SEND, port, 10);
	assert_host_is_at_end(fd);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_SHUTDOWN, port, 10).flags, SHUT_BOTH); /* nothing is left */
	guest_shuts(SHUT_BOTH, port, 10);
	assert_hears(VIRTIO_VSOCK_OP_RST, port, 10);
	close(fd);
	assert_null(guest_hears());
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
}

static void the_guest_closes_its_sending_half(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 10);
	guest_writes(300, 2, port, 10);
	guest_shuts(VIRTIO_VSOCK_SHUTDOWN_SEND, port, 10);
	assert_host_reads_bytes(fd, 300, 2);
	assert_host_is_at_end(fd);
	assert_int_equal(send(fd, "late", 4, MSG_NOSIGNAL), 4);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_RW, port, 10).len, 4);
	close(fd);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_SHUTDOWN, port, 10).flags, SHUT_BOTH);
	guest_says(VIRTIO_VSOCK_OP_RST, port, 10);
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
}

static void the_guest_reads_no_more(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 10);
	guest_shuts(VIRTIO_VSOCK_SHUTDOWN_RCV, port, 10);
	settle();
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	guest_writes(10, 0, port, 10);
	assert_host_reads_bytes(fd, 10, 0);
	close(fd);
}

static void a_host_that_dies_unread_resets(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 10);
	guest_writes(100, 0, port, 10);
	close(fd); /* with bytes it did not read */
	assert_hears(VIRTIO_VSOCK_OP_RST, port, 10);
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
	guest_writes(100, 0, port, 10); /* does not hurt */
	assert_hears(VIRTIO_VSOCK_OP_RST, port, 10);
	assert_false(driver_needs_reset(&rig.d));
}

static void bytes_of_a_guest_that_left_are_delivered(void **state)
{
	const uint32_t piece = 32768;
	unsigned sent = 0;

	(void)state;
	start();
	int listener = host_listens("_52", 8), fd = guest_opens(listener, 52, 1);
	/* Until the host's socket is full and our room holds the rest. */
	while (!atomic_load(&rig.host->counters.waits)) {
		guest_writes(piece, sent, 52, 1);
		assert_true(++sent < 100);
	}
	guest_shuts(SHUT_BOTH, 52, 1);
	const struct virtio_vsock_hdr *h = guest_hears();
	while (h && h->op == VIRTIO_VSOCK_OP_CREDIT_UPDATE)
		h = guest_hears();
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_RST); /* the guest does not wait for the host */
	assert_int_equal(atomic_load(&rig.host->counters.now), 1);
	for (unsigned i = 0; i < sent; i++)
		assert_host_reads_bytes(fd, piece, i);
	assert_host_is_at_end(fd);
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
	close(fd);
	close(listener);
}

/* Sends as a guest may: within the credit. How many pieces went before there was none. */
static unsigned write_all_there_is_credit_for(uint32_t piece, uint32_t room)
{
	uint32_t sent = 0, passed = 0;
	unsigned pieces = 0;

	for (const struct virtio_vsock_hdr *h;;) {
		while ((h = guest_hears())) {
			room = h->buf_alloc;
			passed = h->fwd_cnt;
		}
		if (room - (sent - passed) < piece)
			return pieces;
		guest_writes(piece, pieces++, 52, 1);
		sent += piece;
		assert_true(pieces < 1000);
	}
}

static void a_host_that_never_reads_stops_the_guest_and_loses_nothing(void **state)
{
	const uint32_t piece = 4096;
	int other;

	(void)state;
	start();
	int listener = host_listens("_52", 8);
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	uint32_t room = assert_hears(VIRTIO_VSOCK_OP_RESPONSE, 52, 1).buf_alloc;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	unsigned pieces = write_all_there_is_credit_for(piece, room);
	assert_false(driver_needs_reset(&rig.d));
	/* Another connection does not notice. */
	uint32_t port = host_opens(&other, 99);
	guest_writes(2000, 8, port, 99);
	assert_host_reads_bytes(other, 2000, 8);
	for (unsigned i = 0; i < pieces; i++)
		assert_host_reads_bytes(fd, piece, i);
	/* And then the guest hears that it may go on: of half of the room at least. */
	struct virtio_vsock_hdr h = assert_hears(VIRTIO_VSOCK_OP_CREDIT_UPDATE, 52, 1);
	for (const struct virtio_vsock_hdr *more; (more = guest_hears());)
		h = *more;
	assert_in_range(pieces * piece - h.fwd_cnt, 0, h.buf_alloc / 2);
	close(fd);
	close(other);
	close(listener);
}

static void a_guest_that_never_reads_stops_the_host_and_loses_nothing(void **state)
{
	static uint8_t data[1 << 16];
	uint32_t total = 0;
	int fd, other;

	(void)state;
	rig.room = 10000;
	start();
	uint32_t port = host_opens(&fd, 10);
	fill(data, sizeof(data), 6);
	while (total < 60000) {
		ssize_t n = send(fd, data + total, 60000 - total, MSG_DONTWAIT);
		assert_true(n > 0);
		total += (uint32_t)n;
	}
	uint32_t got = 0;
	const struct virtio_vsock_hdr *h;
	while ((h = guest_hears()) && h->op == VIRTIO_VSOCK_OP_RW) {
		assert_memory_equal(h + 1, data + got, h->len);
		got += h->len;
	}
	assert_int_equal(got, 10000); /* as much as it has room for */
	assert_non_null(h);           /* and is asked once whether there is more */
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
	assert_null(guest_hears());
	uint32_t second = host_opens(&other, 11);
	assert_int_equal(send(other, "x", 1, 0), 1);
	assert_int_equal(assert_hears(VIRTIO_VSOCK_OP_RW, second, 11).len, 1);
	while (got < total) {
		rig.took = got;
		guest_says(VIRTIO_VSOCK_OP_CREDIT_UPDATE, port, 10);
		while ((h = guest_hears())) {
			if (h->op != VIRTIO_VSOCK_OP_RW)
				continue;
			assert_memory_equal(h + 1, data + got, h->len);
			got += h->len;
			assert_true(got - rig.took <= rig.room);
		}
	}
	close(fd);
	close(other);
}

static void a_question_for_credit_is_answered(void **state)
{
	int fd;

	(void)state;
	start();
	uint32_t port = host_opens(&fd, 10);
	guest_writes(10, 0, port, 10);
	guest_says(VIRTIO_VSOCK_OP_CREDIT_REQUEST, port, 10);
	struct virtio_vsock_hdr h = assert_hears(VIRTIO_VSOCK_OP_CREDIT_UPDATE, port, 10);
	assert_int_equal(h.fwd_cnt, 10);
	assert_in_range(h.buf_alloc, 4096, 1 << 20);
	close(fd);
}

/* A packet in the buffer that was used next. */
static const struct virtio_vsock_hdr *used_packet(void)
{
	uint32_t id, len;

	return driver_used(&rig.ring[RX], &id, &len)
	               ? (const void *)driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES)
	               : NULL;
}

static void packets_wait_for_buffers_and_take_turns(void **state)
{
	enum {
		COUNT = 8
	};
	static uint8_t data[3 * BUF_BYTES];
	const struct virtio_vsock_hdr *h;
	char text[48];
	int fds[COUNT];
	unsigned seen = 0;

	(void)state;
	bring_up();
	guest_offers(COUNT, BUF_BYTES);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(text, sizeof(text), "CONNECT %u\n", i);
		fds[i] = host_connects(text);
		settle();
		h = used_packet();
		assert_non_null(h);
		guest_says(VIRTIO_VSOCK_OP_RESPONSE, h->src_port, i);
	}
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(send(fds[i], data, sizeof(data), 0), sizeof(data));
	settle(); /* it sleeps, though there is nothing it could do with the bytes */
	assert_null(used_packet());
	guest_offers(COUNT, BUF_BYTES);
	settle();
	while ((h = used_packet())) {
		assert_int_equal(h->op, VIRTIO_VSOCK_OP_RW);
		seen |= 1u << h->dst_port;
	}
	assert_int_equal(seen, (1u << COUNT) - 1); /* one packet of each */
	for (unsigned i = 0; i < COUNT; i++)
		close(fds[i]);
}

static void a_reset_cuts_and_the_next_driver_hears_of_it(void **state)
{
	uint32_t id, len, event = 99;
	int fd;

	(void)state;
	start();
	host_opens(&fd, 10);
	unplug();
	assert_host_is_at_end(fd);
	close(fd);
	plug();
	start();
	const struct driver_buf buf = {rig.tx_at, sizeof(event), true};
	memset(driver_at(&rig.d, rig.tx_at), 0xff, sizeof(event));
	driver_chain(&rig.ring[EVENT], &buf, 1);
	driver_kick(&rig.d, EVENT);
	assert_true(driver_used(&rig.ring[EVENT], &id, &len));
	assert_int_equal(len, sizeof(event));
	memcpy(&event, driver_at(&rig.d, rig.tx_at), sizeof(event));
	assert_int_equal(event, VIRTIO_VSOCK_EVENT_TRANSPORT_RESET);
	driver_chain(&rig.ring[EVENT], &buf, 1);
	driver_kick(&rig.d, EVENT);
	settle();
	assert_false(driver_used(&rig.ring[EVENT], &id, &len)); /* once */
	host_opens(&fd, 10);                                    /* the name is still ours */
	close(fd);
}

static void a_queue_that_is_reset_cuts_and_says_so(void **state)
{
	uint32_t id, len;
	int fd;

	(void)state;
	start();
	const struct driver_buf buf = {rig.tx_at, 8, true};
	driver_chain(&rig.ring[EVENT], &buf, 1);
	driver_kick(&rig.d, EVENT);
	host_opens(&fd, 10);
	assert_false(driver_used(&rig.ring[EVENT], &id, &len));
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, RX);
	driver_write(&rig.d, REG_QUEUE_RESET, 1);
	assert_host_is_at_end(fd);
	assert_true(driver_used(&rig.ring[EVENT], &id, &len));
	close(fd);
	driver_ring_open(&rig.d, &rig.ring[RX], SIZE);
	driver_ready(&rig.d, RX, &rig.ring[RX]);
	guest_offers(SIZE - 1, BUF_BYTES);
	host_opens(&fd, 10);
	close(fd);
}

static void hosts_wait_while_there_is_no_driver(void **state)
{
	(void)state;
	int fd = host_connects("CONNECT 10\n");
	char byte;

	settle();
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	start();
	assert_int_equal(guest_hears()->op, VIRTIO_VSOCK_OP_REQUEST);
	close(fd);
}

static void thousands_of_connections(void **state)
{
	enum {
		COUNT = 2000
	};
	static int fds[COUNT];
	struct rlimit limit;
	unsigned count = COUNT;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < 2 * COUNT + 100)
		count = (unsigned)(limit.rlim_cur - 100) / 2;
	start();
	for (unsigned i = 0; i < count; i++)
		host_opens(&fds[i], i % 3);
	assert_int_equal(atomic_load(&rig.host->counters.now), count);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	for (unsigned i = 0; i < count; i++) {
		const struct virtio_vsock_hdr *h = guest_hears();
		while (h->op != VIRTIO_VSOCK_OP_SHUTDOWN || h->flags != SHUT_BOTH)
			h = guest_hears();
		guest_says(VIRTIO_VSOCK_OP_RST, h->src_port, h->dst_port);
	}
	settle();
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
}

static void the_file_goes_with_the_device(void **state)
{
	struct lull_error err;
	struct stat st;
	char spec[96];

	(void)state;
	assert_int_equal(stat(rig.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(spec, sizeof(spec), "cid=9,socket=%s", rig.path);
	assert_null(vsock_host_open(spec, NULL, &err));
	assert_non_null(strstr(err.text, "in use"));
	snprintf(spec, sizeof(spec), "cid=9,socket=%s_1", rig.path);
	struct vsock_host *h = vsock_host_open(spec, NULL, &err);
	assert_non_null(h);
	vsock_host_close(h);
	snprintf(spec, sizeof(spec), "%s_1", rig.path);
	assert_int_equal(stat(spec, &st), -1);
}

/* What connections need comes with them, and goes. */
static void idle_memory_is_small(void **state)
{
	size_t before = mallinfo2().uordblks, idle;
	int fd;

	(void)state;
	unplug();
	idle = before - mallinfo2().uordblks;
	assert_true(idle < 65536);
	plug();
	start();
	before = mallinfo2().uordblks;
	host_opens(&fd, 10);
	assert_true(mallinfo2().uordblks - before < 1024);
	close(fd);
	assert_int_equal(guest_hears()->op, VIRTIO_VSOCK_OP_SHUTDOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(says_who_it_is),
		WITH_RIG(the_host_opens_a_connection),
		WITH_RIG(what_follows_the_line_is_not_lost),
		WITH_RIG(a_line_may_come_in_pieces),
		WITH_RIG(other_lines_are_hung_up_on),
		WITH_RIG(the_guest_says_no),
		WITH_RIG(a_host_that_waits_no_more_is_taken_back),
		WITH_RIG(the_guest_opens_a_connection),
		WITH_RIG(nobody_listens_for_the_guest),
		WITH_RIG(a_full_listener_is_tried_again),
		WITH_RIG(half_closes_are_halves),
		WITH_RIG(the_guest_closes_its_sending_half),
		WITH_RIG(the_guest_reads_no_more),
		WITH_RIG(a_host_that_dies_unread_resets),
		WITH_RIG(bytes_of_a_guest_that_left_are_delivered),
		WITH_RIG(a_host_that_never_reads_stops_the_guest_and_loses_nothing),
		WITH_RIG(a_guest_that_never_reads_stops_the_host_and_loses_nothing),
		WITH_RIG(a_question_for_credit_is_answered),
		WITH_RIG(packets_wait_for_buffers_and_take_turns),
		WITH_RIG(a_reset_cuts_and_the_next_driver_hears_of_it),
		WITH_RIG(a_queue_that_is_reset_cuts_and_says_so),
		WITH_RIG(hosts_wait_while_there_is_no_driver),
		WITH_RIG(thousands_of_connections),
		WITH_RIG(idle_memory_is_small),
		WITH_RIG(the_file_goes_with_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
