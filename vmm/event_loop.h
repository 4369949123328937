/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.h - the I/O thread's loop: descriptors to callbacks, by epoll. Sleeps until something happens. */
#ifndef LULL_EVENT_LOOP_H
#define LULL_EVENT_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct event_source {
	int fd;
	void (*fn)(void *ctx, uint32_t events); /* EPOLL* bits; on the loop's thread */
	void *ctx;
	bool added; /* the loop's */
};

struct event_loop {
	int epoll_fd, wake_fd;
	atomic_bool stop;
	struct event_source wake;
};

int event_loop_init(struct event_loop *loop);
void event_loop_fini(struct event_loop *loop);

/* Any thread, but one at a time for one source. events are EPOLLIN, EPOLLOUT...; 0 removes the descriptor from the set,
 * which must happen before it is closed. EPOLLHUP and EPOLLERR come unasked. -EPERM: the descriptor cannot be waited
 * for (a regular file). Removed on the loop's thread, also from another source's callback, fn is not called again;
 * after a removal on another thread it may still be running. */
int event_loop_set(struct event_loop *loop, struct event_source *src, uint32_t events);

void event_loop_run(struct event_loop *loop);  /* until event_loop_stop(), also one that came before it */
void event_loop_stop(struct event_loop *loop); /* any thread */

#endif
