// SPDX-License-Identifier: Apache-2.0
/* virtio_mmio.c - registers, status machine and negotiation of a virtio device: virtio 1.2, 2.1, 3.1 and 4.2. Knows no
 * kind of device. What a driver may not do is counted, logged a few times and ignored, or answered with NEEDS_RESET. */
#include "virtio_mmio.h"

#include "event_loop.h"
#include "log.h"
#include "util.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	MAGIC = 0x74726976, /* "virt" */
	VERSION = 2,
	VENDOR = 0x4c4c554c, /* "LULL" */
	REG_SHM_SEL = 0x0ac, /* newer than some kernel headers */
	REG_SHM_LEN_LOW = 0x0b0,
	REG_SHM_BASE_HIGH = 0x0bc,
	REG_QUEUE_RESET = 0x0c0,
	RING_RESET = 40, /* feature: one queue can be reset */
	DRIVER_BITS = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK |
	              VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_FAILED,
};

#define BIT64(n) (UINT64_C(1) << (n))
#define TRANSPORT_FEATURES                                                                                             \
	(BIT64(VIRTIO_F_VERSION_1) | BIT64(VIRTIO_RING_F_INDIRECT_DESC) | BIT64(VIRTIO_RING_F_EVENT_IDX) |             \
	 BIT64(RING_RESET))

/* What the driver wrote about a queue. Under the transport's lock. */
struct queue_regs {
	uint32_t num;
	uint64_t desc, avail, used;
	bool ready;
};

struct virtio_mmio {
	/* Constant. */
	struct virtio_mmio_config config;
	struct virtio_dev *dev;
	/* Under lock. */
	pthread_mutex_t lock;
	uint32_t device_sel, driver_sel, queue_sel;
	uint64_t driver_features;
	struct queue_regs regs[VIRTIO_QUEUES_MAX];
	struct event_source again;
	/* Any thread: atomic. */
	atomic_uint status, isr, generation;
	atomic_uint left; /* bit per queue: what again() was asked for */
	struct log_limit limit;
	/* An edge needs the line to have been low: two threads may not overlap in a pulse. A leaf. */
	pthread_mutex_t line_lock;
	struct virtio_queue queues[VIRTIO_QUEUES_MAX];
};

static void violation(struct virtio_mmio *t, const char *what)
{
	log_guest(t->config.log, &t->limit, LULL_LOG_WARN, "%s: driver error: %s", t->dev->ops->name, what);
}

/* ------------------------------------------------------------------------ what the device asks for */

static void interrupt(struct virtio_mmio *t, unsigned why)
{
	atomic_fetch_or(&t->isr, why);
	pthread_mutex_lock(&t->line_lock);
	irq_pulse(&t->config.line);
	pthread_mutex_unlock(&t->line_lock);
}

static void up_used(void *ctx, unsigned queue)
{
	(void)queue;
	interrupt(ctx, VIRTIO_MMIO_INT_VRING);
}

static void up_config(void *ctx)
{
	struct virtio_mmio *t = ctx;

	atomic_fetch_add(&t->generation, 1);
	if (atomic_load(&t->status) & VIRTIO_CONFIG_S_DRIVER_OK)
		interrupt(t, VIRTIO_MMIO_INT_CONFIG);
}

static void needs_reset(struct virtio_mmio *t)
{
	unsigned old = atomic_fetch_or(&t->status, VIRTIO_CONFIG_S_NEEDS_RESET);

	/* 2.1.2: with DRIVER_OK set the driver is told, once. */
	if ((old & VIRTIO_CONFIG_S_DRIVER_OK) && !(old & VIRTIO_CONFIG_S_NEEDS_RESET))
		interrupt(t, VIRTIO_MMIO_INT_CONFIG);
}

static void up_broken(void *ctx, unsigned queue, const char *why)
{
	struct virtio_mmio *t = ctx;

	log_guest(t->config.log, &t->limit, LULL_LOG_WARN, "%s: driver error: queue %u: %s; the device needs a reset",
	          t->dev->ops->name, queue, why);
	needs_reset(t);
}

static void up_again(void *ctx, unsigned queue)
{
	const uint64_t one = 1;
	struct virtio_mmio *t = ctx;

	atomic_fetch_or(&t->left, 1u << queue);
	if (t->again.fd >= 0)
		(void)!write(t->again.fd, &one, sizeof(one));
}

static bool is_broken(struct virtio_mmio *t)
{
	return atomic_load(&t->status) & VIRTIO_CONFIG_S_NEEDS_RESET;
}

static void kick(struct virtio_mmio *t, unsigned n)
{
	struct virtio_queue *q = &t->queues[n];

	pthread_mutex_lock(&q->lock);
	if (q->live && !is_broken(t))
		t->dev->ops->kick(t->dev, n);
	pthread_mutex_unlock(&q->lock);
}

static void on_again(void *ctx, uint32_t events)
{
	struct virtio_mmio *t = ctx;
	uint64_t count;

	(void)events;
	(void)!read(t->again.fd, &count, sizeof(count));
	unsigned left = atomic_exchange(&t->left, 0);
	for (unsigned n = 0; n < t->dev->queue_count; n++)
		if (left & 1u << n)
			kick(t, n);
}

/* ------------------------------------------------------------------ queues; the transport's lock is held */

static void stop_queue(struct virtio_mmio *t, unsigned n)
{
	struct virtio_queue *q = &t->queues[n];

	pthread_mutex_lock(&q->lock);
	q->live = false;
	/* A queue that was never ready has nothing to drain. */
	if (t->regs[n].ready && t->dev->ops->drain)
		t->dev->ops->drain(t->dev, n);
	pthread_mutex_unlock(&q->lock);
	t->regs[n] = (struct queue_regs){.num = t->dev->ops->queue_max};
}

static void reset(struct virtio_mmio *t)
{
	for (unsigned n = 0; n < t->dev->queue_count; n++)
		stop_queue(t, n);
	/* Nobody is left who could set a bit of these. */
	atomic_store(&t->status, 0);
	atomic_store(&t->isr, 0);
	atomic_store(&t->left, 0);
	t->device_sel = t->driver_sel = t->queue_sel = 0;
	t->driver_features = 0;
	t->dev->features = 0;
}

static void go_live(struct virtio_mmio *t, unsigned n)
{
	pthread_mutex_lock(&t->queues[n].lock);
	t->queues[n].live = true;
	pthread_mutex_unlock(&t->queues[n].lock);
	kick(t, n); /* what was put there before we looked */
}

static void set_ready(struct virtio_mmio *t, unsigned n)
{
	struct queue_regs *r = &t->regs[n];
	const struct virtq_config config = {
		.size = r->num,
		.desc = gpa(r->desc),
		.avail = gpa(r->avail),
		.used = gpa(r->used),
		.indirect = virtio_has(t->dev, VIRTIO_RING_F_INDIRECT_DESC),
		.event_idx = virtio_has(t->dev, VIRTIO_RING_F_EVENT_IDX),
	};
	struct virtq ring;

	if (r->num > t->dev->ops->queue_max || virtq_init(&ring, t->config.mem, &config) < 0) {
		violation(t, "a queue's size or address cannot be; the device needs a reset");
		needs_reset(t);
		return;
	}
	pthread_mutex_lock(&t->queues[n].lock);
	t->queues[n].ring = ring;
	pthread_mutex_unlock(&t->queues[n].lock);
	r->ready = true;
	if (atomic_load(&t->status) & VIRTIO_CONFIG_S_DRIVER_OK)
		go_live(t, n);
}

static void write_ready(struct virtio_mmio *t, unsigned n, uint32_t value)
{
	if (value == 0)
		stop_queue(t, n);
	else if (!(atomic_load(&t->status) & VIRTIO_CONFIG_S_FEATURES_OK) || is_broken(t))
		violation(t, "a queue is made ready before FEATURES_OK or after NEEDS_RESET");
	else if (!t->regs[n].ready)
		set_ready(t, n);
}

/* ------------------------------------------------------------------ status; the transport's lock is held */

static uint64_t offered(const struct virtio_mmio *t)
{
	return t->dev->offered | TRANSPORT_FEATURES;
}

static bool features_ok(struct virtio_mmio *t)
{
	if ((t->driver_features & ~offered(t)) || !(t->driver_features & BIT64(VIRTIO_F_VERSION_1))) {
		violation(t, "features that were not offered, or not VERSION_1");
		return false;
	}
	t->dev->features = t->driver_features;
	return true;
}

/* The event for leftovers is made with the first start, so that an unused device costs no descriptor. */
static int make_again(struct virtio_mmio *t)
{
	if (!t->config.loop || t->again.fd >= 0)
		return 0;
	t->again.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return t->again.fd < 0 ? -errno : event_loop_set(t->config.loop, &t->again, EPOLLIN);
}

static void driver_ok(struct virtio_mmio *t)
{
	int ret = make_again(t);

	if (ret == 0 && t->dev->ops->start)
		ret = t->dev->ops->start(t->dev);
	if (ret < 0) {
		log_error(t->config.log, "%s: cannot start: %s", t->dev->ops->name, strerror(-ret));
		needs_reset(t);
		return;
	}
	for (unsigned n = 0; n < t->dev->queue_count; n++)
		if (t->regs[n].ready)
			go_live(t, n);
}

static void write_status(struct virtio_mmio *t, uint32_t value)
{
	unsigned old = atomic_load(&t->status);
	unsigned set = value & DRIVER_BITS & ~old;
	const unsigned before_features = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;

	if (value == 0) {
		reset(t);
		return;
	}
	if ((old & DRIVER_BITS & ~value) != 0) {
		violation(t, "a status bit is taken back without a reset");
		return;
	}
	if ((set & VIRTIO_CONFIG_S_FEATURES_OK) && ((value & before_features) != before_features || !features_ok(t)))
		set &= ~(unsigned)VIRTIO_CONFIG_S_FEATURES_OK;
	if ((set & VIRTIO_CONFIG_S_DRIVER_OK) && !((old | set) & VIRTIO_CONFIG_S_FEATURES_OK)) {
		violation(t, "DRIVER_OK without FEATURES_OK");
		set &= ~(unsigned)VIRTIO_CONFIG_S_DRIVER_OK;
	}
	atomic_fetch_or(&t->status, set);
	if ((set & VIRTIO_CONFIG_S_DRIVER_OK) && !is_broken(t))
		driver_ok(t);
}

/* --------------------------------------------------------------------------------------- registers */

static struct queue_regs *selected(struct virtio_mmio *t)
{
	return t->queue_sel < t->dev->queue_count ? &t->regs[t->queue_sel] : NULL;
}

/* Lock held. */
static uint32_t read_register(struct virtio_mmio *t, uint32_t offset)
{
	const struct queue_regs *r = selected(t);

	switch (offset) {
	case VIRTIO_MMIO_MAGIC_VALUE:
		return MAGIC;
	case VIRTIO_MMIO_VERSION:
		return VERSION;
	case VIRTIO_MMIO_DEVICE_ID:
		return t->dev->ops->id;
	case VIRTIO_MMIO_VENDOR_ID:
		return VENDOR;
	case VIRTIO_MMIO_DEVICE_FEATURES:
		return t->device_sel < 2 ? (uint32_t)(offered(t) >> (32 * t->device_sel)) : 0;
	case VIRTIO_MMIO_QUEUE_NUM_MAX:
		return r ? t->dev->ops->queue_max : 0;
	case VIRTIO_MMIO_QUEUE_READY:
		return r && r->ready;
	case VIRTIO_MMIO_STATUS:
		return atomic_load(&t->status);
	case VIRTIO_MMIO_CONFIG_GENERATION:
		return atomic_load(&t->generation);
	default:
		/* There is no shared memory: its length and place read as -1. */
		return offset >= REG_SHM_LEN_LOW && offset <= REG_SHM_BASE_HIGH ? UINT32_MAX : 0;
	}
}

static void set_half(uint64_t *address, bool high, uint32_t value)
{
	*address = high ? (*address & UINT32_MAX) | (uint64_t)value << 32 : (*address & ~(uint64_t)UINT32_MAX) | value;
}

/* Lock held. What a ready queue was made of cannot be changed. */
static void write_queue(struct virtio_mmio *t, uint32_t offset, uint32_t value)
{
	struct queue_regs *r = selected(t);

	if (!r) {
		violation(t, "a queue that is not there");
		return;
	}
	if (offset == VIRTIO_MMIO_QUEUE_READY) {
		write_ready(t, t->queue_sel, value);
		return;
	}
	if (offset == REG_QUEUE_RESET) {
		if (value == 1 && virtio_has(t->dev, RING_RESET))
			stop_queue(t, t->queue_sel);
		return;
	}
	if (r->ready) {
		violation(t, "a ready queue is changed");
		return;
	}
	switch (offset) {
	case VIRTIO_MMIO_QUEUE_NUM:
		r->num = value;
		break;
	case VIRTIO_MMIO_QUEUE_DESC_LOW:
	case VIRTIO_MMIO_QUEUE_DESC_HIGH:
		set_half(&r->desc, offset == VIRTIO_MMIO_QUEUE_DESC_HIGH, value);
		break;
	case VIRTIO_MMIO_QUEUE_AVAIL_LOW:
	case VIRTIO_MMIO_QUEUE_AVAIL_HIGH:
		set_half(&r->avail, offset == VIRTIO_MMIO_QUEUE_AVAIL_HIGH, value);
		break;
	case VIRTIO_MMIO_QUEUE_USED_LOW:
	case VIRTIO_MMIO_QUEUE_USED_HIGH:
		set_half(&r->used, offset == VIRTIO_MMIO_QUEUE_USED_HIGH, value);
		break;
	}
}

static void write_features(struct virtio_mmio *t, uint32_t value)
{
	if (atomic_load(&t->status) & VIRTIO_CONFIG_S_FEATURES_OK)
		violation(t, "features are written after FEATURES_OK");
	else if (t->driver_sel < 2)
		set_half(&t->driver_features, t->driver_sel == 1, value);
}

/* Lock held. */
static void write_register(struct virtio_mmio *t, uint32_t offset, uint32_t value)
{
	switch (offset) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		t->device_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
		t->driver_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES:
		write_features(t, value);
		break;
	case VIRTIO_MMIO_QUEUE_SEL:
		t->queue_sel = value;
		break;
	case VIRTIO_MMIO_STATUS:
		write_status(t, value);
		break;
	case VIRTIO_MMIO_QUEUE_NUM:
	case VIRTIO_MMIO_QUEUE_READY:
	case VIRTIO_MMIO_QUEUE_DESC_LOW ... VIRTIO_MMIO_QUEUE_USED_HIGH:
	case REG_QUEUE_RESET:
		write_queue(t, offset, value);
		break;
	case REG_SHM_SEL:
		break;
	default:
		violation(t, "a register that is not there or read-only is written");
	}
}

static bool in_config(const struct virtio_mmio *t, uint64_t offset, unsigned size)
{
	return offset >= VIRTIO_MMIO_CONFIG && offset - VIRTIO_MMIO_CONFIG + size <= t->dev->ops->config_bytes;
}

static uint64_t mmio_read(void *dev, uint64_t offset, unsigned size)
{
	struct virtio_mmio *t = dev;
	uint64_t value = 0;

	if (offset == VIRTIO_MMIO_INTERRUPT_STATUS && size == 4)
		return atomic_load(&t->isr);
	pthread_mutex_lock(&t->lock);
	if (in_config(t, offset, size)) {
		if (t->dev->ops->config_read)
			t->dev->ops->config_read(t->dev, (uint32_t)offset - VIRTIO_MMIO_CONFIG, &value, size);
	} else if (offset < VIRTIO_MMIO_CONFIG && size == 4 && offset % 4 == 0) {
		value = read_register(t, (uint32_t)offset);
	}
	pthread_mutex_unlock(&t->lock);
	return value;
}

static void mmio_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct virtio_mmio *t = dev;

	/* The two that are written for every request take no lock of ours. */
	if (offset == VIRTIO_MMIO_QUEUE_NOTIFY && size == 4) {
		if (value < t->dev->queue_count)
			kick(t, (unsigned)value);
		else
			violation(t, "a queue that is not there is notified");
		return;
	}
	if (offset == VIRTIO_MMIO_INTERRUPT_ACK && size == 4) {
		atomic_fetch_and(&t->isr, ~(unsigned)value);
		return;
	}
	pthread_mutex_lock(&t->lock);
	if (in_config(t, offset, size)) {
		if (t->dev->ops->config_write)
			t->dev->ops->config_write(t->dev, (uint32_t)offset - VIRTIO_MMIO_CONFIG, &value, size);
	} else if (offset < VIRTIO_MMIO_CONFIG && size == 4 && offset % 4 == 0) {
		write_register(t, (uint32_t)offset, (uint32_t)value);
	} else {
		violation(t, "a write of a wrong size or place");
	}
	pthread_mutex_unlock(&t->lock);
}

const struct bus_ops virtio_mmio_bus_ops = {mmio_read, mmio_write};

/* --------------------------------------------------------------------------------------------- life */

struct virtio_mmio *virtio_mmio_create(const struct virtio_mmio_config *config)
{
	struct virtio_mmio *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->config = *config;
	t->dev = config->dev;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->line_lock, NULL);
	for (unsigned n = 0; n < VIRTIO_QUEUES_MAX; n++)
		pthread_mutex_init(&t->queues[n].lock, NULL);
	t->again = (struct event_source){.fd = -1, .fn = on_again, .ctx = t};
	t->dev->queues = t->queues;
	t->dev->up = (struct virtio_up){up_used, up_config, up_broken, up_again, t};
	invariant(t->dev->queue_count <= VIRTIO_QUEUES_MAX);
	reset(t);
	return t;
}

void virtio_mmio_destroy(struct virtio_mmio *t)
{
	if (!t)
		return;
	reset(t);
	if (t->again.fd >= 0) {
		event_loop_set(t->config.loop, &t->again, 0);
		close(t->again.fd);
	}
	for (unsigned n = 0; n < VIRTIO_QUEUES_MAX; n++)
		pthread_mutex_destroy(&t->queues[n].lock);
	pthread_mutex_destroy(&t->line_lock);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
