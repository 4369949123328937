/* SPDX-License-Identifier: Apache-2.0 */
/* test_preempted_threads.c - the vCPU's thread and the setter of the flag at full speed, for the thread sanitizer. The
 * vCPU's thread also plays the kernel that takes its CPU away. */
#include "steal.h"

#include "guest_mem.h"
#include "lull.h"
#include "perf_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define AREA  0x100040u
#define TURNS 20000u

static struct perf_ring ring;
static struct guest_mem mem;
static struct steal_thread thread;
static struct steal_config config = {.mode = STEAL_VMM, .mem = &mem, .thread = &thread, .tsc_khz = 1000000};
static struct steal s;
static atomic_bool stop;

static void *set_flags(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		steal_notice(&s);
	return NULL;
}

static bool is_marked(void)
{
	const struct steal_area *area = guest_mem_at(&mem, gpa(AREA), sizeof(*area));
	return atomic_load(&area->preempted) & 1;
}

static void a_running_vcpu_is_never_marked(void **state)
{
	struct lull_error err;
	pthread_t setter;
	unsigned marks = 0, lies = 0;
	(void)state;
	assert_int_equal(guest_mem_init(&mem, 0x400000, false, &err), 0);
	steal_init(&s, &config, 0);
	s.watch = (struct preempt_watch){.fd = 1, .page = &ring.page, .data = ring.data, .data_bytes = PERF_RING_BYTES};
	preempt_watch_mute(&s.watch);
	s.opened = true;
	assert_int_equal(pthread_create(&setter, NULL, set_flags, NULL), 0);
	for (unsigned i = 0; i < TURNS; i++) {
		if (i % 1000 == 0)
			assert_int_equal(steal_msr_write(&s, i % 2000 ? 0 : AREA | 1), 0);
		steal_before_entry(&s);
		lies += is_marked();
		if (i % 3) {
			perf_ring_out(&ring, i % 3 == 1);
			if (i % 64 == 1) { /* let the setter have a CPU */
				const struct timespec pause = {.tv_nsec = 50000};
				nanosleep(&pause, NULL);
			}
			for (unsigned spin = 0; spin < i % 300; spin++)
				marks += is_marked();
			perf_ring_in(&ring);
		} else {
			steal_before_wait(&s);
			lies += is_marked();
			perf_ring_out(&ring, false);
			perf_ring_in(&ring);
		}
	}
	assert_int_equal(steal_msr_write(&s, 0), 0);
	lies += is_marked();
	atomic_store(&stop, true);
	pthread_join(setter, NULL);
	lies += is_marked();
	s.watch.fd = -1;
	steal_fini(&s);
	guest_mem_fini(&mem);
	assert_int_equal(lies, 0);
	assert_true(marks > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_running_vcpu_is_never_marked)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
