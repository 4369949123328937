/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - a thread of the library's own, which takes none of the process's signals. */
#ifndef LULL_THREAD_H
#define LULL_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* All signals are blocked in it but those of its own faults, and `also` (0: none). stack_bytes 0: the default. 0 or
 * -errno. */
int thread_start(pthread_t *thread, size_t stack_bytes, int also, void *(*fn)(void *arg), void *arg);

#endif
