/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.c - epoll, one event per wait: there is no batch in which a callback could remove a source whose event was
 * already fetched. epoll hands out ready descriptors in turn, so nobody starves. Knows nothing of what the descriptors
 * are. */
#include "event_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void drain_wake(void *ctx, uint32_t events)
{
	const struct event_loop *loop = ctx;
	uint64_t count;

	(void)events;
	(void)!read(loop->wake_fd, &count, sizeof(count)); /* EAGAIN: nothing to drain */
}

int event_loop_init(struct event_loop *loop)
{
	int ret;

	memset(loop, 0, sizeof(*loop));
	loop->wake_fd = -1;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0) {
		ret = -errno;
		goto undo;
	}
	loop->wake = (struct event_source){.fd = loop->wake_fd, .fn = drain_wake, .ctx = loop};
	ret = event_loop_set(loop, &loop->wake, EPOLLIN);
	if (ret == 0)
		return 0;
undo:
	event_loop_fini(loop);
	return ret;
}

void event_loop_fini(struct event_loop *loop)
{
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	loop->wake_fd = loop->epoll_fd = -1;
}

int event_loop_set(struct event_loop *loop, struct event_source *src, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = src};
	bool was_added = src->added;
	int op = !events ? EPOLL_CTL_DEL : was_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (!events && !was_added)
		return 0;
	src->added = events != 0; /* before: the callback may run, and remove it, before epoll_ctl() returns */
	if (epoll_ctl(loop->epoll_fd, op, src->fd, &event) == 0)
		return 0;
	src->added = was_added;
	return -errno;
}

void event_loop_run(struct event_loop *loop)
{
	struct epoll_event event;

	while (!atomic_exchange(&loop->stop, false)) {
		if (epoll_wait(loop->epoll_fd, &event, 1, -1) != 1)
			continue; /* EINTR: a signal of the application's */
		const struct event_source *src = event.data.ptr;
		src->fn(src->ctx, event.events);
	}
}

void event_loop_stop(struct event_loop *loop)
{
	uint64_t one = 1;

	atomic_store(&loop->stop, true);
	(void)!write(loop->wake_fd, &one, sizeof(one)); /* EAGAIN: it is about to wake anyway */
}
