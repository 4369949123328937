// SPDX-License-Identifier: Apache-2.0
/* test_virtio_vsock_hostile.c - drivers that break the rules: RST or NEEDS_RESET, and nothing outside their buffers. */
#include "vsock_rig.h"

static int listener = -1;

static int set_up_open(void **state)
{
	set_up(state);
	start();
	listener = host_listens("_52", 100);
	return 0;
}

static int tear_down_open(void **state)
{
	close(listener);
	return tear_down(state);
}

#define OPEN(test) cmocka_unit_test_setup_teardown(test, set_up_open, tear_down_open)

static void assert_reset_of(uint32_t host_port, uint32_t guest_port, int fd)
{
	assert_hears(VIRTIO_VSOCK_OP_RST, host_port, guest_port);
	assert_host_is_at_end(fd);
	close(fd);
	settle();
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
	assert_false(driver_needs_reset(&rig.d));
}

static void more_than_the_credit(void **state)
{
	(void)state;
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	uint32_t room = assert_hears(VIRTIO_VSOCK_OP_RESPONSE, 52, 1).buf_alloc;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), size = 4096;
	uint32_t sent = 0;
	/* Nobody reads, and nobody looks at the credit. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	while (!atomic_load(&rig.host->counters.resets)) {
		guest_writes(60000, 0, 52, 1);
		sent += 60000;
		assert_true(sent < (1u << 20) + room);
	}
	const struct virtio_vsock_hdr *h = guest_hears();
	while (h && h->op == VIRTIO_VSOCK_OP_CREDIT_UPDATE)
		h = guest_hears();
	assert_non_null(h);
	assert_int_equal(h->op, VIRTIO_VSOCK_OP_RST);
	assert_non_null(strstr(rig.warning, "credit"));
	close(fd);
}

static void operations_that_do_not_exist(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 70000; op += op < 20 ? 1 : 9973) {
		if (op == VIRTIO_VSOCK_OP_REQUEST || op == VIRTIO_VSOCK_OP_RST)
			continue;
		guest_says(op, 52, 1); /* of a connection that does not, either */
		assert_hears(VIRTIO_VSOCK_OP_RST, 52, 1);
		if (op >= VIRTIO_VSOCK_OP_SHUTDOWN && op <= VIRTIO_VSOCK_OP_CREDIT_REQUEST)
			continue;
		int fd = guest_opens(listener, 52, 1);
		guest_says(op, 52, 1);
		assert_reset_of(52, 1, fd);
	}
	assert_true(rig.warnings <= LOG_GUEST_MAX);
}

static void a_request_for_what_is_open(void **state)
{
	(void)state;
	int fd = guest_opens(listener, 52, 1);
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	assert_reset_of(52, 1, fd);
}

static void bytes_behind_the_end(void **state)
{
	(void)state;
	int fd = guest_opens(listener, 52, 1);
	guest_shuts(VIRTIO_VSOCK_SHUTDOWN_SEND, 52, 1);
	guest_writes(10, 0, 52, 1);
	assert_reset_of(52, 1, fd);
}

static void other_contexts_and_types(void **state)
{
	struct virtio_vsock_hdr h = header(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	const struct virtio_vsock_hdr *answer;

	(void)state;
	h.type = VIRTIO_VSOCK_TYPE_SEQPACKET;
	guest_sends_as(&h, 0);
	answer = guest_hears();
	assert_int_equal(answer->op, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(answer->type, VIRTIO_VSOCK_TYPE_SEQPACKET);
	h.type = VIRTIO_VSOCK_TYPE_STREAM;
	h.dst_cid = 5;
	guest_sends_as(&h, 0);
	answer = guest_hears();
	assert_int_equal(answer->op, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(answer->src_cid, 5);
	h.dst_cid = 2;
	h.src_cid = CID + (1ull << 32);
	guest_sends_as(&h, 0);
	answer = guest_hears();
	assert_int_equal(answer->op, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(answer->dst_cid, CID);
	assert_int_equal(atomic_load(&rig.host->counters.opened), 0);
}

/* Answers find room, up to a bound; then the transmit queue waits for the receive queue, and goes on. */
static void strays_without_end(void **state)
{
	enum {
		COUNT = 500
	};
	uint32_t id, len, got = 0, unread = 0;

	(void)state;
	for (unsigned i = 0; i < SIZE - 1; i++) { /* use up what buffers there are */
		guest_says(VIRTIO_VSOCK_OP_RW, 9, i);
		settle();
	}
	const struct virtio_vsock_hdr h = header(VIRTIO_VSOCK_OP_RW, 9, 9);
	const struct driver_buf buf = {rig.tx_at, HEADER, false};
	memcpy(driver_at(&rig.d, rig.tx_at), &h, HEADER);
	for (unsigned i = 0; i < COUNT; i++) {
		if (unread < SIZE) {
			driver_chain(&rig.ring[TX], &buf, 1);
			unread++;
		}
		driver_kick(&rig.d, TX);
		settle();
		while (driver_used(&rig.ring[TX], &id, &len))
			unread--;
	}
	assert_int_equal(unread, SIZE); /* it stopped */
	for (unsigned i = 0; i < 1000 && guest_hears(); i++)
		got++;
	while (driver_used(&rig.ring[TX], &id, &len))
		unread--;
	assert_int_equal(unread, 0);
	assert_true(got > SIZE);
	assert_false(driver_needs_reset(&rig.d));
}

static void credit_that_cannot_be(void **state)
{
	static const uint32_t words[] = {0, 1, 43, 44, 1u << 16, 1u << 31, UINT32_MAX};
	char data[1000] = {0};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		for (unsigned j = 0; j < ARRAY_SIZE(words); j++) {
			rig.room = words[i];
			rig.took = words[j];
			guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
			assert_hears(VIRTIO_VSOCK_OP_RESPONSE, 52, 1);
			int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
			send(fd, data, sizeof(data), MSG_NOSIGNAL);
			settle();
			while (guest_hears())
				;
			guest_says(VIRTIO_VSOCK_OP_CREDIT_UPDATE, 52, 1);
			guest_says(VIRTIO_VSOCK_OP_RST, 52, 1);
			while (guest_hears())
				;
			close(fd);
		}
	}
	settle();
	assert_int_equal(atomic_load(&rig.host->counters.now), 0);
}

/* ---- what needs a reset ---- */

static void sends_chain(const struct driver_buf *bufs, unsigned count, uint32_t len)
{
	struct virtio_vsock_hdr h = header(VIRTIO_VSOCK_OP_REQUEST, 52, 1);

	h.len = len;
	memcpy(driver_at(&rig.d, rig.tx_at), &h, HEADER);
	driver_chain(&rig.ring[TX], bufs, count);
	driver_kick(&rig.d, TX);
	settle();
}

static void assert_broken_and_mended(void)
{
	int fd;

	assert_true(driver_needs_reset(&rig.d));
	assert_int_equal(rig.warnings, 1);
	start();
	host_opens(&fd, 10);
	close(fd);
}

static void a_packet_shorter_than_its_header(void **state)
{
	const struct driver_buf buf = {rig.tx_at, HEADER - 1, false};

	(void)state;
	sends_chain(&buf, 1, 0);
	assert_broken_and_mended();
}

static void a_packet_shorter_than_it_says(void **state)
{
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + 4096, 100, false}};

	(void)state;
	sends_chain(bufs, 2, 101);
	assert_broken_and_mended();
}

static void a_packet_of_four_gigabytes(void **state)
{
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + 4096, 100, false}};

	(void)state;
	sends_chain(bufs, 2, UINT32_MAX);
	assert_broken_and_mended();
}

static void a_packet_to_be_written(void **state)
{
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + 4096, 100, true}};

	(void)state;
	sends_chain(bufs, 2, 0);
	assert_broken_and_mended();
}

static void a_receive_buffer_without_room(void **state)
{
	(void)state;
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	bring_up();
	guest_offers(1, HEADER - 1);
	assert_false(driver_needs_reset(&rig.d)); /* nobody looked */
	guest_says(VIRTIO_VSOCK_OP_RW, 52, 1);
	assert_broken_and_mended();
}

/* Headers fit, bytes never will. */
static void a_receive_buffer_for_headers(void **state)
{
	int fd;

	(void)state;
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	bring_up();
	guest_offers(20, HEADER);
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fd >= 0);
	settle();
	assert_true(driver_needs_reset(&rig.d) || send(fd, "x", 1, 0) == 1);
	settle();
	assert_broken_and_mended();
	close(fd);
}

static void an_event_buffer_that_is_too_small(void **state)
{
	int fd;

	(void)state;
	host_opens(&fd, 10);
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	bring_up();
	const struct driver_buf buf = {rig.tx_at, 3, true};
	driver_chain(&rig.ring[EVENT], &buf, 1);
	driver_kick(&rig.d, EVENT);
	assert_true(driver_needs_reset(&rig.d));
	close(fd);
	settle();
	fd = host_connects("CONNECT 1\n"); /* nobody is there for it */
	settle();
	close(fd);
}

/* Bytes go where the buffer is and nowhere else, in whatever pieces it comes. */
static void buffers_in_pieces(void **state)
{
	int fd;
	uint32_t id, len;
	uint8_t data[300], *at = driver_at(&rig.d, rig.rx_at);

	(void)state;
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	bring_up();
	memset(at, 0xee, 64 * 1024);
	struct driver_buf bufs[12];
	for (unsigned i = 0; i < ARRAY_SIZE(bufs); i++) /* 11 bytes each, 1000 apart: 44 + 88 */
		bufs[i] = (struct driver_buf){rig.rx_at + i * 1000ull, 11, true};
	for (unsigned i = 0; i < 4; i++)
		driver_chain(&rig.ring[RX], bufs, ARRAY_SIZE(bufs));
	driver_kick(&rig.d, RX);
	guest_says(VIRTIO_VSOCK_OP_REQUEST, 52, 1);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	fill(data, sizeof(data), 1);
	assert_int_equal(send(fd, data, 50, 0), 50);
	settle();
	assert_true(driver_used(&rig.ring[RX], &id, &len));
	assert_int_equal(len, HEADER);
	assert_true(driver_used(&rig.ring[RX], &id, &len));
	assert_int_equal(len, HEADER + 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(at[(4 + i / 11) * 1000 + i % 11], data[i]);
	for (unsigned i = 0; i < 12000; i++)
		if (i % 1000 >= 11 || i > 8 * 1000 + 5)
			assert_int_equal(at[i], 0xee);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OPEN(more_than_the_credit),
		OPEN(operations_that_do_not_exist),
		OPEN(a_request_for_what_is_open),
		OPEN(bytes_behind_the_end),
		OPEN(other_contexts_and_types),
		OPEN(strays_without_end),
		OPEN(credit_that_cannot_be),
		OPEN(a_packet_shorter_than_its_header),
		OPEN(a_packet_shorter_than_it_says),
		OPEN(a_packet_of_four_gigabytes),
		OPEN(a_packet_to_be_written),
		OPEN(a_receive_buffer_without_room),
		OPEN(a_receive_buffer_for_headers),
		OPEN(an_event_buffer_that_is_too_small),
		OPEN(buffers_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
