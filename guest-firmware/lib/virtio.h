/* SPDX-License-Identifier: Apache-2.0 */
/* virtio.h - a driver for virtio over MMIO, version 2, small enough to read: virtio 1.2, 3.1, 2.7 and 4.2. */
#ifndef GUEST_VIRTIO_H
#define GUEST_VIRTIO_H

#include "guest.h"

enum {
	VIRTIO_BLK = 2,
	VIRTIO_RNG = 4,
};

enum {
	VIRTIO_SLOTS = 8,
	VIRTIO_VECTOR = 0x70, /* of slot 0 */
};
#define VIRTIO_BASE 0xd0000000ull /* or what virtio-base= says; for other monitors, as virtio-step= and virtio-pin= */

enum virtio_reg {
	VIRTIO_MAGIC = 0x00,
	VIRTIO_VERSION = 0x04,
	VIRTIO_DEVICE = 0x08,
	VIRTIO_VENDOR = 0x0c,
	VIRTIO_DEVICE_FEATURES = 0x10,
	VIRTIO_DEVICE_FEATURES_SEL = 0x14,
	VIRTIO_DRIVER_FEATURES = 0x20,
	VIRTIO_DRIVER_FEATURES_SEL = 0x24,
	VIRTIO_QUEUE_SEL = 0x30,
	VIRTIO_QUEUE_NUM_MAX = 0x34,
	VIRTIO_QUEUE_NUM = 0x38,
	VIRTIO_QUEUE_READY = 0x44,
	VIRTIO_QUEUE_NOTIFY = 0x50,
	VIRTIO_INTERRUPT_STATUS = 0x60,
	VIRTIO_INTERRUPT_ACK = 0x64,
	VIRTIO_STATUS = 0x70,
	VIRTIO_QUEUE_DESC = 0x80, /* low half, high half behind it; so the next two */
	VIRTIO_QUEUE_AVAIL = 0x90,
	VIRTIO_QUEUE_USED = 0xa0,
	VIRTIO_QUEUE_RESET = 0xc0,
	VIRTIO_CONFIG_GENERATION = 0xfc,
	VIRTIO_CONFIG = 0x100,
};
enum {
	VIRTIO_ACKNOWLEDGE = 1,
	VIRTIO_DRIVER = 2,
	VIRTIO_DRIVER_OK = 4,
	VIRTIO_FEATURES_OK = 8,
	VIRTIO_NEEDS_RESET = 64,
	VIRTIO_FAILED = 128,
};
#define VIRTIO_F_INDIRECT         (1ull << 28)
#define VIRTIO_F_EVENT_IDX        (1ull << 29)
#define VIRTIO_F_VERSION_1        (1ull << 32)
#define VIRTIO_F_RING_RESET       (1ull << 40)
#define VIRTIO_BLK_F_RO           (1ull << 5)
#define VIRTIO_BLK_F_FLUSH        (1ull << 9)
#define VIRTIO_BLK_F_DISCARD      (1ull << 13)
#define VIRTIO_BLK_F_WRITE_ZEROES (1ull << 14)

struct virtio {
	uint64_t base;
	unsigned slot;
	uint64_t offered, features;
	volatile uint32_t interrupts, configs; /* taken; of these, with the configuration bit */
};

struct vq_desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags, next;
};
enum {
	VQ_NEXT = 1,
	VQ_WRITE = 2,
	VQ_INDIRECT = 4,
};
enum {
	VQ_NO_INTERRUPT = 1, /* vq_avail.flags */
	VQ_NO_NOTIFY = 1,    /* vq_used.flags */
};
struct vq_avail {
	uint16_t flags, idx, ring[];
};
struct vq_used {
	uint16_t flags, idx;
	struct {
		uint32_t id, len;
	} ring[];
};

struct vq {
	struct virtio *dev;
	unsigned index;
	uint16_t size, next, seen; /* next descriptor to use; used entries taken */
	volatile struct vq_desc *desc;
	volatile struct vq_avail *avail;
	volatile struct vq_used *used;
};

struct vq_buf {
	const volatile void *at;
	uint32_t len;
};

static inline uint32_t virtio_read(const struct virtio *v, enum virtio_reg reg)
{
	return mmio_read(v->base + reg);
}
static inline void virtio_write(const struct virtio *v, enum virtio_reg reg, uint32_t value)
{
	mmio_write(v->base + reg, value);
}

/* Zeroed memory behind 16 MiB. */
void *virtio_alloc(uint64_t bytes, uint64_t align);

/* The nth device of that kind; false: it is not there. */
bool virtio_find(struct virtio *v, uint32_t device, unsigned nth);
/* Reset, negotiate (VERSION_1 and what is both wanted and offered), up to FEATURES_OK. Interrupts go to this CPU. */
void virtio_begin(struct virtio *v, uint64_t wanted);
void virtio_ready(struct virtio *v);

void vq_setup(struct vq *q, struct virtio *v, unsigned index, uint16_t size);
/* Puts a chain of buffers, readable ones first, at the driver's end; the device may see it from now on. Returns its
 * head. */
uint16_t vq_add(struct vq *q, const struct vq_buf *bufs, unsigned readable, unsigned writable);
static inline void vq_kick(struct vq *q)
{
	virtio_write(q->dev, VIRTIO_QUEUE_NOTIFY, q->index);
}
/* Only if there is something new since *told, and the device wants to hear of it. */
void vq_kick_new(struct vq *q, uint16_t *told);
static inline bool vq_has_used(const struct vq *q)
{
	return q->used->idx != q->seen;
}
/* Halts until a chain came back; its written bytes. */
uint32_t vq_wait(struct vq *q);

/* ---- block device ---- */

enum {
	BLK_IN = 0,
	BLK_OUT = 1,
	BLK_FLUSH = 4,
	BLK_GET_ID = 8,
	BLK_DISCARD = 11,
	BLK_WRITE_ZEROES = 13,
};
enum {
	BLK_OK = 0,
	BLK_IOERR = 1,
	BLK_UNSUPP = 2,
};
struct blk {
	struct virtio v;
	struct vq q;
	volatile struct {
		uint32_t type, reserved;
		uint64_t sector;
	} * header;
	volatile uint8_t *status;
};
/* Skips the test when there is no such disk. */
void blk_start(struct blk *b, unsigned nth, uint64_t wanted);
/* One request from notification to status; data may be NULL. */
uint8_t blk_request(struct blk *b, uint32_t type, uint64_t sector, void *data, uint32_t len);
static inline uint64_t blk_sectors(const struct blk *b)
{
	return virtio_read(&b->v, VIRTIO_CONFIG) | (uint64_t)mmio_read(b->v.base + VIRTIO_CONFIG + 4) << 32;
}

#endif
