/* SPDX-License-Identifier: Apache-2.0 */
/* test_lull.c - a program that embeds lull: it sees lull.h and liblull.a and nothing else. Needs /dev/kvm. */
#include "lull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The library's own functions are out of sight: this one is ours, and its calls must not end up here. */
int bus_add(void);
int bus_add(void)
{
	abort();
}

/* Real mode at 0:7c00. Guests that end by isa-debug-exit with a code, after what the name says. */
#define EXIT_WITH(code) 0xb0, (code), 0xba, 0xf4, 0x00, 0xee, 0xf4 /* mov al, code; mov dx, 0xf4; out dx, al; hlt */
static const uint8_t exit_3[] = {EXIT_WITH(3)};
static const uint8_t exit_5[] = {EXIT_WITH(5)};
/* mov al, 6; mov dx, 0xcf9; out dx, al; hlt */
static const uint8_t reset_forever[] = {0xb0, 0x06, 0xba, 0xf9, 0x0c, 0xee, 0xf4};
/* sti; 1: hlt; jmp 1b */
static const uint8_t idle[] = {0xfb, 0xf4, 0xeb, 0xfd};
/* 1: out 0x80, al; jmp 1b */
static const uint8_t busy[] = {0xe6, 0x80, 0xeb, 0xfc};
/* mov dx, 0x5000; mov ax, 0x1234; out dx, ax; in ax, dx; mov dx, 0xf4; out dx, al; hlt */
static const uint8_t use_device[] = {0xba, 0x00, 0x50, 0xb8, 0x34, 0x12, 0xef, 0xed, 0xba, 0xf4, 0x00, 0xee, 0xf4};

static struct lull_config config_for(const void *image, size_t bytes)
{
	return (struct lull_config){
		.size = sizeof(struct lull_config),
		.flags = LULL_FORCE_FLAT | LULL_FLAT_REAL_MODE | LULL_DEBUG_EXIT_RAW,
		.ram_bytes = 4 << 20,
		.kernel_image = image,
		.kernel_bytes = bytes,
	};
}

static struct lull_vm *create(const struct lull_config *config)
{
	struct lull_error err = {.text = ""};
	struct lull_vm *vm = lull_vm_create(config, &err);
	if (!vm)
		fail_msg("lull_vm_create: %s", err.text);
	return vm;
}

static struct lull_vm *start(const struct lull_config *config)
{
	struct lull_error err = {.text = ""};
	struct lull_vm *vm = create(config);
	if (lull_vm_start(vm, &err) < 0)
		fail_msg("lull_vm_start: %s", err.text);
	return vm;
}

static struct lull_exit wait_end(struct lull_vm *vm)
{
	struct lull_exit end = {.size = sizeof(end)};
	struct lull_error err = {.text = ""};
	if (lull_vm_wait(vm, 20000000000, &end, &err) < 0)
		fail_msg("lull_vm_wait: %s", err.text);
	return end;
}

static uint64_t exits(const struct lull_vm *vm)
{
	struct lull_vcpu_stats s = {.size = sizeof(s)};
	assert_int_equal(lull_vm_vcpu_stats(vm, 0, &s), 0);
	return s.exits;
}

static void until_it_halts(const struct lull_vm *vm)
{
	struct lull_vcpu_stats s = {.size = sizeof(s)};
	const struct timespec tick = {.tv_nsec = 1000000};
	for (int i = 0; i < 10000 && s.halts == 0; i++) {
		assert_int_equal(lull_vm_vcpu_stats(vm, 0, &s), 0);
		nanosleep(&tick, NULL);
	}
	assert_true(s.halts > 0);
}

/* ------------------------------------------------------------------------------------- life */

static void two_vms_run_in_one_process(void **state)
{
	(void)state;
	const struct lull_config a = config_for(exit_3, sizeof(exit_3)), b = config_for(exit_5, sizeof(exit_5));
	const struct lull_config c = config_for(idle, sizeof(idle));
	struct lull_vm *idler = start(&c), *first = start(&a), *second = start(&b);
	struct lull_exit end_first = wait_end(first), end_second = wait_end(second);
	assert_int_equal(end_first.reason, LULL_EXIT_DEBUG_EXIT);
	assert_int_equal(end_first.code, 3);
	assert_int_equal(end_second.code, 5);
	assert_int_equal(lull_vm_wait(idler, 0, NULL, NULL), -ETIMEDOUT);
	lull_vm_destroy(first);
	lull_vm_destroy(second);
	lull_vm_destroy(idler);
}

static void event_fd_becomes_readable_at_the_end(void **state)
{
	(void)state;
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct lull_vm *vm = create(&c);
	struct pollfd p = {.fd = lull_vm_event_fd(vm), .events = POLLIN};
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(lull_vm_wait(vm, 0, NULL, NULL), 0);
	lull_vm_destroy(vm);
}

static void stop_ends_a_busy_and_an_idle_guest(void **state)
{
	const struct lull_config configs[] = {config_for(busy, sizeof(busy)), config_for(idle, sizeof(idle))};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct lull_vm *vm = start(&configs[i]);
		while (exits(vm) == 0)
			;
		lull_vm_stop(vm);
		lull_vm_stop(vm);
		assert_int_equal(wait_end(vm).reason, LULL_EXIT_STOPPED);
		lull_vm_destroy(vm);
	}
}

static void destroy_without_start_and_while_running(void **state)
{
	(void)state;
	const struct lull_config c = config_for(busy, sizeof(busy));
	lull_vm_destroy(create(&c));
	lull_vm_destroy(start(&c));
	lull_vm_destroy(NULL);
}

static void a_second_start_is_refused(void **state)
{
	(void)state;
	struct lull_error err;
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct lull_vm *vm = start(&c);
	assert_int_equal(lull_vm_start(vm, &err), -EALREADY);
	assert_int_equal(wait_end(vm).code, 3);
	lull_vm_destroy(vm);
}

static void paused_guests_make_no_exits(void **state)
{
	(void)state;
	const struct timespec while_paused = {.tv_nsec = 50000000};
	const struct lull_config c = config_for(busy, sizeof(busy));
	struct lull_vm *vm = start(&c);
	assert_int_equal(lull_vm_pause(vm), 0);
	uint64_t before = exits(vm);
	nanosleep(&while_paused, NULL);
	assert_int_equal(exits(vm), before);
	assert_int_equal(lull_vm_resume(vm), 0);
	while (exits(vm) < before + 10)
		;
	assert_int_equal(lull_vm_pause(vm), 0);
	lull_vm_destroy(vm); /* also while paused */
}

static void pause_wakes_a_halted_guest_and_resume_lets_it_halt_again(void **state)
{
	(void)state;
	const char *const chips[] = {"user", "kernel"};
	for (int i = 0; i < 2; i++) {
		struct lull_config c = config_for(idle, sizeof(idle));
		c.irqchip = chips[i];
		struct lull_vm *vm = start(&c);
		if (i == 0)
			until_it_halts(vm);
		for (int round = 0; round < 20; round++) {
			assert_int_equal(lull_vm_pause(vm), 0);
			assert_int_equal(lull_vm_resume(vm), 0);
		}
		assert_int_equal(lull_vm_wait(vm, 0, NULL, NULL), -ETIMEDOUT);
		lull_vm_destroy(vm);
	}
}

static void pause_of_an_ended_vm_says_so(void **state)
{
	(void)state;
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct lull_vm *vm = start(&c);
	wait_end(vm);
	assert_int_equal(lull_vm_pause(vm), -ESRCH);
	lull_vm_destroy(vm);
}

struct pauser {
	struct lull_vm *vm;
	int result;
	atomic_bool done;
};

static void *pause_it(void *arg)
{
	struct pauser *p = arg;
	p->result = lull_vm_pause(p->vm);
	p->done = true;
	return NULL;
}

/* A device whose guest waits in it until it is let go. */
struct gate {
	struct lull_vm *vm;
	atomic_bool in_write, in_reset, open;
	_Atomic int paused; /* what pause said to the device */
};

static void wait_for(atomic_bool *flag)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	for (int i = 0; i < 10000 && !*flag; i++)
		nanosleep(&tick, NULL);
	assert_true(*flag);
}

static void gate_write(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value)
{
	struct gate *g = ctx;
	(void)offset, (void)bytes, (void)value;
	g->paused = lull_vm_pause(g->vm);
	g->in_write = true;
	wait_for(&g->open);
}

static void gate_reset(void *ctx)
{
	struct gate *g = ctx;
	g->in_reset = true;
	wait_for(&g->open);
}

static struct lull_vm *start_with_gate(struct gate *g, const void *image, size_t bytes)
{
	struct lull_config c = config_for(image, bytes);
	const struct lull_device device = {
		.size = sizeof(device),
		.name = "gate",
		.base = 0x5000,
		.length = 2,
		.gsi = -1,
		.write = gate_write,
		.reset = gate_reset,
		.ctx = g,
	};
	c.flags |= LULL_RESTART_ON_RESET;
	g->vm = create(&c);
	assert_int_equal(lull_vm_add_device(g->vm, &device, NULL), 0);
	assert_int_equal(lull_vm_start(g->vm, NULL), 0);
	return g->vm;
}

static void a_resume_ends_a_pause_that_still_waits(void **state)
{
	(void)state;
	struct gate g = {0};
	pthread_t thread;
	struct pauser p = {.vm = start_with_gate(&g, use_device, sizeof(use_device))};
	wait_for(&g.in_write);
	assert_int_equal(g.paused, -EDEADLK);
	assert_int_equal(pthread_create(&thread, NULL, pause_it, &p), 0);
	const struct timespec moment = {.tv_nsec = 50000000};
	nanosleep(&moment, NULL);
	assert_false(p.done);
	assert_int_equal(lull_vm_resume(p.vm), 0);
	wait_for(&p.done);
	assert_int_equal(p.result, -ECANCELED);
	pthread_join(thread, NULL);
	g.open = true;
	wait_end(p.vm);
	lull_vm_destroy(p.vm);
}

static void a_pause_during_a_reset_holds_the_next_boot(void **state)
{
	(void)state;
	struct gate g = {0};
	pthread_t thread;
	struct pauser p = {.vm = start_with_gate(&g, reset_forever, sizeof(reset_forever))};
	const struct timespec moment = {.tv_nsec = 50000000};
	wait_for(&g.in_reset);
	assert_int_equal(pthread_create(&thread, NULL, pause_it, &p), 0);
	nanosleep(&moment, NULL);
	assert_false(p.done);
	g.open = true;
	wait_for(&p.done);
	assert_int_equal(p.result, 0);
	pthread_join(thread, NULL);
	struct lull_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	assert_int_equal(lull_vm_stats(p.vm, &before), 0);
	nanosleep(&moment, NULL);
	assert_int_equal(lull_vm_stats(p.vm, &after), 0);
	assert_int_equal(after.boots, before.boots);
	assert_int_equal(lull_vm_resume(p.vm), 0);
	while (after.boots == before.boots)
		assert_int_equal(lull_vm_stats(p.vm, &after), 0);
	lull_vm_destroy(p.vm);
}

/* ------------------------------------------------------------------------------------ devices */

struct device {
	_Atomic uint64_t written;
	_Atomic unsigned resets;
	struct lull_vm *vm;
};

static uint64_t device_read(void *ctx, uint64_t offset, uint32_t bytes)
{
	struct device *d = ctx;
	return offset == 0 && bytes == 2 ? d->written + 1 : 0;
}

static void device_write(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value)
{
	struct device *d = ctx;
	if (offset == 0 && bytes == 2)
		d->written = value;
}

static void device_reset(void *ctx)
{
	struct device *d = ctx;
	if (++d->resets == 5)
		lull_vm_stop(d->vm);
}

static struct lull_device device_at(struct device *d, uint64_t port)
{
	return (struct lull_device){
		.size = sizeof(struct lull_device),
		.name = "counter",
		.base = port,
		.length = 2,
		.gsi = 5,
		.read = device_read,
		.write = device_write,
		.reset = device_reset,
		.ctx = d,
	};
}

static void a_custom_device_sees_the_accesses(void **state)
{
	(void)state;
	struct device d = {0};
	const struct lull_device device = device_at(&d, 0x5000);
	const struct lull_config c = config_for(use_device, sizeof(use_device));
	struct lull_vm *vm = create(&c);
	assert_int_equal(lull_vm_add_device(vm, &device, NULL), 0);
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	assert_int_equal(wait_end(vm).code, 0x35);
	assert_int_equal(d.written, 0x1234);
	lull_vm_destroy(vm);
}

static void a_device_in_a_taken_place_is_refused_by_name(void **state)
{
	(void)state;
	struct device d = {0};
	struct lull_error err;
	const struct lull_device device = device_at(&d, 0x3f8);
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct lull_vm *vm = create(&c);
	assert_int_equal(lull_vm_add_device(vm, &device, &err), -EEXIST);
	assert_non_null(strstr(err.text, "counter"));
	assert_non_null(strstr(err.text, "serial"));
	lull_vm_destroy(vm);
}

static void a_refused_device_leaves_its_place_free(void **state)
{
	(void)state;
	struct device d = {0};
	struct lull_device device = device_at(&d, 0x5000);
	const struct lull_config c = config_for(use_device, sizeof(use_device));
	struct lull_vm *vm = create(&c);
	device.gsi = 4; /* the serial port's */
	assert_int_equal(lull_vm_add_device(vm, &device, NULL), -EEXIST);
	device.gsi = 5;
	assert_int_equal(lull_vm_add_device(vm, &device, NULL), 0);
	assert_int_equal(lull_vm_add_device(vm, NULL, NULL), -EINVAL);
	lull_vm_destroy(vm);
}

static void a_reset_boots_again_and_resets_devices(void **state)
{
	(void)state;
	struct device d = {0};
	struct lull_device device = device_at(&d, 0x5000);
	struct lull_config c = config_for(reset_forever, sizeof(reset_forever));
	c.flags |= LULL_RESTART_ON_RESET;
	d.vm = create(&c);
	assert_int_equal(lull_vm_add_device(d.vm, &device, NULL), 0);
	assert_int_equal(lull_vm_start(d.vm, NULL), 0);
	struct timespec tick = {.tv_nsec = 1000000};
	while (d.resets < 5)
		nanosleep(&tick, NULL);
	struct lull_stats s = {.size = sizeof(s)};
	assert_int_equal(lull_vm_stats(d.vm, &s), 0);
	assert_true(s.boots >= 5);
	lull_vm_destroy(d.vm);
}

static void without_restart_a_reset_ends_the_vm(void **state)
{
	(void)state;
	const struct lull_config c = config_for(reset_forever, sizeof(reset_forever));
	struct lull_vm *vm = start(&c);
	assert_int_equal(wait_end(vm).reason, LULL_EXIT_RESET);
	lull_vm_destroy(vm);
}

/* ----------------------------------------------------------------------------------- versions */

static void structures_of_other_versions_are_understood(void **state)
{
	(void)state;
	struct {
		struct lull_config c;
		uint64_t newer;
	} big = {.c = config_for(exit_3, sizeof(exit_3))};
	struct lull_error err;
	big.c.size = sizeof(big);
	lull_vm_destroy(create(&big.c));
	big.newer = 1;
	assert_null(lull_vm_create(&big.c, &err));
	assert_int_equal(err.code, -E2BIG);
	/* An older program that knows nothing after kernel_bytes. */
	big.c.size = offsetof(struct lull_config, initrd);
	big.c.initrd = "/nonexistent";
	lull_vm_destroy(create(&big.c));
	big.c.size = 0;
	assert_null(lull_vm_create(&big.c, &err));
	assert_int_equal(err.code, -EINVAL);
}

static void an_older_statistics_structure_is_not_overrun(void **state)
{
	(void)state;
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct lull_vm *vm = create(&c);
	struct lull_stats s;
	memset(&s, 0x55, sizeof(s));
	s.size = offsetof(struct lull_stats, boots);
	assert_int_equal(lull_vm_stats(vm, &s), 0);
	assert_int_equal(s.vcpus, 1);
	assert_int_equal(s.boots, 0x5555555555555555);
	lull_vm_destroy(vm);
}

static void errors_name_the_thing(void **state)
{
	(void)state;
	struct lull_error err;
	struct lull_config c = config_for(exit_3, sizeof(exit_3));
	c.vcpus = 1000;
	assert_null(lull_vm_create(&c, &err));
	assert_non_null(strstr(err.text, "1000"));
	c.vcpus = 1;
	c.irqchip = "split";
	assert_null(lull_vm_create(&c, &err));
	assert_non_null(strstr(err.text, "split"));
	c.irqchip = NULL;
	c.halt_poll = "fixed:soon"; /* the message names the part that is wrong */
	assert_null(lull_vm_create(&c, &err));
	assert_non_null(strstr(err.text, "soon"));
}

/* ------------------------------------------------------------------------------------- leaks */

struct usage {
	unsigned fds, threads;
	unsigned long rss_kib;
};

static struct usage usage(void)
{
	struct usage u = {0};
	char line[256];
	for (int fd = 0; fd < 1024; fd++)
		u.fds += fcntl(fd, F_GETFD) >= 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "VmRSS: %lu", &u.rss_kib);
		sscanf(line, "Threads: %u", &u.threads);
	}
	if (f)
		fclose(f);
	return u;
}

static void a_thousand_vms_leave_nothing_behind(void **state)
{
	(void)state;
	const struct lull_config c = config_for(exit_3, sizeof(exit_3));
	struct usage before = {0};
	for (int i = 0; i < 1000; i++) {
		if (i == 50) /* the allocator has settled */
			before = usage();
		struct lull_vm *vm = i % 10 ? start(&c) : create(&c);
		if (i % 10)
			assert_int_equal(wait_end(vm).code, 3);
		lull_vm_destroy(vm);
	}
	struct usage after = usage();
	assert_int_equal(after.fds, before.fds);
	assert_int_equal(after.threads, before.threads);
	print_message("VmRSS %lu KiB after 50, %lu KiB after 1000\n", before.rss_kib, after.rss_kib);
	assert_true(after.rss_kib <= before.rss_kib + 256);
}

static void failed_creations_leave_nothing_behind(void **state)
{
	(void)state;
	struct lull_config c = config_for(exit_3, sizeof(exit_3));
	c.serial = "file=/nonexistent/file";
	struct usage before = usage();
	for (int i = 0; i < 100; i++)
		assert_null(lull_vm_create(&c, NULL));
	assert_int_equal(usage().fds, before.fds);
}

static void only_the_kick_signal_is_touched(void **state)
{
	(void)state;
	struct sigaction before[65], now;
	for (int s = 1; s < 65; s++)
		sigaction(s, NULL, &before[s]);
	struct lull_config c = config_for(exit_3, sizeof(exit_3));
	c.kick_signal = SIGRTMIN + 9;
	struct lull_vm *vm = start(&c);
	wait_end(vm);
	lull_vm_destroy(vm);
	for (int s = 1; s < 65; s++)
		if (s != SIGRTMIN + 9 && sigaction(s, NULL, &now) == 0)
			assert_ptr_equal(now.sa_handler, before[s].sa_handler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_vms_run_in_one_process),
		cmocka_unit_test(event_fd_becomes_readable_at_the_end),
		cmocka_unit_test(stop_ends_a_busy_and_an_idle_guest),
		cmocka_unit_test(destroy_without_start_and_while_running),
		cmocka_unit_test(a_second_start_is_refused),
		cmocka_unit_test(paused_guests_make_no_exits),
		cmocka_unit_test(pause_wakes_a_halted_guest_and_resume_lets_it_halt_again),
		cmocka_unit_test(pause_of_an_ended_vm_says_so),
		cmocka_unit_test(a_resume_ends_a_pause_that_still_waits),
		cmocka_unit_test(a_pause_during_a_reset_holds_the_next_boot),
		cmocka_unit_test(a_custom_device_sees_the_accesses),
		cmocka_unit_test(a_device_in_a_taken_place_is_refused_by_name),
		cmocka_unit_test(a_refused_device_leaves_its_place_free),
		cmocka_unit_test(a_reset_boots_again_and_resets_devices),
		cmocka_unit_test(without_restart_a_reset_ends_the_vm),
		cmocka_unit_test(structures_of_other_versions_are_understood),
		cmocka_unit_test(an_older_statistics_structure_is_not_overrun),
		cmocka_unit_test(errors_name_the_thing),
		cmocka_unit_test(a_thousand_vms_leave_nothing_behind),
		cmocka_unit_test(failed_creations_leave_nothing_behind),
		cmocka_unit_test(only_the_kick_signal_is_touched),
	};
	return cmocka_run_group_tests_name("lull", tests, NULL, NULL);
}
