/* SPDX-License-Identifier: Apache-2.0 */
/* blk_reset.c - the machine is reset with requests in flight, several times over; the disk stays, and counts the boots.
 */
#include "virtio.h"

enum {
	BOOTS = 5,
	WRITES = 5,
	BYTES = 65536,
};

int main(void)
{
	static struct blk b;
	uint64_t *first = virtio_alloc(512, 4096);
	void *data = virtio_alloc(BYTES, 4096);
	unsigned i;

	apic_setup();
	blk_start(&b, 0, 0); /* without FLUSH a write that came back lasts */
	check_eq(blk_request(&b, BLK_IN, 0, first, 512), BLK_OK);
	print("boot %lu\n", first[0]);
	if (first[0] == BOOTS)
		return 0;
	first[0]++;
	check_eq(blk_request(&b, BLK_OUT, 0, first, 512), BLK_OK);
	for (i = 0; i < WRITES; i++) {
		const struct vq_buf bufs[] = {{b.header, 16}, {data, BYTES}, {b.status, 1}};

		b.header->type = BLK_OUT;
		b.header->sector = 128;
		vq_add(&b.q, bufs, 2, 1);
	}
	vq_kick(&b.q);
	out8(0xcf9, 6);
	stop_cpu();
}
