/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - a file or a piece of memory that is to be put into the guest. Hostile: read with pread, never mapped, so
 * that a file that shrinks meanwhile is an error and not a SIGBUS. */
#ifndef LULL_IMAGE_H
#define LULL_IMAGE_H

#include "guest_mem.h"

struct lull_error;

struct image {
	const char *name; /* for messages; the caller keeps it */
	int fd;           /* -1: data */
	const uint8_t *data;
	uint64_t size;
};

/* Regular files (and block devices) only; empty ones are refused. what is "kernel", "initrd"... for messages. */
int image_open(struct image *img, const char *what, const char *path, struct lull_error *err);
void image_from_memory(struct image *img, const char *name, const void *data, uint64_t size);
void image_close(struct image *img);

/* Exactly len bytes at off, else -ENODATA (beyond the end, or the file shrank) or another -errno. */
int image_read(const struct image *img, uint64_t off, void *dst, uint64_t len);
/* The same into guest memory: -EFAULT when [addr, addr+len) is not RAM. */
int image_read_guest(const struct image *img, uint64_t off, uint64_t len, struct guest_mem *mem, gpa_t addr);

#endif
