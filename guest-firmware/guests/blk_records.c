/* SPDX-License-Identifier: Apache-2.0 */
/* blk_records.c - for somebody who kills the monitor: writes numbered records, BATCH at a time, flushes, and says on
 * COM1 which number is safe, for ever. first= where to begin, a multiple of BATCH. Record n is at (n % SLOTS) * RECORD;
 * its word i is the number for i = 0, else (n * WORDS + i) * an odd constant. */
#include "virtio.h"

enum {
	RECORD = 8192,
	WORDS = RECORD / 8,
	SLOTS = 64,
	BATCH = 4,
};

static struct {
	volatile struct {
		uint32_t type, reserved;
		uint64_t sector;
	} * header;
	volatile uint8_t *status;
	uint64_t *data;
} part[BATCH];

static uint64_t fill(uint64_t first)
{
	for (uint64_t n = first; n < first + BATCH; n++)
		for (uint64_t i = 0; i < WORDS; i++)
			part[n - first].data[i] = i ? (n * WORDS + i) * 0x9e3779b97f4a7c15ull : n;
	return 0;
}

int main(void)
{
	static struct blk b;
	uint64_t n;
	unsigned i;

	apic_setup();
	blk_start(&b, 0, VIRTIO_BLK_F_FLUSH);
	check(b.v.features & VIRTIO_BLK_F_FLUSH);
	check(blk_sectors(&b) >= SLOTS * RECORD / 512);
	for (i = 0; i < BATCH; i++) {
		part[i].header = virtio_alloc(sizeof(*part[i].header), 16);
		part[i].status = virtio_alloc(1, 1);
		part[i].data = virtio_alloc(RECORD, 4096);
	}
	for (n = param_u64("first", BATCH);; n += BATCH) {
		ring3(fill, n);
		for (i = 0; i < BATCH; i++) {
			const struct vq_buf bufs[] = {
				{part[i].header, 16}, {part[i].data, RECORD}, {part[i].status, 1}};

			part[i].header->type = BLK_OUT;
			part[i].header->sector = (n + i) % SLOTS * (RECORD / 512);
			*part[i].status = 0xff;
			vq_add(&b.q, bufs, 2, 1);
		}
		vq_kick(&b.q);
		for (i = 0; i < BATCH; i++)
			vq_wait(&b.q);
		for (i = 0; i < BATCH; i++)
			check_eq(*part[i].status, BLK_OK);
		check_eq(blk_request(&b, BLK_FLUSH, 0, NULL, 0), BLK_OK);
		serial_print("ACK %lu\n", n + BATCH - 1);
	}
}
