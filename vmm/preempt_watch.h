/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt_watch.h - learns, without privileges, that a thread of ours was taken off its CPU while it still wanted to
 * run: the context switch records of perf_event_open(2), one event per thread. Knows nothing of guests.
 *
 * The kernel writes a record into a mapped ring when the thread leaves a CPU and one when it comes back, and each one
 * wakes whoever waits for the descriptor and sends the thread a signal. Wanted is the one record with the PREEMPT mark,
 * and silence otherwise. So the thread itself says how much room the ring has, by data_tail, which is a plain store:
 *
 *   muted     no room: records are dropped and counted as lost, nobody is woken. For waits of the thread's own choice.
 *   armed     room for one record (and the note on lost ones before it). The thread leaves its CPU: written, wakes.
 *             It comes back: no room, dropped in silence. Nothing more until it is armed again.
 *
 * Records appear only while the thread is being switched, so between two of its own instructions nothing changes unless
 * it was off the CPU in between. Besides, the kernel counts up page->lock whenever the thread comes onto a CPU; that
 * tells others that a record is out of date.
 */
#ifndef LULL_PREEMPT_WATCH_H
#define LULL_PREEMPT_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_mmap_page;

struct preempt_watch {
	int fd; /* -1: not open; polls readable after a record */
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t data_bytes; /* a power of two */
	/* Watched thread; others read after they saw a record. */
	_Atomic uint64_t taken;    /* records before this place are history */
	_Atomic uint32_t arrivals; /* page->lock when it was armed */
};

enum preempt_sight {
	PREEMPT_NOTHING, /* no record, or that of a wait */
	PREEMPT_AWAY,    /* off its CPU against its will */
	PREEMPT_BACK,    /* was, and is back */
};

/* On the thread to be watched, which also gets the signal. Muted at first. 0 or -errno. */
int preempt_watch_open(struct preempt_watch *w, int signal);
void preempt_watch_close(struct preempt_watch *w);

/* ---- watched thread ---- */

/* A record came since the last take: the thread was off its CPU, and others may know. */
bool preempt_watch_seen(const struct preempt_watch *w);
void preempt_watch_take(struct preempt_watch *w);
void preempt_watch_arm(struct preempt_watch *w);
/* From here on no record appears; one that came before is still to be taken. */
void preempt_watch_mute(struct preempt_watch *w);

/* ---- any thread; not during a take ---- */

/* out_ns: when it left, CLOCK_MONOTONIC; for the last two. */
enum preempt_sight preempt_watch_look(const struct preempt_watch *w, uint64_t *out_ns);

#endif
