/* SPDX-License-Identifier: Apache-2.0 */
/* blk_rw.c - writes a pattern all over a disk, reads it back, and tries each kind of request. serial= is what GET_ID
 * says; ro=1 expects that nothing can be written. */
#include "virtio.h"

enum {
	CHUNK = 65536,
	CHUNKS = 16,
};

static uint64_t fill(uint64_t arg)
{
	uint64_t *p = virtio_alloc(0, 4096);
	uint64_t i;

	for (i = 0; i < CHUNK / 8; i++)
		p[i] = (arg * CHUNK + i * 8) * 0x9e3779b97f4a7c15ull;
	return 0;
}

static uint64_t matches(uint64_t arg)
{
	const uint64_t *p = virtio_alloc(0, 4096);
	uint64_t i;

	for (i = 0; i < CHUNK / 8; i++)
		if (p[i] != (arg * CHUNK + i * 8) * 0x9e3779b97f4a7c15ull)
			return 0;
	return 1;
}

static uint64_t is_zero(uint64_t bytes)
{
	const uint64_t *p = virtio_alloc(0, 4096);
	uint64_t i;

	for (i = 0; i < bytes / 8; i++)
		if (p[i] != 0)
			return 0;
	return 1;
}

static void write_and_read(struct blk *b, uint64_t sectors)
{
	uint64_t step = (sectors - CHUNK / 512) / (CHUNKS - 1), i;
	void *data = virtio_alloc(0, 4096);

	for (i = 0; i < CHUNKS; i++) {
		ring3(fill, i);
		check_eq(blk_request(b, BLK_OUT, i * step, data, CHUNK), BLK_OK);
	}
	check_eq(blk_request(b, BLK_FLUSH, 0, NULL, 0), BLK_OK);
	for (i = 0; i < CHUNKS; i++) {
		check_eq(blk_request(b, BLK_IN, i * step, data, CHUNK), BLK_OK);
		check(ring3(matches, i));
	}
}

static void ranges(struct blk *b)
{
	struct {
		uint64_t sector;
		uint32_t sectors, flags;
	} *range = virtio_alloc(16, 16);
	void *data = virtio_alloc(0, 4096);

	*range = (typeof(*range)){8, 8, 0};
	if (b->v.features & VIRTIO_BLK_F_WRITE_ZEROES) {
		check_eq(blk_request(b, BLK_WRITE_ZEROES, 0, range, 16), BLK_OK);
		check_eq(blk_request(b, BLK_IN, 8, data, 4096), BLK_OK);
		check(ring3(is_zero, 4096));
		range->flags = 1;
		range->sector = 16;
		check_eq(blk_request(b, BLK_WRITE_ZEROES, 0, range, 16), BLK_OK);
		check_eq(blk_request(b, BLK_IN, 16, data, 4096), BLK_OK);
		check(ring3(is_zero, 4096));
		range->flags = 2;
		check_eq(blk_request(b, BLK_WRITE_ZEROES, 0, range, 16), BLK_UNSUPP);
	}
	range->flags = 0;
	if (b->v.features & VIRTIO_BLK_F_DISCARD) {
		check_eq(blk_request(b, BLK_DISCARD, 0, range, 16), BLK_OK);
		range->sector = blk_sectors(b) - 7;
		check_eq(blk_request(b, BLK_DISCARD, 0, range, 16), BLK_IOERR);
	}
}

static void get_id(struct blk *b)
{
	char *id = virtio_alloc(32, 16);

	check_eq(blk_request(b, BLK_GET_ID, 0, id, 20), BLK_OK);
	if (!param_is("serial", ""))
		check(param_is("serial", id));
}

int main(void)
{
	static struct blk b;
	uint64_t sectors;
	void *data;

	apic_setup();
	blk_start(&b, (unsigned)param_u64("disk", 0), ~0ull);
	sectors = blk_sectors(&b);
	check(sectors >= CHUNKS * CHUNK / 512);
	get_id(&b);
	data = virtio_alloc(0, 4096);
	/* Off the end, not whole sectors, and a type that is not there. */
	check_eq(blk_request(&b, BLK_IN, sectors - 7, data, 4096), BLK_IOERR);
	check_eq(blk_request(&b, BLK_IN, ~0ull - 1, data, 4096), BLK_IOERR);
	check_eq(blk_request(&b, BLK_IN, 0, data, 1000), BLK_IOERR);
	check_eq(blk_request(&b, BLK_IN, sectors - 8, data, 4096), BLK_OK);
	check_eq(blk_request(&b, 77, 0, data, 512), BLK_UNSUPP);
	if (param_u64("ro", 0)) {
		check(b.v.offered & VIRTIO_BLK_F_RO);
		check_eq(blk_request(&b, BLK_OUT, 0, data, 512), BLK_IOERR);
		return 0;
	}
	ranges(&b);
	write_and_read(&b, sectors);
	print("%u requests, %u interrupts\n", (unsigned)b.q.seen, b.v.interrupts);
	check(b.v.interrupts <= b.q.seen);
	return 0;
}
