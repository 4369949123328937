/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_measure.c - the part of lull_doctor() that needs a VM and a clock: MSR probes, cost of an exit, of a sleep and
 * of a wake. */
#include "doctor.h"

#include "clock.h"
#include "error.h"
#include "guest_cpuid.h"
#include "guest_mem.h"
#include "kvm.h"
#include "util.h"
#include "vcpu.h"

#include <errno.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

enum {
	EXITS = 1000,
	WAKES = 100,
	SLEEPS = 50,
	STUB = 0x1000,
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t quantile(uint64_t *values, unsigned count, unsigned percent)
{
	qsort(values, count, sizeof(*values), compare);
	return values[(count - 1) * percent / 100];
}

/* Port writes in a loop: each comes out to us and goes back. */
static int time_exits(const struct doctor *d, struct vcpu *v, struct lull_error *err)
{
	static const uint8_t stub[] = {0xe6, 0x80, 0xeb, 0xfc}; /* out %al, $0x80; jmp to it */
	const struct boot_state boot = {.mode = BOOT_REAL, .entry = STUB};
	uint64_t ns[EXITS];
	uint64_t *times = ns;
	int ret = guest_mem_write(v->env->mem, gpa(STUB), stub, sizeof(stub));
	if (ret == 0)
		ret = vcpu_setup_boot(v, &boot, err);
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < EXITS; i++) {
		uint64_t start = clock_ns();
		if ((ioctl(v->fd, KVM_RUN, 0) < 0 && errno != EINTR) ||
		    (v->run->exit_reason != KVM_EXIT_IO && v->run->exit_reason != KVM_EXIT_INTR))
			return error_set(err, -EIO, "a loop of port writes does not run here (exit reason %u)",
			                 v->run->exit_reason);
		times[i] = clock_ns() - start;
	}
	uint64_t median = quantile(times, EXITS, 50);
	doctor_say(d, median < 20000 ? "ok" : "warn", "exit",
	           "%.1f us to leave the guest and come back (median of %d, p99 %.1f us)", (double)median / 1e3, EXITS,
	           (double)quantile(times, EXITS, 99) / 1e3);
	return 0;
}

struct sleeper {
	struct wake wake;
	uint64_t ns[WAKES];
	_Atomic unsigned done;
};

static void *sleep_thread(void *arg)
{
	struct sleeper *s = arg;
	for (unsigned i = 0; i < WAKES; i++) {
		uint64_t stamp;
		uint32_t ticket = wake_ticket(&s->wake);
		while (!(wake_take(&s->wake, &stamp)) && wake_block(&s->wake, ticket, WAKE_NEVER) != 0)
			;
		if (!stamp)
			wake_take(&s->wake, &stamp);
		s->ns[i] = stamp ? clock_tsc() - stamp : 0; /* 0: awake between the cause and its stamp */
		atomic_store(&s->done, i + 1);
	}
	return NULL;
}

static void time_wakes(const struct doctor *d, uint64_t tsc_khz)
{
	struct sleeper *s = calloc(1, sizeof(*s));
	pthread_t thread;
	if (!s)
		return;
	wake_init(&s->wake, NULL, NULL);
	if (pthread_create(&thread, NULL, sleep_thread, s)) {
		free(s);
		return;
	}
	for (unsigned i = 0; i < WAKES; i++) {
		const struct timespec pause = {.tv_nsec = 1000000};
		while (atomic_load(&s->done) < i)
			nanosleep(&pause, NULL);
		nanosleep(&pause, NULL); /* the thread is asleep, and its CPU as well if it is idle */
		wake_post(&s->wake, WAKE_REQUEST, clock_tsc());
	}
	pthread_join(thread, NULL);
	doctor_say(d, "ok", "wake", "%.1f us from a post to the sleeping thread running (median of %d, p99 %.1f us)",
	           (double)clock_tsc_to_ns(quantile(s->ns, WAKES, 50), tsc_khz) / 1e3, WAKES,
	           (double)clock_tsc_to_ns(quantile(s->ns, WAKES, 99), tsc_khz) / 1e3);
	free(s);
}

static void time_sleeps(const struct doctor *d)
{
	uint64_t ns[SLEEPS];
	struct wake w;
	wake_init(&w, NULL, NULL);
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < SLEEPS; i++) {
		uint64_t until = clock_ns() + 1000000;
		wake_block(&w, wake_ticket(&w), until);
		uint64_t now = clock_ns();
		ns[i] = now > until ? now - until : 0;
	}
	cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
	uint64_t median = quantile(ns, SLEEPS, 50);
	doctor_say(d, median < 200000 ? "ok" : "warn", "sleep",
	           "a sleep of 1 ms ends %.1f us late (median of %d, p99 %.1f us) and takes %.1f us of CPU time",
	           (double)median / 1e3, SLEEPS, (double)quantile(ns, SLEEPS, 99) / 1e3, (double)cpu / SLEEPS / 1e3);
}

static int with_vcpu(const struct doctor *d, struct vcpu *v, struct lull_error *err)
{
	const struct cpuid_options opt = {.vcpus = 1, .x2apic = true, .tsc_deadline = true, .pv_eoi = true};
	bool tsc_deadline = false, x2apic = false;
	struct kvm_cpuid2 *cpuid = cpuid_make(v->env->kvm, &opt, err);
	if (!cpuid)
		return -EIO;
	int ret = vcpu_setup_cpuid(v, cpuid, err);
	free(cpuid);
	if (ret == 0)
		ret = vcpu_probe_msrs(v, &tsc_deadline, &x2apic, err);
	if (ret < 0)
		return ret;
	doctor_say(d, tsc_deadline ? "ok" : "note", "deadline writes", "%s",
	           tsc_deadline ? "come out of KVM: guests get the TSC-deadline timer"
	                        : "are swallowed by KVM: guests use the count-mode timer");
	doctor_say(d, x2apic ? "ok" : "note", "x2APIC", "%s",
	           x2apic ? "register accesses come out of KVM: guests get x2APIC"
	                  : "accesses do not come out: guests use xAPIC");
	return time_exits(d, v, err);
}

int doctor_measure(const struct doctor *d, struct kvm *kvm, struct lull_error *err)
{
	struct guest_mem mem;
	struct vcpu v;
	int ret = kvm_create_vm(kvm, err);
	if (ret < 0)
		return ret;
	ret = guest_mem_init(&mem, MiB(2), false, err);
	if (ret < 0)
		return ret;
	const struct vcpu_env env = {.kvm = kvm, .mem = &mem, .tsc_khz = kvm_tsc_khz(kvm)};
	ret = kvm_route_msrs(kvm, false, err);
	if (ret == 0)
		ret = kvm_map_memory(kvm, &mem, err);
	if (ret == 0)
		ret = vcpu_create(&v, 0, &env, err);
	if (ret == 0) {
		ret = with_vcpu(d, &v, err);
		vcpu_destroy(&v);
	}
	kvm_destroy_vm(kvm);
	guest_mem_fini(&mem);
	if (ret == 0) {
		time_wakes(d, env.tsc_khz);
		time_sleeps(d);
	}
	return ret;
}
