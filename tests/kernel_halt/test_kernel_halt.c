/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kernel_halt.c - --irqchip kernel: the limit of KVM's poll window is really what the policy says. Counts what KVM
 * counts; how long anything takes is not judged. Needs /dev/kvm and build/guests.
 */
#include "vm.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* A guest of one CPU. It runs for minutes, unless its words say otherwise. */
static struct lull_vm *create(const char *guest, const char *words, const char *policy)
{
	char path[128];
	struct lull_error err = {.text = ""};
	snprintf(path, sizeof(path), "build/guests/%s.elf", guest);
	const struct lull_config config = {
		.size = sizeof(config),
		.ram_bytes = 64 << 20,
		.kernel = path,
		.cmdline = words,
		.irqchip = "kernel",
		.halt_poll = policy,
		.powersave = "strict",
	};
	struct lull_vm *vm = lull_vm_create(&config, &err);
	if (!vm)
		fail_msg("lull_vm_create: %s", err.text);
	return vm;
}

static struct lull_vm *start(const char *guest, const char *words, const char *policy)
{
	struct lull_vm *vm = create(guest, words, policy);
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	return vm;
}

static struct lull_vm *start_tick(const char *policy)
{
	return start("idle_tick", "hz=4000 seconds=600", policy);
}

static struct lull_vcpu_stats stats(const struct lull_vm *vm)
{
	struct lull_vcpu_stats s = {.size = sizeof(s)};
	assert_int_equal(lull_vm_vcpu_stats(vm, 0, &s), 0);
	return s;
}

static void nap(unsigned ms)
{
	const struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&ts, NULL);
}

/* Waits until the figure at offset is at least so much. */
static bool reaches(const struct lull_vm *vm, size_t offset, uint64_t least)
{
	for (unsigned i = 0; i < PATIENCE_MS / 5; i++) {
		struct lull_vcpu_stats s = stats(vm);
		uint64_t value;
		memcpy(&value, (const char *)&s + offset, sizeof(value));
		if (value >= least)
			return true;
		nap(5);
	}
	return false;
}

#define REACHES(vm, member, least) assert_true(reaches(vm, offsetof(struct lull_vcpu_stats, member), least))

/* So many halts from now on. */
static void halts(const struct lull_vm *vm, uint64_t more)
{
	REACHES(vm, halts, stats(vm).halts + more);
}

/* No poll begins any more, once the halt that is under way is over. */
static void assert_no_polls(const struct lull_vm *vm)
{
	halts(vm, 2);
	uint64_t before = stats(vm).halt_attempted_poll;
	halts(vm, 300);
	assert_int_equal(stats(vm).halt_attempted_poll, before);
}

static void assert_polls(const struct lull_vm *vm)
{
	REACHES(vm, halt_attempted_poll, stats(vm).halt_attempted_poll + 50);
}

/* ------------------------------------------------------------------------------------- limits */

static void policies_set_the_limit(void **state)
{
	static const struct {
		const char *policy;
		uint64_t limit;
	} cases[] = {
		{"none", 0},          {"fixed:123us", 123000}, {"kvm:max=77us", 77000},
		{"haltpoll", 200000}, {"always", 1000000000},  {"cost:wake=10us,switch=3us", 40000},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lull_vm *vm = create("idle", "", cases[i].policy);
		assert_int_equal(lull_vm_start(vm, NULL), 0);
		assert_int_equal(stats(vm).window_ns, cases[i].limit);
		lull_vm_destroy(vm);
	}
}

static void none_never_polls_whatever_kvm_would_do(void **state)
{
	(void)state;
	struct lull_vm *vm = start_tick("none");
	halts(vm, 1000);
	struct lull_vcpu_stats s = stats(vm);
	assert_int_equal(s.halt_attempted_poll, 0);
	assert_int_equal(s.halt_poll_ns, 0);
	assert_true(s.halt_wait_ns > 0);
	lull_vm_destroy(vm);
}

static void fixed_polls(void **state)
{
	(void)state;
	struct lull_vm *vm = start("idle_tick", "hz=10000 seconds=600", "fixed:200us");
	assert_polls(vm);
	assert_true(stats(vm).halt_poll_ns > 0);
	lull_vm_destroy(vm);
}

static void figures_fit_together(void **state)
{
	(void)state;
	struct lull_vm *vm = start_tick("fixed:2ms");
	assert_polls(vm);
	assert_int_equal(lull_vm_pause(vm), 0);
	struct lull_vcpu_stats s = stats(vm);
	uint64_t found = 0, lost = 0, slept = 0;
	for (unsigned i = 0; i < LULL_HIST_BUCKETS; i++) {
		found += s.halt_poll_success_hist[i];
		lost += s.halt_poll_fail_hist[i];
		slept += s.halt_wait_hist[i];
	}
	assert_int_equal(found, s.halt_successful_poll);
	assert_int_equal(found + lost, s.halt_attempted_poll);
	assert_int_equal(found + slept, s.halts);
	assert_int_equal(s.halt_poll_ns, s.halt_poll_success_ns + s.halt_poll_fail_ns);
	assert_int_equal(s.wake[LULL_WAKE_TIMER].wakes, 0);
	lull_vm_destroy(vm);
}

/* ------------------------------------------------------------------------------------- changes */

static void a_live_change_counts_at_once(void **state)
{
	struct lull_error err;
	(void)state;
	struct lull_vm *vm = start_tick("none");
	assert_no_polls(vm);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lull_vm_set_halt_poll(vm, "fixed:2ms", NULL), 0);
		assert_int_equal(stats(vm).window_ns, 2000000);
		assert_polls(vm);
		assert_int_equal(lull_vm_set_halt_poll(vm, "none", NULL), 0);
		assert_no_polls(vm);
	}
	assert_int_equal(lull_vm_set_halt_poll(vm, "fixd", &err), -EINVAL);
	assert_no_polls(vm);
	lull_vm_destroy(vm);
}

static void the_off_switch_wins(void **state)
{
	(void)state;
	struct lull_vm *vm = start_tick("fixed:2ms");
	assert_polls(vm);
	lull_vm_allow_polling(vm, false);
	assert_int_equal(stats(vm).window_ns, 0);
	assert_no_polls(vm);
	assert_int_equal(lull_vm_set_halt_poll(vm, "always", NULL), 0);
	assert_no_polls(vm);
	REACHES(vm, poll_refused[LULL_REFUSED_OFF], 100);
	lull_vm_allow_polling(vm, true);
	assert_int_equal(stats(vm).window_ns, 1000000000);
	assert_polls(vm);
	lull_vm_destroy(vm);
}

static void off_before_the_start_counts_too(void **state)
{
	(void)state;
	struct lull_vm *vm = create("idle_tick", "hz=4000 seconds=600", "always");
	lull_vm_allow_polling(vm, false);
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	halts(vm, 300);
	assert_int_equal(stats(vm).halt_attempted_poll, 0);
	lull_vm_destroy(vm);
}

static void a_reset_keeps_the_limit(void **state)
{
	(void)state;
	struct lull_vm *vm = create("idle_tick", "hz=4000 seconds=600", "none");
	vm->config.flags |= LULL_RESTART_ON_RESET;
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	halts(vm, 100);
	lull_vm_reset(vm);
	struct lull_stats s = {.size = sizeof(s)};
	for (unsigned i = 0; i < PATIENCE_MS && s.boots < 2; i++) {
		lull_vm_stats(vm, &s);
		nap(1);
	}
	assert_int_equal(s.boots, 2);
	halts(vm, 300);
	assert_int_equal(stats(vm).halt_attempted_poll, 0);
	assert_int_equal(lull_vm_set_halt_poll(vm, "fixed:2ms", NULL), 0);
	assert_polls(vm);
	lull_vm_destroy(vm);
}

/* ------------------------------------------------------------------------------------- permission */

static void the_budget_stops_the_polling(void **state)
{
	struct lull_error err;
	char path[] = "build/guests/idle_tick.elf";
	const struct lull_config config = {
		.size = sizeof(config),
		.ram_bytes = 64 << 20,
		.kernel = path,
		.cmdline = "hz=2000 seconds=600",
		.irqchip = "kernel",
		.halt_poll = "fixed:2ms",
		.poll_budget = "5",
	};
	(void)state;
	struct lull_vm *vm = lull_vm_create(&config, &err);
	assert_non_null(vm);
	uint64_t begin = clock_ns();
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	assert_polls(vm);
	/* On a busy host KVM stops polling by itself, and the budget may last. */
	for (unsigned i = 0; i < 600 && !stats(vm).poll_refused[LULL_REFUSED_BUDGET]; i++)
		nap(5);
	nap(1000);
	struct lull_vcpu_stats s = stats(vm);
	/* 5 %, the bucket, and what was polled until somebody looked. */
	uint64_t most = (clock_ns() - begin) / 20 + 5000000 + 100000000;
	assert_true(s.halt_poll_ns <= most);
	lull_vm_destroy(vm);
}

static char sysfs[] = "/tmp/lull-sysfs-XXXXXX";

static void write_governor(const char *word)
{
	for (int cpu = 0; cpu < 64; cpu++) {
		char path[256];
		FILE *f;
		snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cpufreq/scaling_governor", sysfs, cpu);
		f = fopen(path, "w");
		assert_non_null(f);
		fprintf(f, "%s\n", word);
		fclose(f);
	}
}

static void make_sysfs(void)
{
	static const char *const parts[] = {"/devices", "/system", "/cpu"};
	char path[256];
	assert_non_null(mkdtemp(sysfs));
	snprintf(path, sizeof(path), "%s", sysfs);
	for (size_t i = 0; i < 3; i++) {
		strcat(path, parts[i]);
		mkdir(path, 0700);
	}
	for (int cpu = 0; cpu < 64; cpu++) {
		char dir[300];
		snprintf(dir, sizeof(dir), "%s/cpu%d", path, cpu);
		mkdir(dir, 0700);
		strcat(dir, "/cpufreq");
		mkdir(dir, 0700);
	}
}

static void powersave_makes_the_limit_zero(void **state)
{
	char command[128];
	(void)state;
	make_sysfs();
	write_governor("powersave");
	struct lull_vm *vm = create("idle_tick", "hz=4000 seconds=600", "fixed:2ms");
	vm->halt.sysfs = sysfs;
	assert_int_equal(lull_vm_set_halt_poll(vm, "fixed:2ms", NULL), 0); /* reads it */
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	REACHES(vm, poll_refused[LULL_REFUSED_POWER], 100); /* until somebody looks the thread's CPU is not known */
	assert_int_equal(stats(vm).window_ns, 0);
	assert_no_polls(vm);
	write_governor("schedutil");
	REACHES(vm, window_ns, 2000000);
	assert_polls(vm);
	lull_vm_destroy(vm);
	snprintf(command, sizeof(command), "rm -r %s", sysfs);
	assert_int_equal(system(command), 0);
}

/* The MSR is KVM's, and lull sees what goes into it. The policy learns nothing from halts that cannot be polled. */
static void a_guest_that_polls_itself_is_not_polled(void **state)
{
	(void)state;
	struct lull_vm *vm = create("idle_tick", "hz=4000 seconds=4 self=1", "cost:wake=1ms,switch=300us");
	assert_int_equal(stats(vm).poll_control, 1);
	assert_int_equal(lull_vm_start(vm, NULL), 0);
	REACHES(vm, poll_refused[LULL_REFUSED_GUEST], 500);
	struct lull_vcpu_stats s = stats(vm);
	assert_int_equal(s.poll_control, 0);
	assert_int_equal(s.halt_attempted_poll, 0);
	REACHES(vm, poll_control, 1);
	assert_polls(vm);
	lull_vm_destroy(vm);
}

/* ------------------------------------------------------------------------------------- governor */

/* A tick of 4 kHz is 250 us: KVM with a limit above that polls all the time. */
static void cost_does_not_poll_through_a_tick(void **state)
{
	(void)state;
	struct lull_vm *vm = start_tick("cost:wake=10us,switch=3us");
	halts(vm, 4000);
	struct lull_vcpu_stats s = stats(vm);
	assert_true(s.window_ns <= 160000);
	assert_true(s.halt_successful_poll < s.halts / 4);
	lull_vm_destroy(vm);
}

/* Where a sleep is very dear, the limit has to go up; where it is nearly free, down. */
static void cost_moves_the_limit(void **state)
{
	(void)state;
	struct lull_vm *vm = start_tick("cost:wake=10us,switch=3us");
	halts(vm, 500);
	assert_int_equal(lull_vm_set_halt_poll(vm, "cost:wake=1ms,switch=300us", NULL), 0);
	REACHES(vm, window_ns, 320000);
	lull_vm_destroy(vm);
}

/* ------------------------------------------------------------------------------------- no cost */

static uint64_t switches(void)
{
	uint64_t sum = 0;
	DIR *dir = opendir("/proc/self/task");
	for (const struct dirent *d; dir && (d = readdir(dir));) {
		char path[300], line[256];
		unsigned long n;
		if (atoi(d->d_name) == getpid() || atoi(d->d_name) == 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		FILE *f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
			    sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

static void a_guest_that_comes_to_rest_wakes_nobody(void **state)
{
	(void)state;
	struct lull_vm *vm = start("tick_then_idle", "hz=4000 ms=500", "cost");
	halts(vm, 1000);
	bool quiet = false;
	for (unsigned i = 0; i < 10 && !quiet; i++) { /* until the looks for a dead guest have ended, too */
		nap(1000);
		uint64_t before = switches();
		nap(3000);
		quiet = switches() == before;
	}
	assert_true(quiet);
	lull_vm_destroy(vm);
}

static void reading_does_not_wait_for_the_vcpu(void **state)
{
	(void)state;
	struct lull_vm *vm = start("idle", "", "cost");
	nap(300); /* it is in KVM_RUN and stays there */
	for (unsigned i = 0; i < 1000; i++)
		stats(vm);
	lull_vm_destroy(vm);
}

/* Open descriptors, or those of them that a child would inherit. */
static unsigned descriptors(bool inherited)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);
		n += flags >= 0 && !(inherited && (flags & FD_CLOEXEC));
	}
	return n;
}

static void nothing_is_left_behind(void **state)
{
	(void)state;
	unsigned before = descriptors(false), inherited = descriptors(true);
	for (unsigned i = 0; i < 20; i++) {
		struct lull_vm *vm = create("idle", "", "cost");
		if (i % 2)
			lull_vm_start(vm, NULL);
		assert_int_equal(descriptors(true), inherited);
		lull_vm_destroy(vm);
	}
	assert_int_equal(descriptors(false), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_set_the_limit),
		cmocka_unit_test(none_never_polls_whatever_kvm_would_do),
		cmocka_unit_test(fixed_polls),
		cmocka_unit_test(figures_fit_together),
		cmocka_unit_test(a_live_change_counts_at_once),
		cmocka_unit_test(the_off_switch_wins),
		cmocka_unit_test(off_before_the_start_counts_too),
		cmocka_unit_test(a_reset_keeps_the_limit),
		cmocka_unit_test(the_budget_stops_the_polling),
		cmocka_unit_test(powersave_makes_the_limit_zero),
		cmocka_unit_test(a_guest_that_polls_itself_is_not_polled),
		cmocka_unit_test(cost_does_not_poll_through_a_tick),
		cmocka_unit_test(cost_moves_the_limit),
		cmocka_unit_test(a_guest_that_comes_to_rest_wakes_nobody),
		cmocka_unit_test(reading_does_not_wait_for_the_vcpu),
		cmocka_unit_test(nothing_is_left_behind),
	};
	return cmocka_run_group_tests_name("kernel_halt", tests, NULL, NULL);
}
