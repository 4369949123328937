/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rate_limit.h - token buckets for what a guest may take of its host: so much per second, a burst of a tenth of a
 * second.
 *
 * A bucket may go into debt for one request, so that no request is too large for it; the next one waits for that.
 */
#ifndef LULL_RATE_LIMIT_H
#define LULL_RATE_LIMIT_H

#include "event_loop.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One bucket, pure. The state is the time at which it will be full again. */
struct rate_bucket {
	uint64_t per_second; /* 0: no limit */
	uint64_t full_ns;
};

#define RATE_BURST_NS 100000000ull

/* How long until there is something in it; 0: now. */
uint64_t rate_bucket_wait_ns(const struct rate_bucket *b, uint64_t now_ns);
void rate_bucket_take(struct rate_bucket *b, uint64_t amount, uint64_t now_ns);

/* Two buckets and the timer that says when they are open again. */
struct rate_limit {
	/* Constant. */
	bool limited;
	void (*reopened)(void *ctx); /* loop's thread, no lock of ours held */
	void *ctx;
	struct event_loop *loop;
	/* Any thread, under lock: a leaf. */
	pthread_mutex_t lock;
	struct rate_bucket bytes, ops;
	struct event_source timer; /* made when it is needed first */
	bool armed;
};

void rate_limit_init(struct rate_limit *r, uint64_t bytes, uint64_t ops, struct event_loop *loop,
                     void (*reopened)(void *ctx), void *ctx);
void rate_limit_fini(struct rate_limit *r); /* loop's thread, or when it has ended */

/* May a request start? If not, reopened() comes when it is time to ask again. */
bool rate_limit_open(struct rate_limit *r);
/* One that started takes this. */
void rate_limit_take(struct rate_limit *r, uint64_t bytes);

#endif
