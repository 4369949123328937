// SPDX-License-Identifier: Apache-2.0
/* disk_ring.c - io_uring for a disk. Knows nothing of virtio. */
#include "disk_ring.h"

#include "util.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Does the kernel pass a full barrier between publishing a completion and looking at the flag? */
static bool kernel_has_barrier(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 6));
}

static bool register_membarrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int disk_ring_open(struct disk_ring *r, unsigned entries)
{
	int ret = io_uring_queue_init(entries, &r->ring, 0);

	if (ret < 0)
		return ret;
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Files are not registered: the kernel lets go of a ring some time after its process, and of registered files
	 * with it, so that a disk would stay locked when its VM has gone. */
	ret = r->event_fd < 0 ? -errno : io_uring_register_eventfd(&r->ring, r->event_fd);
	/* Without this feature the vectors of a request would have to outlive its submission; they do, but who tests
	 * such kernels? */
	if (ret == 0 && (!(r->ring.features & IORING_FEAT_SUBMIT_STABLE) || !(r->ring.features & IORING_FEAT_NODROP)))
		ret = -ENOSYS;
	if (ret < 0) {
		if (r->event_fd >= 0)
			close(r->event_fd);
		io_uring_queue_exit(&r->ring);
		return ret;
	}
	r->needs_membarrier = !kernel_has_barrier();
	r->can_quiet = r->ring.cq.kflags && (!r->needs_membarrier || register_membarrier());
	atomic_store(&r->usable, true);
	return 0;
}

void disk_ring_close(struct disk_ring *r)
{
	if (!atomic_load(&r->usable))
		return;
	atomic_store(&r->usable, false);
	io_uring_queue_exit(&r->ring);
	close(r->event_fd);
}

static void prepare(struct io_uring_sqe *sqe, const struct disk_io *io)
{
	int fd = io->fd;
	const struct iovec *v = io->iov;

	switch (io->op) {
	case DISK_READ:
		if (io->iov_count == 1)
			io_uring_prep_read(sqe, fd, v->iov_base, (unsigned)v->iov_len, io->offset);
		else
			io_uring_prep_readv(sqe, fd, v, io->iov_count, io->offset);
		break;
	case DISK_WRITE:
		if (io->iov_count == 1)
			io_uring_prep_write(sqe, fd, v->iov_base, (unsigned)v->iov_len, io->offset);
		else
			io_uring_prep_writev(sqe, fd, v, io->iov_count, io->offset);
		sqe->rw_flags = io->dsync ? RWF_DSYNC : 0;
		break;
	case DISK_FLUSH:
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
		break;
	case DISK_DISCARD:
	case DISK_ZERO:
		io_uring_prep_fallocate(sqe, fd, io->mode, (off_t)io->offset, (off_t)io->left);
		break;
	}
}

void disk_ring_add(struct disk_ring *r, const struct disk_io *io, void *tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	invariant(sqe);
	prepare(sqe, io);
	io_uring_sqe_set_data(sqe, tag);
}

int disk_ring_submit(struct disk_ring *r)
{
	while (io_uring_sq_ready(&r->ring)) {
		int ret = io_uring_submit(&r->ring);
		if (ret == -EINTR)
			continue;
		if (ret <= 0)
			return -EAGAIN;
	}
	return 0;
}

bool disk_ring_take(struct disk_ring *r, void **tag, int *result)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&r->ring, &cqe) != 0 || !cqe)
		return false;
	*tag = io_uring_cqe_get_data(cqe);
	*result = cqe->res;
	io_uring_cqe_seen(&r->ring, cqe);
	return true;
}

void disk_ring_wait(struct disk_ring *r)
{
	struct io_uring_cqe *cqe;

	(void)io_uring_wait_cqe(&r->ring, &cqe); /* EINTR: the caller looks again anyway */
}

/* ------------------------------------------------------------------------------- without the lock */

bool disk_ring_peek(const struct disk_ring *r)
{
	return atomic_load_explicit(&r->usable, memory_order_acquire) &&
	       __atomic_load_n(r->ring.cq.ktail, __ATOMIC_ACQUIRE) !=
	               __atomic_load_n(r->ring.cq.khead, __ATOMIC_RELAXED);
}

bool disk_ring_watch(const struct disk_ring *r, struct wake_watch *watch)
{
	if (!atomic_load_explicit(&r->usable, memory_order_acquire))
		return false;
	/* What was taken: a completion that was not is a changed word. */
	*watch = (struct wake_watch){r->ring.cq.ktail, __atomic_load_n(r->ring.cq.khead, __ATOMIC_RELAXED)};
	return true;
}

void disk_ring_quiet(struct disk_ring *r)
{
	if (atomic_fetch_add(&r->pollers, 1) == 0 && atomic_load(&r->usable) && r->can_quiet)
		__atomic_store_n(r->ring.cq.kflags, IORING_CQ_EVENTFD_DISABLED, __ATOMIC_RELAXED);
}

void disk_ring_loud(struct disk_ring *r, bool in_flight)
{
	if (atomic_fetch_sub(&r->pollers, 1) != 1 || !atomic_load(&r->usable) || !r->can_quiet)
		return;
	__atomic_store_n(r->ring.cq.kflags, 0, __ATOMIC_SEQ_CST);
	if (in_flight && r->needs_membarrier)
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
