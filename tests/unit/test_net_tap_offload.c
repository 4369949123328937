// SPDX-License-Identifier: Apache-2.0
/* test_net_tap_offload.c - what is left to the host: checksums, segmentation; and several pairs of queues. */
#include "tap_rig.h"

static const uint64_t offloads = FEATURE(MRG_RXBUF) | FEATURE(CSUM) | FEATURE(GUEST_CSUM) | FEATURE(HOST_TSO4) |
                                 FEATURE(HOST_TSO6) | FEATURE(GUEST_TSO4) | FEATURE(GUEST_TSO6);

static void offloads_are_offered(void **state)
{
	(void)state;
	NEEDS_TAP();
	memset(&rig, 0, sizeof(rig));
	open_rig("tap=vm0");
	rig.peer = -1;
	assert_int_equal(driver_offered(&rig.d) & offloads, offloads);
	close_tap();
}

/* TCP over IPv4, 20 kB in one frame; nothing in it has a checksum yet. */
static size_t make_tcp(uint8_t *frame, size_t payload)
{
	size_t len = 14 + 20 + 20 + payload, ip = len - 14;

	memset(frame, 0, len);
	memset(frame, 0xff, 6);
	memset(frame + 6, 2, 6);
	frame[12] = 0x08;
	frame[14] = 0x45;
	frame[16] = (uint8_t)(ip >> 8);
	frame[17] = (uint8_t)ip;
	frame[22] = 64;
	frame[23] = 6;
	frame[26 + 3] = frame[30 + 3] = 1;
	frame[34 + 12] = 5 << 4;
	fill(frame + 54, payload, 1);
	return len;
}

static void a_large_segment_of_the_guest_goes_out_whole(void **state)
{
	struct virtio_net_hdr_v1 header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = 54,
		.gso_size = 1448,
		.csum_start = 34,
		.csum_offset = 16,
	};
	static uint8_t got[30000];

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", offloads);
	close(rig.peer);
	rig.peer = packet_socket("vm0", ETH_P_ALL);
	uint8_t *tx = driver_at(&rig.d, rig.tx_at);
	size_t len = make_tcp(tx + HEADER, 20000);
	memcpy(tx, &header, sizeof(header));
	const struct driver_buf bufs[] = {{rig.tx_at, HEADER, false}, {rig.tx_at + HEADER, (uint32_t)len, false}};
	driver_chain(&rig.ring[TX], bufs, 2);
	driver_kick(&rig.d, TX);
	assert_int_equal(rig.host->tx.frames, 1);
	assert_int_equal(recv(rig.peer, got, sizeof(got), MSG_DONTWAIT), len);
	assert_memory_equal(got + 54, tx + HEADER + 54, 20000);
	close_tap();
}

/* The other way: a second guest's segment, so to say, through a packet socket that speaks headers. Its length. */
static size_t host_sends_segment(void)
{
	static uint8_t out[sizeof(struct virtio_net_hdr) + 30000];
	struct virtio_net_hdr header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = 54,
		.gso_size = 1448,
		.csum_start = 34,
		.csum_offset = 16,
	};
	int one = 1;

	close(rig.peer);
	rig.peer = packet_socket("vm0", ETH_P_IP);
	assert_int_equal(setsockopt(rig.peer, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
	memcpy(out, &header, sizeof(header));
	size_t len = make_tcp(out + sizeof(header), 20000);
	assert_int_equal(send(rig.peer, out, sizeof(header) + len, 0), sizeof(header) + len);
	return len;
}

static void a_large_segment_for_the_guest_comes_in_whole(void **state)
{
	struct virtio_net_hdr_v1 got;
	uint32_t id = 0, bytes = 0;

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", offloads);
	guest_offers_many(60, 1526);
	size_t len = host_sends_segment();
	settle();
	assert_true(driver_used(&rig.ring[RX], &id, &bytes));
	memcpy(&got, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), sizeof(got));
	assert_int_equal(got.gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
	assert_int_equal(got.gso_size, 1448);
	assert_int_equal(got.num_buffers, (HEADER + len + 1525) / 1526);
	assert_int_equal(rig.ring[RX].used->idx, got.num_buffers);
	close_tap();
}

/* One for a driver that wanted none, after one that did, is cut up by the kernel. */
static void a_large_segment_comes_in_pieces_without_offloads(void **state)
{
	struct virtio_net_hdr_v1 got;
	uint32_t id = 0, bytes = 0;

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", offloads);
	bring_up(FEATURE(MRG_RXBUF));
	guest_offers_many(60, 1526);
	host_sends_segment();
	settle();
	for (unsigned i = 0; i < (20000 + 1447) / 1448; i++) {
		assert_true(driver_used(&rig.ring[RX], &id, &bytes));
		memcpy(&got, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), sizeof(got));
		assert_int_equal(got.gso_type | got.flags, 0);
		assert_int_equal(got.num_buffers, 1);
		assert_true(bytes <= HEADER + 14 + 1500);
	}
	assert_false(guest_has_received());
	close_tap();
}

static void a_header_that_cannot_be_costs_its_frame_only(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", offloads);
	uint8_t *tx = driver_at(&rig.d, rig.tx_at);
	const struct driver_buf buf = {rig.tx_at, HEADER + 60, false};
	for (unsigned i = 0; i < 256; i++) {
		memset(tx, (int)i | 1, HEADER);
		make_frame(tx + HEADER, 60, 1);
		driver_chain(&rig.ring[TX], &buf, 1);
		driver_kick(&rig.d, TX);
	}
	assert_true(rig.host->tx.dropped > 0);
	assert_int_equal(rig.host->tx.dropped + rig.host->tx.frames, 256);
	assert_true(link_is_up());
	uint8_t all[4096];
	while (recv(rig.peer, all, sizeof(all), MSG_DONTWAIT) > 0)
		;
	guest_sends_frame(60, 2);
	assert_host_receives(60, 2);
	close_tap();
}

/* ------------------------------------------------------------------------------------------ several pairs */

static uint8_t command(uint8_t class, uint8_t cmd, uint16_t value)
{
	uint8_t *at = driver_at(&rig.d, rig.tx_at);
	const struct driver_buf bufs[] = {{rig.tx_at, 2, false}, {rig.tx_at + 2, 2, false}, {rig.tx_at + 4, 1, true}};
	uint32_t id = 0, len = 0;

	at[0] = class;
	at[1] = cmd;
	at[2] = (uint8_t)value;
	at[3] = (uint8_t)(value >> 8);
	at[4] = 0xff;
	driver_chain(&rig.ring[CONTROL], bufs, 3);
	driver_kick(&rig.d, CONTROL);
	assert_true(driver_used(&rig.ring[CONTROL], &id, &len));
	assert_int_equal(len, 1);
	return at[4];
}

static void several_pairs_are_used_when_asked_for(void **state)
{
	const uint64_t features = FEATURE(MQ) | FEATURE(CTRL_VQ) | FEATURE(MRG_RXBUF);

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0,queues=2", features);
	assert_int_equal(driver_offered(&rig.d) & features, features);
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, VIRTIO_MMIO_CONFIG + 8, 2), 2);
	assert_int_equal(command(VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, 0), VIRTIO_NET_ERR);
	assert_int_equal(command(VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, 3), VIRTIO_NET_ERR);
	assert_int_equal(command(VIRTIO_NET_CTRL_MAC, 0, 0), VIRTIO_NET_ERR);
	for (unsigned pairs = 2; pairs; pairs--) {
		assert_int_equal(command(VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, (uint16_t)pairs),
		                 VIRTIO_NET_OK);
		/* The second pair's transmit queue. */
		uint64_t dropped = rig.host->tx.dropped;
		const struct driver_buf buf = {rig.tx_at, HEADER + 60, false};
		uint8_t *at = driver_at(&rig.d, rig.tx_at);
		memset(at, 0, HEADER);
		make_frame(at + HEADER, 60, pairs);
		driver_chain(&rig.ring[3], &buf, 1);
		driver_kick(&rig.d, 3);
		if (pairs == 2)
			assert_host_receives(60, 2);
		assert_int_equal(rig.host->tx.dropped, dropped + (pairs == 1));
		guest_sends_frame(60, 7);
		assert_host_receives(60, 7);
		settle();
		assert_true(link_is_up());
	}
	/* With one pair in use, all that comes is for it. */
	guest_offers_many(40, 1526);
	for (unsigned i = 0; i < 20; i++)
		host_sends(60 + i, i);
	settle();
	for (unsigned i = 0; i < 20; i++)
		assert_guest_got(60 + i, i, 1);
	close_tap();
}

static void hostile_commands_are_answered_or_break_the_device(void **state)
{
	uint32_t id = 0, len = 0;

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0,queues=2", FEATURE(MQ) | FEATURE(CTRL_VQ));
	/* No room for the answer, then no command. */
	const struct driver_buf bufs[2] = {{rig.tx_at, 4, false}, {rig.tx_at, 1, true}};
	for (unsigned i = 0; i < 2; i++) {
		driver_chain(&rig.ring[CONTROL], &bufs[i], 1);
		driver_kick(&rig.d, CONTROL);
		assert_true(driver_used(&rig.ring[CONTROL], &id, &len));
		assert_int_equal(len, i);
	}
	driver_desc(&rig.ring[CONTROL], 0, UINT64_MAX, 4, 0, 0);
	driver_offer(&rig.ring[CONTROL], 0);
	driver_kick(&rig.d, CONTROL);
	assert_true(driver_needs_reset(&rig.d));
	close_tap();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TAP(offloads_are_offered),
		WITH_TAP(a_large_segment_of_the_guest_goes_out_whole),
		WITH_TAP(a_large_segment_for_the_guest_comes_in_whole),
		WITH_TAP(a_large_segment_comes_in_pieces_without_offloads),
		WITH_TAP(a_header_that_cannot_be_costs_its_frame_only),
		WITH_TAP(several_pairs_are_used_when_asked_for),
		WITH_TAP(hostile_commands_are_answered_or_break_the_device),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
