/* SPDX-License-Identifier: Apache-2.0 */
/* balloon.c - fills memory, gives it up, takes it back, reports it as free, and says at each step where it is, by the
 * port 0x5000, which need not be there. live=1: the host moves the target, first to what size= says, then to 0. */
#include "virtio.h"

enum {
	BALLOON = 5,
	INFLATE = 0,
	DEFLATE = 1,
	STATS = 2,
	REPORTS = 4,
	PORT = 0x5000,
	PAGE = 4096,
	LIST = 256,
	WORDS = PAGE / 8,
};
#define F_STATS    (1ull << 1)
#define F_REPORTS  (1ull << 5)
#define POOL       (32ull << 20)
#define POOL_PAGES 4096u
#define HUGE_PAGE  (2u << 20)

enum step {
	FILLED = 1,
	GIVEN_UP,
	TAKEN_BACK,
	REPORTED,
	TOLD, /* statistics, twice */
};

static struct virtio v;
static struct vq inflate, deflate, stats, reports;
static uint32_t *list;
static volatile uint8_t *figures;

static uint32_t target(void)
{
	return virtio_read(&v, VIRTIO_CONFIG);
}

/* First and last word of each page of the pool from one to before another. In ring 3. */
static uint64_t fill(uint64_t range)
{
	for (uint64_t page = range & 0xffff; page < range >> 16; page++) {
		volatile uint64_t *at = (uint64_t *)(POOL + page * PAGE);
		at[0] = at[WORDS - 1] = 0x5555000000000000 | page;
	}
	return 0;
}

static uint64_t count_zero(uint64_t range)
{
	uint64_t n = 0;

	for (uint64_t page = range & 0xffff; page < range >> 16; page++) {
		volatile uint64_t *at = (uint64_t *)(POOL + page * PAGE);
		n += !at[0] && !at[WORDS - 1];
		if (at[0] && (at[0] != (0x5555000000000000 | page) || at[WORDS - 1] != at[0]))
			return ~0ull;
	}
	return n;
}

static uint64_t range(uint64_t first, uint64_t end)
{
	return end << 16 | first;
}

/* The first count pages of the pool, the last one first. */
static void tell(struct vq *q, unsigned count)
{
	for (unsigned done = 0; done < count;) {
		unsigned n = count - done < LIST ? count - done : LIST;

		for (unsigned i = 0; i < n; i++)
			list[i] = (uint32_t)(POOL / PAGE) + count - 1 - done - i;
		vq_add(q, &(struct vq_buf){list, n * 4}, 1, 0);
		vq_kick(q);
		check_eq(vq_wait(q), 0);
		done += n;
	}
	mmio_write(v.base + VIRTIO_CONFIG + 4, q == &inflate ? count : 0);
}

static void put_figure(unsigned n, uint16_t tag, uint64_t value)
{
	for (unsigned i = 0; i < 2; i++)
		figures[n * 10 + i] = (uint8_t)(tag >> 8 * i);
	for (unsigned i = 0; i < 8; i++)
		figures[n * 10 + 2 + i] = (uint8_t)(value >> 8 * i);
}

static void tell_figures(uint64_t n)
{
	put_figure(0, 4, 1000 * n); /* free */
	put_figure(1, 5, 1000 * n + 1);
	vq_add(&stats, &(struct vq_buf){figures, 20}, 1, 0);
	vq_kick(&stats);
}

/* What is not to be had: low memory, no memory, devices. The list alone must come back. */
static void name_what_is_not_ours(void)
{
	volatile uint64_t *low = (uint64_t *)0x50000;

	*low = 0x1234;
	for (unsigned i = 0; i < 240; i++)
		list[i] = i;
	list[240] = (uint32_t)(param_u64("mem", 64) << 20 >> 12);
	list[241] = VIRTIO_BASE >> 12;
	list[242] = (uint32_t)(XAPIC_BASE >> 12);
	list[243] = 0xffffffff;
	list[244] = 0x80000000;
	vq_add(&inflate, &(struct vq_buf){list, 245 * 4}, 1, 0);
	vq_kick(&inflate);
	vq_wait(&inflate);
	check_eq(*low, 0x1234);
}

static void start(void)
{
	if (!virtio_find(&v, BALLOON, 0))
		skip("no balloon");
	virtio_begin(&v, F_STATS | F_REPORTS);
	check_eq(v.features & (F_STATS | F_REPORTS), F_STATS | F_REPORTS);
	vq_setup(&inflate, &v, INFLATE, 16);
	vq_setup(&deflate, &v, DEFLATE, 16);
	vq_setup(&stats, &v, STATS, 16);
	vq_setup(&reports, &v, REPORTS, 16);
	list = virtio_alloc(LIST * 4, PAGE);
	figures = virtio_alloc(20, 1);
	virtio_ready(&v);
}

int main(void)
{
	const uint32_t pages = (uint32_t)(param_u64("size", 8) << 8);
	const bool live = param_u64("live", 0);

	apic_setup();
	start();
	name_what_is_not_ours();
	tell_figures(1);
	ring3(fill, range(0, POOL_PAGES));
	out32(PORT, FILLED);

	halt_until(target() == pages);
	tell(&inflate, pages);
	out32(PORT, GIVEN_UP);

	if (live)
		halt_until(target() == 0);
	tell(&deflate, pages);
	check_eq(ring3(count_zero, range(0, POOL_PAGES)), pages);
	ring3(fill, range(0, POOL_PAGES));
	check_eq(ring3(count_zero, range(0, POOL_PAGES)), 0);
	out32(PORT, TAKEN_BACK);

	struct vq_buf bufs[8];
	for (unsigned i = 0; i < 8; i++)
		bufs[i] = (struct vq_buf){(void *)(POOL + (uint64_t)i * HUGE_PAGE), HUGE_PAGE};
	vq_add(&reports, bufs, 0, 8);
	vq_kick(&reports);
	vq_wait(&reports);
	out32(PORT, REPORTED);
	check_eq(ring3(count_zero, range(0, POOL_PAGES)), POOL_PAGES);
	ring3(fill, range(0, POOL_PAGES));

	vq_wait(&stats);
	tell_figures(2);
	out32(PORT, TOLD);
	return 0;
}
