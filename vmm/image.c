/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - bounded reads from a file or from memory. Knows no format. */
#include "image.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_MAX MiB(256) /* one pread cannot do more than 2 GiB */

static const char *refused_kind(mode_t mode)
{
	if (S_ISREG(mode) || S_ISBLK(mode))
		return NULL;
	if (S_ISDIR(mode))
		return "a directory";
	if (S_ISFIFO(mode))
		return "a fifo";
	if (S_ISSOCK(mode))
		return "a socket";
	return "a character device";
}

static int check_kind(mode_t mode, const char *what, const char *path, struct lull_error *err)
{
	const char *kind = refused_kind(mode);
	if (kind == NULL)
		return 0;
	error_set(err, -EINVAL, "is %s: give a regular file", kind);
	return error_wrap(err, -EINVAL, "%s %s", what, path);
}

static int open_failed(struct lull_error *err, int code, const char *what, const char *path)
{
	error_sys(err, code, "cannot open it");
	return error_wrap(err, code, "%s %s", what, path);
}

int image_open(struct image *img, const char *what, const char *path, struct lull_error *err)
{
	*img = (struct image){.name = path, .fd = -1};
	if (path[0] == '\0')
		return error_set(err, -ENOENT, "%s: the file name is empty", what);
	/* Looked at before it is opened: opening a device can have effects, opening a fifo can wait. */
	struct stat st;
	if (stat(path, &st) != 0)
		return open_failed(err, -errno, what, path);
	int ret = check_kind(st.st_mode, what, path, err);
	if (ret != 0)
		return ret;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return open_failed(err, -errno, what, path);
	off_t end = 0;
	if (fstat(fd, &st) != 0)
		ret = open_failed(err, -errno, what, path);
	else
		ret = check_kind(st.st_mode, what, path, err);
	if (ret == 0 && (end = lseek(fd, 0, SEEK_END)) < 0)
		ret = open_failed(err, -errno, what, path);
	if (ret == 0 && end == 0) {
		error_set(err, -EINVAL, "is empty");
		ret = error_wrap(err, -EINVAL, "%s %s", what, path);
	}
	if (ret != 0) {
		close(fd);
		return ret;
	}
	img->fd = fd;
	img->size = (uint64_t)end;
	return 0;
}

void image_from_memory(struct image *img, const char *name, const void *data, uint64_t size)
{
	*img = (struct image){.name = name, .fd = -1, .data = data, .size = size};
}

void image_close(struct image *img)
{
	if (img->fd >= 0)
		close(img->fd);
	*img = (struct image){.fd = -1};
}

int image_read(const struct image *img, uint64_t off, void *dst, uint64_t len)
{
	if (off > img->size || len > img->size - off)
		return -ENODATA;
	if (len != 0 && img->fd < 0)
		memcpy(dst, img->data + off, len);
	uint8_t *to = dst;
	while (len != 0 && img->fd >= 0) {
		ssize_t got = pread(img->fd, to, len < READ_MAX ? len : READ_MAX, (off_t)off);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA; /* it shrank since it was opened */
		to += got;
		off += (uint64_t)got;
		len -= (uint64_t)got;
	}
	return 0;
}

int image_read_guest(const struct image *img, uint64_t off, uint64_t len, struct guest_mem *mem, gpa_t addr)
{
	if (len == 0)
		return 0;
	void *dst = guest_mem_at(mem, addr, len);
	if (dst == NULL)
		return -EFAULT;
	return image_read(img, off, dst, len);
}
