/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lapic_timer.c - the timer of a local APIC: one-shot, periodic and TSC-deadline. SDM vol. 3, 11.5.4.
 *
 * There is no counter that counts: an armed timer is the host TSC at which it ends, and the current count is what is
 * left until then. The guest chooses counts and divisors, so products are taken in 128 bits and sums saturate.
 */
#include "lapic_internal.h"

typedef unsigned __int128 u128;

enum timer_mode {
	MODE_ONE_SHOT,
	MODE_PERIODIC,
	MODE_DEADLINE,
	MODE_RESERVED, /* can be written, never runs */
};

#define TICKS_PER_MS (LAPIC_TIMER_HZ / 1000)

static enum timer_mode lvt_mode(uint32_t lvt)
{
	return (enum timer_mode)(lvt >> 17 & 3);
}

static uint32_t timer_lvt(const struct lapic *a)
{
	return atomic_load_explicit(&a->lvt[LVT_TIMER], memory_order_relaxed);
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t time_left(const struct lapic *a, uint64_t now_tsc)
{
	return a->timer.end_tsc > now_tsc ? a->timer.end_tsc - now_tsc : 0;
}

/* SDM vol. 3, figure 11-10: bits 3, 1 and 0 say 2, 4, ... 128, and 1. */
static unsigned divide_shift(uint32_t divide)
{
	return ((divide >> 1 & 4) + (divide & 3) + 1) & 7;
}

static uint64_t ticks_to_tsc(const struct lapic *a, uint64_t ticks)
{
	return (uint64_t)(((u128)ticks * a->all->tsc_khz + TICKS_PER_MS - 1) / TICKS_PER_MS);
}

/* Length of a whole count, never 0. */
static uint64_t count_tsc(const struct lapic *a)
{
	uint64_t tsc = ticks_to_tsc(a, (uint64_t)a->timer.initial_count << divide_shift(a->timer.divide));

	return tsc ? tsc : 1;
}

static uint64_t period_tsc(const struct lapic *a)
{
	uint64_t period = count_tsc(a);
	uint64_t shortest = ticks_to_tsc(a, LAPIC_TIMER_MIN_PERIOD_NS * (LAPIC_TIMER_HZ / 1000000) / 1000);

	return period > shortest ? period : shortest;
}

static void stop(struct lapic *a)
{
	a->timer.armed = false;
	a->timer.end_tsc = 0;
	a->timer.deadline = 0;
}

static void see(struct lapic *a, uint64_t now_tsc)
{
	if (now_tsc > a->timer.last_tsc)
		a->timer.last_tsc = now_tsc;
}

void lapic_timer_reset(struct lapic *a)
{
	stop(a);
	a->timer.initial_count = 0;
	a->timer.divide = 0;
}

uint64_t lapic_timer_deadline(const struct lapic *a)
{
	return a->timer.armed && !(timer_lvt(a) & LVT_MASKED) ? a->timer.end_tsc : WAKE_NEVER;
}

/* An expiry while masked happens all the same, it just interrupts nobody. */
bool lapic_timer_expire(struct lapic *a, uint64_t now_tsc)
{
	uint32_t lvt = timer_lvt(a);

	see(a, now_tsc);
	if (!a->timer.armed || a->timer.end_tsc == WAKE_NEVER || now_tsc < a->timer.end_tsc)
		return false;
	if (lvt_mode(lvt) == MODE_PERIODIC) {
		uint64_t period = period_tsc(a);
		uint64_t late = (now_tsc - a->timer.end_tsc) % period;

		a->timer.end_tsc = add_saturated(now_tsc, period - late);
	} else {
		stop(a);
	}
	return !(lvt & LVT_MASKED) && lapic_self(a, (uint8_t)lvt);
}

/* 11.5.4.1: going to or from TSC-deadline mode disarms the timer; between one-shot and periodic it counts on. */
void lapic_timer_write_lvt(struct lapic *a, uint32_t value)
{
	enum timer_mode old = lvt_mode(timer_lvt(a)), new = lvt_mode(value);

	if (old != new && (old >= MODE_DEADLINE || new >= MODE_DEADLINE)) {
		stop(a);
		a->timer.initial_count = 0;
	}
	atomic_store_explicit(&a->lvt[LVT_TIMER], value, memory_order_relaxed);
}

void lapic_timer_write_initial(struct lapic *a, uint32_t count, uint64_t now_tsc)
{
	enum timer_mode mode = lvt_mode(timer_lvt(a));

	if (mode >= MODE_DEADLINE)
		return;
	stop(a);
	a->timer.initial_count = count;
	if (!count)
		return;
	a->timer.armed = true;
	a->timer.end_tsc = add_saturated(now_tsc, mode == MODE_PERIODIC ? period_tsc(a) : count_tsc(a));
}

/* The count that is left stays, and runs at the new rate. */
void lapic_timer_write_divide(struct lapic *a, uint32_t value, uint64_t now_tsc)
{
	unsigned old = divide_shift(a->timer.divide), new = divide_shift(value);

	a->timer.divide = value;
	if (a->timer.armed && lvt_mode(timer_lvt(a)) < MODE_DEADLINE) {
		u128 left = ((u128)time_left(a, now_tsc) << new) >> old;

		a->timer.end_tsc = add_saturated(now_tsc, left > UINT64_MAX ? UINT64_MAX : (uint64_t)left);
	}
}

/* Rounded up: it reads the initial count first, and 0 only when it has expired. */
uint32_t lapic_timer_count(const struct lapic *a, uint64_t now_tsc)
{
	u128 unit = (u128)a->all->tsc_khz << divide_shift(a->timer.divide);
	u128 count;

	if (!a->timer.armed || lvt_mode(timer_lvt(a)) >= MODE_DEADLINE)
		return 0;
	count = ((u128)time_left(a, now_tsc) * TICKS_PER_MS + unit - 1) / unit;
	return count < a->timer.initial_count ? (uint32_t)count : a->timer.initial_count;
}

/* How far away the deadline is, is a question of the guest's TSC, which may have wrapped with respect to the host's;
 * from there on it is host time. */
static void arm_deadline(struct lapic *a, uint64_t now_tsc)
{
	uint64_t guest_now = now_tsc + (uint64_t)a->timer.tsc_offset;
	uint64_t left = a->timer.deadline > guest_now ? a->timer.deadline - guest_now : 0;

	a->timer.end_tsc = add_saturated(now_tsc, left);
}

uint64_t lapic_timer_read_deadline(const struct lapic *a)
{
	return a->timer.deadline;
}

void lapic_timer_write_deadline(struct lapic *a, uint64_t deadline, uint64_t now_tsc)
{
	if (lvt_mode(timer_lvt(a)) != MODE_DEADLINE)
		return;
	stop(a);
	if (!deadline)
		return;
	a->timer.armed = true;
	a->timer.deadline = deadline;
	arm_deadline(a, now_tsc);
	lapic_timer_expire(a, now_tsc); /* in the past: at once */
}

void lapic_set_tsc_offset(struct lapic *a, int64_t tsc_offset)
{
	a->timer.tsc_offset = tsc_offset;
	if (a->timer.armed && lvt_mode(timer_lvt(a)) == MODE_DEADLINE)
		arm_deadline(a, a->timer.last_tsc);
}

const char *lapic_timer_mode_name(const struct lapic *a)
{
	static const char *const names[] = {"one-shot", "periodic", "tsc-deadline", "reserved mode"};

	return names[lvt_mode(timer_lvt(a))];
}
