/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll_hook.h - how a vCPU that polls in a halt completes the I/O of devices itself, instead of waking the I/O thread
 * for it; and how one that sleeps does so with its own requests, which the kernel wakes it for.
 *
 *     poll_hooks_enter(hooks);           // the I/O thread is not woken from here on
 *     while (polling)
 *             poll_hooks_poll(hooks);    // true: completed something; an interrupt may be pending now
 *     poll_hooks_leave(hooks);           // the I/O thread is woken again from here on; true: as above
 *     wake_block(...)                    // with a ticket from before enter
 *
 * Nothing is lost in between: leave() first allows the wake-up of the I/O thread and looks at the completions after
 * that, while the host posts a completion first and looks at the permission after that. One of the two sees the other.
 * What leave() completes is announced as any interrupt is, so the vCPU's ticket is stale and wake_block() returns at
 * once.
 *
 * Any number of vCPUs may be between enter and leave; the last one to leave gives the permission back. None of these
 * calls blocks for long: poll(), which may also be called without the other two, does not wait for a lock that another
 * completer holds; leave() waits for one that is held for the time of a submission.
 */
#ifndef LULL_POLL_HOOK_H
#define LULL_POLL_HOOK_H

#include "wake.h"

#include <stdbool.h>
#include <stddef.h>

struct poll_hook {
	void (*enter)(void *ctx);
	bool (*poll)(void *ctx);          /* a few loads when there is nothing; true: completed something */
	bool (*leave)(void *ctx);         /* true: completed something */
	unsigned (*in_flight)(void *ctx); /* requests that the host has not answered yet; a snapshot */
	/* Words that change when a request of this thread is answered, as for wake_block_watching(), with the values
	 * from before poll() looked last; how many, at most room. */
	unsigned (*watch)(void *ctx, struct wake_watch *watch, unsigned room);
	void *ctx;
};

#ifndef POLL_HOOKS_MAX
#define POLL_HOOKS_MAX 16 /* 0, for a benchmark: all completions come through the I/O thread */
#endif

/* Of one VM. Filled when the machine is built, constant while vCPUs run. */
struct poll_hooks {
	unsigned count;
	struct poll_hook hooks[POLL_HOOKS_MAX];
};

/* False: the table is full, and the device's completions come through the I/O thread only. */
static inline bool poll_hooks_add(struct poll_hooks *h, const struct poll_hook *hook)
{
	if (h->count == POLL_HOOKS_MAX)
		return false;
	h->hooks[h->count++] = *hook;
	return true;
}

static inline void poll_hooks_enter(const struct poll_hooks *h)
{
	for (unsigned i = 0; i < h->count; i++)
		h->hooks[i].enter(h->hooks[i].ctx);
}

static inline bool poll_hooks_poll(const struct poll_hooks *h)
{
	bool done = false;
	for (unsigned i = 0; i < h->count; i++)
		done |= h->hooks[i].poll(h->hooks[i].ctx);
	return done;
}

static inline bool poll_hooks_leave(const struct poll_hooks *h)
{
	bool done = false;
	for (unsigned i = 0; i < h->count; i++)
		done |= h->hooks[i].leave(h->hooks[i].ctx);
	return done;
}

static inline unsigned poll_hooks_watch(const struct poll_hooks *h, struct wake_watch *watch, unsigned room)
{
	unsigned n = 0;
	for (unsigned i = 0; i < h->count; i++)
		n += h->hooks[i].watch(h->hooks[i].ctx, watch + n, room - n);
	return n;
}

static inline unsigned poll_hooks_in_flight(const struct poll_hooks *h)
{
	unsigned n = 0;
	for (unsigned i = 0; i < h->count; i++)
		n += h->hooks[i].in_flight(h->hooks[i].ctx);
	return n;
}

#endif
