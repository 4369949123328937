/* SPDX-License-Identifier: Apache-2.0 */
/* virtq_driver.h - the driver's side of split virtqueues and of the registers, in guest memory, as obedient or as
 * hostile as a test wants: every word of a ring can be written by hand. */
#ifndef LULL_TESTS_VIRTQ_DRIVER_H
#define LULL_TESTS_VIRTQ_DRIVER_H

#include "guest_mem.h"
#include "util.h"
#include "virtio_mmio.h"

#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <string.h>

#define DRIVER_RAM MiB(4)

/* One ring, by pointers into guest memory. */
struct driver_ring {
	uint16_t size, next, seen; /* next descriptor, used entries taken */
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	struct virtq_config config;
};

struct driver {
	struct guest_mem mem;
	uint64_t heap; /* next free guest address */
	struct virtio_mmio *t;
};

struct driver_buf {
	uint64_t addr;
	uint32_t len;
	bool writable;
};

static inline void driver_open(struct driver *d)
{
	memset(d, 0, sizeof(*d));
	invariant(guest_mem_init(&d->mem, DRIVER_RAM, false, NULL) == 0);
	d->heap = 0x1000;
}

static inline void driver_close(struct driver *d)
{
	guest_mem_fini(&d->mem);
}

static inline uint64_t driver_alloc(struct driver *d, uint64_t bytes, uint64_t align)
{
	uint64_t at = align_up(d->heap, align);
	d->heap = at + bytes;
	invariant(d->heap <= DRIVER_RAM);
	return at;
}

static inline void *driver_at(const struct driver *d, uint64_t addr)
{
	return guest_mem_at(&d->mem, gpa(addr), 1);
}

static inline void driver_ring_open(struct driver *d, struct driver_ring *r, uint16_t size)
{
	memset(r, 0, sizeof(*r));
	r->size = size;
	r->config.size = size;
	r->config.desc = gpa(driver_alloc(d, 16ull * size, 16));
	r->config.avail = gpa(driver_alloc(d, 6 + 2ull * size, 2));
	r->config.used = gpa(driver_alloc(d, 6 + 8ull * size, 4));
	r->desc = driver_at(d, r->config.desc.value);
	r->avail = driver_at(d, r->config.avail.value);
	r->used = driver_at(d, r->config.used.value);
}

static inline void driver_desc(struct driver_ring *r, unsigned i, uint64_t addr, uint32_t len, unsigned flags,
                               unsigned next)
{
	r->desc[i] = (struct vring_desc){.addr = addr, .len = len, .flags = (uint16_t)flags, .next = (uint16_t)next};
}

static inline void driver_offer(struct driver_ring *r, unsigned head)
{
	r->avail->ring[r->avail->idx % r->size] = (uint16_t)head;
	__atomic_store_n(&r->avail->idx, (uint16_t)(r->avail->idx + 1), __ATOMIC_RELEASE);
}

/* A chain by the rules; its head. */
static inline uint16_t driver_chain(struct driver_ring *r, const struct driver_buf *bufs, unsigned count)
{
	uint16_t head = r->next;

	for (unsigned i = 0; i < count; i++) {
		uint16_t at = r->next;
		r->next = (uint16_t)((r->next + 1) % r->size);
		driver_desc(r, at, bufs[i].addr, bufs[i].len,
		            (bufs[i].writable ? VRING_DESC_F_WRITE : 0u) | (i + 1 < count ? VRING_DESC_F_NEXT : 0u),
		            r->next);
	}
	driver_offer(r, head);
	return head;
}

static inline bool driver_used(struct driver_ring *r, uint32_t *id, uint32_t *len)
{
	if (__atomic_load_n(&r->used->idx, __ATOMIC_ACQUIRE) == r->seen)
		return false;
	const vring_used_elem_t *e = &r->used->ring[r->seen++ % r->size];
	*id = e->id;
	*len = e->len;
	return true;
}

/* ---- registers ---- */

static inline uint32_t driver_read(struct driver *d, unsigned reg)
{
	return (uint32_t)virtio_mmio_bus_ops.read(d->t, reg, 4);
}

static inline void driver_write(struct driver *d, unsigned reg, uint32_t value)
{
	virtio_mmio_bus_ops.write(d->t, reg, 4, value);
}

static inline uint64_t driver_offered(struct driver *d)
{
	uint64_t features = 0;

	for (unsigned half = 0; half < 2; half++) {
		driver_write(d, VIRTIO_MMIO_DEVICE_FEATURES_SEL, half);
		features |= (uint64_t)driver_read(d, VIRTIO_MMIO_DEVICE_FEATURES) << (32 * half);
	}
	return features;
}

static inline void driver_features(struct driver *d, uint64_t features)
{
	for (unsigned half = 0; half < 2; half++) {
		driver_write(d, VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
		driver_write(d, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> (32 * half)));
	}
}

/* Up to FEATURES_OK; VERSION_1 is added. */
static inline bool driver_negotiate(struct driver *d, uint64_t features)
{
	driver_write(d, VIRTIO_MMIO_STATUS, 0);
	driver_write(d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	driver_write(d, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	driver_features(d, features | 1ull << VIRTIO_F_VERSION_1);
	driver_write(d, VIRTIO_MMIO_STATUS,
	             VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK);
	return driver_read(d, VIRTIO_MMIO_STATUS) & VIRTIO_CONFIG_S_FEATURES_OK;
}

static inline void driver_set_status(struct driver *d, unsigned bits)
{
	driver_write(d, VIRTIO_MMIO_STATUS, driver_read(d, VIRTIO_MMIO_STATUS) | bits);
}

static inline void driver_ready(struct driver *d, unsigned n, const struct driver_ring *r)
{
	const uint64_t at[] = {r->config.desc.value, r->config.avail.value, r->config.used.value};
	static const unsigned regs[] = {VIRTIO_MMIO_QUEUE_DESC_LOW, VIRTIO_MMIO_QUEUE_AVAIL_LOW,
	                                VIRTIO_MMIO_QUEUE_USED_LOW};

	driver_write(d, VIRTIO_MMIO_QUEUE_SEL, n);
	driver_write(d, VIRTIO_MMIO_QUEUE_NUM, r->config.size);
	for (unsigned i = 0; i < 3; i++) {
		driver_write(d, regs[i], (uint32_t)at[i]);
		driver_write(d, regs[i] + 4, (uint32_t)(at[i] >> 32));
	}
	driver_write(d, VIRTIO_MMIO_QUEUE_READY, 1);
}

static inline void driver_kick(struct driver *d, unsigned queue)
{
	driver_write(d, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

static inline bool driver_needs_reset(struct driver *d)
{
	return driver_read(d, VIRTIO_MMIO_STATUS) & VIRTIO_CONFIG_S_NEEDS_RESET;
}

#endif
