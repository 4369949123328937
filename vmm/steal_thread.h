/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steal_thread.h - the thread that sets preempted flags. One per VM, from the first vCPU that wants it to the reset. It
 * sleeps but for some microseconds after a preemption, and must run at a time at which the host has more to do than
 * CPUs: so it is a real-time thread where that is allowed (RLIMIT_RTPRIO, CAP_SYS_NICE), and otherwise one that asks
 * for short slices (sched_setattr(2), Linux 6.12).
 */
#ifndef LULL_STEAL_THREAD_H
#define LULL_STEAL_THREAD_H

#include "event_loop.h"

#include <pthread.h>

struct steal_thread {
	pthread_mutex_t lock; /* of the rest, while vCPUs run */
	bool started;
	struct event_loop loop;
	pthread_t thread;
};

void steal_thread_init(struct steal_thread *t);
/* No callback runs any more. It starts again when it is wanted. No vCPU runs. */
void steal_thread_stop(struct steal_thread *t);
void steal_thread_fini(struct steal_thread *t);

/* Any thread: src->fn is called on ours when src->fd is readable. 0 or -errno. */
int steal_thread_add(struct steal_thread *t, struct event_source *src);

/* Such a thread can be a real-time one. */
bool steal_thread_may_hurry(void);

#endif
