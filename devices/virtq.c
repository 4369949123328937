// SPDX-License-Identifier: Apache-2.0
/* virtq.c - split virtqueues against a hostile driver. Knows no device and no transport. */
#include "virtq.h"

#include "util.h"

#include <errno.h>
#include <string.h>

/* Words that the driver accesses at the same time; the areas are aligned for that. */
static uint16_t load16(const __virtio16 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* 2.7.7 and 2.7.10: each side writes its own word, passes a full barrier and looks at the other's, so that one of the
 * two sees what the other did. A store and a load in the order of all such are that. */
static void announce16(__virtio16 *p, uint16_t value)
{
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}

static uint16_t look16(const __virtio16 *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static uint16_t *used_event(const struct virtq *q)
{
	return &q->avail->ring[q->size];
}

static uint16_t *avail_event(const struct virtq *q)
{
	return (uint16_t *)(void *)&q->used->ring[q->size];
}

/* One descriptor, read once: behind the barrier only the copy exists. An indirect table may lie anywhere. */
static struct vring_desc copy_desc(const uint8_t *table, uint32_t n)
{
	struct vring_desc d;

	memcpy(&d, table + n * sizeof(d), sizeof(d));
	__asm__ volatile("" : : : "memory");
	return d;
}

int virtq_init(struct virtq *q, const struct guest_mem *mem, const struct virtq_config *config)
{
	uint32_t n = config->size;

	memset(q, 0, sizeof(*q));
	if (!n || n > VIRTQ_SIZE_MAX || (n & (n - 1)))
		return -EINVAL;
	if (config->desc.value % VRING_DESC_ALIGN_SIZE || config->avail.value % VRING_AVAIL_ALIGN_SIZE ||
	    config->used.value % VRING_USED_ALIGN_SIZE)
		return -EINVAL;
	/* Room for the event words is there whether they were negotiated or not: 2.7, table of sizes. */
	q->desc = guest_mem_at(mem, config->desc, (uint64_t)n * sizeof(struct vring_desc));
	q->avail = guest_mem_at(mem, config->avail, sizeof(struct vring_avail) + (uint64_t)n * 2 + 2);
	q->used = guest_mem_at(mem, config->used,
	                       sizeof(struct vring_used) + (uint64_t)n * sizeof(vring_used_elem_t) + 2);
	if (!q->desc || !q->avail || !q->used)
		return -EFAULT;
	q->mem = mem;
	q->size = (uint16_t)n;
	q->indirect = config->indirect;
	q->event_idx = config->event_idx;
	return 0;
}

/* ------------------------------------------------------------------------------------------ chains */

/* Where the walk is: in the ring's own table, or in the one indirect table a chain may end with. */
struct walk {
	const uint8_t *table;
	uint32_t count; /* its entries */
	uint32_t next;
	bool indirect;
};

static int enter_indirect(const struct virtq *q, struct walk *w, const struct vring_desc *d)
{
	/* 2.7.5.3: no table in a table, nothing behind it, whole entries, no longer than the queue. */
	if (!q->indirect || w->indirect || (d->flags & VRING_DESC_F_NEXT))
		return -EPROTO;
	if (!d->len || d->len % sizeof(*d) || d->len / sizeof(*d) > q->size)
		return -EPROTO;
	w->table = guest_mem_at(q->mem, gpa(d->addr), d->len);
	if (!w->table)
		return -EFAULT;
	w->count = d->len / (uint32_t)sizeof(*d);
	w->next = 0;
	w->indirect = true;
	return 0;
}

static int add_buffer(const struct virtq *q, struct virtq_chain *chain, const struct vring_desc *d)
{
	bool writable = d->flags & VRING_DESC_F_WRITE;
	unsigned n = chain->readable + chain->writable;
	uint32_t total;

	/* 2.7.4.2: readable before writable. A chain is no longer than the queue, so that one with a loop ends too. */
	if ((!writable && chain->writable) || n == q->size || n == chain->iov_max || !d->len)
		return -EPROTO;
	/* 2.7.4.2: less than 4 GiB in all. */
	if (__builtin_add_overflow(chain->readable_bytes, chain->writable_bytes, &total) ||
	    __builtin_add_overflow(total, d->len, &total))
		return -EPROTO;
	void *at = guest_mem_at(q->mem, gpa(d->addr), d->len);
	if (!at)
		return -EFAULT;
	chain->iov[n] = (struct iovec){.iov_base = at, .iov_len = d->len};
	if (writable) {
		chain->writable++;
		chain->writable_bytes += d->len;
	} else {
		chain->readable++;
		chain->readable_bytes += d->len;
	}
	return 0;
}

static int walk_chain(const struct virtq *q, struct virtq_chain *chain, uint16_t head)
{
	struct walk w = {.table = q->desc, .count = q->size, .next = head};

	for (;;) {
		if (w.next >= w.count)
			return -EPROTO;
		struct vring_desc d = copy_desc(w.table, w.next);
		int ret;
		if (d.flags & VRING_DESC_F_INDIRECT) {
			ret = enter_indirect(q, &w, &d);
			if (ret < 0)
				return ret;
			continue;
		}
		ret = add_buffer(q, chain, &d);
		if (ret < 0)
			return ret;
		if (!(d.flags & VRING_DESC_F_NEXT))
			return 1;
		w.next = d.next;
	}
}

int virtq_pop(struct virtq *q, struct virtq_chain *chain)
{
	uint16_t idx = __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE);
	uint16_t waiting = (uint16_t)(idx - q->avail_next);

	if (!waiting)
		return 0;
	/* More than the queue holds, counting what we have of it. */
	if (waiting > q->size - q->out)
		return -EPROTO;
	uint16_t head = load16(&q->avail->ring[q->avail_next & (q->size - 1)]);
	if (head >= q->size)
		return -EPROTO;
	chain->head = head;
	chain->readable = chain->writable = 0;
	chain->readable_bytes = chain->writable_bytes = 0;
	int ret = walk_chain(q, chain, head);
	if (ret > 0) {
		q->avail_next++;
		q->out++;
	}
	return ret;
}

void virtq_push(struct virtq *q, uint16_t head, uint32_t written)
{
	vring_used_elem_t *e = &q->used->ring[q->used_next & (q->size - 1)];

	invariant(q->out);
	q->out--;
	q->used_next++;
	__atomic_store_n(&e->id, (uint32_t)head, __ATOMIC_RELAXED);
	__atomic_store_n(&e->len, written, __ATOMIC_RELAXED);
}

/* --------------------------------------------------------------------------------- notifications */

bool virtq_flush(struct virtq *q)
{
	uint16_t old = q->used_told;

	if (q->used_next == old)
		return false;
	announce16(&q->used->idx, q->used_next);
	q->used_told = q->used_next;
	if (q->event_idx)
		return vring_need_event(look16(used_event(q)), q->used_next, old);
	return !(look16(&q->avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}

void virtq_kick_off(struct virtq *q)
{
	/* With event indices the one that was written last has passed already, and that is enough. */
	if (!q->event_idx)
		announce16(&q->used->flags, VRING_USED_F_NO_NOTIFY);
}

bool virtq_kick_on(struct virtq *q)
{
	if (q->event_idx)
		announce16(avail_event(q), q->avail_next);
	else
		announce16(&q->used->flags, 0);
	return look16(&q->avail->idx) != q->avail_next;
}

/* --------------------------------------------------------------------------------------- contents */

/* The piece of memory at an offset in a row of them, with what is left of it; NULL behind the end. */
static uint8_t *piece(const struct iovec *iov, unsigned count, size_t offset, size_t *left)
{
	for (unsigned i = 0; i < count; i++) {
		if (offset < iov[i].iov_len) {
			*left = iov[i].iov_len - offset;
			return (uint8_t *)iov[i].iov_base + offset;
		}
		offset -= iov[i].iov_len;
	}
	return NULL;
}

size_t virtq_read(const struct virtq_chain *chain, size_t offset, void *dst, size_t len)
{
	size_t done = 0, n;
	const uint8_t *from;

	for (; done < len && (from = piece(chain->iov, chain->readable, offset + done, &n)); done += n) {
		n = n < len - done ? n : len - done;
		memcpy((uint8_t *)dst + done, from, n);
	}
	return done;
}

size_t virtq_write(const struct virtq_chain *chain, size_t offset, const void *src, size_t len)
{
	size_t done = 0, n;
	uint8_t *to;

	for (; done < len && (to = piece(chain->iov + chain->readable, chain->writable, offset + done, &n));
	     done += n) {
		n = n < len - done ? n : len - done;
		memcpy(to, (const uint8_t *)src + done, n);
	}
	return done;
}
