/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - the mask is set before the thread is made and inherited, so that no signal slips in. */
#include "thread.h"

#include "util.h"

#include <signal.h>

int thread_start(pthread_t *thread, size_t stack_bytes, int also, void *(*fn)(void *arg), void *arg)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	pthread_attr_t attr;
	sigset_t blocked, old;
	sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&blocked, faults[i]);
	if (also)
		sigdelset(&blocked, also);
	pthread_attr_init(&attr);
	if (stack_bytes)
		pthread_attr_setstacksize(&attr, stack_bytes);
	pthread_sigmask(SIG_SETMASK, &blocked, &old);
	int ret = pthread_create(thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -ret;
}
