// SPDX-License-Identifier: Apache-2.0
/* virtio_blk.c - the way of requests: popped, submitted, reaped, answered. */
#include "virtio_blk.h"
#include "virtio_blk_internal.h"

#include "util.h"

#include <errno.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct virtio_blk *blk_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_blk, dev);
}

static struct virtio_queue *virtqueue(struct blk_queue *bq)
{
	return &bq->blk->dev.queues[bq->index];
}

/* --------------------------------------------------------------- requests; the queue's lock is held */

static struct blk_request *take_request(struct blk_queue *bq)
{
	struct blk_request *r = bq->free;

	if (r)
		bq->free = r->next_free;
	else if (bq->fresh < BLK_REQUESTS)
		r = &bq->requests[bq->fresh++];
	else
		return NULL;
	r->queue = bq;
	r->chain.iov = r->iov;
	r->chain.iov_max = BLK_IOV_MAX;
	return r;
}

static void free_request(struct blk_request *r)
{
	r->next_free = r->queue->free;
	r->queue->free = r;
}

static void count_in_flight(struct blk_queue *bq, int change)
{
	unsigned n = atomic_load_explicit(&bq->in_flight, memory_order_relaxed);

	atomic_store_explicit(&bq->in_flight, n + (unsigned)change, memory_order_relaxed);
}

static void say_failed(struct blk_request *r, int ret)
{
	static const char *const names[] = {
		[DISK_READ] = "read",       [DISK_WRITE] = "write",  [DISK_FLUSH] = "flush",
		[DISK_DISCARD] = "discard", [DISK_ZERO] = "zeroing",
	};
	struct virtio_blk *blk = r->queue->blk;

	atomic_fetch_add(&blk->file->errors, 1);
	log_guest(blk->file->log, &blk->log_limit, LULL_LOG_WARN, "disk %s: %s of %llu bytes at %llu failed: %s",
	          blk->file->config.path, names[r->io.op], (unsigned long long)r->io.left,
	          (unsigned long long)r->io.offset, strerror(-ret));
}

/* The host is done with it: 0 or -errno. */
static void finish(struct blk_request *r, int ret)
{
	int status = VIRTIO_BLK_S_OK;

	if (ret == -EOPNOTSUPP && (r->io.op == DISK_DISCARD || r->io.op == DISK_ZERO)) {
		status = VIRTIO_BLK_S_UNSUPP;
	} else if (ret < 0) {
		if (ret != -ECANCELED) /* its vCPU's thread has ended, and so does the VM */
			say_failed(r, ret);
		status = VIRTIO_BLK_S_IOERR;
	}
	blk_answer(r, status);
	free_request(r);
}

static void begin(struct blk_queue *bq, struct blk_request *r)
{
	struct virtio_blk *blk = bq->blk;
	int status = blk_parse(blk, r);

	if (status == -EPROTO) {
		virtq_push(&virtqueue(bq)->ring, r->chain.head, 0);
		free_request(r);
		virtio_broken(&blk->dev, bq->index, "a request without a place for its status");
		return;
	}
	atomic_fetch_add_explicit(&blk->file->requests, 1, memory_order_relaxed);
	rate_limit_take(&blk->limit, r->io.iov_count ? r->io.left : 0);
	if (status >= 0) {
		blk_answer(r, status);
		free_request(r);
		return;
	}
	disk_io_begin(blk->file, &r->io);
	if (bq->has_ring) {
		count_in_flight(bq, 1);
		disk_ring_add(&bq->ring, &r->io, r);
	} else {
		finish(r, disk_io_run(blk->file, &r->io));
		virtio_flush(&blk->dev, bq->index); /* the next one may take its time */
	}
}

/* What the kernel does not take now, for want of memory, is tried again on the I/O thread, and not at full speed. */
static void submit(struct blk_queue *bq)
{
	if (!bq->has_ring || disk_ring_submit(&bq->ring) == 0)
		return;
	usleep(200);
	bq->blk->dev.up.again(bq->blk->dev.up.ctx, bq->index);
}

/* Pops and begins requests. True: the ring was empty in the end; else something else says when to go on, or nobody may.
 */
static bool pop_all(struct blk_queue *bq, unsigned *budget)
{
	struct virtio_blk *blk = bq->blk;
	struct virtio_queue *q = virtqueue(bq);

	while (q->live) {
		if (!*budget) {
			blk->dev.up.again(blk->dev.up.ctx, bq->index);
			return false;
		}
		if (!rate_limit_open(&blk->limit))
			return false;
		struct blk_request *r = take_request(bq);
		bq->starved = !r;
		if (!r)
			return false;
		int ret = virtq_pop(&q->ring, &r->chain);
		if (ret <= 0)
			free_request(r);
		if (ret < 0)
			virtio_broken(&blk->dev, bq->index, "a chain that cannot be");
		if (ret == 0)
			return true;
		--*budget;
		if (ret > 0)
			begin(bq, r);
	}
	return false;
}

static void serve(struct blk_queue *bq)
{
	struct virtq *ring = &virtqueue(bq)->ring;
	unsigned budget = BLK_QUEUE_MAX;

	do
		virtq_kick_off(ring);
	while (pop_all(bq, &budget) && virtq_kick_on(ring));
	submit(bq);
}

/* Takes results; how many requests they ended. Does not publish. */
static unsigned reap(struct blk_queue *bq)
{
	unsigned done = 0;
	bool again = false;
	void *tag;
	int result;

	while (bq->has_ring && disk_ring_take(&bq->ring, &tag, &result)) {
		struct blk_request *r = tag;
		int ret = disk_io_next(&r->io, result);
		if (ret > 0) {
			disk_ring_add(&bq->ring, &r->io, r);
			again = true;
			continue;
		}
		count_in_flight(bq, -1);
		finish(r, ret);
		done++;
	}
	if (again)
		submit(bq);
	return done;
}

/* Reaps, goes on where popping stopped for lack of requests, and tells the driver. How many requests ended. */
static unsigned work(struct blk_queue *bq)
{
	unsigned done = reap(bq);

	if (bq->starved && virtqueue(bq)->live)
		serve(bq);
	virtio_flush(&bq->blk->dev, bq->index);
	return done;
}

/* ------------------------------------------------------------------------------------------- polling */

/* For a vCPU that polls: what it completes is counted. */
static bool work_inline(struct blk_queue *bq)
{
	unsigned done = work(bq);

	atomic_fetch_add_explicit(&bq->blk->file->inline_done, done, memory_order_relaxed);
	return done != 0;
}

static bool is_in_flight(const struct blk_queue *bq)
{
	return atomic_load_explicit(&bq->in_flight, memory_order_relaxed) != 0;
}

static void hook_enter(void *ctx)
{
	struct virtio_blk *blk = ctx;

	for (unsigned n = 0; n < blk->dev.queue_count; n++)
		disk_ring_quiet(&blk->queues[n].ring);
}

static bool hook_poll(void *ctx)
{
	struct virtio_blk *blk = ctx;
	bool any = false;

	for (unsigned n = 0; n < blk->dev.queue_count; n++) {
		struct blk_queue *bq = &blk->queues[n];
		if (!disk_ring_peek(&bq->ring) || pthread_mutex_trylock(&virtqueue(bq)->lock))
			continue;
		any |= work_inline(bq);
		pthread_mutex_unlock(&virtqueue(bq)->lock);
	}
	return any;
}

/* With the lock this time: whoever holds it may have looked before the completion came that nobody is woken for. */
static bool hook_leave(void *ctx)
{
	struct virtio_blk *blk = ctx;
	bool any = false;

	for (unsigned n = 0; n < blk->dev.queue_count; n++) {
		struct blk_queue *bq = &blk->queues[n];
		disk_ring_loud(&bq->ring, is_in_flight(bq));
		if (!disk_ring_peek(&bq->ring))
			continue;
		pthread_mutex_lock(&virtqueue(bq)->lock);
		any |= work_inline(bq);
		pthread_mutex_unlock(&virtqueue(bq)->lock);
	}
	return any;
}

static unsigned hook_in_flight(void *ctx)
{
	struct virtio_blk *blk = ctx;
	unsigned sum = 0;

	for (unsigned n = 0; n < blk->dev.queue_count; n++)
		sum += atomic_load_explicit(&blk->queues[n].in_flight, memory_order_relaxed);
	return sum;
}

static unsigned hook_watch(void *ctx, struct wake_watch *watch, unsigned room)
{
	struct virtio_blk *blk = ctx;
	unsigned used = 0;

	for (unsigned n = 0; n < blk->dev.queue_count && used < room; n++)
		if (is_in_flight(&blk->queues[n]) && disk_ring_watch(&blk->queues[n].ring, &watch[used]))
			used++;
	return used;
}

struct poll_hook virtio_blk_poll_hook(struct virtio_dev *dev)
{
	return (struct poll_hook){hook_enter, hook_poll, hook_leave, hook_in_flight, hook_watch, blk_of(dev)};
}

/* ------------------------------------------------------------------------------------------- device */

static void on_done(void *ctx, uint32_t events)
{
	struct blk_queue *bq = ctx;
	uint64_t count;

	(void)events;
	(void)!read(bq->done.fd, &count, sizeof(count));
	pthread_mutex_lock(&virtqueue(bq)->lock);
	work(bq);
	pthread_mutex_unlock(&virtqueue(bq)->lock);
}

/* A disk that may not have io_uring does without. */
static void try_ring(struct blk_queue *bq)
{
	struct virtio_blk *blk = bq->blk;
	const struct disk_config *c = &blk->file->config;
	int ret;

	bq->tried_ring = true;
	if (c->engine == DISK_ENGINE_SYNC)
		return;
	ret = disk_ring_open(&bq->ring, BLK_REQUESTS);
	bq->done = (struct event_source){.fd = bq->ring.event_fd, .fn = on_done, .ctx = bq};
	if (ret == 0 && blk->loop && (ret = event_loop_set(blk->loop, &bq->done, EPOLLIN)) < 0)
		disk_ring_close(&bq->ring);
	bq->has_ring = ret == 0;
	atomic_store(&blk->file->uses_io_uring, bq->has_ring);
	if (ret < 0)
		log_line(blk->file->log, c->engine == DISK_ENGINE_ANY ? LULL_LOG_INFO : LULL_LOG_WARN,
		         "disk %s: no io_uring here (%s), it works with system calls", c->path, strerror(-ret));
}

static int make_requests(struct blk_queue *bq)
{
	if (!bq->requests)
		bq->requests = calloc(BLK_REQUESTS, sizeof(bq->requests[0]));
	return bq->requests ? 0 : -ENOMEM;
}

static void kick(struct virtio_dev *dev, unsigned n)
{
	struct blk_queue *bq = &blk_of(dev)->queues[n];

	if (make_requests(bq) < 0) {
		virtio_broken(dev, n, "the host has no memory for its requests");
		return;
	}
	if (!bq->tried_ring)
		try_ring(bq);
	/* What completes at once is reaped here, so the I/O thread need not hear of it. */
	if (bq->has_ring)
		disk_ring_quiet(&bq->ring);
	serve(bq);
	if (bq->has_ring)
		disk_ring_loud(&bq->ring, is_in_flight(bq));
	work(bq);
}

static void drain(struct virtio_dev *dev, unsigned n)
{
	struct blk_queue *bq = &blk_of(dev)->queues[n];

	bq->starved = false;
	while (is_in_flight(bq)) {
		while (disk_ring_submit(&bq->ring) < 0)
			usleep(1000);
		disk_ring_wait(&bq->ring);
		work(bq);
	}
}

static void config_read(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len)
{
	uint8_t config[BLK_CONFIG_BYTES];

	blk_config(blk_of(dev), config);
	memcpy(data, config + offset, len);
}

static void reopened(void *ctx)
{
	struct virtio_blk *blk = ctx;

	for (unsigned n = 0; n < blk->dev.queue_count; n++)
		blk->dev.up.again(blk->dev.up.ctx, n);
}

static void destroy(struct virtio_dev *dev)
{
	struct virtio_blk *blk = blk_of(dev);

	for (unsigned n = 0; n < dev->queue_count; n++) {
		struct blk_queue *bq = &blk->queues[n];
		if (bq->has_ring && blk->loop)
			event_loop_set(blk->loop, &bq->done, 0);
		disk_ring_close(&bq->ring);
		free(bq->requests);
	}
	rate_limit_fini(&blk->limit);
	free(blk->queues);
	free(blk);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-blk",
	.id = VIRTIO_ID_BLOCK,
	.queue_max = BLK_QUEUE_MAX,
	.config_bytes = BLK_CONFIG_BYTES,
	.kick = kick,
	.drain = drain,
	.config_read = config_read,
	.destroy = destroy,
};

struct virtio_dev *virtio_blk_create(struct disk_file *file, struct event_loop *loop)
{
	struct virtio_blk *blk = calloc(1, sizeof(*blk));
	struct blk_queue *queues = calloc(file->config.queues, sizeof(*queues));

	if (!blk || !queues) {
		free(queues);
		free(blk);
		return NULL;
	}
	blk->dev.ops = &ops;
	blk->dev.offered = blk_features(file);
	blk->dev.queue_count = file->config.queues;
	blk->file = file;
	blk->loop = loop;
	blk->queues = queues;
	for (unsigned n = 0; n < file->config.queues; n++) {
		queues[n].blk = blk;
		queues[n].index = n;
	}
	rate_limit_init(&blk->limit, file->config.bytes_per_second, file->config.ops_per_second, loop, reopened, blk);
	return &blk->dev;
}
