/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c - lock.h. No assembly and no guest.h: tests/unit/test_guest_lock.c has threads run it. */
#include "lock.h"

static void relax(void)
{
	__builtin_ia32_pause();
}

static uint32_t load(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static bool replace(uint32_t *p, uint32_t old, uint32_t new)
{
	return __atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ---- spinlock ---- */

void spin_lock(struct spinlock *s)
{
	while (!replace(&s->taken, 0, 1))
		while (load(&s->taken))
			relax();
}

void spin_unlock(struct spinlock *s)
{
	__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
}

/* ---- mutex ---- */

static bool try(struct mutex *m, unsigned cpu)
{
	return !load(&m->owner) && replace(&m->owner, 0, cpu + 1);
}

bool mutex_lock(struct mutex *m, const struct lock_host *host, unsigned cpu)
{
	while (!try(m, cpu)) {
		uint32_t owner = load(&m->owner);
		if (owner && lock_cpu_is_preempted(host, owner - 1))
			return false;
		relax();
	}
	return true;
}

/* Announced first and tried then, while an unlock frees first and looks for sleepers then: one of both sees the other.
 */
bool mutex_sleeps(struct mutex *m, unsigned cpu)
{
	__atomic_fetch_or(&m->sleepers, 1u << cpu, __ATOMIC_SEQ_CST);
	if (!try(m, cpu))
		return true;
	__atomic_fetch_and(&m->sleepers, ~(1u << cpu), __ATOMIC_SEQ_CST);
	return false;
}

bool mutex_is_asleep(const struct mutex *m, unsigned cpu)
{
	return __atomic_load_n(&m->sleepers, __ATOMIC_SEQ_CST) >> cpu & 1;
}

/* The next one in the order of their numbers, so that nobody is forgotten. */
int mutex_wake(struct mutex *m, unsigned cpu)
{
	uint32_t sleepers = __atomic_load_n(&m->sleepers, __ATOMIC_SEQ_CST), behind, who;
	while (sleepers) {
		behind = sleepers & ~((2u << cpu) - 1);
		who = (uint32_t)__builtin_ctz(behind ? behind : sleepers);
		sleepers = __atomic_fetch_and(&m->sleepers, ~(1u << who), __ATOMIC_SEQ_CST);
		if (sleepers >> who & 1)
			return (int)who;
	}
	return LOCK_NOBODY;
}

int mutex_unlock(struct mutex *m, unsigned cpu)
{
	__atomic_store_n(&m->owner, 0, __ATOMIC_SEQ_CST);
	return mutex_wake(m, cpu);
}

/* ---- queue ---- */

/* A slot: whose it is (CPU + 1; 0: nobody has drawn it yet), and how that is doing. */
enum {
	FREE = 0,
	WHOSE = 0xff,
	TURN = 0x100,
	WAITS = 0x200,
	GONE = 0x400, /* gave up; its turn would be passed over */
};

static uint32_t *slot_of(struct queue_lock *q, uint32_t ticket)
{
	return &q->slot[ticket % LOCK_SLOTS];
}

void queue_init(struct queue_lock *q)
{
	q->slot[0] = TURN;
}

/* Draws a ticket, or takes up the old one. True: it is our turn at once. */
static bool line_up(struct queue_lock *q, unsigned cpu)
{
	uint32_t *slot = slot_of(q, q->cpu[cpu].ticket), me = cpu + 1;
	bool in_time = q->cpu[cpu].gave_up && replace(slot, GONE | me, WAITS | me);
	q->cpu[cpu].gave_up = false;
	if (in_time)
		return false;
	q->cpu[cpu].ticket = __atomic_fetch_add(&q->tickets, 1, __ATOMIC_SEQ_CST);
	slot = slot_of(q, q->cpu[cpu].ticket);
	if (replace(slot, FREE, WAITS | me))
		return false;
	__atomic_store_n(slot, TURN | me, __ATOMIC_SEQ_CST);
	return true;
}

/* The nearest one in front that has not given up. */
static bool front_is_preempted(struct queue_lock *q, const struct lock_host *host, uint32_t ticket)
{
	for (unsigned i = 1; host->flags && i <= LOCK_CPUS; i++) {
		uint32_t slot = load(slot_of(q, ticket - i));
		if (!(slot & GONE))
			return slot & WHOSE && lock_cpu_is_preempted(host, (slot & WHOSE) - 1);
	}
	return false;
}

/* True: our turn. False: gave up. */
static bool wait_for_turn(struct queue_lock *q, const struct lock_host *host, unsigned cpu)
{
	uint32_t ticket = q->cpu[cpu].ticket, *slot = slot_of(q, ticket), me = cpu + 1;
	while (load(slot) == (WAITS | me)) {
		if (front_is_preempted(q, host, ticket) && replace(slot, WAITS | me, GONE | me)) {
			q->cpu[cpu].gave_up = true;
			return false;
		}
		relax();
	}
	return true;
}

static void pass_turn(struct queue_lock *q, unsigned cpu)
{
	uint32_t ticket = q->cpu[cpu].ticket, seen;
	__atomic_store_n(slot_of(q, ticket), FREE, __ATOMIC_SEQ_CST);
	do {
		uint32_t *next = slot_of(q, ++ticket);
		do
			seen = load(next);
		while (!replace(next, seen, seen & GONE ? FREE : TURN | (seen & WHOSE)));
	} while (seen & GONE);
}

bool queue_lock(struct queue_lock *q, const struct lock_host *host, unsigned cpu)
{
	if (try(&q->mutex, cpu))
		return true;
	if (!line_up(q, cpu) && !wait_for_turn(q, host, cpu))
		return false;
	bool locked = mutex_lock(&q->mutex, host, cpu);
	pass_turn(q, cpu);
	return locked;
}
