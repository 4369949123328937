/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preempted.c - the protocol of the preempted flag, with the kernel played by the test. Every access to the shared
 * ring and every use of the lock is a step; the vCPU is taken off its CPU at each step, and the setter of the flag runs
 * at each step, in all combinations. Whenever guest code runs, the flag is 0.
 */
#include "guest_mem.h"
#include "lull.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void step(void);
static bool locked;

static int step_lock(pthread_mutex_t *lock)
{
	step();
	locked = true;
	return pthread_mutex_lock(lock);
}

static int step_unlock(pthread_mutex_t *lock)
{
	int ret = pthread_mutex_unlock(lock);
	locked = false;
	step();
	return ret;
}

static uint64_t step_load(uint64_t value)
{
	step();
	return value;
}

/* The loads are of the ring's page and of what is known of it; a step on either side is enough. */
#undef atomic_load_explicit
#undef atomic_store_explicit
#define atomic_load_explicit(p, order)     (step(), (__typeof__(*(p) + 0))step_load(*(p)))
#define atomic_store_explicit(p, v, order) (step(), (void)(*(p) = (v)), step())
#define pthread_mutex_lock                 step_lock
#define pthread_mutex_unlock               step_unlock
#include "../../vmm/preempt_watch.c"
#include "../../vmm/steal.c"
#undef pthread_mutex_lock
#undef pthread_mutex_unlock
#undef atomic_load_explicit
#undef atomic_store_explicit

#include "perf_ring.h"

#define AREA 0x100040u

static struct perf_ring ring;
static struct guest_mem mem;
static struct steal_thread thread;
static struct steal_config config = {.mode = STEAL_VMM, .mem = &mem, .thread = &thread, .tsc_khz = 1};
static struct steal s;
static struct steal_area *area;

/* ------------------------------------------------------------------------------------ the kernel */

static bool signalled;  /* the kick arrived: KVM_RUN returns at once */
static bool no_signals; /* a kernel that sends none, to see that the test would notice */

static void kernel_out(bool against_its_will)
{
	if (perf_ring_out(&ring, against_its_will))
		signalled = !no_signals;
}

static void kernel_in(void)
{
	if (perf_ring_in(&ring))
		signalled = !no_signals;
}

/* ------------------------------------------------------------------------------ the stage */

enum {
	NEVER = -1,
	TURNS = 2,
};

static int now;             /* steps so far */
static int away_at[2];      /* the vCPU's thread loses its CPU at these steps */
static bool preempt;        /* against its will */
static bool set_while_away; /* the setter runs in between */
static int set_at;          /* and at this step */
static bool acting;         /* no steps inside the actors */
static unsigned flagged, entered;
static bool lied;

static void setter(void)
{
	bool was = acting;
	acting = true;
	if (!locked)
		steal_notice(&s);
	acting = was;
	flagged += area->preempted & 1;
}

static void step(void)
{
	if (acting)
		return;
	acting = true;
	for (unsigned i = 0; i < 2; i++) {
		if (now != away_at[i])
			continue;
		kernel_out(preempt);
		if (set_while_away)
			setter();
		kernel_in();
	}
	if (now == set_at)
		setter();
	now++;
	acting = false;
}

static void guest_code(void)
{
	for (unsigned i = 0; i < 3; i++) {
		lied = lied || area->preempted;
		step();
		if (signalled)
			return; /* the guest does not run on: the kick was taken first */
		lied = lied || area->preempted;
	}
	entered++;
}

/* What vcpu.c does: look, enter unless kicked, halt. */
static void vcpu(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		do {
			signalled = false;
			step();
			steal_before_entry(&s);
			step();
			if (!signalled)
				guest_code();
		} while (signalled);
		steal_before_wait(&s);
		lied = lied || area->preempted; /* nor is it marked while it waits */
		step();
		lied = lied || area->preempted;
	}
}

static void begin(int first, int second, int set)
{
	acting = true;
	memset(&ring, 0, sizeof(ring));
	s.watch = (struct preempt_watch){.fd = 0, .page = &ring.page, .data = ring.data, .data_bytes = PERF_RING_BYTES};
	s.armed = s.flagged = false;
	preempt_watch_mute(&s.watch);
	preempt_watch_take(&s.watch);
	area->preempted = 0;
	s.area = area;
	now = 0;
	signalled = lied = false;
	flagged = entered = 0;
	away_at[0] = first;
	away_at[1] = second;
	set_at = set;
	acting = false;
}

static int setup(void **state)
{
	struct lull_error err;
	(void)state;
	no_signals = false;
	assert_int_equal(guest_mem_init(&mem, 0x400000, false, &err), 0);
	acting = true;
	steal_init(&s, &config, 0);
	acting = false;
	area = guest_mem_at(&mem, gpa(AREA), sizeof(*area));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	acting = true;
	s.watch.fd = -1;
	steal_fini(&s);
	guest_mem_fini(&mem);
	return 0;
}

static int steps_of_a_run(void)
{
	begin(NEVER, NEVER, NEVER);
	vcpu();
	assert_int_equal(entered, TURNS);
	return now;
}

/* Runs all combinations; returns how many lied, and how often the flag was set. */
static unsigned all_orders(unsigned *marks)
{
	int steps = steps_of_a_run() + 12;
	unsigned lies = 0;
	*marks = 0;
	for (int first = 0; first < steps; first++)
		for (int second = first; second < steps; second++)
			for (int set = NEVER; set < steps; set++)
				for (unsigned how = 0; how < 2; how++) {
					set_while_away = how;
					begin(first, second, set);
					vcpu();
					lies += lied;
					*marks += flagged;
					assert_int_equal(entered, TURNS);
				}
	return lies;
}

static void no_order_marks_a_running_vcpu(void **state)
{
	unsigned marks;
	(void)state;
	preempt = true;
	assert_int_equal(all_orders(&marks), 0);
	assert_true(marks > 0);
}

static void waits_mark_nobody(void **state)
{
	unsigned marks;
	(void)state;
	preempt = false;
	assert_int_equal(all_orders(&marks), 0);
	assert_int_equal(marks, 0);
}

static void hybrid_keeps_the_same_order(void **state)
{
	unsigned marks;
	(void)state;
	preempt = true;
	config.mode = STEAL_HYBRID;
	assert_int_equal(all_orders(&marks), 0);
	assert_true(marks > 0);
	config.mode = STEAL_VMM;
}

/* Without the kick, a vCPU inside KVM_RUN goes back into the guest with the flag on it: the test must see that. */
static void the_test_sees_a_missing_kick(void **state)
{
	unsigned marks;
	(void)state;
	preempt = true;
	no_signals = true;
	assert_true(all_orders(&marks) > 0);
}

/* ----------------------------------------------------------------------------- the ring */

static void one_record_and_silence(void **state)
{
	uint64_t out;
	(void)state;
	preempt = true;
	begin(NEVER, NEVER, NEVER);
	acting = true;
	kernel_out(false); /* muted: lost */
	kernel_in();
	assert_false(preempt_watch_seen(&s.watch));
	assert_false(signalled);
	for (unsigned i = 0; i < 1000; i++) { /* over the end of the ring many times */
		preempt_watch_arm(&s.watch);
		assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_NOTHING);
		signalled = false;
		kernel_out(true);
		assert_true(signalled);
		assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_AWAY);
		assert_int_equal(out, 1);
		signalled = false;
		kernel_in();
		assert_false(signalled);
		assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_BACK);
		kernel_out(true); /* again before it could arm */
		kernel_in();
		assert_false(signalled);
		assert_true(preempt_watch_seen(&s.watch));
		preempt_watch_take(&s.watch);
		assert_false(preempt_watch_seen(&s.watch));
		assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_NOTHING);
	}
	preempt_watch_mute(&s.watch);
	signalled = false;
	kernel_out(true);
	kernel_in();
	assert_false(signalled);
	assert_false(preempt_watch_seen(&s.watch));
	acting = false;
}

/* Nothing was lost so far: the first time there is room for the return as well. */
static void the_first_return_is_recorded(void **state)
{
	uint64_t out;
	(void)state;
	begin(NEVER, NEVER, NEVER);
	acting = true;
	preempt_watch_arm(&s.watch);
	kernel_out(true);
	assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_AWAY);
	kernel_in();
	assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_BACK);
	kernel_out(false); /* then a wait of its own */
	assert_int_equal(preempt_watch_look(&s.watch, &out), PREEMPT_NOTHING);
	acting = false;
}

/* The memory is the guest's again when the MSR says so. */
static void nothing_is_written_after_the_msr_is_off(void **state)
{
	(void)state;
	begin(NEVER, NEVER, NEVER);
	acting = true;
	steal_before_entry(&s);
	kernel_out(true);
	steal_notice(&s);
	assert_int_equal(area->preempted, 1);
	assert_int_equal(s.stats.flagged, 1);
	kernel_in();
	assert_int_equal(steal_msr_write(&s, 0), 0);
	assert_int_equal(area->preempted, 0);
	kernel_out(true);
	steal_notice(&s);
	assert_int_equal(area->preempted, 0);
	acting = false;
}

/* Bit 1 is a promise between the guest and KVM. */
static void the_flush_bit_is_left_alone(void **state)
{
	(void)state;
	config.mode = STEAL_HYBRID;
	begin(NEVER, NEVER, NEVER);
	acting = true;
	steal_before_entry(&s);
	kernel_out(true);
	steal_notice(&s);
	area->preempted = 3;
	kernel_in();
	steal_before_entry(&s);
	assert_int_equal(area->preempted, 3); /* KVM, at the next entry, flushes and clears both */
	kernel_out(true);
	steal_notice(&s);
	assert_int_equal(area->preempted, 3);
	config.mode = STEAL_VMM;
	acting = false;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(no_order_marks_a_running_vcpu),
		T(waits_mark_nobody),
		T(hybrid_keeps_the_same_order),
		T(the_test_sees_a_missing_kick),
		T(one_record_and_silence),
		T(the_first_return_is_recorded),
		T(nothing_is_written_after_the_msr_is_off),
		T(the_flush_bit_is_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
