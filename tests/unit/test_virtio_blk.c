// SPDX-License-Identifier: Apache-2.0
/* test_virtio_blk.c - requests of a driver against real files, by system calls and by io_uring. */
#include "virtio_blk_rig.h"

static const char *const engines[] = {",engine=sync", ",engine=io_uring", ",engine=io_uring,direct"};

static const uint64_t all = ~0ull & ~(1ull << VIRTIO_RING_F_EVENT_IDX);

static void pattern(uint8_t *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static void what_is_written_can_be_read(void **state)
{
	uint8_t want[65536], back[65536];

	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(engines); e++) {
		open_rig(engines[e]);
		bring_up(all);
		for (unsigned i = 0; i < 16; i++) {
			pattern(guest(rig.data), 65536, i);
			assert_int_equal(request(VIRTIO_BLK_T_OUT, i * 128, 65536), VIRTIO_BLK_S_OK);
		}
		assert_int_equal(request(VIRTIO_BLK_T_FLUSH, 0, 0), VIRTIO_BLK_S_OK);
		int fd = open(rig.path, O_RDONLY);
		for (unsigned i = 0; i < 16; i++) {
			pattern(want, 65536, i);
			assert_int_equal(pread(fd, back, 65536, i * 65536), 65536);
			assert_memory_equal(want, back, 65536);
			memset(guest(rig.data), 0, 65536);
			assert_int_equal(request(VIRTIO_BLK_T_IN, i * 128, 65536), VIRTIO_BLK_S_OK);
			assert_memory_equal(want, guest(rig.data), 65536);
		}
		close(fd);
		assert_int_equal(atomic_load(&rig.file->requests), 33);
		assert_int_equal(atomic_load(&rig.file->errors), 0);
		assert_int_equal(atomic_load(&rig.pulses), 33);
		close_rig();
	}
}

static void header_and_data_may_be_cut_anywhere(void **state)
{
	struct driver_buf bufs[40];
	uint8_t want[512 * 3];

	(void)state;
	open_rig("");
	bring_up(all);
	pattern(want, sizeof(want), 5);
	/* A byte of header per buffer, data in sevens, the last of them behind the last byte of the header. */
	const struct virtio_blk_outhdr h = {.type = VIRTIO_BLK_T_OUT, .sector = 9};
	memcpy(guest(rig.header), &h, sizeof(h));
	memcpy((uint8_t *)guest(rig.header) + sizeof(h), want, sizeof(want));
	unsigned n = 0, at = 0;
	for (; n < 15; n++, at++)
		bufs[n] = (struct driver_buf){rig.header + at, 1, false};
	for (; n < 30; n++, at += 77)
		bufs[n] = (struct driver_buf){rig.header + at, 77, false};
	bufs[n++] = (struct driver_buf){rig.header + at, 16 + sizeof(want) - at, false};
	bufs[n++] = (struct driver_buf){rig.status, 1, true};
	driver_chain(&rig.r, bufs, n);
	driver_kick(&rig.d, 0);
	wait_used(1);
	assert_int_equal(status_of(0), VIRTIO_BLK_S_OK);
	/* Read it back with the status in the same buffer as the end of the data. */
	const struct virtio_blk_outhdr in = {.type = VIRTIO_BLK_T_IN, .sector = 9};
	const struct driver_buf back[] = {
		{rig.header, 16, false}, {rig.data, 1, true}, {rig.data + 1, 1000, true}, {rig.data + 1001, 536, true}};
	memcpy(guest(rig.header), &in, sizeof(in));
	driver_chain(&rig.r, back, 4);
	driver_kick(&rig.d, 0);
	wait_used(2);
	assert_memory_equal(guest(rig.data), want, sizeof(want));
	assert_int_equal(*((uint8_t *)guest(rig.data) + sizeof(want)), VIRTIO_BLK_S_OK);
	close_rig();
}

static void what_a_driver_may_not_ask_is_answered(void **state)
{
	const uint64_t sectors = DISK_BYTES / 512;
	static const struct {
		uint32_t type;
		uint64_t sector;
		uint32_t len;
		unsigned want;
	} cases[] = {
		{VIRTIO_BLK_T_IN, DISK_BYTES / 512, 512, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_IN, DISK_BYTES / 512 - 1, 1024, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_IN, DISK_BYTES / 512 - 1, 512, VIRTIO_BLK_S_OK},
		{VIRTIO_BLK_T_IN, UINT64_MAX, 512, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_IN, UINT64_MAX / 512, 1024, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_OUT, UINT64_MAX - 1, 2048, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_IN, 0, 511, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_OUT, 0, 513, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_IN, 0, 0, VIRTIO_BLK_S_OK},
		{VIRTIO_BLK_T_IN, DISK_BYTES / 512, 0, VIRTIO_BLK_S_OK},
		{VIRTIO_BLK_T_GET_ID, 0, 19, VIRTIO_BLK_S_IOERR},
		{VIRTIO_BLK_T_SCSI_CMD, 0, 512, VIRTIO_BLK_S_UNSUPP},
		{VIRTIO_BLK_T_SECURE_ERASE, 0, 16, VIRTIO_BLK_S_UNSUPP},
		{VIRTIO_BLK_T_BARRIER, 0, 16, VIRTIO_BLK_S_UNSUPP},
		{UINT32_MAX, 0, 16, VIRTIO_BLK_S_UNSUPP},
	};

	(void)state;
	(void)sectors;
	open_rig("");
	bring_up(all);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned got = request(cases[i].type, cases[i].sector, cases[i].len);
		if (got != cases[i].want)
			fail_msg("case %zu: %u", i, got);
	}
	assert_int_equal(atomic_load(&rig.file->errors), 0); /* the host did nothing wrong */
	assert_false(driver_needs_reset(&rig.d));
	close_rig();
}

static void a_wrong_direction_is_answered(void **state)
{
	struct virtio_blk_outhdr h = {.type = VIRTIO_BLK_T_IN};
	const struct driver_buf out[] = {
		{rig.header, 16, false}, {0x1000, 512, false}, {0x1000, 512, true}, {0x1600, 1, true}};

	(void)state;
	open_rig("");
	bring_up(all);
	for (unsigned i = 0; i < 2; i++) {
		struct driver_buf bufs[4];
		memcpy(bufs, out, sizeof(out));
		bufs[0].addr = rig.header;
		h.type = i ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
		memcpy(guest(rig.header), &h, sizeof(h));
		bufs[1].addr = bufs[2].addr = rig.data;
		bufs[3].addr = rig.status;
		driver_chain(&rig.r, bufs, 4);
		driver_kick(&rig.d, 0);
		wait_used((uint16_t)(i + 1));
		assert_int_equal(status_of(0), VIRTIO_BLK_S_IOERR);
	}
	/* Half a header. */
	const struct driver_buf half[] = {{rig.header, 15, false}, {rig.status, 1, true}};
	driver_chain(&rig.r, half, 2);
	driver_kick(&rig.d, 0);
	wait_used(3);
	assert_int_equal(status_of(0), VIRTIO_BLK_S_IOERR);
	const struct driver_buf only[] = {{rig.status, 1, true}};
	driver_chain(&rig.r, only, 1);
	driver_kick(&rig.d, 0);
	wait_used(4);
	assert_int_equal(status_of(0), VIRTIO_BLK_S_IOERR);
	close_rig();
}

static void a_request_without_room_for_its_status_breaks_the_device(void **state)
{
	const struct driver_buf bufs[] = {{4096, 16, false}, {8192, 512, false}};
	uint32_t id, len;

	(void)state;
	open_rig("");
	bring_up(all);
	driver_chain(&rig.r, bufs, 2);
	driver_kick(&rig.d, 0);
	assert_true(driver_needs_reset(&rig.d));
	assert_true(driver_used(&rig.r, &id, &len)); /* and yet it came back */
	assert_int_equal(len, 0);
	bring_up(all);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
	close_rig();
}

static void a_read_only_disk_is_only_read(void **state)
{
	(void)state;
	open_rig(",ro,serial=ro-1");
	assert_true(driver_offered(&rig.d) & 1u << VIRTIO_BLK_F_RO);
	assert_false(driver_offered(&rig.d) & (1u << VIRTIO_BLK_F_DISCARD | 1u << VIRTIO_BLK_F_WRITE_ZEROES));
	bring_up(0); /* a driver that does not care for F_RO */
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 512), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 16), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 512), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_GET_ID, 0, 20), VIRTIO_BLK_S_OK);
	assert_string_equal((char *)guest(rig.data), "ro-1");
	close_rig();
}

static unsigned range(uint32_t type, uint64_t sector, uint32_t sectors, uint32_t flags)
{
	const struct virtio_blk_discard_write_zeroes r = {.sector = sector, .num_sectors = sectors, .flags = flags};

	memcpy(guest(rig.data), &r, sizeof(r));
	return request(type, 0, sizeof(r));
}

static void ranges_are_discarded_and_zeroed(void **state)
{
	const uint32_t unmap = VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP, zero = VIRTIO_BLK_T_WRITE_ZEROES;

	(void)state;
	for (size_t e = 0; e < 2; e++) {
		open_rig(engines[e]);
		if (!rig.file->can_punch) {
			close_rig();
			skip();
		}
		bring_up(all);
		memset(guest(rig.data), 1, 65536);
		assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 65536), VIRTIO_BLK_S_OK);
		assert_int_equal(range(zero, 8, 8, 0), VIRTIO_BLK_S_OK);
		assert_int_equal(range(zero, 24, 8, unmap), VIRTIO_BLK_S_OK);
		assert_int_equal(range(VIRTIO_BLK_T_DISCARD, 40, 8, 0), VIRTIO_BLK_S_OK);
		assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 65536), VIRTIO_BLK_S_OK);
		const uint8_t *data = guest(rig.data);
		for (unsigned s = 0; s < 128; s++)
			assert_int_equal(data[s * 512], !(s / 8 == 1 || s / 8 == 3 || s / 8 == 5));
		assert_int_equal(range(VIRTIO_BLK_T_DISCARD, 40, 8, unmap), VIRTIO_BLK_S_UNSUPP);
		assert_int_equal(range(zero, 40, 8, 2), VIRTIO_BLK_S_UNSUPP);
		assert_int_equal(range(zero, DISK_BYTES / 512 - 7, 8, 0), VIRTIO_BLK_S_IOERR);
		assert_int_equal(range(zero, UINT64_MAX, 8, 0), VIRTIO_BLK_S_IOERR);
		assert_int_equal(range(VIRTIO_BLK_T_DISCARD, 0, UINT32_MAX, 0), VIRTIO_BLK_S_IOERR);
		assert_int_equal(range(zero, 0, 0, 0), VIRTIO_BLK_S_OK);
		assert_int_equal(request(zero, 0, 8), VIRTIO_BLK_S_IOERR);
		assert_int_equal(request(zero, 0, 32), VIRTIO_BLK_S_IOERR);
		close_rig();
	}
}

static void the_configuration_space_says_what_the_disk_is(void **state)
{
	(void)state;
	open_rig(",queues=4");
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG), DISK_BYTES / 512);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + 4), 0);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + offsetof(struct virtio_blk_config, seg_max)),
	                 VIRTIO_BLK_SEGMENTS_MAX);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_CONFIG + offsetof(struct virtio_blk_config, blk_size)), 512);
	assert_int_equal(virtio_mmio_bus_ops.read(
				 rig.d.t, VIRTIO_MMIO_CONFIG + offsetof(struct virtio_blk_config, num_queues), 2),
	                 4);
	assert_true(driver_offered(&rig.d) & 1u << VIRTIO_BLK_F_MQ);
	close_rig();
}

/* ------------------------------------------------------------------------------- many at a time */

static void more_requests_than_the_host_takes_at_a_time_all_end(void **state)
{
	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(engines); e++) {
		open_rig(engines[e]);
		bring_up(all | 1ull << VIRTIO_RING_F_EVENT_IDX);
		/* 85 chains of 3 fill the ring; indirect ones go up to 256. */
		struct vring_desc *tables = guest(driver_alloc(&rig.d, 256 * 48, 16));
		for (unsigned i = 0; i < 256; i++) {
			const struct virtio_blk_outhdr h = {.type = VIRTIO_BLK_T_OUT, .sector = i * 8};
			memcpy(guest(rig.header + i * 16), &h, sizeof(h));
			uint64_t at = (uint64_t)((uint8_t *)&tables[i * 3] - (uint8_t *)guest(0));
			tables[i * 3] = (struct vring_desc){rig.header + i * 16, 16, VRING_DESC_F_NEXT, 1};
			tables[i * 3 + 1] = (struct vring_desc){rig.data, 4096, VRING_DESC_F_NEXT, 2};
			tables[i * 3 + 2] = (struct vring_desc){rig.status + i, 1, VRING_DESC_F_WRITE, 0};
			*(uint8_t *)guest(rig.status + i) = 0xee;
			driver_desc(&rig.r, i, at, 48, VRING_DESC_F_INDIRECT, 0);
			driver_offer(&rig.r, i);
		}
		driver_kick(&rig.d, 0);
		wait_used(256);
		for (unsigned i = 0; i < 256; i++)
			assert_int_equal(status_of(i), VIRTIO_BLK_S_OK);
		assert_int_equal(atomic_load(&queue_of(0)->in_flight), 0);
		close_rig();
	}
}

static void a_reset_waits_for_what_is_in_flight(void **state)
{
	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(engines); e++) {
		open_rig(engines[e]);
		for (unsigned round = 0; round < 20; round++) {
			bring_up(all);
			for (unsigned i = 0; i < 60; i++)
				put(i, i % 2 ? VIRTIO_BLK_T_IN : VIRTIO_BLK_T_OUT, i * 8, rig.data + i * 512, 512);
			driver_kick(&rig.d, 0);
			driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
			assert_int_equal(rig.r.used->idx, 60);
			/* Nobody writes there any more. */
			memset(guest(rig.status), 0x77, 60);
			memset(guest(rig.data), 0x77, 65536);
			usleep(200);
			for (unsigned i = 0; i < 60; i++)
				assert_int_equal(status_of(i), 0x77);
			assert_int_equal(*(uint8_t *)guest(rig.data + 512), 0x77);
		}
		close_rig();
	}
}

static void a_device_is_torn_down_with_requests_in_flight(void **state)
{
	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(engines); e++) {
		open_rig(engines[e]);
		for (unsigned round = 0; round < 5; round++) {
			bring_up(all);
			for (unsigned i = 0; i < 60; i++)
				put(i, VIRTIO_BLK_T_OUT, i * 8, rig.data, 4096);
			driver_kick(&rig.d, 0);
			unplug();
			plug();
		}
		close_rig();
	}
}

/* A ring that outlives its device for a moment must not keep the file. */
static void a_disk_that_was_closed_can_be_opened_at_once(void **state)
{
	char spec[128];

	(void)state;
	open_rig(",engine=io_uring,direct");
	snprintf(spec, sizeof(spec), "path=%s,engine=io_uring,direct", rig.path);
	for (unsigned i = 0; i < 20; i++) {
		bring_up(all);
		assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 4096), VIRTIO_BLK_S_OK);
		unplug();
		disk_file_close(rig.file);
		int fd = open(rig.path, O_RDWR);
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
		close(fd);
		rig.file = disk_file_open(spec, NULL, NULL);
		assert_non_null(rig.file);
		plug();
	}
	close_rig();
}

static void a_limited_disk_takes_its_time(void **state)
{
	struct timespec t0, t1;

	(void)state;
	open_rig(",iops=200");
	bring_up(all);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (unsigned i = 0; i < 60; i++)
		put(i, VIRTIO_BLK_T_IN, 0, rig.data, 512);
	driver_kick(&rig.d, 0);
	assert_in_range(rig.r.used->idx, 1, 40); /* a tenth of a second's worth at once */
	wait_used(60);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	int64_t ms = (t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000;
	assert_true(ms >= 180); /* 40 of them wait for 5 ms each */
	close_rig();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_can_be_read),
		cmocka_unit_test(header_and_data_may_be_cut_anywhere),
		cmocka_unit_test(what_a_driver_may_not_ask_is_answered),
		cmocka_unit_test(a_wrong_direction_is_answered),
		cmocka_unit_test(a_request_without_room_for_its_status_breaks_the_device),
		cmocka_unit_test(a_read_only_disk_is_only_read),
		cmocka_unit_test(ranges_are_discarded_and_zeroed),
		cmocka_unit_test(the_configuration_space_says_what_the_disk_is),
		cmocka_unit_test(more_requests_than_the_host_takes_at_a_time_all_end),
		cmocka_unit_test(a_reset_waits_for_what_is_in_flight),
		cmocka_unit_test(a_device_is_torn_down_with_requests_in_flight),
		cmocka_unit_test(a_disk_that_was_closed_can_be_opened_at_once),
		cmocka_unit_test(a_limited_disk_takes_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
