/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_wait.c - PAUSE, UMWAIT and MWAITX. The instructions are written in bytes: assemblers of the day may not know
 * them. */
#include "cpu_wait.h"

#include "clock.h"
#include "error.h"

#include <cpuid.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* No single wait is longer: a host interrupt may be what takes the CPU away, and that is noticed between waits. */
#define QUANTUM_TSC 40000

static bool has(enum cpu_wait kind)
{
	unsigned a, b, c, d;
	switch (kind) {
	case CPU_WAIT_UMWAIT:
		return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 5 & 1);
	case CPU_WAIT_MWAITX:
		return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 29 & 1);
	default:
		return true;
	}
}

int cpu_wait_parse(enum cpu_wait *kind, const char *word, struct lull_error *err)
{
	static const char *const words[] = {"pause", "umwait", "mwaitx"};
	if (!word || !strcmp(word, "auto")) {
		*kind = has(CPU_WAIT_UMWAIT)   ? CPU_WAIT_UMWAIT
		        : has(CPU_WAIT_MWAITX) ? CPU_WAIT_MWAITX
		                               : CPU_WAIT_PAUSE;
		return 0;
	}
	for (unsigned i = 0; i < 3; i++) {
		if (strcmp(word, words[i]) != 0)
			continue;
		*kind = (enum cpu_wait)i;
		return has(*kind) ? 0
		                  : error_set(err, -ENOTSUP, "poll-wait: this CPU has no %s; use auto or pause", word);
	}
	return error_set(err, -EINVAL, "poll-wait: '%s' is not known; use auto, pause, umwait or mwaitx", word);
}

static void umwait(_Atomic uint32_t *word, uint32_t expected, uint64_t until_tsc)
{
	/* umonitor %rax */
	__asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xf0" : : "a"(word) : "memory");
	if (atomic_load_explicit(word, memory_order_acquire) != expected)
		return;
	/* umwait %ecx: bit 0 set is C0.1, the state that is quicker to leave */
	__asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1"
	                 :
	                 : "c"(1), "a"((uint32_t)until_tsc), "d"((uint32_t)(until_tsc >> 32))
	                 : "memory", "cc");
}

static void mwaitx(_Atomic uint32_t *word, uint32_t expected, uint64_t tsc)
{
	/* monitorx %rax, %ecx, %edx */
	__asm__ volatile(".byte 0x0f, 0x01, 0xfa" : : "a"(word), "c"(0), "d"(0) : "memory");
	if (atomic_load_explicit(word, memory_order_acquire) != expected)
		return;
	/* mwaitx %eax, %ecx, %ebx: ECX bit 1 takes EBX as a limit in TSC ticks; EAX 0xf0: no deeper than C0 */
	__asm__ volatile(".byte 0x0f, 0x01, 0xfb" : : "a"(0xf0), "c"(2), "b"((uint32_t)tsc) : "memory");
}

void cpu_wait(enum cpu_wait kind, _Atomic uint32_t *word, uint32_t expected, uint64_t until_tsc)
{
	if (kind == CPU_WAIT_PAUSE) {
		__builtin_ia32_pause();
		return;
	}
	uint64_t now = clock_tsc();
	if (now >= until_tsc)
		return;
	uint64_t tsc = until_tsc - now < QUANTUM_TSC ? until_tsc - now : QUANTUM_TSC;
	if (kind == CPU_WAIT_UMWAIT)
		umwait(word, expected, now + tsc);
	else
		mwaitx(word, expected, tsc);
}
