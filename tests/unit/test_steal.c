/* SPDX-License-Identifier: Apache-2.0 */
/* test_steal.c - steal time without KVM: the MSR, the area, and what is counted, on a made-up schedstat. */
#include "steal.h"

#include "guest_mem.h"
#include "lull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>

#define AREA  0x100040u
#define BYTES 0x400000u

static struct guest_mem mem;
static struct steal_thread thread;
static struct steal_config config = {.mode = STEAL_VMM, .mem = &mem, .thread = &thread, .tsc_khz = 1};
static struct steal s;
static FILE *schedstat;

static struct steal_area *area_at(uint64_t addr)
{
	return guest_mem_at(&mem, gpa(addr), sizeof(struct steal_area));
}

/* What the vCPU's thread has waited so far, in the host's words. */
static void put_delay(unsigned long long ns)
{
	rewind(schedstat);
	fprintf(schedstat, "123456789 %llu 42\n", ns);
	fflush(schedstat);
}

static int setup(void **state)
{
	struct lull_error err;
	(void)state;
	config.mode = STEAL_VMM;
	assert_int_equal(guest_mem_init(&mem, BYTES, false, &err), 0);
	steal_thread_init(&thread);
	steal_init(&s, &config, 0);
	schedstat = tmpfile();
	assert_non_null(schedstat);
	put_delay(0);
	s.opened = true; /* no event of the kernel's: what is not seen is not flagged */
	s.schedstat_fd = dup(fileno(schedstat));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	steal_fini(&s);
	steal_thread_fini(&thread);
	fclose(schedstat);
	guest_mem_fini(&mem);
	return 0;
}

/* At an entry a good while after the last. */
static void enter(void)
{
	s.next_tsc = 0;
	steal_before_entry(&s);
}

static void modes_have_names(void **state)
{
	struct lull_error err;
	enum steal_mode mode;
	(void)state;
	assert_int_equal(steal_mode_parse(&mode, "off", false, &err), 0);
	assert_int_equal(mode, STEAL_OFF);
	assert_int_equal(steal_mode_parse(&mode, "kvm", true, &err), 0);
	assert_int_equal(mode, STEAL_KVM);
	assert_int_equal(steal_mode_parse(&mode, "hybrid", false, &err), 0);
	assert_int_equal(mode, STEAL_HYBRID);
	assert_int_equal(steal_mode_parse(&mode, "hybrid", true, &err), -EINVAL);
	assert_string_equal(err.text, "steal-time: 'hybrid' needs --irqchip user; use kvm or off");
	assert_int_equal(steal_mode_parse(&mode, "vmm", true, &err), -EINVAL);
	assert_int_equal(steal_mode_parse(&mode, "VMM", false, &err), -EINVAL);
	assert_string_equal(err.text, "steal-time: 'VMM' is not known; use vmm, kvm, hybrid or off");
	assert_int_equal(steal_mode_parse(&mode, "", false, &err), -EINVAL);
	assert_int_equal(steal_mode_parse(&mode, NULL, true, &err), 0);
	assert_int_equal(mode, STEAL_KVM);
	assert_int_equal(steal_mode_parse(&mode, NULL, false, &err), 0);
	assert_true(mode == STEAL_VMM || mode == STEAL_KVM);
}

static void reserved_bits_are_refused(void **state)
{
	uint64_t value = 1;
	(void)state;
	for (unsigned bit = 1; bit <= 5; bit++) {
		assert_int_equal(steal_msr_write(&s, AREA | 1 | 1u << bit), -EINVAL);
		assert_int_equal(steal_msr_write(&s, AREA | 1u << bit), -EINVAL);
	}
	assert_int_equal(steal_msr_read(&s, &value), 0);
	assert_int_equal(value, 0);
	assert_null(s.area);
}

static void the_area_must_be_memory(void **state)
{
	(void)state;
	assert_int_equal(steal_msr_write(&s, BYTES | 1), -EINVAL);
	assert_int_equal(steal_msr_write(&s, (1ull << 63) | 1), -EINVAL);
	assert_int_equal(steal_msr_write(&s, ~0x3full | 1), -EINVAL);
	assert_int_equal(steal_msr_write(&s, 0xfee00000u | 1), -EINVAL);
	assert_int_equal(steal_msr_write(&s, (BYTES - 64) | 1), 0);
	assert_int_equal(steal_msr_write(&s, 0 | 1), 0); /* address 0 is memory */
	assert_int_equal(steal_msr_write(&s, BYTES), 0); /* not enabled: a number like any other */
	assert_null(s.area);
}

/* What is refused leaves everything as it was. */
static void refusal_changes_nothing(void **state)
{
	uint64_t value;
	(void)state;
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	assert_int_equal(steal_msr_write(&s, BYTES | 1), -EINVAL);
	assert_int_equal(steal_msr_write(&s, AREA | 3), -EINVAL);
	assert_int_equal(steal_msr_read(&s, &value), 0);
	assert_int_equal(value, AREA | 1);
	assert_ptr_equal(s.area, area_at(AREA));
}

static void off_and_kvm_have_no_msr(void **state)
{
	uint64_t value;
	(void)state;
	config.mode = STEAL_OFF;
	assert_int_equal(steal_msr_write(&s, AREA | 1), -EINVAL);
	assert_int_equal(steal_msr_read(&s, &value), -EINVAL);
	config.mode = STEAL_KVM;
	assert_int_equal(steal_msr_write(&s, 0), -EINVAL);
	steal_reset(&s);
	steal_before_entry(&s);
	steal_before_wait(&s);
}

static void steal_is_what_the_thread_waited(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	put_delay(5000);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	assert_int_equal(a->steal, 5000);
	assert_int_equal(a->version & 1, 0);
	uint32_t version = a->version;
	enter();
	assert_int_equal(a->version, version); /* nothing new, nothing written */
	put_delay(1000005000);
	enter();
	assert_int_equal(a->steal, 1000005000);
	assert_int_equal(stat_get(&s.stats.told_ns), 1000005000);
	assert_int_equal(a->version, version + 2);
	assert_int_equal(a->flags, 0);
	assert_int_equal(a->preempted, 0);
	for (unsigned i = 0; i < 11; i++)
		assert_int_equal(a->pad[i], 0);
}

static void the_host_is_asked_once_a_millisecond(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	put_delay(10);
	steal_before_entry(&s);
	assert_int_equal(a->steal, 10);
	s.next_tsc = UINT64_MAX;
	put_delay(20);
	steal_before_entry(&s);
	assert_int_equal(a->steal, 10);
	enter();
	assert_int_equal(a->steal, 20);
}

static void steal_never_goes_back(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	put_delay(100);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	put_delay(50);
	enter();
	assert_int_equal(a->steal, 100);
	put_delay(120);
	enter();
	assert_int_equal(a->steal, 120);
}

/* A CPU goes offline, which is INIT, and comes back over the same area. */
static void steal_goes_on_after_init(void **state)
{
	struct steal_area *a = area_at(AREA);
	uint64_t value = 1;
	(void)state;
	put_delay(700);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	steal_reset(&s);
	assert_int_equal(steal_msr_read(&s, &value), 0);
	assert_int_equal(value, 0);
	uint32_t version = a->version;
	put_delay(900);
	enter();
	assert_int_equal(a->steal, 700);
	assert_int_equal(a->version, version);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	assert_int_equal(a->steal, 900);
	assert_true(a->version > version && !(a->version & 1));
}

/* The next kernel has a clean area: what went before is not its loss. */
static void a_clean_area_starts_at_zero(void **state)
{
	(void)state;
	put_delay(700);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	steal_reset(&s);
	assert_int_equal(steal_msr_write(&s, (AREA + 64) | 1), 0);
	assert_int_equal(area_at(AREA + 64)->steal, 0);
	put_delay(750);
	enter();
	assert_int_equal(area_at(AREA + 64)->steal, 50);
	assert_int_equal(area_at(AREA)->steal, 700);
}

static void junk_in_the_area_is_survived(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	memset(a, 0xff, sizeof(*a));
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	assert_int_equal(a->version & 1, 0);
	assert_int_equal(a->preempted, 0);
	put_delay(10);
	enter();
	assert_int_equal(a->steal, 9); /* wrapped: the guest's own doing */
	assert_int_equal(stat_get(&s.stats.told_ns), 10);
}

static void polling_is_nobodys_loss(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	put_delay(100);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	steal_before_wait(&s);
	put_delay(5100); /* the poller lost its CPU for a while */
	steal_exempt(&s);
	enter();
	assert_int_equal(a->steal, 100);
	put_delay(5130);
	enter();
	assert_int_equal(a->steal, 130);
	put_delay(6130);
	steal_exempt(&s);
	put_delay(6131);
	enter();
	assert_int_equal(a->steal, 131);
	assert_int_equal(stat_get(&s.stats.told_ns), 131);
}

static void in_hybrid_mode_the_figures_are_kvms(void **state)
{
	struct steal_area *a = area_at(AREA);
	(void)state;
	config.mode = STEAL_HYBRID;
	a->version = 7;
	put_delay(100);
	assert_int_equal(steal_msr_write(&s, AREA | 1), 0);
	enter();
	assert_int_equal(a->steal, 0);
	assert_int_equal(a->version, 7);
	assert_int_equal(stat_get(&s.stats.told_ns), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(modes_have_names),
		T(reserved_bits_are_refused),
		T(the_area_must_be_memory),
		T(refusal_changes_nothing),
		T(off_and_kvm_have_no_msr),
		T(steal_is_what_the_thread_waited),
		T(the_host_is_asked_once_a_millisecond),
		T(steal_never_goes_back),
		T(steal_goes_on_after_init),
		T(a_clean_area_starts_at_zero),
		T(junk_in_the_area_is_survived),
		T(polling_is_nobodys_loss),
		T(in_hybrid_mode_the_figures_are_kvms),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
