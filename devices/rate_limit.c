// SPDX-License-Identifier: Apache-2.0
/* rate_limit.c - token buckets, and a timer for those who found them empty. Knows no device. */
#include "rate_limit.h"

#include "clock.h"
#include "util.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

uint64_t rate_bucket_wait_ns(const struct rate_bucket *b, uint64_t now_ns)
{
	uint64_t empty_ns = now_ns + RATE_BURST_NS; /* an empty bucket is full a burst from now */

	return b->per_second && b->full_ns > empty_ns ? b->full_ns - empty_ns : 0;
}

void rate_bucket_take(struct rate_bucket *b, uint64_t amount, uint64_t now_ns)
{
	if (!b->per_second)
		return;
	unsigned __int128 ns = (unsigned __int128)amount * 1000000000u / b->per_second;
	uint64_t from = b->full_ns > now_ns ? b->full_ns : now_ns;
	b->full_ns = ns > INT64_MAX - (unsigned __int128)from ? INT64_MAX : from + (uint64_t)ns;
}

static void on_timer(void *ctx, uint32_t events)
{
	struct rate_limit *r = ctx;
	uint64_t count;

	(void)events;
	pthread_mutex_lock(&r->lock);
	if (read(r->timer.fd, &count, sizeof(count)) == sizeof(count))
		r->armed = false;
	pthread_mutex_unlock(&r->lock);
	r->reopened(r->ctx);
}

void rate_limit_init(struct rate_limit *r, uint64_t bytes, uint64_t ops, struct event_loop *loop,
                     void (*reopened)(void *ctx), void *ctx)
{
	memset(r, 0, sizeof(*r));
	r->limited = (bytes || ops) && loop;
	r->bytes.per_second = bytes;
	r->ops.per_second = ops;
	r->loop = loop;
	r->reopened = reopened;
	r->ctx = ctx;
	r->timer = (struct event_source){.fd = -1, .fn = on_timer, .ctx = r};
	pthread_mutex_init(&r->lock, NULL);
}

void rate_limit_fini(struct rate_limit *r)
{
	if (r->timer.fd >= 0) {
		event_loop_set(r->loop, &r->timer, 0);
		close(r->timer.fd);
	}
	r->timer.fd = -1;
	pthread_mutex_destroy(&r->lock);
}

/* Lock held. False: there is no timer to be had, so there can be no limit. */
static bool arm(struct rate_limit *r, uint64_t ns)
{
	const struct itimerspec when = {.it_value = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}};

	if (r->timer.fd < 0) {
		r->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (r->timer.fd < 0)
			return false;
		if (event_loop_set(r->loop, &r->timer, EPOLLIN) < 0) {
			close(r->timer.fd);
			r->timer.fd = -1;
			return false;
		}
	}
	r->armed = timerfd_settime(r->timer.fd, 0, &when, NULL) == 0;
	return r->armed;
}

bool rate_limit_open(struct rate_limit *r)
{
	if (!r->limited)
		return true;
	pthread_mutex_lock(&r->lock);
	uint64_t now = clock_ns();
	uint64_t bytes = rate_bucket_wait_ns(&r->bytes, now), ops = rate_bucket_wait_ns(&r->ops, now);
	uint64_t ns = bytes > ops ? bytes : ops;
	bool open = ns == 0 || (!r->armed && !arm(r, ns));
	pthread_mutex_unlock(&r->lock);
	return open;
}

void rate_limit_take(struct rate_limit *r, uint64_t bytes)
{
	if (!r->limited)
		return;
	pthread_mutex_lock(&r->lock);
	uint64_t now = clock_ns();
	rate_bucket_take(&r->bytes, bytes, now);
	rate_bucket_take(&r->ops, 1, now);
	pthread_mutex_unlock(&r->lock);
}
