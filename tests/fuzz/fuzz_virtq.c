// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtq.c - rings and tables of any bytes: what comes out is inside memory and within the limits, whatever was
 * there. */
#include "fuzz_virtio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_chain(const struct driver *d, const struct virtq *q, const struct virtq_chain *c)
{
	const uint8_t *ram = driver_at(d, 0);
	uint64_t sum[2] = {0};

	invariant(c->head < q->size && c->readable + c->writable <= q->size && c->readable + c->writable > 0);
	for (unsigned i = 0; i < c->readable + c->writable; i++) {
		const uint8_t *at = c->iov[i].iov_base;
		invariant(at >= ram && c->iov[i].iov_len && c->iov[i].iov_len <= (size_t)(ram + DRIVER_RAM - at));
		sum[i >= c->readable] += c->iov[i].iov_len;
	}
	invariant(sum[0] == c->readable_bytes && sum[1] == c->writable_bytes);
}

/* Input: 4 bytes of parameters; then pieces of memory, each 2 bytes of place and 1 of length before it, with pops in
 * between. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct driver d;
	struct fuzz_input in = {data, size};
	struct iovec iov[256];
	struct virtq_chain chain = {.iov = iov, .iov_max = 256};
	struct virtq q;

	if (!d.mem.count)
		driver_open(&d);
	memset(driver_at(&d, 0), 0, FUZZ_MEMORY);
	unsigned flags = (unsigned)fuzz_take(&in, 1);
	chain.iov_max = flags & 4 ? 256 : 3;
	const struct virtq_config config = {
		.size = 1u << fuzz_take(&in, 1) % 9,
		.desc = gpa(0x1000),
		.avail = gpa(0x2000),
		.used = gpa(0x3000),
		.indirect = flags & 1,
		.event_idx = flags & 2,
	};
	invariant(virtq_init(&q, &d.mem, &config) == 0);
	while (in.left) {
		uint64_t at = fuzz_take(&in, 2), len = fuzz_take(&in, 1);
		static const uint64_t bases[] = {0x1000, 0x2000, 0x4000, 0};
		at = bases[at % 4] + at / 4 % 0x1000;
		for (; len-- && in.left; at++)
			*(uint8_t *)driver_at(&d, at) = (uint8_t)fuzz_take(&in, 1);
		if (flags & 8)
			(void)virtq_kick_on(&q);
		for (unsigned i = 0; i < 300 && virtq_pop(&q, &chain) == 1; i++) {
			check_chain(&d, &q, &chain);
			uint8_t bytes[64];
			virtq_write(&chain, at, bytes, virtq_read(&chain, 1, bytes, sizeof(bytes)));
			if (flags & 16 && q.out < q.size)
				continue; /* keep some */
			virtq_push(&q, chain.head, chain.writable_bytes);
		}
		(void)virtq_flush(&q);
		virtq_kick_off(&q);
	}
	return 0;
}
