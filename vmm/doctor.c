/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - lull_doctor(): what this host offers for running and for waiting, each finding with a verdict. */
#include "doctor.h"

#include "clock.h"
#include "cpu_wait.h"
#include "error.h"
#include "kvm.h"
#include "log.h"
#include "power.h"
#include "steal.h"
#include "text_file.h"
#include "util.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void doctor_say(const struct doctor *d, const char *verdict, const char *topic, const char *fmt, ...)
{
	char text[320];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->line(d->ctx, verdict, topic, text);
}

#define LINE_BYTES 128
#define CPUFREQ    "/sys/devices/system/cpu/cpu0/cpufreq/"

/* The first line of a file under /sys without its newline; "" when it cannot be read. */
static void read_line(char line[static LINE_BYTES], const char *folder, const char *file)
{
	text_file_head(line, LINE_BYTES, "%s%s", folder, file);
	line[strcspn(line, "\n")] = 0;
}

static void look_at_caps(const struct doctor *d, const struct kvm *kvm)
{
	static const struct {
		int cap;
		const char *name, *without;
	} caps[] = {
		{KVM_CAP_SPLIT_IRQCHIP, "split irqchip", "--irqchip kernel cannot be used"},
		{KVM_CAP_TSC_DEADLINE_TIMER, "TSC-deadline", "guests of --irqchip kernel use the count-mode timer"},
		{KVM_CAP_ENFORCE_PV_FEATURE_CPUID, "enforced PV leaf", "guests can use PV features that CPUID hides"},
		{KVM_CAP_HALT_POLL, "per-VM halt poll", "KVM's own polling can be set for the whole host only"},
		{KVM_CAP_BINARY_STATS_FD, "binary stats", "KVM's halt statistics are in debugfs only"},
		{KVM_CAP_IOEVENTFD, "ioeventfd", "each notification of a device costs an exit to lull"},
	};
	doctor_say(d, "ok", "kvm", "API version %d, up to %u vCPUs per VM", KVM_API_VERSION, kvm->max_vcpus);
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		bool there = kvm_check(kvm, caps[i].cap) > 0;
		doctor_say(d, there ? "ok" : "note", caps[i].name, "%s", there ? "supported by KVM" : caps[i].without);
	}
	bool mwait = kvm_check_mwait(kvm, NULL) == 0;
	doctor_say(d, mwait ? "ok" : "note", "guest MWAIT", "%s",
	           mwait ? "KVM can give it to guests: --guest-mwait" : "this KVM does not give it: no --guest-mwait");
}

static void look_at_halt_poll(const struct doctor *d)
{
	static const char *const names[] = {"halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_grow_start",
	                                    "halt_poll_ns_shrink"};
	char buf[4][LINE_BYTES];
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		read_line(buf[i], "/sys/module/kvm/parameters/", names[i]);
	if (!buf[0][0])
		doctor_say(d, "note", "kernel polling", "/sys/module/kvm/parameters/halt_poll_ns cannot be read");
	else
		doctor_say(d, "ok", "kernel polling",
		           "halt_poll_ns %s, grow %s, grow_start %s, shrink %s (with --irqchip kernel)", buf[0], buf[1],
		           buf[2], buf[3]);
}

/* The verdict is the one that the halt engine would act on. */
static void look_at_cpufreq(const struct doctor *d)
{
	char driver[LINE_BYTES], governor[LINE_BYTES], epp[LINE_BYTES];
	struct power power;
	read_line(driver, CPUFREQ, "scaling_driver");
	read_line(governor, CPUFREQ, "scaling_governor");
	read_line(epp, CPUFREQ, "energy_performance_preference");
	if (!driver[0]) {
		doctor_say(d, "note", "cpufreq",
		           "this kernel offers none: as in most virtual machines, the frequency is not ours to see");
		return;
	}
	power_init(&power, POWER_SMART, "/sys");
	bool saves = power_saves(&power, 0, clock_ns(), 0);
	doctor_say(d, saves ? "warn" : "ok", "cpufreq", "driver %s, governor %s%s%s: %s", driver, governor,
	           epp[0] ? ", preference " : "", epp,
	           saves ? "set to save power; wakes are slow and polling works against it" : "not set to save power");
}

static void look_at_cpu(const struct doctor *d)
{
	unsigned a, b, c, e;
	char clocksource[LINE_BYTES], thp[LINE_BYTES];
	enum cpu_wait wait;
	bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &e) && (e >> 8 & 1);
	bool guest = __get_cpuid(1, &a, &b, &c, &e) && (c >> 31 & 1);
	(void)cpu_wait_parse(&wait, "auto", NULL);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	read_line(clocksource, "/sys/devices/system/clocksource/clocksource0/", "current_clocksource");
	doctor_say(d, guest ? "note" : "ok", "host", "%ld CPUs, %s", cpus,
	           guest ? "itself a virtual machine: exits and wakes cost several times what they cost on hardware"
	                 : "hardware");
	doctor_say(d, invariant ? "ok" : "warn", "tsc", "%s, host clocksource %s",
	           invariant ? "invariant" : "not marked invariant: guests may find their clocks unstable",
	           clocksource);
	doctor_say(d, wait == CPU_WAIT_PAUSE ? "note" : "ok", "wait instruction", "%s",
	           wait == CPU_WAIT_UMWAIT   ? "UMWAIT: a polling vCPU can save power"
	           : wait == CPU_WAIT_MWAITX ? "MWAITX: a polling vCPU can save power"
	                                     : "neither UMWAIT nor MWAITX: a polling vCPU spins with PAUSE");
	read_line(thp, "/sys/kernel/mm/transparent_hugepage/", "enabled");
	doctor_say(d, strstr(thp, "[never]") || !thp[0] ? "warn" : "ok", "huge pages", "transparent_hugepage %s",
	           thp[0] ? thp : "is not there: guest memory is slow to touch first");
}

static void look_at_io_uring(const struct doctor *d)
{
	struct io_uring_params params = {0};
	long fd = syscall(SYS_io_uring_setup, 1, &params);
	if (fd >= 0) {
		close((int)fd);
		doctor_say(d, "ok", "io_uring", "usable");
	} else {
		doctor_say(d, "warn", "io_uring", "%s%s", strerror(errno),
		           errno == EPERM ? ": allowed by sysctl kernel.io_uring_disabled=0" : "");
	}
}

/* What --steal-time vmm needs. */
static void look_at_steal_time(const struct doctor *d)
{
	int delay = steal_probe_delay(), preempt = steal_probe_preempt();
	if (delay < 0)
		doctor_say(d, "note", "steal time", "this kernel does not account the wait for a CPU: left to KVM");
	else if (preempt < 0)
		doctor_say(d, "note", "steal time", "left to KVM: perf_event_open: %s%s", strerror(-preempt),
		           preempt == -EACCES || preempt == -EPERM ? "; allowed by sysctl kernel.perf_event_paranoid=2"
		                                                   : "");
	else
		doctor_say(d, "ok", "steal time", "accounted by lull, which sees when a vCPU is preempted");
	if (delay == 0 && preempt == 0 && !steal_thread_may_hurry())
		doctor_say(d, "note", "preempted flag",
		           "may be late by milliseconds: no real-time priority, see RLIMIT_RTPRIO");
}

int lull_doctor(void (*line)(void *ctx, const char *verdict, const char *topic, const char *text), void *ctx)
{
	const struct doctor d = {.line = line, .ctx = ctx};
	struct lull_error err;
	struct kvm kvm;
	look_at_cpu(&d);
	look_at_cpufreq(&d);
	look_at_io_uring(&d);
	look_at_steal_time(&d);
	int ret = kvm_open(&kvm, &err);
	if (ret == 0) {
		look_at_caps(&d, &kvm);
		look_at_halt_poll(&d);
		ret = doctor_measure(&d, &kvm, &err);
		kvm_close(&kvm);
	}
	if (ret < 0)
		doctor_say(&d, "fail", "kvm", "%s", err.text);
	return ret < 0 ? -ENODEV : 0;
}
