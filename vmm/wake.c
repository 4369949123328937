/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake.c - the eventcount of wake.h on a futex. Knows nothing of VMs, interrupts or clocks.
 *
 * The word is count << 2 | state. A ticket is the word in state "looking"; the owner's two swaps start from exactly
 * that value, so a single compare decides both "no post since" and "still looking". Posters never wait for the owner
 * and the owner never waits for posters. The count wraps after 2^30 posts between a ticket and its use.
 */
#include "wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ONE_POST (WAKE_STATE_MASK + 1u)
#define NS_PER_S 1000000000u

void wake_init(struct wake *w, void (*kick)(void *ctx), void *ctx)
{
	atomic_init(&w->word, WAKE_LOOKING);
	atomic_init(&w->causes, 0);
	atomic_init(&w->stamp_tsc, 0);
	w->kick = kick;
	w->ctx = ctx;
}

uint32_t wake_ticket(struct wake *w)
{
	uint32_t word = atomic_load_explicit(&w->word, memory_order_acquire);

	/* Only the owner leaves "looking", so this state cannot change under it: one load is enough. */
	if ((word & WAKE_STATE_MASK) != WAKE_LOOKING)
		word = atomic_fetch_and(&w->word, ~(uint32_t)WAKE_STATE_MASK);
	return word & ~(uint32_t)WAKE_STATE_MASK;
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* musl 1.2.3 does not know it */
#endif

/* The sleep of wake_block(): 0 or -errno. A wake of 0 may be one meant for an earlier sleep: the caller looks at the
 * word. -EAGAIN: one of the words has another value. */
static int futex_wait(struct wake *w, uint32_t value, uint64_t deadline_ns, const struct wake_watch *watch,
                      unsigned count)
{
	const struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / NS_PER_S),
		.tv_nsec = (long)(deadline_ns % NS_PER_S),
	};
	const struct timespec *until = deadline_ns == WAKE_NEVER ? NULL : &deadline;
	long ret = -1;

	if (count) {
		struct futex_waitv words[1 + WAKE_WATCH_MAX] = {{.uaddr = (uintptr_t)&w->word, .val = value}};
		for (unsigned i = 0; i < count; i++)
			words[1 + i] = (struct futex_waitv){.uaddr = (uintptr_t)watch[i].word, .val = watch[i].value};
		for (unsigned i = 0; i <= count; i++)
			words[i].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
		ret = syscall(SYS_futex_waitv, words, 1 + count, 0, until, CLOCK_MONOTONIC);
	}
	if (!count || (ret < 0 && errno == ENOSYS))
		ret = syscall(SYS_futex, &w->word, FUTEX_WAIT_BITSET_PRIVATE, value, until, NULL,
		              FUTEX_BITSET_MATCH_ANY);
	return ret < 0 ? -errno : 0;
}

int wake_block_watching(struct wake *w, uint32_t ticket, uint64_t deadline_ns, const struct wake_watch *watch,
                        unsigned count)
{
	uint32_t asleep = ticket | WAKE_ASLEEP, word = ticket;
	bool slept = false;
	int ret = 0;

	if (!atomic_compare_exchange_strong(&w->word, &word, asleep))
		return -EAGAIN;
	while (ret != -ETIMEDOUT && ret != -EINTR) {
		ret = futex_wait(w, asleep, deadline_ns, watch, count < WAKE_WATCH_MAX ? count : WAKE_WATCH_MAX);
		slept = slept || ret != -EAGAIN || count; /* with other words: asleep or not, nobody knows */
		if (atomic_load_explicit(&w->word, memory_order_acquire) != asleep)
			return slept ? 0 : -EAGAIN;
		if (ret == -EAGAIN && count) /* not because of our word */
			ret = -EINTR;
	}
	/* No post so far. One that comes before this swap has seen "asleep" and paid for a needless futex wake. */
	word = asleep;
	return atomic_compare_exchange_strong(&w->word, &word, ticket) ? ret : 0;
}

int wake_block(struct wake *w, uint32_t ticket, uint64_t deadline_ns)
{
	return wake_block_watching(w, ticket, deadline_ns, NULL, 0);
}

bool wake_enter(struct wake *w, uint32_t ticket)
{
	return atomic_compare_exchange_strong(&w->word, &ticket, ticket | WAKE_IN_GUEST);
}

enum wake_state wake_post(struct wake *w, enum wake_cause cause, uint64_t now_tsc)
{
	uint64_t no_stamp = 0;
	uint32_t word;

	if (atomic_load_explicit(&w->stamp_tsc, memory_order_relaxed) == 0)
		atomic_compare_exchange_strong(&w->stamp_tsc, &no_stamp, now_tsc ? now_tsc : 1);
	atomic_fetch_or(&w->causes, 1u << cause);

	word = atomic_load_explicit(&w->word, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&w->word, &word, (word & ~(uint32_t)WAKE_STATE_MASK) + ONE_POST))
		;
	word &= WAKE_STATE_MASK;
	if (word == WAKE_ASLEEP)
		syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	else if (word == WAKE_IN_GUEST && w->kick)
		w->kick(w->ctx);
	return word;
}

uint32_t wake_take(struct wake *w, uint64_t *stamp_tsc)
{
	uint32_t causes = 0;

	/* A post sets the stamp before its cause, so a cause taken here has a stamp, unless one with the stamp of an
	 * earlier post was taken already. Most calls find nothing and cost two loads. */
	if (atomic_load_explicit(&w->causes, memory_order_acquire))
		causes = atomic_exchange(&w->causes, 0);
	*stamp_tsc = atomic_load_explicit(&w->stamp_tsc, memory_order_relaxed);
	if (*stamp_tsc)
		*stamp_tsc = atomic_exchange(&w->stamp_tsc, 0);
	return causes;
}
