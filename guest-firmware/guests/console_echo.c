/* SPDX-License-Identifier: Apache-2.0 */
/* console_echo.c - gives back what comes in on the virtio console, up to the byte 4. */
#include "virtio.h"

enum {
	CONSOLE = 3,
	F_EMERG_WRITE = 2,
	BUFS = 16,
	BUF = 512,
	END = 4,
};

static struct virtio v;
static struct vq rx, tx;
static uint8_t *bufs;

static void offer(struct vq *q, unsigned n, uint32_t len, uint16_t flags)
{
	q->desc[n].addr = (uint64_t)(bufs + n * BUF);
	q->desc[n].len = len;
	q->desc[n].flags = flags;
	q->avail->ring[q->avail->idx & (BUFS - 1)] = (uint16_t)n;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	q->avail->idx++;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint64_t has_end(uint64_t arg)
{
	uint32_t n = (uint32_t)arg >> 16, len = (uint32_t)arg & 0xffff;

	while (len--)
		if (bufs[n * BUF + len] == END)
			return 1;
	return 0;
}

/* What was written is ready for input again. */
static void collect(void)
{
	while (vq_has_used(&tx)) {
		offer(&rx, tx.used->ring[tx.seen++ & (BUFS - 1)].id, BUF, VQ_WRITE);
		vq_kick(&rx);
	}
}

int main(void)
{
	uint64_t ended = 0;
	unsigned n;

	apic_setup();
	if (!virtio_find(&v, CONSOLE, 0))
		skip("no console");
	mmio_write(v.base + VIRTIO_CONFIG + 8, 'E'); /* the emergency write needs no driver */
	virtio_begin(&v, 1ull << F_EMERG_WRITE);
	check(v.features & 1ull << F_EMERG_WRITE);
	vq_setup(&rx, &v, 0, BUFS);
	vq_setup(&tx, &v, 1, BUFS);
	bufs = virtio_alloc(BUFS * BUF, 4096);
	for (n = 0; n < BUFS; n++)
		offer(&rx, n, BUF, VQ_WRITE);
	virtio_ready(&v);
	vq_kick(&rx);
	while (!ended) {
		halt_until(vq_has_used(&rx) || vq_has_used(&tx));
		collect();
		while (!ended && vq_has_used(&rx)) {
			uint32_t id = rx.used->ring[rx.seen & (BUFS - 1)].id;
			uint32_t len = rx.used->ring[rx.seen++ & (BUFS - 1)].len;

			check(id < BUFS && len >= 1 && len <= BUF);
			ended = ring3(has_end, (uint64_t)id << 16 | len);
			offer(&tx, id, len, 0);
			vq_kick(&tx);
		}
	}
	while (tx.used->idx != tx.avail->idx)
		halt();
	return 0;
}
