// SPDX-License-Identifier: Apache-2.0
/* disk_file.c - opens, locks and measures the file behind a disk. Knows nothing of virtio. */
#include "disk_file.h"

#include "disk_lock.h"
#include "error.h"
#include "log.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SECTOR_BYTES 512u

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "a directory";
	case S_IFCHR:
		return "a character device";
	case S_IFIFO:
		return "a pipe";
	case S_IFSOCK:
		return "a socket";
	default:
		return "something odd";
	}
}

static int open_failed(const struct disk_config *c, int code, struct lull_error *err)
{
	if (code == -EBUSY)
		return error_set(err, code, "disk %s: the host uses it itself; is it mounted?", c->path);
	if (code == -EINVAL && c->direct)
		return error_set(err, code, "disk %s: its file system has no direct I/O; leave out direct", c->path);
	if (!c->read_only && (code == -EACCES || code == -EROFS || code == -EPERM))
		return error_sys(err, code, "disk %s: cannot be opened for writing (add ,ro to only read it)", c->path);
	return error_sys(err, code, "disk %s", c->path);
}

/* Non-blocking until it is known not to be a pipe; such a flag would make io_uring give up early. */
static int open_path(const struct disk_config *c, int more, struct stat *st, struct lull_error *err)
{
	int flags = (c->read_only ? O_RDONLY : O_RDWR) | more;
	int fd = open(c->path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return open_failed(c, -errno, err);
	if (fstat(fd, st) < 0 || fcntl(fd, F_SETFL, flags & O_DIRECT) < 0) {
		int code = -errno;
		close(fd);
		return error_sys(err, code, "disk %s", c->path);
	}
	if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode)) {
		close(fd);
		return error_set(err, -EINVAL, "disk %s: it is %s; give a file or a block device", c->path,
		                 kind_of(st->st_mode));
	}
	return fd;
}

/* ------------------------------------------------------------------------------------- measuring */

/* What the kernel's struct statx has at these offsets; C libraries lag behind. */
enum {
	STATX_BYTES = 256,
	STATX_WANT_DIOALIGN = 0x2000,
	STATX_MEM_ALIGN = 152,
	STATX_OFFSET_ALIGN = 156,
};

/* What memory and offsets must be aligned to for O_DIRECT; the larger of the two, since both come from the guest. */
static uint32_t direct_align(int fd, uint32_t otherwise)
{
	uint8_t stx[STATX_BYTES] = {0};
	uint32_t mask, mem, offset;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_WANT_DIOALIGN, stx) < 0)
		return otherwise;
	memcpy(&mask, stx, sizeof(mask));
	memcpy(&mem, stx + STATX_MEM_ALIGN, sizeof(mem));
	memcpy(&offset, stx + STATX_OFFSET_ALIGN, sizeof(offset));
	uint32_t align = mem > offset ? mem : offset;
	return (mask & STATX_WANT_DIOALIGN) && align ? align : otherwise;
}

/* A number that sysfs has about the queue of a block device or of the disk that a partition is on. 0: not known. */
static uint64_t queue_limit(dev_t dev, const char *name)
{
	static const char *const where[] = {"queue", "../queue"};
	unsigned long long value = 0;
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(dev), minor(dev), where[i], name);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%llu", &value) != 1)
			value = 0;
		fclose(f);
		break;
	}
	return value;
}

static int measure_device(struct disk_file *file, const struct stat *st, struct lull_error *err)
{
	int logical = 0;
	unsigned physical = 0;

	if (ioctl(file->fd, BLKGETSIZE64, &file->bytes) < 0 || ioctl(file->fd, BLKSSZGET, &logical) < 0)
		return error_sys(err, -errno, "disk %s: its size cannot be read", file->config.path);
	file->block_bytes = logical > 0 ? (uint32_t)logical : SECTOR_BYTES;
	if (ioctl(file->fd, BLKPBSZGET, &physical) < 0 || physical < file->block_bytes)
		physical = file->block_bytes;
	file->physical_bytes = physical;
	file->align_bytes = direct_align(file->fd, file->block_bytes);
	/* fallocate() on a device works where the device can write zeros by itself. */
	file->can_punch = !file->config.read_only && queue_limit(st->st_rdev, "write_zeroes_max_bytes") > 0;
	return 0;
}

static void measure_regular(struct disk_file *file, const struct stat *st)
{
	file->bytes = (uint64_t)st->st_size;
	file->block_bytes = SECTOR_BYTES;
	file->physical_bytes = st->st_blksize >= 512 && st->st_blksize <= 65536 ? (uint32_t)st->st_blksize : 4096;
	file->align_bytes = direct_align(file->fd, file->physical_bytes);
	/* Behind the end there is nothing to take away, so asking does no harm. */
	file->can_punch = !file->config.read_only &&
	                  fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, st->st_size, 4096) == 0;
}

static int measure(struct disk_file *file, const struct stat *st, struct lull_error *err)
{
	const char *path = file->config.path;
	int ret = 0;

	if (S_ISBLK(st->st_mode))
		ret = measure_device(file, st, err);
	else
		measure_regular(file, st);
	if (ret < 0)
		return ret;
	if (!file->bytes)
		return error_set(err, -EINVAL,
		                 "disk %s: it is empty; make it as large as the disk shall be (truncate -s 1G)", path);
	if (file->bytes % SECTOR_BYTES)
		return error_set(err, -EINVAL,
		                 "disk %s: its %llu bytes are not a multiple of 512, so it is no raw disk image, or a "
		                 "damaged one",
		                 path, (unsigned long long)file->bytes);
	return 0;
}

/* -------------------------------------------------------------------------------------------- life */

static int open_file(struct disk_file *file, const char *spec, struct lull_error *err)
{
	struct stat st = {0};
	int ret = disk_config_parse(&file->config, spec, err);

	if (ret < 0)
		return ret;
	file->fd = open_path(&file->config, file->config.direct ? O_DIRECT : 0, &st, err);
	if (file->fd < 0)
		return file->fd;
	ret = disk_lock(file->fd, &file->config, file->log, err);
	if (ret == 0)
		ret = measure(file, &st, err);
	/* A device is claimed, so that the host cannot mount it meanwhile, nor has. */
	bool claim = S_ISBLK(st.st_mode) && !file->config.read_only;
	if (ret == 0 && (file->config.direct || claim)) {
		struct stat again = {0};
		file->page_fd = open_path(&file->config, claim ? O_EXCL : 0, &again, err);
		if (file->page_fd < 0)
			return file->page_fd;
		if (again.st_dev != st.st_dev || again.st_ino != st.st_ino)
			return error_set(err, -EBUSY, "disk %s: it was replaced while it was opened",
			                 file->config.path);
	}
	return ret;
}

struct disk_file *disk_file_open(const char *spec, const struct log *log, struct lull_error *err)
{
	struct disk_file *file = calloc(1, sizeof(*file));

	if (!file) {
		error_set(err, -ENOMEM, "disk: out of memory");
		return NULL;
	}
	file->fd = file->page_fd = -1;
	file->log = log;
	file->calls = &disk_system_calls;
	if (open_file(file, spec, err) < 0) {
		disk_file_close(file);
		return NULL;
	}
	return file;
}

void disk_file_close(struct disk_file *file)
{
	if (!file)
		return;
	if (file->page_fd >= 0)
		close(file->page_fd);
	if (file->fd >= 0)
		close(file->fd);
	disk_config_free(&file->config);
	free(file);
}
