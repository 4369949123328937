/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.h - what a CPU of a guest does when it has nothing to do, by idle= on the command line:
 *
 *   halt       HLT at once, the default
 *   poll       never halts
 *   mwait      MONITOR and MWAIT; skips the test where CPUID has none
 *   smart      polls for a window, then HLT; poll_threshold_ns=, poll_grow=, poll_shrink=
 *   haltpoll   the governor of that name, which also tells the host not to poll (MSR_KVM_POLL_CONTROL);
 *              guest_halt_poll_ns=, _grow=, _grow_start=, _shrink=, _allow_shrink=
 *
 * A parameter that is no number or out of bounds fails the test with a line that says so (idle_rules.c).
 *
 * Polling is done in ring 3, where it runs at full speed on every host. A CPU that is awake or polls is woken by a
 * store; only one that halts costs an interrupt.
 */
#ifndef GUEST_IDLE_H
#define GUEST_IDLE_H

#include "guest.h"
#include "idle_rules.h"

enum {
	VECTOR_IDLE = 0xf2,
	IDLE_CPUS = 16,
};

struct idle_stats {
	uint64_t polls, hits, halts, mwaits; /* hits: polls that found work */
	uint64_t interrupts;                 /* sent to this CPU to wake it; by others, not exact */
	uint32_t window_ns;                  /* of smart and haltpoll, now */
};

/* Once, after apic_setup(). */
void idle_setup(void);
/* This CPU, before its first idle_wait(); and when it will not wait any more. With haltpoll the host may not poll in
 * between. */
void idle_start(void);
void idle_stop(void);

/* Until idle_wake() was called for this CPU since the last return. Interrupts are off before and after. */
void idle_wait(void);
/* From any CPU, also from an interrupt handler. */
void idle_wake(unsigned cpu);

struct idle_stats idle_stats(unsigned cpu);

#endif
