// SPDX-License-Identifier: Apache-2.0
/* test_virtio_net_hostile.c - what a driver may not do, and that the next driver finds a working device. */
#include "net_rig.h"

/* The device asks for a reset, and works after it. */
static void assert_broken_and_mends(void)
{
	settle();
	assert_true(driver_needs_reset(&rig.d));
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(2, 1526);
	peer_sends(100, 1);
	settle();
	assert_guest_receives(100, 1, 1);
	guest_sends(100, 2);
	/* What the hostile driver had sent before may come first. */
	assert_peer_receives(100, 2);
}

static void offer_chain(unsigned queue, const struct driver_buf *bufs, unsigned count)
{
	driver_chain(&rig.ring[queue], bufs, count);
	driver_kick(&rig.d, queue);
}

static void assert_dropped(void)
{
	uint32_t id = 0, len = 0;

	settle();
	assert_false(driver_needs_reset(&rig.d));
	assert_true(driver_used(&rig.ring[TX], &id, &len));
	assert_int_equal(len, 0);
	assert_false(peer_has_something());
	assert_int_equal(rig.host->tx.dropped, 1);
	assert_int_equal(rig.host->tx.frames, 0);
}

/* ---- sending ---- */

static void a_frame_shorter_than_its_header(void **state)
{
	const struct driver_buf buf = {rig.tx_at, HEADER - 1, false};

	(void)state;
	bring_up(0);
	offer_chain(TX, &buf, 1);
	assert_broken_and_mends();
}

static void a_header_alone(void **state)
{
	(void)state;
	bring_up(0);
	guest_sends(0, 0);
	assert_dropped();
}

static void a_frame_without_an_ethernet_header(void **state)
{
	(void)state;
	bring_up(0);
	guest_sends(13, 0);
	assert_dropped();
}

static void a_frame_that_is_too_long(void **state)
{
	(void)state;
	bring_up(0);
	guest_sends(NET_FRAME_MAX + 1, 0);
	assert_dropped();
}

static void a_gigantic_frame(void **state)
{
	struct driver_buf bufs[SIZE];

	(void)state;
	bring_up(0);
	for (unsigned i = 0; i < SIZE; i++)
		bufs[i] = (struct driver_buf){0, DRIVER_RAM, false};
	offer_chain(TX, bufs, SIZE);
	assert_dropped();
}

static void a_frame_in_as_many_pieces_as_there_can_be(void **state)
{
	struct driver_buf bufs[SIZE];
	uint32_t be;
	uint8_t got[SIZE];

	(void)state;
	bring_up(0);
	memset(driver_at(&rig.d, rig.tx_at), 0x55, SIZE);
	for (unsigned i = 0; i < SIZE; i++)
		bufs[i] = (struct driver_buf){rig.tx_at + i, 1, false};
	offer_chain(TX, bufs, SIZE);
	peer_reads(&be, 4);
	assert_int_equal(ntohl(be), SIZE - HEADER);
	peer_reads(got, SIZE - HEADER);
}

static void a_frame_to_be_written(void **state)
{
	const struct driver_buf bufs[] = {{rig.tx_at, 100, false}, {rig.tx_at, 100, true}};

	(void)state;
	bring_up(0);
	offer_chain(TX, bufs, 2);
	assert_broken_and_mends();
}

static void a_chain_in_a_circle(void **state)
{
	(void)state;
	for (unsigned queue = RX; queue <= TX; queue++) {
		bring_up(FEATURE(MRG_RXBUF));
		unsigned flags = VRING_DESC_F_NEXT | (queue == RX ? VRING_DESC_F_WRITE : 0u);
		driver_desc(&rig.ring[queue], 0, rig.rx_at, 100, flags, 1);
		driver_desc(&rig.ring[queue], 1, rig.rx_at, 100, flags, 0);
		driver_offer(&rig.ring[queue], 0);
		driver_kick(&rig.d, queue);
		if (queue == RX)
			peer_sends(100, 1);
		settle();
		assert_true(driver_needs_reset(&rig.d));
	}
}

static void addresses_outside_memory(void **state)
{
	const struct driver_buf out = {DRIVER_RAM - 10, 100, false}, in = {UINT64_MAX - 10, 100, true};

	(void)state;
	bring_up(0);
	offer_chain(TX, &out, 1);
	assert_broken_and_mends();
	offer_chain(RX, &in, 1);
	peer_sends(100, 1);
	settle();
	assert_true(driver_needs_reset(&rig.d));
}

/* ---- receiving ---- */

static void a_buffer_shorter_than_the_header(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(1, HEADER - 1);
	settle(); /* nobody needs it yet */
	peer_sends(100, 1);
	settle();
	assert_true(driver_needs_reset(&rig.d));
	assert_false(guest_has_received() && rig.ring[RX].used->ring[0].len);
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(1, 1526);
	settle();
	assert_guest_receives(100, 1, 1); /* the frame was not lost with the buffer */
}

static void a_buffer_for_the_header_only(void **state)
{
	(void)state;
	bring_up(0);
	guest_offers_many(1, HEADER);
	peer_sends(100, 1);
	settle();
	assert_false(driver_needs_reset(&rig.d));
	assert_false(guest_has_received());
	assert_int_equal(rig.host->rx.dropped, 1);
}

static void a_buffer_that_cannot_be_written(void **state)
{
	const struct driver_buf buf = {rig.rx_at, 1526, false};
	const struct driver_buf mixed[] = {{rig.rx_at, 100, false}, {rig.rx_at, 1526, true}};

	(void)state;
	bring_up(0);
	offer_chain(RX, &buf, 1);
	peer_sends(100, 1);
	settle();
	assert_true(driver_needs_reset(&rig.d));
	bring_up(0);
	offer_chain(RX, mixed, 2);
	settle();
	assert_true(driver_needs_reset(&rig.d));
}

static void more_buffers_than_the_queue_has(void **state)
{
	(void)state;
	bring_up(FEATURE(MRG_RXBUF));
	rig.ring[RX].avail->idx += SIZE + 1;
	driver_kick(&rig.d, RX);
	peer_sends(100, 1);
	settle();
	assert_true(driver_needs_reset(&rig.d));
}

/* ---- at odd times ---- */

static void nothing_works_before_the_driver_is_ready(void **state)
{
	(void)state;
	assert_true(driver_negotiate(&rig.d, 0));
	for (unsigned n = 0; n < 2; n++) {
		driver_ring_open(&rig.d, &rig.ring[n], SIZE);
		driver_ready(&rig.d, n, &rig.ring[n]);
	}
	guest_offers_many(4, 1526);
	guest_sends(100, 1);
	peer_sends(100, 2);
	settle();
	assert_false(peer_has_something() || guest_has_received());
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
	settle();
	assert_peer_receives(100, 1);
	assert_guest_receives(100, 2, 1);
}

static void kicks_of_queues_that_are_not_there(void **state)
{
	(void)state;
	bring_up(0);
	for (uint32_t n = 2; n; n <<= 1)
		driver_kick(&rig.d, n);
	driver_kick(&rig.d, UINT32_MAX);
	settle();
	assert_false(driver_needs_reset(&rig.d));
}

static void writes_to_the_configuration_change_nothing(void **state)
{
	(void)state;
	uint64_t mac = virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG, 8);
	for (unsigned at = 0; at < 64; at++)
		virtio_mmio_bus_ops.write(rig.d.t, VIRTIO_MMIO_CONFIG + at, 1, 0xff);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG, 8), mac);
}

static void resets_at_any_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		bring_up(i & 1 ? FEATURE(MRG_RXBUF) : 0);
		guest_offers_many(i % 7, 600);
		peer_sends(100 + i, i);
		if (i & 2)
			settle();
		guest_sends(100, i);
		if (i & 4)
			step(0);
		driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
		uint64_t rings = rig.rx_at + SIZE * BUF_BYTES;
		memset(driver_at(&rig.d, rings), 0, rig.d.heap - rings);
		rig.d.heap = rings;
		uint8_t all[4096];
		while (recv(rig.peer, all, sizeof(all), MSG_DONTWAIT) > 0)
			;
	}
	settle();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(a_frame_shorter_than_its_header),
		WITH_RIG(a_header_alone),
		WITH_RIG(a_frame_without_an_ethernet_header),
		WITH_RIG(a_frame_that_is_too_long),
		WITH_RIG(a_gigantic_frame),
		WITH_RIG(a_frame_in_as_many_pieces_as_there_can_be),
		WITH_RIG(a_frame_to_be_written),
		WITH_RIG(a_chain_in_a_circle),
		WITH_RIG(addresses_outside_memory),
		WITH_RIG(a_buffer_shorter_than_the_header),
		WITH_RIG(a_buffer_for_the_header_only),
		WITH_RIG(a_buffer_that_cannot_be_written),
		WITH_RIG(more_buffers_than_the_queue_has),
		WITH_RIG(nothing_works_before_the_driver_is_ready),
		WITH_RIG(kicks_of_queues_that_are_not_there),
		WITH_RIG(writes_to_the_configuration_change_nothing),
		WITH_RIG(resets_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
