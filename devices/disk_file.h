/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_file.h - the host's end of a disk: a raw file or a block device, opened, locked and measured. What is in it is
 * never looked at, so no format is ever guessed.
 *
 * A request goes through disk_io: whoever carries it out, a system call here or io_uring elsewhere, hands each result
 * to disk_io_next(), which knows about short transfers, interruptions and what comes next.
 */
#ifndef LULL_DISK_FILE_H
#define LULL_DISK_FILE_H

#include "disk_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct log;
struct lull_error;

/* The system calls a disk makes, so that tests can make them fail. -1 and errno on failure. */
struct disk_calls {
	ssize_t (*readv)(int fd, const struct iovec *iov, int count, off_t offset);
	ssize_t (*writev)(int fd, const struct iovec *iov, int count, off_t offset, int flags);
	int (*sync)(int fd);
	int (*allocate)(int fd, int mode, off_t offset, off_t bytes);
};

extern const struct disk_calls disk_system_calls;

struct disk_file {
	/* Constant from disk_file_open() on. */
	struct disk_config config;
	const struct log *log;
	const struct disk_calls *calls;
	int fd;
	int page_fd;             /* the same through the page cache, for what is not aligned: with direct; or -1 */
	uint64_t bytes;          /* a multiple of 512 */
	uint32_t block_bytes;    /* logical block */
	uint32_t physical_bytes; /* what the host likes writes to be aligned to */
	uint32_t align_bytes;    /* direct: of memory and offsets */
	bool can_punch;          /* ranges can be given back, and then read as zeros */
	/* Any thread. */
	atomic_ulong requests, errors;
	atomic_ulong inline_done; /* completed by a polling vCPU */
	atomic_bool uses_io_uring;
};

/* spec is the text of `--disk`. Opens, locks and measures; says what is wrong and what to do about it. */
struct disk_file *disk_file_open(const char *spec, const struct log *log, struct lull_error *err);
void disk_file_close(struct disk_file *file); /* NULL is fine */

enum disk_op {
	DISK_READ,
	DISK_WRITE,
	DISK_FLUSH,
	DISK_DISCARD, /* the range may read as anything until it is written */
	DISK_ZERO,    /* the range reads as zeros */
};

/* One request. The iovec is changed as it is worked off. */
struct disk_io {
	enum disk_op op;
	bool dsync;       /* write: on stable storage before it counts as done */
	bool keep_blocks; /* zero: do not give the range back */
	uint8_t retries;
	int fd, page_fd;       /* page_fd: for what direct I/O cannot do */
	int mode;              /* of fallocate() */
	uint64_t offset, left; /* bytes */
	struct iovec *iov;
	unsigned iov_count;
};

/* Chooses fd and mode. */
void disk_io_begin(const struct disk_file *file, struct disk_io *io);
/* What came of the last attempt: a number of bytes, 0 or -errno. 1: attempt what is left; 0: done; -errno: failed. */
int disk_io_next(struct disk_io *io, int64_t result);
/* One attempt, by system call: bytes, 0 or -errno. */
int64_t disk_io_attempt(const struct disk_file *file, const struct disk_io *io);
/* Until it is done: 0 or -errno. */
int disk_io_run(const struct disk_file *file, struct disk_io *io);

#endif
