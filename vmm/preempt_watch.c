/* SPDX-License-Identifier: Apache-2.0 */
/* preempt_watch.c - the ring of preempt_watch.h. Records: include/uapi/linux/perf_event.h, PERF_RECORD_SWITCH and
 * _LOST. */
#include "preempt_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)

/* With sample_id_all and PERF_SAMPLE_TIME alone, a record ends with its time. */
struct switch_record {
	struct perf_event_header header;
	uint64_t time_ns;
};
struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost, time_ns;
};

/* The thread came back unrecorded, so something is lost whenever the next record comes, and the note goes before it.
 * Only the very first time there is none, and the two records fit: then whoever waits is woken twice. */
#define ROOM_BYTES (sizeof(struct lost_record) + sizeof(struct switch_record))

/* struct f_owner_ex of the kernel: glibc and musl do not show it alike. */
struct owner {
	int type, tid;
};
#define OWNER_TID 0

static uint64_t head_of(const struct preempt_watch *w)
{
	const _Atomic uint64_t *head = (const _Atomic uint64_t *)&w->page->data_head;
	return atomic_load_explicit(head, memory_order_acquire);
}

static uint32_t arrivals_of(const struct preempt_watch *w)
{
	const _Atomic uint32_t *lock = (const _Atomic uint32_t *)&w->page->lock;
	return atomic_load_explicit(lock, memory_order_acquire);
}

/* The kernel takes (tail - head - 1) modulo the ring's size for room. */
static void set_room(struct preempt_watch *w, uint64_t head, uint64_t bytes)
{
	_Atomic uint64_t *tail = (_Atomic uint64_t *)&w->page->data_tail;
	atomic_store_explicit(tail, head + 1 + bytes, memory_order_release);
}

static int set_up_signal(int fd, int signal)
{
	struct owner owner = {.type = OWNER_TID, .tid = (int)syscall(SYS_gettid)};
	if (fcntl(fd, F_SETOWN_EX, &owner) < 0 || fcntl(fd, F_SETSIG, signal) < 0 ||
	    fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int preempt_watch_open(struct preempt_watch *w, int signal)
{
	/* Nothing is counted; exclude_kernel is what perf_event_paranoid = 2 asks of the unprivileged. */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.context_switch = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int ret;
	memset(w, 0, sizeof(*w));
	w->fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (w->fd < 0)
		return -errno;
	void *map = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (map == MAP_FAILED) {
		ret = -errno;
		goto undo_fd;
	}
	w->page = map;
	w->data = (const uint8_t *)map + PAGE_BYTES;
	w->data_bytes = PAGE_BYTES;
	preempt_watch_mute(w);
	preempt_watch_take(w);
	ret = set_up_signal(w->fd, signal);
	if (ret == 0)
		return 0;
	munmap(map, 2 * PAGE_BYTES);
undo_fd:
	close(w->fd);
	w->fd = -1;
	w->page = NULL;
	return ret;
}

void preempt_watch_close(struct preempt_watch *w)
{
	if (w->fd < 0)
		return;
	munmap(w->page, 2 * PAGE_BYTES);
	close(w->fd);
	w->fd = -1;
	w->page = NULL;
}

bool preempt_watch_seen(const struct preempt_watch *w)
{
	return head_of(w) != atomic_load_explicit(&w->taken, memory_order_relaxed);
}

void preempt_watch_take(struct preempt_watch *w)
{
	atomic_store_explicit(&w->taken, head_of(w), memory_order_release);
}

void preempt_watch_arm(struct preempt_watch *w)
{
	/* In this order: taken off the CPU in between, the thread is thought to be back all along, and is not flagged.
	 * The other way round a record could be muted and its return counted. */
	set_room(w, head_of(w), ROOM_BYTES);
	atomic_store_explicit(&w->arrivals, arrivals_of(w), memory_order_release);
}

void preempt_watch_mute(struct preempt_watch *w)
{
	uint64_t head;
	do { /* the room follows the head, which moves if we are switched in between */
		head = head_of(w);
		set_room(w, head, 0);
	} while (head_of(w) != head);
}

/* Copies from the ring, which may wrap. */
static void copy_out(const struct preempt_watch *w, uint64_t at, void *dst, size_t bytes)
{
	size_t offset = at & (w->data_bytes - 1), first = w->data_bytes - offset;
	first = first < bytes ? first : bytes;
	memcpy(dst, w->data + offset, first);
	memcpy((uint8_t *)dst + first, w->data, bytes - first);
}

enum preempt_sight preempt_watch_look(const struct preempt_watch *w, uint64_t *out_ns)
{
	enum preempt_sight sight = PREEMPT_NOTHING;
	uint64_t head = head_of(w), at = atomic_load_explicit(&w->taken, memory_order_acquire);
	struct switch_record r;
	while (at < head) {
		copy_out(w, at, &r.header, sizeof(r.header));
		if (r.header.size < sizeof(r.header))
			break;
		if (r.header.type == PERF_RECORD_SWITCH && r.header.size >= sizeof(r)) {
			copy_out(w, at, &r, sizeof(r));
			bool out = r.header.misc & PERF_RECORD_MISC_SWITCH_OUT;
			bool preempted = out && (r.header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
			if (preempted)
				*out_ns = r.time_ns;
			if (out)
				sight = preempted ? PREEMPT_AWAY : PREEMPT_NOTHING;
			else if (sight == PREEMPT_AWAY)
				sight = PREEMPT_BACK;
		}
		at += r.header.size;
	}
	if (sight == PREEMPT_AWAY && arrivals_of(w) != atomic_load_explicit(&w->arrivals, memory_order_acquire))
		sight = PREEMPT_BACK;
	return sight;
}
