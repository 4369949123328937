/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h - three locks for CPUs of a guest, and what two of them make of a host that says which CPUs it has taken away
 * (the preempted flag of steal time). Plain memory and atomics: the same file is compiled for the host's unit tests.
 *
 *   spinlock   whoever comes spins until it is free, whatever the host does
 *   mutex      spins as long as the owner runs; sleeps when the owner is preempted
 *   queue      the same mutex, but of those who spin only the first in a queue looks at the owner; the others wait for
 *              their turn, and leave the queue when the one in front of them is preempted
 *
 * Without the flag an owner is always taken to run, as a guest without steal time has to.
 *
 * Sleeping is the caller's affair, because it takes privileges that a spinning thread may not have:
 *
 *     while (!mutex_lock(m, host, cpu))              false: it does not pay to spin
 *             if (mutex_sleeps(m, cpu))              true: announced, and still not free
 *                     ... halt until !mutex_is_asleep(m, cpu) ...
 *             else break                             got it after all
 *     ...
 *     wake = mutex_unlock(m, cpu);                   interrupt that CPU, if it is one
 */
#ifndef GUEST_LOCK_H
#define GUEST_LOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LOCK_CPUS = 16,
	LOCK_SLOTS = 32, /* a power of two, above LOCK_CPUS */
	LOCK_NOBODY = -1,
};

/* What the host tells: CPU n's preempted byte is at flags + n * stride. NULL: it tells nothing. */
struct lock_host {
	const uint8_t *flags;
	uint32_t stride;
};

static inline bool lock_cpu_is_preempted(const struct lock_host *h, unsigned cpu)
{
	return h->flags && __atomic_load_n(&h->flags[cpu * h->stride], __ATOMIC_RELAXED) & 1;
}

struct spinlock {
	uint32_t taken;
} __attribute__((aligned(64)));

void spin_lock(struct spinlock *s);
void spin_unlock(struct spinlock *s);

struct mutex {
	uint32_t owner;    /* CPU + 1, 0: free */
	uint32_t sleepers; /* bit n: CPU n sleeps, or is about to */
} __attribute__((aligned(64)));

/* Spins; true: it is ours. */
bool mutex_lock(struct mutex *m, const struct lock_host *host, unsigned cpu);
bool mutex_sleeps(struct mutex *m, unsigned cpu);
bool mutex_is_asleep(const struct mutex *m, unsigned cpu);
/* The CPU to interrupt, which is no sleeper any more, or LOCK_NOBODY. */
int mutex_unlock(struct mutex *m, unsigned cpu);
/* Takes one from the sleepers, as if the mutex had been unlocked. */
int mutex_wake(struct mutex *m, unsigned cpu);

/* A CPU has a ticket, and the slot of that number. It may give up waiting, and take up the same ticket again as long as
 * it was not passed over; so there are never more tickets about than CPUs. */
struct queue_lock {
	struct mutex mutex;
	uint32_t tickets __attribute__((aligned(64)));
	uint32_t slot[LOCK_SLOTS] __attribute__((aligned(64)));
	struct {
		uint32_t ticket;
		bool gave_up;
	} __attribute__((aligned(64))) cpu[LOCK_CPUS];
};

void queue_init(struct queue_lock *q);
/* As mutex_lock(); sleeping and unlocking are those of q->mutex. */
bool queue_lock(struct queue_lock *q, const struct lock_host *host, unsigned cpu);

#endif
