/* SPDX-License-Identifier: Apache-2.0 */
/* blk_bench.c - random reads of 4 KiB, one at a time, the CPU halted until each is there: how long from the
 * notification until after the handler, in ns. requests= how many. ack=1: the handler asks for the reason and
 * acknowledges it, as drivers do that know nothing of edges. */
#include "virtio.h"

enum {
	VECTOR = VIRTIO_VECTOR,
	RANDOM = 4096,
};

static struct blk b;
static uint64_t *sectors;
static volatile uint32_t arrived;

static bool ack;

/* Ring 0 may be slow: only what has to be done. */
static void on_done(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	if (ack)
		virtio_write(&b.v, VIRTIO_INTERRUPT_ACK, virtio_read(&b.v, VIRTIO_INTERRUPT_STATUS));
	arrived++;
	apic_eoi();
}

static uint64_t choose(uint64_t blocks)
{
	uint64_t x = 88172645463325252ull;

	for (unsigned i = 0; i < RANDOM; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sectors[i] = x % blocks * 8;
	}
	return 0;
}

static uint64_t *times;

/* The times, sorted: in ring 3, by the slowest algorithm that is short. */
static uint64_t sort(uint64_t n)
{
	for (uint64_t gap = n / 2; gap; gap /= 2)
		for (uint64_t i = gap; i < n; i++) {
			uint64_t t = times[i], j = i;

			for (; j >= gap && times[j - gap] > t; j -= gap)
				times[j] = times[j - gap];
			times[j] = t;
		}
	return 0;
}

int main(void)
{
	uint32_t n = (uint32_t)param_u64("requests", 1000), i;
	uint64_t start, whole;
	void *data;

	ack = param_u64("ack", 0);
	apic_setup();
	tsc_khz();
	blk_start(&b, 0, 0);
	irq_set(VIRTIO_VECTOR + b.v.slot, on_done);
	data = virtio_alloc(4096, 4096);
	sectors = virtio_alloc(RANDOM * sizeof(*sectors), 8);
	times = virtio_alloc(n * sizeof(*times), 8);
	ring3(choose, blk_sectors(&b) / 8);
	check_eq(blk_request(&b, BLK_IN, 0, data, 4096), BLK_OK);
	halt_until(arrived == 1);
	/* The chain stays in the table: from now on only the sector and the index change. */
	uint16_t head = b.q.avail->ring[(b.q.avail->idx - 1) & (b.q.size - 1)];
	for (i = 0; i < b.q.size; i++)
		b.q.avail->ring[i] = head;
	whole = rdtsc();
	for (i = 0; i < n; i++) {
		b.header->sector = sectors[i % RANDOM];
		start = rdtsc();
		b.q.avail->idx++;
		vq_kick(&b.q);
		halt_until(arrived == i + 2);
		times[i] = rdtsc() - start;
	}
	whole = rdtsc() - whole;
	check_eq(*b.status, BLK_OK);
	ring3(sort, n);
	serial_print("%u reads: median %lu ns, p90 %lu ns, p99 %lu ns, least %lu ns, %lu a second\n", n,
	             tsc_to_ns(times[n / 2]), tsc_to_ns(times[n * 9 / 10]), tsc_to_ns(times[n * 99 / 100]),
	             tsc_to_ns(times[0]), (uint64_t)n * 1000000000 / tsc_to_ns(whole));
	return 0;
}
