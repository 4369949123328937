// SPDX-License-Identifier: Apache-2.0
/* disk_io.c - what is left of a request after each attempt, and attempts by system call. */
#include "disk_file.h"

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	RETRIES_MAX = 100, /* EAGAIN without any progress */
	PUNCH = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	ZERO_KEEPING = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
};

/* Not every C library has pwritev2(). */
static ssize_t write_with_flags(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	return flags ? syscall(SYS_pwritev2, fd, iov, count, offset, 0, flags) : pwritev(fd, iov, count, offset);
}

const struct disk_calls disk_system_calls = {preadv, write_with_flags, fdatasync, fallocate};

static bool is_aligned(const struct disk_io *io, uint32_t align)
{
	uint64_t bits = io->offset;

	for (unsigned i = 0; i < io->iov_count; i++)
		bits |= (uintptr_t)io->iov[i].iov_base | io->iov[i].iov_len;
	return bits % align == 0;
}

void disk_io_begin(const struct disk_file *file, struct disk_io *io)
{
	bool moves = io->op == DISK_READ || io->op == DISK_WRITE;

	io->retries = 0;
	io->page_fd = file->page_fd >= 0 ? file->page_fd : file->fd;
	io->fd = moves && !is_aligned(io, file->align_bytes) ? io->page_fd : file->fd;
	io->mode = io->op == DISK_ZERO && io->keep_blocks ? ZERO_KEEPING : PUNCH;
}

/* Takes bytes off the front of the iovec. */
static void consume(struct disk_io *io, uint64_t bytes)
{
	io->offset += bytes;
	io->left -= bytes;
	while (bytes) {
		struct iovec *v = io->iov;
		size_t n = bytes < v->iov_len ? bytes : v->iov_len;
		v->iov_base = (uint8_t *)v->iov_base + n;
		v->iov_len -= n;
		bytes -= n;
		if (!v->iov_len) {
			io->iov++;
			io->iov_count--;
		}
	}
}

int disk_io_next(struct disk_io *io, int64_t result)
{
	if (result == -EINTR || result == -EAGAIN)
		return ++io->retries < RETRIES_MAX ? 1 : -EIO;
	/* Not every file system can write zeros into blocks that stay; holes read the same. */
	if (result == -EOPNOTSUPP && io->op == DISK_ZERO && io->mode == ZERO_KEEPING) {
		io->mode = PUNCH;
		return 1;
	}
	if (result == -EINVAL && io->fd != io->page_fd) {
		io->fd = io->page_fd;
		return 1;
	}
	if (result < 0)
		return (int)result;
	if (io->op != DISK_READ && io->op != DISK_WRITE)
		return 0;
	/* Nothing at all: the file was cut off under us, or the device does not say what is wrong. */
	if (result == 0 || (uint64_t)result > io->left)
		return io->left ? -EIO : 0;
	io->retries = 0;
	io->fd = io->page_fd; /* what is left may not be aligned any more */
	consume(io, (uint64_t)result);
	return io->left ? 1 : 0;
}

int64_t disk_io_attempt(const struct disk_file *file, const struct disk_io *io)
{
	const struct disk_calls *c = file->calls;
	int64_t ret = -1;

	switch (io->op) {
	case DISK_READ:
		ret = c->readv(io->fd, io->iov, (int)io->iov_count, (off_t)io->offset);
		break;
	case DISK_WRITE:
		ret = c->writev(io->fd, io->iov, (int)io->iov_count, (off_t)io->offset, io->dsync ? RWF_DSYNC : 0);
		break;
	case DISK_FLUSH:
		ret = c->sync(io->fd);
		break;
	case DISK_DISCARD:
	case DISK_ZERO:
		ret = c->allocate(io->fd, io->mode, (off_t)io->offset, (off_t)io->left);
		break;
	}
	return ret < 0 ? -errno : ret;
}

int disk_io_run(const struct disk_file *file, struct disk_io *io)
{
	int ret;

	do
		ret = disk_io_next(io, disk_io_attempt(file, io));
	while (ret > 0);
	return ret;
}
