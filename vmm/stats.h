/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - counters with one writer and any readers: plain adds for the writer, no torn reads for the others. */
#ifndef LULL_STATS_H
#define LULL_STATS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t stat_t;

static inline void stat_add(stat_t *s, uint64_t n)
{
	atomic_store_explicit(s, atomic_load_explicit(s, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void stat_max(stat_t *s, uint64_t n)
{
	if (n > atomic_load_explicit(s, memory_order_relaxed))
		atomic_store_explicit(s, n, memory_order_relaxed);
}

static inline uint64_t stat_get(const stat_t *s)
{
	return atomic_load_explicit(s, memory_order_relaxed);
}

#endif
