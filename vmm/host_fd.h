/* SPDX-License-Identifier: Apache-2.0 */
/* host_fd.h - one direction of a host descriptor, used without blocking, without a signal and without a change that
 * others who share its open file description could see. Knows nothing of what the bytes mean. */
#ifndef LULL_HOST_FD_H
#define LULL_HOST_FD_H

#include "event_loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_fd {
	struct event_source src; /* src.fd is our own descriptor, or -1 */
	uint32_t events;         /* what the loop waits for */
	size_t write_max;        /* 0: any; else what a write takes for sure once poll() says writable */
	bool is_socket, may_block;
	bool is_file; /* errors pass: a full disk may get room again */
};

void host_fd_init(struct host_fd *host, void (*fn)(void *ctx, uint32_t events), void *ctx);
/* Takes over a descriptor that is ours alone and O_NONBLOCK. */
void host_fd_adopt(struct host_fd *host, int fd);
/* Makes our own descriptor for fd, which stays the caller's. */
int host_fd_borrow(struct host_fd *host, int fd, bool for_writing);
void host_fd_close(struct host_fd *host, struct event_loop *loop); /* loop may be NULL */

/* Bytes moved, 0 at the end of the input, or -errno: -EAGAIN means wait. -EPIPE and -EFBIG come without their signals.
 */
ssize_t host_fd_read(const struct host_fd *host, void *data, size_t len);
ssize_t host_fd_write(const struct host_fd *host, const void *data, size_t len);

/* Tells the loop what to wait for. -EPERM: this descriptor never makes anybody wait. */
int host_fd_wait(struct host_fd *host, struct event_loop *loop, uint32_t events);

#endif
