/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake.h - how one vCPU thread is told that there is work: an eventcount in one 32-bit word.
 *
 * This is the whole protocol. The owner is the vCPU's thread; posters are any threads.
 *
 *   owner                                          poster
 *   t = wake_ticket(w)      (1)                    publish the work     (a)
 *   look for work           (2)                    wake_post(w, ...)    (b)
 *   none: wake_block(w, t)  (3)  or
 *   run:  wake_enter(w, t)  (3)
 *
 * The word counts posts in its upper bits and says in the low two where the owner is: looking (in the VMM),
 * asleep, or in the guest. (3) swaps "looking" for "asleep" or "in guest" only if the count is still that of the
 * ticket, so work published after (2) makes it fail; work published before (1) is seen at (2). (b) counts up and
 * puts the owner back to "looking" in the same swap, and from the state it replaced it learns what is left to do:
 * nothing, a futex wake, or a kick. So each sleep costs at most one futex wake and each entry at most one signal,
 * however many posters there are. tests/model/wake.pml is the same in Promela.
 */
#ifndef LULL_WAKE_H
#define LULL_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum wake_cause {
	WAKE_TIMER,  /* the vCPU's own APIC timer */
	WAKE_IPI,    /* another vCPU */
	WAKE_DEVICE, /* IOAPIC pin or message-signalled interrupt */
	WAKE_NMI,
	WAKE_INIT,    /* INIT or SIPI */
	WAKE_REQUEST, /* stop, pause, inspect */
	WAKE_INLINE,  /* of statistics only: a device's completion that the halted vCPU took itself */
	WAKE_CAUSES
};

enum wake_state {
	WAKE_LOOKING = 0,
	WAKE_ASLEEP = 1,
	WAKE_IN_GUEST = 2,
	WAKE_STATE_MASK = 3,
};

#define WAKE_NEVER UINT64_MAX

struct wake {
	_Atomic uint32_t word;
	_Atomic uint32_t causes;    /* bit per enum wake_cause, set by posters, taken by the owner */
	_Atomic uint64_t stamp_tsc; /* TSC of the first post since the owner last took it, 0: none */
	void (*kick)(void *ctx);    /* makes the owner leave the guest; any thread, must not block */
	void *ctx;
};

void wake_init(struct wake *w, void (*kick)(void *ctx), void *ctx);

/* Owner. (1): before looking for work. Also says "looking" after the guest was left. */
uint32_t wake_ticket(struct wake *w);

/* Owner. True when posts came since the ticket was taken. Costs one load: this is what polling reads. */
static inline bool wake_posted(struct wake *w, uint32_t ticket)
{
	return atomic_load_explicit(&w->word, memory_order_acquire) != ticket;
}

/* Owner. (3): sleeps until a post or the CLOCK_MONOTONIC deadline in ns (WAKE_NEVER: none).
 * 0: posted, -EAGAIN: posted before it fell asleep, -ETIMEDOUT, or -EINTR after a signal. */
int wake_block(struct wake *w, uint32_t ticket, uint64_t deadline_ns);

/* A word that the kernel writes while this thread sleeps, in work that it does on this thread: the tail of a completion
 * queue. It wakes nobody, but the thread wakes for that work, and goes back to sleep only if the word is unchanged. */
struct wake_watch {
	const uint32_t *word;
	uint32_t value; /* when the caller looked */
};

#define WAKE_WATCH_MAX 8

/* Like wake_block(); -EINTR also when a watched word changed. Where the host has no futex_waitv() (Linux before 5.16)
 * that is not noticed. */
int wake_block_watching(struct wake *w, uint32_t ticket, uint64_t deadline_ns, const struct wake_watch *watch,
                        unsigned count);

/* Owner. (3): false when a post came since the ticket, else posters kick from now on. */
bool wake_enter(struct wake *w, uint32_t ticket);

/* Any thread. (b): after publishing the work. now_tsc is the time of the event. Returns the state that the owner
 * was in. Also a full barrier. */
enum wake_state wake_post(struct wake *w, enum wake_cause cause, uint64_t now_tsc);

/* Owner. Takes causes and stamp of the posts so far. */
uint32_t wake_take(struct wake *w, uint64_t *stamp_tsc);

#endif
