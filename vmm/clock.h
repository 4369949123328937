/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the two clocks: the TSC, in which guests state deadlines, and CLOCK_MONOTONIC, in which the host sleeps. */
#ifndef LULL_CLOCK_H
#define LULL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_tsc(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* 0 for a clock that is not there, such as that of a thread that ended. */
static inline uint64_t clock_of(clockid_t clock)
{
	struct timespec ts = {0};
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/* Saturating, in 128 bits: a guest can ask for any deadline. khz is not 0. */
static inline uint64_t clock_tsc_to_ns(uint64_t tsc, uint64_t khz)
{
	unsigned __int128 ns = (unsigned __int128)tsc * 1000000u / khz;
	return ns > INT64_MAX ? INT64_MAX : (uint64_t)ns;
}

static inline uint64_t clock_ns_to_tsc(uint64_t ns, uint64_t khz)
{
	unsigned __int128 tsc = (unsigned __int128)ns * khz / 1000000u;
	return tsc > INT64_MAX ? INT64_MAX : (uint64_t)tsc;
}

#endif
