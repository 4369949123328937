/* SPDX-License-Identifier: Apache-2.0 */
/* perf_ring.h - the kernel's side of a mapped perf ring with context switch records: kernel/events/ring_buffer.c,
 * __perf_output_begin(). On the thread that is being switched, as in the kernel. */
#ifndef PERF_RING_H
#define PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PERF_RING_BYTES 4096u

struct perf_ring {
	struct perf_event_mmap_page page;
	uint8_t data[PERF_RING_BYTES];
	uint64_t lost;
};

static void perf_ring_put(struct perf_ring *r, uint64_t *head, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		r->data[(*head + i) % PERF_RING_BYTES] = ((const uint8_t *)bytes)[i];
	*head += size;
}

/* True: it was written, which wakes the readers and sends the signal. */
static bool perf_ring_record(struct perf_ring *r, unsigned misc)
{
	const struct {
		struct perf_event_header header;
		uint64_t time;
	} record = {{PERF_RECORD_SWITCH, (uint16_t)misc, sizeof(record)}, 1};
	const struct {
		struct perf_event_header header;
		uint64_t id, lost, time;
	} lost = {{PERF_RECORD_LOST, 0, sizeof(lost)}, 1, r->lost, 1};
	uint64_t head = r->page.data_head, tail = __atomic_load_n(&r->page.data_tail, __ATOMIC_RELAXED);
	uint64_t room = (tail - (head + 1)) & (PERF_RING_BYTES - 1);
	if (room < sizeof(record) + (r->lost ? sizeof(lost) : 0)) {
		r->lost++;
		return false;
	}
	if (r->lost)
		perf_ring_put(r, &head, &lost, sizeof(lost));
	perf_ring_put(r, &head, &record, sizeof(record));
	r->lost = 0;
	__atomic_store_n(&r->page.data_head, head, __ATOMIC_RELEASE);
	return true;
}

static inline bool perf_ring_out(struct perf_ring *r, bool preempt)
{
	return perf_ring_record(r, PERF_RECORD_MISC_SWITCH_OUT | (preempt ? PERF_RECORD_MISC_SWITCH_OUT_PREEMPT : 0));
}

static inline bool perf_ring_in(struct perf_ring *r)
{
	bool written = perf_ring_record(r, 0);
	__atomic_store_n(&r->page.lock, r->page.lock + 2, __ATOMIC_RELEASE);
	return written;
}

#endif
