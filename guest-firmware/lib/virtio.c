/* SPDX-License-Identifier: Apache-2.0 */
/* virtio.c - registers, split queues and block requests, one at a time. */
#include "virtio.h"

static struct virtio *devices[VIRTIO_SLOTS];
static uint64_t heap = 16 << 20;

void *virtio_alloc(uint64_t bytes, uint64_t align)
{
	uint64_t at = (heap + align - 1) & -align;

	heap = at + bytes;
	return (void *)at; /* nobody wrote there before */
}

static void interrupt(unsigned vector, struct irq_frame *frame)
{
	struct virtio *v = devices[vector - VIRTIO_VECTOR];
	uint32_t status = virtio_read(v, VIRTIO_INTERRUPT_STATUS);

	(void)frame;
	virtio_write(v, VIRTIO_INTERRUPT_ACK, status);
	v->interrupts++;
	v->configs += status >> 1 & 1;
	apic_eoi();
}

bool virtio_find(struct virtio *v, uint32_t device, unsigned nth)
{
	for (v->slot = 0; v->slot < VIRTIO_SLOTS; v->slot++) {
		v->base = param_u64("virtio-base", VIRTIO_BASE) + v->slot * param_u64("virtio-step", 0x1000);
		if (virtio_read(v, VIRTIO_MAGIC) == 0x74726976 && virtio_read(v, VIRTIO_VERSION) == 2 &&
		    virtio_read(v, VIRTIO_DEVICE) == device && nth-- == 0)
			return true;
	}
	return false;
}

void virtio_begin(struct virtio *v, uint64_t wanted)
{
	unsigned half;

	devices[v->slot] = v;
	irq_set(VIRTIO_VECTOR + v->slot, interrupt);
	ioapic_route((unsigned)param_u64("virtio-pin", 16) + v->slot, VIRTIO_VECTOR + v->slot, apic_id());
	virtio_write(v, VIRTIO_STATUS, 0);
	check_eq(virtio_read(v, VIRTIO_STATUS), 0);
	virtio_write(v, VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE);
	virtio_write(v, VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER);
	v->offered = 0;
	for (half = 0; half < 2; half++) {
		virtio_write(v, VIRTIO_DEVICE_FEATURES_SEL, half);
		v->offered |= (uint64_t)virtio_read(v, VIRTIO_DEVICE_FEATURES) << (32 * half);
	}
	check(v->offered & VIRTIO_F_VERSION_1);
	v->features = v->offered & (wanted | VIRTIO_F_VERSION_1);
	for (half = 0; half < 2; half++) {
		virtio_write(v, VIRTIO_DRIVER_FEATURES_SEL, half);
		virtio_write(v, VIRTIO_DRIVER_FEATURES, (uint32_t)(v->features >> (32 * half)));
	}
	virtio_write(v, VIRTIO_STATUS, VIRTIO_ACKNOWLEDGE | VIRTIO_DRIVER | VIRTIO_FEATURES_OK);
	check(virtio_read(v, VIRTIO_STATUS) & VIRTIO_FEATURES_OK);
}

void virtio_ready(struct virtio *v)
{
	virtio_write(v, VIRTIO_STATUS, virtio_read(v, VIRTIO_STATUS) | VIRTIO_DRIVER_OK);
	check(!(virtio_read(v, VIRTIO_STATUS) & VIRTIO_NEEDS_RESET));
}

static void write_address(struct virtio *v, enum virtio_reg reg, const volatile void *at)
{
	virtio_write(v, reg, (uint32_t)(uint64_t)at);
	virtio_write(v, reg + 4, (uint32_t)((uint64_t)at >> 32));
}

void vq_setup(struct vq *q, struct virtio *v, unsigned index, uint16_t size)
{
	*q = (struct vq){.dev = v, .index = index, .size = size};
	q->desc = virtio_alloc(size * sizeof(*q->desc), 16);
	q->avail = virtio_alloc(6 + 2ull * size, 2);
	q->used = virtio_alloc(6 + 8ull * size, 4);
	virtio_write(v, VIRTIO_QUEUE_SEL, index);
	check(virtio_read(v, VIRTIO_QUEUE_NUM_MAX) >= size);
	check_eq(virtio_read(v, VIRTIO_QUEUE_READY), 0);
	virtio_write(v, VIRTIO_QUEUE_NUM, size);
	write_address(v, VIRTIO_QUEUE_DESC, q->desc);
	write_address(v, VIRTIO_QUEUE_AVAIL, q->avail);
	write_address(v, VIRTIO_QUEUE_USED, q->used);
	virtio_write(v, VIRTIO_QUEUE_READY, 1);
	check_eq(virtio_read(v, VIRTIO_QUEUE_READY), 1);
}

void vq_kick_new(struct vq *q, uint16_t *told)
{
	uint16_t idx = q->avail->idx;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (idx != *told && !(q->used->flags & VQ_NO_NOTIFY))
		vq_kick(q);
	*told = idx;
}

uint16_t vq_add(struct vq *q, const struct vq_buf *bufs, unsigned readable, unsigned writable)
{
	uint16_t head = q->next;
	unsigned i, n = readable + writable;

	for (i = 0; i < n; i++) {
		volatile struct vq_desc *d = &q->desc[q->next];

		q->next = (uint16_t)((q->next + 1) & (q->size - 1));
		d->addr = (uint64_t)bufs[i].at;
		d->len = bufs[i].len;
		d->flags = (uint16_t)((i >= readable ? VQ_WRITE : 0) | (i + 1 < n ? VQ_NEXT : 0));
		d->next = q->next;
	}
	q->avail->ring[q->avail->idx & (q->size - 1)] = head;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->avail->idx++;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return head;
}

uint32_t vq_wait(struct vq *q)
{
	if (q->dev->features & VIRTIO_F_EVENT_IDX) {
		q->avail->ring[q->size] = q->seen; /* an interrupt for the next one, please */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	halt_until(vq_has_used(q));
	return q->used->ring[q->seen++ & (q->size - 1)].len;
}

void blk_start(struct blk *b, unsigned nth, uint64_t wanted)
{
	if (!virtio_find(&b->v, VIRTIO_BLK, nth))
		skip("no disk");
	virtio_begin(&b->v, wanted);
	vq_setup(&b->q, &b->v, 0, 16);
	b->header = virtio_alloc(16, 16);
	b->status = virtio_alloc(1, 1);
	virtio_ready(&b->v);
}

uint8_t blk_request(struct blk *b, uint32_t type, uint64_t sector, void *data, uint32_t len)
{
	bool out = type == BLK_OUT || type == BLK_DISCARD || type == BLK_WRITE_ZEROES;
	const struct vq_buf bufs[] = {{b->header, 16}, {data, len}, {b->status, 1}};
	const struct vq_buf bare[] = {{b->header, 16}, {b->status, 1}};

	b->header->type = type;
	b->header->sector = sector;
	*b->status = 0xff;
	if (data)
		vq_add(&b->q, bufs, out ? 2 : 1, out ? 1 : 2);
	else
		vq_add(&b->q, bare, 1, 1);
	vq_kick(&b->q);
	vq_wait(&b->q);
	return *b->status;
}
