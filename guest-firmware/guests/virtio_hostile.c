/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_hostile.c - a driver that breaks one rule after the other: of the registers, of the ring, of the block device.
 * Each time the device says what was to be expected, and a reset makes it work again. */
#include "virtio.h"

enum {
	SIZE = 16, /* of blk_start()'s queue */
	CONFIG_BIT = 2,
};
#define RAM_END (param_u64("mem", 64) << 20)
#define NOWHERE 0xc0000000ull

static struct blk b;
static uint8_t *data; /* 64 KiB */

static void reg(enum virtio_reg r, uint32_t value)
{
	virtio_write(&b.v, r, value);
}

static uint32_t status(void)
{
	return virtio_read(&b.v, VIRTIO_STATUS);
}

static void up(void)
{
	blk_start(&b, 0, VIRTIO_F_INDIRECT | VIRTIO_BLK_F_FLUSH | VIRTIO_BLK_F_DISCARD | VIRTIO_BLK_F_WRITE_ZEROES);
}

/* ---- registers: from a reset on; what is left must not have DRIVER_OK, or must work ---- */

static void to_driver(uint64_t features)
{
	reg(VIRTIO_STATUS, 0);
	reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE);
	reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER);
	reg(VIRTIO_DRIVER_FEATURES_SEL, 0);
	reg(VIRTIO_DRIVER_FEATURES, (uint32_t)features);
	reg(VIRTIO_DRIVER_FEATURES_SEL, 1);
	reg(VIRTIO_DRIVER_FEATURES, (uint32_t)(features >> 32));
}

static void to_features_ok(void)
{
	to_driver(VIRTIO_F_VERSION_1);
	reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK);
	check(status() & VIRTIO_FEATURES_OK);
}

static void queue(uint32_t num, uint64_t desc, uint64_t avail, uint64_t used)
{
	reg(VIRTIO_QUEUE_SEL, 0);
	reg(VIRTIO_QUEUE_NUM, num);
	reg(VIRTIO_QUEUE_DESC, (uint32_t)desc);
	reg(VIRTIO_QUEUE_DESC + 4, (uint32_t)(desc >> 32));
	reg(VIRTIO_QUEUE_AVAIL, (uint32_t)avail);
	reg(VIRTIO_QUEUE_AVAIL + 4, (uint32_t)(avail >> 32));
	reg(VIRTIO_QUEUE_USED, (uint32_t)used);
	reg(VIRTIO_QUEUE_USED + 4, (uint32_t)(used >> 32));
	reg(VIRTIO_QUEUE_READY, 1);
}

static void expect_no_queue(uint32_t num, uint64_t desc, uint64_t avail, uint64_t used)
{
	to_features_ok();
	queue(num, desc, avail, used);
	check_eq(virtio_read(&b.v, VIRTIO_QUEUE_READY), 0);
	check(status() & VIRTIO_NEEDS_RESET);
	reg(VIRTIO_STATUS, status() | VIRTIO_DRIVER_OK);
	reg(VIRTIO_QUEUE_NOTIFY, 0);
}

static void queues_that_cannot_be(void)
{
	const uint64_t d = (uint64_t)data, a = d + 0x2000, u = d + 0x4000;

	expect_no_queue(0, d, a, u);
	expect_no_queue(3, d, a, u);
	expect_no_queue(512, d, a, u);
	expect_no_queue(0x10000, d, a, u);
	expect_no_queue(0xffffffff, d, a, u);
	expect_no_queue(SIZE, d + 8, a, u);
	expect_no_queue(SIZE, d, a + 1, u);
	expect_no_queue(SIZE, d, a, u + 2);
	expect_no_queue(SIZE, NOWHERE, a, u);
	expect_no_queue(SIZE, d, VIRTIO_BASE, u);
	expect_no_queue(SIZE, d, a, RAM_END - 16);
	expect_no_queue(SIZE, RAM_END - 16, a, u);
	expect_no_queue(SIZE, ~0ull << 4, a, u);
	expect_no_queue(SIZE, d | 1ull << 63, a, u);
	expect_no_queue(SIZE, d, a, u | 1ull << 40);
}

static void features_that_cannot_be(void)
{
	static const uint64_t features[] = {0, VIRTIO_BLK_F_FLUSH, VIRTIO_F_VERSION_1 | 1ull << 63,
	                                    VIRTIO_F_VERSION_1 | 1, ~0ull};

	for (unsigned i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		to_driver(features[i]);
		reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK);
		check(!(status() & VIRTIO_FEATURES_OK));
		reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK | VIRTIO_DRIVER_OK);
		check(!(status() & VIRTIO_DRIVER_OK));
	}
}

static void steps_out_of_order(void)
{
	reg(VIRTIO_STATUS, 0);
	reg(VIRTIO_STATUS, VIRTIO_DRIVER_OK);
	check_eq(status(), 0);
	reg(VIRTIO_STATUS, VIRTIO_FEATURES_OK | VIRTIO_DRIVER_OK);
	check_eq(status(), 0);
	to_driver(VIRTIO_F_VERSION_1);
	queue(SIZE, (uint64_t)data, (uint64_t)data + 0x1000, (uint64_t)data + 0x2000); /* before FEATURES_OK */
	check_eq(virtio_read(&b.v, VIRTIO_QUEUE_READY), 0);
	to_features_ok();
	reg(VIRTIO_QUEUE_NOTIFY, 0); /* before there is a queue */
	reg(VIRTIO_DRIVER_FEATURES, 0);
	reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE); /* takes bits back */
	check_eq(status(), VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK);
	reg(VIRTIO_STATUS, 0xffffff40);
	check_eq(status(), VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK);
	reg(VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK | VIRTIO_DRIVER_OK);
	reg(VIRTIO_QUEUE_NOTIFY, 0); /* a device without a queue */
	check(!(status() & VIRTIO_NEEDS_RESET));
}

static void registers_that_are_not_there(void)
{
	up();
	reg(VIRTIO_QUEUE_SEL, 1);
	check_eq(virtio_read(&b.v, VIRTIO_QUEUE_NUM_MAX), 0);
	reg(VIRTIO_QUEUE_NUM, 4);
	reg(VIRTIO_QUEUE_READY, 1);
	check_eq(virtio_read(&b.v, VIRTIO_QUEUE_READY), 0);
	reg(VIRTIO_QUEUE_NOTIFY, 1);
	reg(VIRTIO_QUEUE_NOTIFY, 0xffffffff);
	reg(VIRTIO_MAGIC, 0);
	reg(VIRTIO_CONFIG_GENERATION, 5);
	reg(0x3c, 5);
	reg(0xf0, 5);
	reg(VIRTIO_CONFIG, 5);
	reg(VIRTIO_CONFIG + 60, 5);
	reg(0xffc, 5);
	reg(VIRTIO_QUEUE_SEL, 0);
	reg(VIRTIO_QUEUE_NUM, 8); /* of a queue that is ready */
	reg(VIRTIO_QUEUE_DESC, 0);
	*(volatile uint8_t *)(b.v.base + VIRTIO_STATUS) = 0;
	*(volatile uint16_t *)(b.v.base + VIRTIO_QUEUE_NOTIFY) = 0;
	*(volatile uint64_t *)(b.v.base + VIRTIO_QUEUE_DESC) = 0;
	*(volatile uint32_t *)(b.v.base + VIRTIO_STATUS + 2) = 0;
	check_eq(*(volatile uint8_t *)(b.v.base + VIRTIO_MAGIC), 0);
	check_eq(virtio_read(&b.v, VIRTIO_MAGIC), 0x74726976);
	check_eq(blk_request(&b, BLK_IN, 0, data, 512), BLK_OK);
}

/* ---- the ring: each breaks the device ---- */

static void desc(unsigned i, uint64_t addr, uint32_t len, unsigned flags, unsigned next)
{
	b.q.desc[i].addr = addr;
	b.q.desc[i].len = len;
	b.q.desc[i].flags = (uint16_t)flags;
	b.q.desc[i].next = (uint16_t)next;
}

static void offer(unsigned head)
{
	b.q.avail->ring[b.q.avail->idx & (SIZE - 1)] = (uint16_t)head;
	b.q.avail->idx++;
}

static void one(uint64_t addr, uint32_t len, unsigned flags, unsigned next)
{
	desc(0, addr, len, flags, next);
	offer(0);
}

static void table(uint64_t addr, uint32_t len, unsigned flags, unsigned next)
{
	volatile struct vq_desc *t = (void *)data;

	t[0].addr = addr;
	t[0].len = len;
	t[0].flags = (uint16_t)flags;
	t[0].next = (uint16_t)next;
	t[1] = t[0];
	one((uint64_t)data, 32, VQ_INDIRECT, 0);
}

static void index_too_far(void)
{
	b.q.avail->idx = SIZE + 1;
}
static void index_back(void)
{
	b.q.avail->idx = 0xffff;
}
static void head_too_high(void)
{
	offer(SIZE);
}
static void head_far_too_high(void)
{
	offer(0xffff);
}
static void next_too_high(void)
{
	one((uint64_t)data, 16, VQ_NEXT, SIZE);
}
static void next_itself(void)
{
	one((uint64_t)data, 16, VQ_NEXT, 0);
}
static void loop_of_two(void)
{
	desc(1, (uint64_t)data, 16, VQ_NEXT, 0);
	one((uint64_t)data, 16, VQ_NEXT, 1);
}
static void loop_of_writable(void)
{
	desc(1, (uint64_t)data, 16, VQ_NEXT | VQ_WRITE, 0);
	one((uint64_t)data, 16, VQ_NEXT | VQ_WRITE, 1);
}
static void length_0(void)
{
	one((uint64_t)data, 0, 0, 0);
}
static void readable_last(void)
{
	desc(1, (uint64_t)data, 16, 0, 0);
	one((uint64_t)data, 16, VQ_NEXT | VQ_WRITE, 1);
}
static void buffer_nowhere(void)
{
	one(NOWHERE, 16, VQ_WRITE, 0);
}
static void buffer_is_a_device(void)
{
	one(VIRTIO_BASE, 16, VQ_WRITE, 0);
}
static void buffer_is_an_apic(void)
{
	one(XAPIC_BASE, 16, VQ_WRITE, 0);
}
static void buffer_over_the_end(void)
{
	one(RAM_END - 8, 16, 0, 0);
}
static void buffer_wraps(void)
{
	one(~0ull - 7, 16, 0, 0);
}
static void buffer_of_4_gib(void)
{
	one((uint64_t)data, 0xffffffff, VQ_WRITE, 0);
}
static void table_in_table(void)
{
	table((uint64_t)data, 32, VQ_INDIRECT, 0);
}
static void table_next_too_high(void)
{
	table((uint64_t)data, 16, VQ_NEXT, 2);
}
static void table_loop(void)
{
	table((uint64_t)data, 16, VQ_NEXT, 0);
}
static void table_buffer_nowhere(void)
{
	table(NOWHERE, 16, VQ_WRITE, 0);
}
static void table_length_0(void)
{
	one((uint64_t)data, 0, VQ_INDIRECT, 0);
}
static void table_odd_length(void)
{
	one((uint64_t)data, 24, VQ_INDIRECT, 0);
}
static void table_too_long(void)
{
	one((uint64_t)data, 16 * (SIZE + 1), VQ_INDIRECT, 0);
}
static void table_huge(void)
{
	one((uint64_t)data, 0xfffffff0, VQ_INDIRECT, 0);
}
static void table_nowhere(void)
{
	one(NOWHERE, 32, VQ_INDIRECT, 0);
}
static void table_with_next(void)
{
	desc(1, (uint64_t)data, 16, VQ_WRITE, 0);
	one((uint64_t)data, 16, VQ_INDIRECT | VQ_NEXT, 1);
}
static void nothing_writable(void)
{
	one((uint64_t)data, 64, 0, 0);
}

static void (*const rings[])(void) = {
	index_too_far,     index_back,          head_too_high,    head_far_too_high,
	next_too_high,     next_itself,         loop_of_two,      loop_of_writable,
	length_0,          readable_last,       buffer_nowhere,   buffer_is_a_device,
	buffer_is_an_apic, buffer_over_the_end, buffer_wraps,     buffer_of_4_gib,
	table_in_table,    table_next_too_high, table_loop,       table_buffer_nowhere,
	table_length_0,    table_odd_length,    table_too_long,   table_huge,
	table_nowhere,     table_with_next,     nothing_writable,
};

static void rings_that_cannot_be(void)
{
	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		uint32_t configs;

		up();
		configs = b.v.configs;
		rings[i]();
		vq_kick(&b.q);
		if (!(status() & VIRTIO_NEEDS_RESET)) {
			print("violation %u of the ring was not found\n", i);
			check(status() & VIRTIO_NEEDS_RESET);
		}
		halt_until(b.v.configs == configs + 1);
		vq_kick(&b.q); /* a broken device is deaf */
		check_eq(b.v.configs, configs + 1);
	}
}

/* ---- requests: each is answered, the device goes on ---- */

static void expect(uint8_t want, uint32_t type, uint64_t sector, void *at, uint32_t len)
{
	uint8_t got = blk_request(&b, type, sector, at, len);

	if (got != want)
		print("type %u at %lu, %u bytes\n", type, sector, len);
	check_eq(got, want);
}

static void range(uint8_t want, uint32_t type, uint64_t sector, uint32_t sectors, uint32_t flags)
{
	volatile uint32_t *r = (void *)data;

	r[0] = (uint32_t)sector;
	r[1] = (uint32_t)(sector >> 32);
	r[2] = sectors;
	r[3] = flags;
	expect(want, type, 0, data, 16);
}

static void requests_that_cannot_be(void)
{
	const uint64_t end = blk_sectors(&b);
	unsigned i;

	up();
	expect(BLK_IOERR, BLK_IN, end, data, 512);
	expect(BLK_IOERR, BLK_IN, end - 1, data, 1024);
	expect(BLK_IOERR, BLK_OUT, end, data, 512);
	expect(BLK_IOERR, BLK_OUT, ~0ull, data, 512);
	expect(BLK_IOERR, BLK_IN, ~0ull / 512, data, 1024);
	expect(BLK_IOERR, BLK_IN, 1ull << 55, data, 512);
	expect(BLK_IOERR, BLK_IN, 0, data, 1);
	expect(BLK_IOERR, BLK_OUT, 0, data, 513);
	expect(BLK_IOERR, BLK_GET_ID, 0, data, 19);
	expect(BLK_UNSUPP, 2, 0, data, 512);
	expect(BLK_UNSUPP, 14, 0, data, 512);
	expect(BLK_UNSUPP, 0x80000000, 0, data, 512);
	expect(BLK_UNSUPP, 0xffffffff, 0, NULL, 0);
	if (b.v.features & VIRTIO_BLK_F_DISCARD) {
		expect(BLK_IOERR, BLK_DISCARD, 0, data, 8);
		expect(BLK_IOERR, BLK_DISCARD, 0, data, 32);
		range(BLK_IOERR, BLK_DISCARD, end, 1, 0);
		range(BLK_IOERR, BLK_DISCARD, ~0ull, 8, 0);
		range(BLK_IOERR, BLK_DISCARD, 0, 0xffffffff, 0);
		range(BLK_UNSUPP, BLK_DISCARD, 0, 8, 1);
		range(BLK_IOERR, BLK_WRITE_ZEROES, end - 1, 2, 1);
		range(BLK_UNSUPP, BLK_WRITE_ZEROES, 0, 8, 0x80000000);
	}
	/* The header is where the device writes, and half a header. */
	const struct vq_buf both[] = {{b.header, 16}, {b.status, 1}};
	for (i = 0; i < 2; i++) {
		*b.status = 0xff;
		vq_add(&b.q, both, 0, 2);
		vq_kick(&b.q);
		vq_wait(&b.q);
		check_eq(*b.status, BLK_IOERR);
	}
	const struct vq_buf half[] = {{b.header, 8}, {b.status, 1}};
	*b.status = 0xff;
	vq_add(&b.q, half, 1, 1);
	vq_kick(&b.q);
	vq_wait(&b.q);
	check_eq(*b.status, BLK_IOERR);
	/* The same chain twice at once. */
	const struct vq_buf read[] = {{b.header, 16}, {data, 512}, {b.status, 1}};
	b.header->type = BLK_IN;
	b.header->sector = 0;
	offer(vq_add(&b.q, read, 1, 2));
	vq_kick(&b.q);
	vq_wait(&b.q);
	vq_wait(&b.q);
	check_eq(*b.status, BLK_OK);
	check(!(status() & VIRTIO_NEEDS_RESET));
}

int main(void)
{
	unsigned i;

	apic_setup();
	data = virtio_alloc(65536, 4096);
	up();
	features_that_cannot_be();
	steps_out_of_order();
	queues_that_cannot_be();
	registers_that_are_not_there();
	rings_that_cannot_be();
	requests_that_cannot_be();
	/* Resets in a row, in the middle of things. */
	for (i = 0; i < 20; i++) {
		up();
		b.header->type = BLK_OUT;
		b.header->sector = i;
		const struct vq_buf write[] = {{b.header, 16}, {data, 4096}, {b.status, 1}};
		vq_add(&b.q, write, 2, 1);
		vq_kick(&b.q);
		reg(VIRTIO_STATUS, 0);
		reg(VIRTIO_STATUS, 0);
	}
	up();
	check_eq(blk_request(&b, BLK_IN, 0, data, 4096), BLK_OK);
	return 0;
}
