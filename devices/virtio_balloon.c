// SPDX-License-Identifier: Apache-2.0
/* virtio_balloon.c - pages from the driver back to the host, on the thread that notified; the driver's statistics. */
#include "virtio_balloon.h"

#include "balloon_host.h"
#include "event_loop.h"
#include "util.h"

#include <errno.h>
#include <linux/virtio_balloon.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	/* 5.5.2 numbers the queues 0 to 4 whatever is offered. Linux and QEMU leave no gaps, so that the one for
	 * reports may be 2 or 3: whatever comes behind the statistics is for reports. */
	INFLATE = 0,
	DEFLATE = 1,
	STATS = 2,
	QUEUES = 5,
	QUEUE_MAX = 128,
	PFNS = 256, /* looked at, sorted and merged at a time; what Linux has in a chain */
	RANGES = PFNS,
	STATS_READ = 32, /* entries of a buffer that are looked at */
};

/* Costs are in bytes: small pages cost the host by their number, and a call as much as eight of them. */
#define KICK_COST  (INT64_C(16) << 20)
#define CALL_COST  (INT64_C(32) << 10)
#define CHAIN_COST (INT64_C(4) << 10)
#define PIECE      (UINT64_C(16) << 20) /* of a long range that is done at a time */
#define HUGE_PAGE  (UINT64_C(2) << 20)

struct range {
	uint64_t base, end;
};

/* Under its queue's lock: the chain that is being worked off. */
struct work {
	struct virtq_chain chain;
	struct iovec iov[QUEUE_MAX];
	bool has;
	size_t at;       /* inflate: byte of the list of page numbers; reports: byte of iov[at_iov] */
	unsigned at_iov; /* reports */
};

struct virtio_balloon {
	struct virtio_dev dev;
	/* Constant. */
	struct balloon_host *host;
	const struct guest_mem *mem;
	uint64_t floor;
	struct event_loop *loop;
	atomic_uint poison; /* any thread */
	struct work work[QUEUES];
	/* Under the lock of STATS: the buffer that the driver wants back when it is to fill it again. */
	bool has_stats;
	uint16_t stats_head;
	struct event_source timer; /* made with the first start; runs from the driver's answer on */
};

static struct virtio_balloon *balloon_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_balloon, dev);
}

/* ---------------------------------------------------------------------------- pages; the queue's lock is held */

static int by_base(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

/* Sorts and merges; how many are left. */
static unsigned merge(struct range *r, unsigned count)
{
	unsigned last = 0;

	if (!count)
		return 0;
	qsort(r, count, sizeof(*r), by_base);
	for (unsigned i = 1; i < count; i++) {
		if (r[i].base > r[last].end)
			r[++last] = r[i];
		else if (r[i].end > r[last].end)
			r[last].end = r[i].end;
	}
	return last + 1;
}

/* Gives them to the host; how many pages went. */
static uint64_t discard(struct virtio_balloon *b, struct range *r, unsigned count, int64_t *budget)
{
	uint64_t pages = 0;

	count = merge(r, count);
	for (unsigned i = 0; i < count; i++) {
		uint64_t bytes = r[i].end - r[i].base;
		if (guest_mem_discard(b->mem, gpa(r[i].base), bytes) == 0)
			pages += bytes / BALLOON_PAGE;
		else
			atomic_fetch_add(&b->host->failed, 1);
		*budget -= (int64_t)bytes + CALL_COST;
	}
	return pages;
}

/* A page that the device may take: whole, RAM, and above the floor. */
static bool is_ours(const struct virtio_balloon *b, uint64_t addr)
{
	return addr >= b->floor && guest_mem_at(b->mem, gpa(addr), BALLOON_PAGE);
}

/* Some of the page numbers of a chain; true: it is done. */
static bool inflate_some(struct virtio_balloon *b, struct work *w, int64_t *budget)
{
	struct range ranges[RANGES];
	__le32 pfns[PFNS]; /* the only copy that is looked at */
	unsigned count = 0, n;

	n = (unsigned)(virtq_read(&w->chain, w->at, pfns, sizeof(pfns)) / sizeof(pfns[0]));
	for (unsigned i = 0; i < n; i++) {
		uint64_t addr = (uint64_t)pfns[i] << VIRTIO_BALLOON_PFN_SHIFT;
		if (is_ours(b, addr))
			ranges[count++] = (struct range){addr, addr + BALLOON_PAGE};
	}
	*budget -= (int64_t)n * (int64_t)sizeof(struct range); /* those that are ignored are not free either */
	atomic_fetch_add(&b->host->ignored_pages, n - count);
	atomic_fetch_add(&b->host->inflated_pages, discard(b, ranges, count, budget));
	w->at += n * sizeof(pfns[0]);
	return w->chain.readable_bytes - w->at < sizeof(pfns[0]);
}

/* The whole pages of the next piece of a chain's buffers, and on to the one behind it. False: there is none. */
static bool next_report(struct virtio_balloon *b, struct work *w, struct range *out)
{
	const struct iovec *iov = &w->chain.iov[w->at_iov];
	uint64_t start = guest_mem_gpa(b->mem, iov->iov_base).value + w->at, left = iov->iov_len - w->at;
	uint64_t end = start + left;

	if (left > PIECE) {
		end = align_down(start + PIECE, HUGE_PAGE);
		w->at += end - start;
	} else {
		w->at_iov++;
		w->at = 0;
	}
	start = start > b->floor ? start : b->floor;
	*out = (struct range){align_up(start, BALLOON_PAGE), align_down(end, BALLOON_PAGE)};
	return out->base < out->end;
}

/* 5.5.6.7: with a poison, a page that comes back must hold it, and we have only zeros. */
static bool may_take_reports(struct virtio_balloon *b)
{
	return !virtio_has(&b->dev, VIRTIO_BALLOON_F_PAGE_POISON) || !atomic_load(&b->poison);
}

/* Some of the buffers of a chain; true: it is done. */
static bool report_some(struct virtio_balloon *b, struct work *w, int64_t *budget)
{
	const unsigned count = w->chain.readable + w->chain.writable;
	struct range ranges[RANGES];
	unsigned n = 0;
	int64_t room = *budget;

	if (!may_take_reports(b))
		return true;
	while (w->at_iov < count && n < RANGES && room > 0) {
		if (!next_report(b, w, &ranges[n]))
			continue;
		room -= (int64_t)(ranges[n].end - ranges[n].base);
		n++;
	}
	atomic_fetch_add(&b->host->reported_pages, discard(b, ranges, n, budget));
	return w->at_iov == count;
}

/* Nothing is to be done with them: they are there when they are used. */
static bool deflate_some(struct virtio_balloon *b, struct work *w, int64_t *budget)
{
	(void)budget;
	atomic_fetch_add(&b->host->deflated_pages, w->chain.readable_bytes / sizeof(__le32));
	return true;
}

/* ------------------------------------------------------------------ statistics; the queue's lock is held */

static void set_timer(const struct virtio_balloon *b, unsigned seconds)
{
	const struct itimerspec when = {.it_value = {.tv_sec = (time_t)seconds}};

	timerfd_settime(b->timer.fd, 0, &when, NULL);
}

static void return_stats(struct virtio_balloon *b)
{
	if (b->has_stats)
		virtq_push(&b->dev.queues[STATS].ring, b->stats_head, 0);
	b->has_stats = false;
}

static void read_stats(struct balloon_host *host, const struct virtq_chain *chain)
{
	struct virtio_balloon_stat stats[STATS_READ];
	size_t count = virtq_read(chain, 0, stats, sizeof(stats)) / sizeof(stats[0]);
	unsigned has = 0;

	for (size_t i = 0; i < count; i++) {
		if (stats[i].tag >= BALLOON_STATS)
			continue;
		atomic_store(&host->guest[stats[i].tag], stats[i].val);
		has |= 1u << stats[i].tag;
	}
	atomic_store(&host->guest_has, has);
	atomic_fetch_add(&host->guest_updates, 1);
}

/* 5.5.6.3: the device keeps the buffer, and gives it back to ask for new figures. A driver should have only one. */
static bool stats_some(struct virtio_balloon *b, struct work *w, int64_t *budget)
{
	(void)budget;
	read_stats(b->host, &w->chain);
	return_stats(b);
	b->stats_head = w->chain.head;
	b->has_stats = true;
	w->has = false;
	set_timer(b, b->host->stats_seconds);
	return false;
}

static void on_timer(void *ctx, uint32_t events)
{
	struct virtio_balloon *b = ctx;
	struct virtio_queue *q = &b->dev.queues[STATS];
	uint64_t count;

	(void)events;
	(void)!read(b->timer.fd, &count, sizeof(count));
	pthread_mutex_lock(&q->lock);
	if (q->live) {
		return_stats(b);
		virtio_flush(&b->dev, STATS);
	}
	pthread_mutex_unlock(&q->lock);
}

/* ---------------------------------------------------------------------- chains; the queue's lock is held */

/* Does some of a chain; true: it is done, and goes back to the driver. */
typedef bool some_fn(struct virtio_balloon *b, struct work *w, int64_t *budget);

/* What a queue is for; NULL: nothing. */
static some_fn *purpose(const struct virtio_balloon *b, unsigned n)
{
	if (n == INFLATE)
		return inflate_some;
	if (n == DEFLATE)
		return deflate_some;
	if (n == STATS && virtio_has(&b->dev, VIRTIO_BALLOON_F_STATS_VQ))
		return stats_some;
	return virtio_has(&b->dev, VIRTIO_BALLOON_F_REPORTING) ? report_some : NULL;
}

static void finish(struct virtio_balloon *b, unsigned n)
{
	b->work[n].has = false;
	virtq_push(&b->dev.queues[n].ring, b->work[n].chain.head, 0);
}

/* What is wrong with a chain, or NULL. Reports are buffers that we may write, all else is to be read. */
static const char *check(const struct virtio_balloon *b, const struct virtq_chain *chain, some_fn *some)
{
	if (some == report_some ? chain->readable : chain->writable)
		return "a buffer of the wrong direction";
	bool is_list = some == inflate_some || some == deflate_some;
	if (is_list && chain->readable_bytes / sizeof(__le32) > b->mem->bytes / BALLOON_PAGE)
		return "more pages than there are";
	return NULL;
}

/* 1: there is one at work; 0: none; negative: the device is broken. */
static int next_chain(struct virtio_balloon *b, unsigned n, some_fn *some)
{
	struct work *w = &b->work[n];

	w->chain.iov = w->iov;
	w->chain.iov_max = QUEUE_MAX;
	w->at = w->at_iov = 0;
	int ret = virtq_pop(&b->dev.queues[n].ring, &w->chain);
	w->has = ret > 0;
	const char *why = ret < 0 ? "a chain that cannot be" : ret > 0 ? check(b, &w->chain, some) : NULL;
	if (!why)
		return ret;
	if (w->has)
		finish(b, n);
	virtio_broken(&b->dev, n, why);
	return -EPROTO;
}

/* Until the ring is empty, which is true, or the budget is used up. */
static bool work_all(struct virtio_balloon *b, unsigned n, some_fn *some, int64_t *budget)
{
	while (*budget > 0) {
		if (!b->work[n].has) {
			int ret = next_chain(b, n, some);
			if (ret <= 0)
				return ret == 0;
			*budget -= CHAIN_COST;
		}
		if (some(b, &b->work[n], budget))
			finish(b, n);
	}
	b->dev.up.again(b->dev.up.ctx, n);
	return false;
}

/* ------------------------------------------------------------------------------------------ device */

static void kick(struct virtio_dev *dev, unsigned n)
{
	struct virtio_balloon *b = balloon_of(dev);
	some_fn *some = purpose(b, n);
	int64_t budget = KICK_COST;

	if (!some)
		return;
	do
		virtq_kick_off(&dev->queues[n].ring);
	while (work_all(b, n, some, &budget) && virtq_kick_on(&dev->queues[n].ring));
	virtio_flush(dev, n);
}

static void drain(struct virtio_dev *dev, unsigned n)
{
	struct virtio_balloon *b = balloon_of(dev);

	if (b->work[n].has)
		finish(b, n);
	if (n == STATS)
		return_stats(b);
}

/* What the driver said of itself was about an earlier life. */
static int start(struct virtio_dev *dev)
{
	struct virtio_balloon *b = balloon_of(dev);

	balloon_host_forget(b->host);
	if (!virtio_has(dev, VIRTIO_BALLOON_F_STATS_VQ) || b->timer.fd >= 0)
		return 0;
	b->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return b->timer.fd < 0 ? -errno : event_loop_set(b->loop, &b->timer, EPOLLIN);
}

static struct virtio_balloon_config configuration(const struct virtio_balloon *b)
{
	return (struct virtio_balloon_config){
		.num_pages = atomic_load(&b->host->target_pages),
		.actual = atomic_load(&b->host->actual_pages),
		.poison_val = atomic_load(&b->poison),
	};
}

static void config_read(struct virtio_dev *dev, uint32_t offset, void *data, uint32_t len)
{
	const struct virtio_balloon_config c = configuration(balloon_of(dev));

	memcpy(data, (const uint8_t *)&c + offset, len);
}

static void config_write(struct virtio_dev *dev, uint32_t offset, const void *data, uint32_t len)
{
	struct virtio_balloon *b = balloon_of(dev);
	struct virtio_balloon_config c = configuration(b);

	memcpy((uint8_t *)&c + offset, data, len);
	atomic_store(&b->host->actual_pages, c.actual);
	atomic_store(&b->poison, c.poison_val);
}

static void destroy(struct virtio_dev *dev)
{
	struct virtio_balloon *b = balloon_of(dev);

	if (b->timer.fd >= 0) {
		event_loop_set(b->loop, &b->timer, 0);
		close(b->timer.fd);
	}
	free(b);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-balloon",
	.id = VIRTIO_ID_BALLOON,
	.queue_max = QUEUE_MAX,
	.config_bytes = sizeof(struct virtio_balloon_config),
	.start = start,
	.kick = kick,
	.drain = drain,
	.config_read = config_read,
	.config_write = config_write,
	.destroy = destroy,
};

struct virtio_dev *virtio_balloon_create(struct balloon_host *host, const struct guest_mem *mem, uint64_t floor,
                                         struct event_loop *loop)
{
	struct virtio_balloon *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->dev.ops = &ops;
	b->dev.queue_count = QUEUES;
	if (host->deflate_on_oom)
		b->dev.offered |= 1u << VIRTIO_BALLOON_F_DEFLATE_ON_OOM;
	if (host->reporting)
		b->dev.offered |= 1u << VIRTIO_BALLOON_F_REPORTING | 1u << VIRTIO_BALLOON_F_PAGE_POISON;
	if (host->stats_seconds)
		b->dev.offered |= 1u << VIRTIO_BALLOON_F_STATS_VQ;
	b->host = host;
	b->mem = mem;
	b->floor = floor;
	b->loop = loop;
	b->timer = (struct event_source){.fd = -1, .fn = on_timer, .ctx = b};
	balloon_host_forget(host);
	return &b->dev;
}

void virtio_balloon_retarget(struct virtio_dev *dev)
{
	dev->up.config(dev->up.ctx);
}
