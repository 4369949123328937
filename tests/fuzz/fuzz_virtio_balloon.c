// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_balloon.c - a balloon under any sequence of accesses. It may take all but the first pages of RAM, also
 * the memory that rings and lists are in, and nothing else: each madvise() is looked at. */
#include "fuzz_virtio.h"

#include "balloon_host.h"
#include "virtio_balloon.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	FLOOR = 0x3000, /* in the middle of the rings */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In front of the C library's. */
int madvise(void *at, size_t bytes, int advice)
{
	if (advice == MADV_DONTNEED) {
		const struct guest_mem *mem = &fuzz_memory()->mem;
		uint64_t offset = (uint64_t)((uint8_t *)at - mem->regions[0].hva);
		invariant(bytes && offset % BALLOON_PAGE == 0 && bytes % BALLOON_PAGE == 0);
		invariant(offset >= FLOOR && offset < DRIVER_RAM && bytes <= DRIVER_RAM - offset);
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* A list of page numbers of all kinds, as a driver would send it. */
static void offer_pages(struct fuzz_rig *f, struct fuzz_input *in, unsigned queue)
{
	uint32_t count = 1 + (uint32_t)fuzz_take(in, 1) * 3, first = (uint32_t)fuzz_take(in, 2),
		 step = 1 + fuzz_take(in, 1) % 5;
	uint32_t *list = driver_at(&f->d, FUZZ_BUFFERS);
	const struct driver_buf buf = {FUZZ_BUFFERS, count * 4, false};

	if (!f->rings[queue].desc)
		return;
	for (uint32_t i = 0; i < count; i++)
		list[i] = first + i * step;
	driver_chain(&f->rings[queue], &buf, 1);
	driver_kick(&f->d, queue);
}

/* Buffers of whole pages and of parts. */
static void report_pages(struct fuzz_rig *f, struct fuzz_input *in)
{
	struct driver_ring *r = &f->rings[2 + fuzz_take(in, 1) % 2];
	struct driver_buf bufs[4];

	if (!r->desc)
		return;
	for (unsigned i = 0; i < 4; i++)
		bufs[i] = (struct driver_buf){fuzz_take(in, 3) & ~(uint64_t)(fuzz_take(in, 1) & 1 ? 0 : 0xfff),
		                              1 + (uint32_t)fuzz_take(in, 3), true};
	driver_chain(r, bufs, 1 + (unsigned)fuzz_take(in, 1) % 4);
	driver_kick(&f->d, 2);
	driver_kick(&f->d, 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const specs[] = {"on", "size=1M,stats=1", "deflate-on-oom", "free-page-reporting,stats=1"};
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};
	struct balloon_host *host = balloon_host_open(specs[fuzz_take(&in, 1) % ARRAY_SIZE(specs)], DRIVER_RAM, NULL);

	invariant(host && event_loop_init(&f.loop) == 0);
	fuzz_open(&f, virtio_balloon_create(host, &fuzz_memory()->mem, FLOOR, &f.loop), &f.loop);
	while (in.left) {
		switch (fuzz_step(&f, &in)) {
		case 11:
		case 12:
			fuzz_loop(&f, 8);
			break;
		case 13:
			report_pages(&f, &in);
			break;
		case 14:
			balloon_host_set_target(host, fuzz_take(&in, 2) * BALLOON_PAGE, NULL);
			virtio_balloon_retarget(f.dev);
			break;
		case 15:
			offer_pages(&f, &in, (unsigned)fuzz_take(&in, 1) % 2);
			break;
		}
	}
	fuzz_loop(&f, 8);
	fuzz_close(&f);
	balloon_host_close(host);
	event_loop_fini(&f.loop);
	return 0;
}
