/* SPDX-License-Identifier: Apache-2.0 */
/* util.h - the few helpers everything uses. Knows nothing of VMs. */
#ifndef LULL_UTIL_H
#define LULL_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* For our own mistakes only: never reachable by what a guest, a file or an option says, never with a
 * side effect. Always compiled in. */
#define invariant(cond)                                                                                                \
	do {                                                                                                           \
		if (__builtin_expect(!(cond), 0)) {                                                                    \
			fprintf(stderr, "lull: invariant failed: %s (%s:%d)\n", #cond, __FILE__, __LINE__);            \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

#define KiB(n) ((uint64_t)(n) << 10)
#define MiB(n) ((uint64_t)(n) << 20)
#define GiB(n) ((uint64_t)(n) << 30)

/* True when a + b does not fit; *sum is then undefined in meaning. */
static inline bool add_overflow(uint64_t a, uint64_t b, uint64_t *sum)
{
	return __builtin_add_overflow(a, b, sum);
}

/* align is a power of two. align_up may wrap: check the argument first. */
static inline uint64_t align_down(uint64_t value, uint64_t align)
{
	return value & ~(align - 1);
}

static inline uint64_t align_up(uint64_t value, uint64_t align)
{
	return align_down(value + align - 1, align);
}

#endif
