/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steal_cost.c - what steal time costs a vCPU that nobody disturbs. First a thread that goes to sleep by itself: two
 * processes on one CPU pass a byte to and fro; the best of many short runs, interleaved, in ns per sleep and wake-up.
 * Then an entry into the guest.
 *
 * usage: steal_cost CPU
 */
#include "clock.h"
#include "guest_mem.h"
#include "lull.h"
#include "steal.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

enum {
	ROUNDS = 200,
	REPEATS = 300,
};

enum way {
	UNWATCHED,
	MUTED,  /* what lull does: arm and mute around the sleep */
	IOCTLS, /* disable and enable the event around it */
	LOUD,   /* every record is written and wakes */
	WAYS
};

static const char *const names[] = {"no event", "armed and muted by data_tail", "disabled and enabled by ioctl",
                                    "all records written, with a signal each"};
static int to[2], from[2];

static void nothing(int sig)
{
	(void)sig;
}

static void pass(void)
{
	char c = 0;
	while (write(to[1], &c, 1) != 1)
		;
	while (read(from[0], &c, 1) != 1)
		;
}

static double run(enum way way, struct preempt_watch *w)
{
	uint64_t start = clock_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (way == MUTED) {
			preempt_watch_arm(w);
			preempt_watch_mute(w);
		} else if (way == IOCTLS) {
			ioctl(w->fd, PERF_EVENT_IOC_DISABLE, 0);
		} else if (way == LOUD) { /* all the room there is */
			preempt_watch_take(w);
			w->page->data_tail = w->page->data_head;
		}
		pass();
		if (way == IOCTLS)
			ioctl(w->fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	return (double)(clock_ns() - start) / ROUNDS;
}

enum entry {
	ENTRY_OFF,
	ENTRY_ON,
	ENTRY_HALT,
	ENTRY_ASKING,
	ENTRIES
};

static void entries(void)
{
	static const char *const what[] = {"an entry, steal time off", "an entry, on", "a halt and an entry, on",
	                                   "an entry that asks the scheduler"};
	static struct guest_mem mem;
	static struct steal_thread thread;
	static struct steal s;
	struct lull_error err;
	const struct steal_config config = {
		.mode = STEAL_VMM, .mem = &mem, .thread = &thread, .tsc_khz = 2000000, .kick_signal = SIGRTMIN + 5};
	if (guest_mem_init(&mem, 4 << 20, false, &err) < 0)
		return;
	steal_thread_init(&thread);
	steal_init(&s, &config, 0);
	for (enum entry e = ENTRY_OFF; e < ENTRIES; e++) {
		double best = 1e9;
		if (e == ENTRY_ON && steal_msr_write(&s, 0x100000 | 1) < 0)
			return;
		for (unsigned r = 0; r < REPEATS; r++) {
			uint64_t start = clock_ns();
			for (unsigned i = 0; i < ROUNDS; i++) {
				if (e == ENTRY_HALT)
					steal_before_wait(&s);
				else if (e == ENTRY_ASKING)
					s.next_tsc = 0;
				steal_before_entry(&s);
				__asm__ volatile("" : : : "memory");
			}
			double ns = (double)(clock_ns() - start) / ROUNDS;
			best = ns < best ? ns : best;
		}
		printf("%-42s %6.1f ns\n", what[e], best);
	}
}

int main(int argc, char **argv)
{
	struct preempt_watch w = {.fd = -1};
	double best[WAYS];
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(argc > 1 ? (unsigned)atoi(argv[1]) : 0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0 || pipe(to) < 0 || pipe(from) < 0)
		return 1;
	const struct sigaction action = {.sa_handler = nothing};
	sigaction(SIGRTMIN + 5, &action, NULL);
	if (fork() == 0) {
		char c;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(to[0], &c, 1) == 1 && write(from[1], &c, 1) == 1)
			;
		_exit(0);
	}
	for (unsigned i = 0; i < REPEATS; i++)
		for (unsigned way = 0; way < WAYS; way++) {
			if (way != UNWATCHED && preempt_watch_open(&w, SIGRTMIN + 5) < 0) {
				printf("perf events cannot be used here\n");
				return 77;
			}
			double ns = run(way, &w);
			best[way] = i && best[way] < ns ? best[way] : ns;
			preempt_watch_close(&w);
		}
	for (unsigned way = 0; way < WAYS; way++)
		printf("%-42s %6.0f ns %+6.0f\n", names[way], best[way], best[way] - best[UNWATCHED]);
	entries();
	return 0;
}
