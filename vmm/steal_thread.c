/* SPDX-License-Identifier: Apache-2.0 */
/* steal_thread.c - an event loop on a thread of its own that is quick to get a CPU. Knows nothing of steal time. */
#include "steal_thread.h"

#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 * 1024)
#define SLICE_NS    100000 /* the least there is */

/* struct sched_attr of the kernel; not all C libraries have it, and some clash with <linux/sched/types.h>. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static bool hurry(void)
{
	struct attributes fifo = {.size = sizeof(fifo), .policy = SCHED_FIFO, .priority = 1};
	struct attributes brief = {.size = sizeof(brief), .policy = SCHED_OTHER, .runtime = SLICE_NS};
	if (syscall(SYS_sched_setattr, 0, &fifo, 0) == 0)
		return true;
	(void)syscall(SYS_sched_setattr, 0, &brief, 0);
	return false;
}

static void *try(void *arg)
{
	*(bool *)arg = hurry();
	return NULL;
}

bool steal_thread_may_hurry(void)
{
	pthread_t thread;
	bool may = false;
	if (pthread_create(&thread, NULL, try, &may) == 0)
		pthread_join(thread, NULL);
	return may;
}

static void *thread_main(void *arg)
{
	struct steal_thread *t = arg;
	prctl(PR_SET_NAME, "lull-steal");
	(void)hurry();
	event_loop_run(&t->loop);
	return NULL;
}

static int start(struct steal_thread *t)
{
	int ret = event_loop_init(&t->loop);
	if (ret < 0)
		return ret;
	ret = thread_start(&t->thread, STACK_BYTES, 0, thread_main, t);
	if (ret < 0)
		event_loop_fini(&t->loop);
	t->started = ret == 0;
	return ret;
}

void steal_thread_init(struct steal_thread *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
}

int steal_thread_add(struct steal_thread *t, struct event_source *src)
{
	pthread_mutex_lock(&t->lock);
	int ret = t->started ? 0 : start(t);
	if (ret == 0)
		ret = event_loop_set(&t->loop, src, EPOLLIN);
	pthread_mutex_unlock(&t->lock);
	return ret;
}

void steal_thread_stop(struct steal_thread *t)
{
	if (!t->started)
		return;
	event_loop_stop(&t->loop);
	pthread_join(t->thread, NULL);
	event_loop_fini(&t->loop);
	t->started = false;
}

void steal_thread_fini(struct steal_thread *t)
{
	steal_thread_stop(t);
	pthread_mutex_destroy(&t->lock);
}
