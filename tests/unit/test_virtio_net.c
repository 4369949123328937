// SPDX-License-Identifier: Apache-2.0
/* test_virtio_net.c - frames through the network device, with a socket at the other end. */
#include "net_rig.h"

static void it_says_what_it_is(void **state)
{
	uint8_t mac[6];

	(void)state;
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_NET);
	uint64_t offered = driver_offered(&rig.d);
	assert_true(offered & FEATURE(MAC) && offered & FEATURE(STATUS) && offered & FEATURE(MRG_RXBUF));
	/* A socket has no headers, so nothing can be left to it, and there is one pair. */
	assert_false(offered & (FEATURE(CSUM) | FEATURE(GUEST_CSUM) | FEATURE(HOST_TSO4) | FEATURE(GUEST_TSO4)));
	assert_false(offered & (FEATURE(MQ) | FEATURE(CTRL_VQ) | FEATURE(MTU)));
	for (unsigned i = 0; i < 6; i++)
		mac[i] = (uint8_t)virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + i, 1);
	assert_int_equal(mac[0] & 3, 2);
	assert_memory_equal(mac, rig.host->mac, 6);
	assert_true(link_is_up());
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, 2);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
}

static int set_up_given(void **state)
{
	(void)state;
	return set_up_words(",mac=02:00:00:00:be:ef,mtu=9000,name=blue");
}

static void address_and_mtu_are_as_given(void **state)
{
	(void)state;
	assert_true(driver_offered(&rig.d) & FEATURE(MTU));
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG, 4), 0x00000002);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + 4, 2), 0xefbe);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + 10, 2), 9000);
}

static void frames_go_out(void **state)
{
	uint32_t id = 0, len = 0;

	(void)state;
	bring_up(0);
	for (unsigned i = 0; i < 200; i++) {
		uint16_t head = guest_sends(14 + i * 7, i);
		assert_true(driver_used(&rig.ring[TX], &id, &len));
		assert_int_equal(id, head);
		assert_int_equal(len, 0);
		assert_peer_receives(14 + i * 7, i);
	}
	assert_int_equal(rig.host->tx.frames, 200);
	assert_int_equal(rig.host->tx.dropped, 0);
}

static void frames_come_in(void **state)
{
	(void)state;
	bring_up(0);
	for (unsigned i = 0; i < 200; i++) {
		guest_offers_many(1, 1526);
		peer_sends(14 + i * 7, i);
		settle();
		assert_guest_receives(14 + i * 7, i, 1);
	}
	assert_int_equal(rig.host->rx.frames, 200);
	assert_int_equal(rig.host->rx.dropped, 0);
}

/* The header is in two descriptors, the frame in the second and a third. */
static void pieces_of_any_length_do(void **state)
{
	const struct driver_buf out[] = {
		{rig.tx_at, 5, false}, {rig.tx_at + 5, 50, false}, {rig.tx_at + 55, 57, false}};
	const struct driver_buf in[] = {{rig.rx_at, 7, true}, {rig.rx_at + 7, 4, true}, {rig.rx_at + 11, 500, true}};
	uint8_t *at = driver_at(&rig.d, rig.tx_at), want[100];
	uint32_t id = 0, len = 0;

	(void)state;
	bring_up(0);
	memset(at, 0xff, HEADER);
	fill(at + HEADER, 100, 3);
	driver_chain(&rig.ring[TX], out, 3);
	driver_kick(&rig.d, TX);
	assert_peer_receives(100, 3);

	driver_chain(&rig.ring[RX], in, 3);
	driver_kick(&rig.d, RX);
	peer_sends(100, 4);
	settle();
	assert_true(driver_used(&rig.ring[RX], &id, &len));
	assert_int_equal(len, HEADER + 100);
	fill(want, 100, 4);
	const uint8_t *got = driver_at(&rig.d, rig.rx_at);
	assert_memory_equal(got + HEADER, want, 100);
	assert_memory_equal(got, "\0\0\0\0\0\0\0\0\0\0\1\0", HEADER);
}

static void long_frames_are_spread_over_mergeable_buffers(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(60, 512);
	peer_sends(60, 1);
	peer_sends(500, 2);
	peer_sends(501, 3);
	peer_sends(9014, 4);
	peer_sends(61, 5);
	settle();
	assert_guest_receives(60, 1, 1);
	assert_guest_receives(500, 2, 1);
	assert_guest_receives(501, 3, 2);
	assert_guest_receives(9014, 4, 18);
	assert_guest_receives(61, 5, 1);
}

static void the_longest_frame_passes_both_ways(void **state)
{
	const uint32_t longest = NET_MTU_MAX + 14;

	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(60, 2048);
	peer_sends(longest, 9);
	settle();
	assert_guest_receives(longest, 9, 33);
	guest_sends(longest, 8);
	assert_peer_receives(longest, 8);
}

/* What does not fit waits in the host until there are buffers for all of it. */
static void a_frame_waits_for_buffers(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	peer_sends(1000, 1);
	peer_sends(1000, 2);
	settle();
	assert_false(guest_has_received());
	guest_offers_many(1, 512);
	settle();
	assert_false(guest_has_received());
	guest_offers_many(1, 512);
	settle();
	assert_guest_receives(1000, 1, 2);
	assert_false(guest_has_received());
	guest_offers_many(2, 512);
	settle();
	assert_guest_receives(1000, 2, 2);
	assert_int_equal(rig.host->rx.dropped, 0);
}

/* The driver has given all its buffers, and they are too small: the frame goes, the next one comes. */
static void a_frame_that_never_fits_is_dropped(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(SIZE, 16);
	peer_sends(2000, 1);
	peer_sends(100, 2);
	settle();
	assert_guest_receives(100, 2, 7);
	assert_int_equal(rig.host->rx.dropped, 1);
}

static void without_mergeable_buffers_a_frame_has_one(void **state)
{
	(void)state;
	bring_up(0);
	guest_offers_many(3, 512);
	peer_sends(501, 1);
	peer_sends(500, 2);
	settle();
	assert_guest_receives(500, 2, 1);
	assert_int_equal(rig.host->rx.dropped, 1);
	peer_sends(60, 3);
	settle();
	assert_guest_receives(60, 3, 1);
}

/* ------------------------------------------------------------------------------------- backpressure */

/* Frames that nobody reads fill the socket, then the queue, and nothing is lost; an idle loop meanwhile. */
static void a_peer_that_does_not_read_makes_frames_wait(void **state)
{
	unsigned sent = 0, given = 0, taken = 0;
	uint32_t id = 0, len = 0;

	(void)state;
	bring_up(0);
	/* Every frame is the same memory, so all of them look alike. */
	for (; rig.host->tx.waits == 0; sent++)
		guest_sends(1500, 1);
	for (; sent % 8; sent++)
		guest_sends(1500, 1);
	settle();
	while (driver_used(&rig.ring[TX], &id, &len))
		given++;
	assert_true(given < sent);
	for (; taken < sent; taken++)
		assert_peer_receives(1500, 1);
	settle();
	while (driver_used(&rig.ring[TX], &id, &len))
		given++;
	assert_int_equal(given, sent);
	assert_false(peer_has_something());
	assert_int_equal(rig.host->tx.dropped, 0);
}

/* A part of a frame is out: the rest follows, also when the guest resets in between. */
static void half_a_frame_is_completed_after_a_reset(void **state)
{
	unsigned sent = 0, taken = 0;
	uint32_t be;
	uint8_t frame[60000];

	(void)state;
	bring_up(0);
	for (; rig.host->tx.waits == 0 && sent < 30; sent++)
		guest_sends(60000, 1);
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	bring_up(0);
	guest_sends(60000, 2);
	for (;; taken++) {
		peer_reads(&be, 4);
		assert_int_equal(ntohl(be), 60000);
		peer_reads(frame, sizeof(frame));
		if (frame[0] == 2)
			break;
		assert_int_equal(frame[59999], (uint8_t)(59999 * 31 + (59999 >> 8) * 7 + 1));
	}
	assert_true(taken >= sent - 1 && taken <= sent);
}

static void an_incoming_frame_in_pieces_is_joined(void **state)
{
	uint8_t data[104] = {0, 0, 0, 100};

	(void)state;
	bring_up(0);
	guest_offers_many(4, 1526);
	fill(data + 4, 100, 7);
	for (unsigned i = 0; i < sizeof(data); i++) {
		assert_false(guest_has_received());
		peer_sends_raw(data + i, 1);
		settle();
	}
	assert_guest_receives(100, 7, 1);
}

static int set_up_limited(void **state)
{
	(void)state;
	return set_up_words(",rate=100000"); /* bursts of 10 kB */
}

static void a_limited_interface_waits_and_loses_nothing(void **state)
{
	unsigned got = 0;
	uint32_t id = 0, len = 0;

	(void)state;
	bring_up(0);
	guest_offers_many(40, 1526);
	for (unsigned i = 0; i < 20; i++) {
		guest_sends(1000, 1);
		peer_sends(1000, 1);
	}
	settle();
	while (driver_used(&rig.ring[TX], &id, &len))
		got++;
	assert_in_range(got, 9, 14);
	assert_in_range(rig.host->rx.frames, 9, 14);
	for (unsigned i = 0; i < 20; i++)
		assert_peer_receives(1000, 1);
	while (rig.host->rx.frames < 20)
		assert_true(step(1000));
	assert_int_equal(rig.host->tx.dropped + rig.host->rx.dropped, 0);
}

/* --------------------------------------------------------------------------------- the other end goes */

static void assert_link_lost(const char *text)
{
	assert_false(link_is_up());
	assert_int_equal(rig.warnings, 1);
	if (!strstr(rig.warning, text))
		fail_msg("'%s' does not say '%s'", rig.warning, text);
	/* The loop is quiet, and frames of the guest come back unsent. */
	settle();
	uint64_t dropped = rig.host->tx.dropped;
	guest_sends(100, 1);
	settle();
	assert_int_equal(rig.host->tx.dropped, dropped + 1);
	assert_int_equal(rig.warnings, 1);
	assert_false(driver_needs_reset(&rig.d));
}

static void a_peer_that_dies_takes_the_link_down(void **state)
{
	(void)state;
	bring_up(FEATURE(STATUS));
	guest_offers_many(4, 1526);
	uint32_t generation = driver_read(&rig.d, VIRTIO_MMIO_CONFIG_GENERATION);
	peer_sends(100, 5);
	close(rig.peer);
	rig.peer = -1;
	settle();
	assert_guest_receives(100, 5, 1); /* what it had sent still arrives */
	assert_int_not_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG_GENERATION), generation);
	assert_true(driver_read(&rig.d, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	assert_link_lost("net fd ");
}

static void sending_notices_as_well(void **state)
{
	(void)state;
	bring_up(FEATURE(STATUS));
	close(rig.peer);
	rig.peer = -1;
	guest_sends(100, 1);
	assert_link_lost("its other end has gone; the guest's link is down");
	/* It stays so for the next driver. */
	bring_up(FEATURE(STATUS));
	assert_false(link_is_up());
}

/* By reading or by writing, whichever the loop does first. */
static void a_peer_dies_while_frames_wait(bool reads)
{
	uint32_t id = 0, len = 0;
	unsigned sent = 0, given = 0;

	bring_up(FEATURE(STATUS));
	if (reads)
		guest_offers_many(4, 1526);
	for (; rig.host->tx.waits == 0; sent++)
		guest_sends(1500, 1);
	if (reads) { /* it says so before there is room in the socket again */
		shutdown(rig.peer, SHUT_WR);
	} else {
		close(rig.peer);
		rig.peer = -1;
	}
	settle();
	while (driver_used(&rig.ring[TX], &id, &len))
		given++;
	assert_int_equal(given, sent);
	assert_link_lost("net fd ");
}

static void writing_notices_that_a_peer_died(void **state)
{
	(void)state;
	a_peer_dies_while_frames_wait(false);
}

static void reading_notices_that_a_peer_died(void **state)
{
	(void)state;
	a_peer_dies_while_frames_wait(true);
}

static void a_peer_that_loses_its_way_is_as_good_as_gone(void **state)
{
	const uint8_t nonsense[] = {0xff, 0xff, 0xff, 0xff, 1, 2, 3};

	(void)state;
	bring_up(0);
	guest_offers_many(1, 1526);
	peer_sends_raw(nonsense, sizeof(nonsense));
	settle();
	assert_link_lost("net fd ");
}

static void runts_and_empty_frames_are_dropped(void **state)
{
	(void)state;
	bring_up(0);
	guest_offers_many(4, 1526);
	peer_sends(0, 0);
	peer_sends(13, 0);
	peer_sends(14, 6);
	settle();
	assert_guest_receives(14, 6, 1);
	assert_false(guest_has_received());
	assert_int_equal(rig.host->rx.dropped, 2);
}

/* ------------------------------------------------------------------------------------- resets */

static void a_reset_of_a_queue_loses_no_frame(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF) | 1ull << RING_RESET);
	guest_offers_many(1, 512);
	peer_sends(1000, 1); /* needs more than that: the buffer is held */
	settle();
	assert_false(guest_has_received());
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, RX);
	driver_write(&rig.d, REG_QUEUE_RESET, 1);
	driver_ring_open(&rig.d, &rig.ring[RX], SIZE);
	driver_ready(&rig.d, RX, &rig.ring[RX]);
	guest_offers_many(2, 1526);
	settle();
	assert_guest_receives(1000, 1, 1);
}

static void a_new_board_takes_over_the_host_end(void **state)
{
	(void)state;
	bring_up(0);
	guest_offers_many(1, 1526);
	guest_sends(60, 1);
	unplug();
	peer_sends(100, 2);
	plug();
	settle();
	bring_up(0);
	guest_offers_many(1, 1526);
	settle();
	assert_guest_receives(100, 2, 1);
	guest_sends(70, 3);
	assert_peer_receives(60, 1);
	assert_peer_receives(70, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(it_says_what_it_is),
		cmocka_unit_test_setup_teardown(address_and_mtu_are_as_given, set_up_given, tear_down),
		WITH_RIG(frames_go_out),
		WITH_RIG(frames_come_in),
		WITH_RIG(pieces_of_any_length_do),
		WITH_RIG(long_frames_are_spread_over_mergeable_buffers),
		WITH_RIG(the_longest_frame_passes_both_ways),
		WITH_RIG(a_frame_waits_for_buffers),
		WITH_RIG(a_frame_that_never_fits_is_dropped),
		WITH_RIG(without_mergeable_buffers_a_frame_has_one),
		WITH_RIG(a_peer_that_does_not_read_makes_frames_wait),
		WITH_RIG(half_a_frame_is_completed_after_a_reset),
		WITH_RIG(an_incoming_frame_in_pieces_is_joined),
		cmocka_unit_test_setup_teardown(a_limited_interface_waits_and_loses_nothing, set_up_limited, tear_down),
		WITH_RIG(a_peer_that_dies_takes_the_link_down),
		WITH_RIG(sending_notices_as_well),
		WITH_RIG(writing_notices_that_a_peer_died),
		WITH_RIG(reading_notices_that_a_peer_died),
		WITH_RIG(a_peer_that_loses_its_way_is_as_good_as_gone),
		WITH_RIG(runts_and_empty_frames_are_dropped),
		WITH_RIG(a_reset_of_a_queue_loses_no_frame),
		WITH_RIG(a_new_board_takes_over_the_host_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
