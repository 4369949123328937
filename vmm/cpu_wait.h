/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_wait.h - the instruction a polling vCPU waits with between two looks at its wake word. */
#ifndef LULL_CPU_WAIT_H
#define LULL_CPU_WAIT_H

#include <stdint.h>

struct lull_error;

enum cpu_wait {
	CPU_WAIT_PAUSE,  /* everywhere; keeps the CPU at full power */
	CPU_WAIT_UMWAIT, /* Intel WAITPKG: light sleep until the line is written or a TSC deadline; SDM vol. 2B,
	                    UMONITOR, UMWAIT */
	CPU_WAIT_MWAITX, /* AMD MONITORX: the same with a timer; APM vol. 3, MONITORX, MWAITX */
};

/* "auto" (NULL), "pause", "umwait", "mwaitx". -ENOTSUP when this CPU lacks it. */
int cpu_wait_parse(enum cpu_wait *kind, const char *word, struct lull_error *err);

/* Waits a little: until *word is no longer expected, or about until_tsc at the latest, or any time before. */
void cpu_wait(enum cpu_wait kind, _Atomic uint32_t *word, uint32_t expected, uint64_t until_tsc);

#endif
