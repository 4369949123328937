// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_blk.c - a disk under any sequence of accesses, by system calls or by io_uring. */
#include "fuzz_virtio.h"

#include "disk_file.h"
#include "virtio_blk.h"

#include <linux/virtio_blk.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	DISK_BYTES = 1 << 18,
};

static const char *const more[] = {"", ",ro", ",queues=3"};

static struct disk_file *open_disk(unsigned how)
{
	static struct disk_file *files[2 * ARRAY_SIZE(more)];
	char spec[128];

	how %= ARRAY_SIZE(files);
	if (!files[how]) {
		int fd = memfd_create("disk", MFD_CLOEXEC);
		invariant(fd >= 0 && ftruncate(fd, DISK_BYTES) == 0);
		snprintf(spec, sizeof(spec), "path=/proc/self/fd/%d,engine=%s%s", fd, how & 1 ? "io_uring" : "sync",
		         more[how / 2]);
		files[how] = disk_file_open(spec, NULL, NULL);
		invariant(files[how]);
	}
	return files[how];
}

/* A request as a driver makes it, of any type, place and length. */
static void request(struct fuzz_rig *f, struct fuzz_input *in)
{
	static const uint8_t types[] = {VIRTIO_BLK_T_IN,     VIRTIO_BLK_T_OUT,     VIRTIO_BLK_T_FLUSH,
	                                VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_WRITE_ZEROES};
	struct driver_ring *r = &f->rings[fuzz_take(in, 1) % f->queues];
	uint64_t word = fuzz_take(in, 2);
	struct virtio_blk_outhdr h = {.type = types[word % ARRAY_SIZE(types)], .sector = fuzz_take(in, word >> 8 & 7)};
	bool in_data = h.type == VIRTIO_BLK_T_IN || h.type == VIRTIO_BLK_T_GET_ID;
	const uint64_t header = FUZZ_BUFFERS + 0x8000, status = FUZZ_BUFFERS + 0x9000;
	const struct driver_buf bufs[] = {
		{header, 16, false},
		{FUZZ_BUFFERS + word % 64 * 512, (uint32_t)(1 + word % 9) << word % 12, in_data},
		{status, 1, true}};

	if (!r->desc)
		return;
	memcpy(driver_at(&f->d, header), &h, sizeof(h));
	driver_chain(r, bufs, ARRAY_SIZE(bufs));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};
	/* Rings cost time to make: one run of eight has them. */
	unsigned how = (unsigned)fuzz_take(&in, 1), kind = how / 8 % ARRAY_SIZE(more) * 2 + (how % 8 == 7);

	fuzz_open(&f, virtio_blk_create(open_disk(kind), NULL), NULL);
	const struct poll_hook hook = virtio_blk_poll_hook(f.dev);
	while (in.left) {
		switch (fuzz_step(&f, &in)) {
		case 11:
		case 12:
		case 13:
			request(&f, &in);
			break;
		case 14:
			hook.enter(hook.ctx);
			hook.poll(hook.ctx);
			hook.leave(hook.ctx);
			break;
		}
	}
	fuzz_close(&f);
	return 0;
}
