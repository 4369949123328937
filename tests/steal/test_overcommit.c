/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_overcommit.c - what a guest is told of the time it waited for a CPU, against what the host's scheduler says of
 * that vCPU's thread, while a busy loop wants the same CPU. Through the public interface; TAP.
 *
 * usage: test_overcommit GUEST CPU SECONDS
 */
#include <lull.h>

#include <linux/kvm_para.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000

static const char *guest, *cpu;
static int tests, failed;

static void tap(bool ok, const char *what, const char *detail)
{
	printf("%sok %d - %s%s%s\n", ok ? "" : "not ", ++tests, what, ok ? "" : " # ", ok ? "" : detail);
	if (ok && *detail)
		printf("# %s\n", detail);
	fflush(stdout);
	failed += !ok;
}

static void sleep_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};
	nanosleep(&t, NULL);
}

static pid_t start_hog(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((unsigned)atoi(cpu), &set);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sched_setaffinity(0, sizeof(set), &set);
	for (volatile unsigned long i = 0;; i++)
		;
}

/* -------------------------------------------------------------------------------- a VM and its area */

struct rig {
	struct lull_vm *vm;
	int tid;
	_Atomic uint64_t area_gpa;
	volatile struct kvm_steal_time *area;
	uint64_t last, versions;
	uint32_t version;
	bool went_back;
};

static void on_area(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value)
{
	struct rig *r = ctx;
	(void)offset, (void)bytes;
	r->area_gpa = value;
}

static void start(struct rig *r, const char *mode, const char *what, const char *poll)
{
	struct lull_error err;
	const struct lull_config config = {
		.size = sizeof(config),
		.ram_bytes = 64 << 20,
		.kernel = guest,
		.cmdline = what,
		.cpu_affinity = cpu,
		.steal_time = mode,
		.halt_poll = poll,
	};
	const struct lull_device port = {
		.size = sizeof(port),
		.name = "area",
		.base = 0x540,
		.length = 4,
		.gsi = -1,
		.write = on_area,
		.ctx = r,
	};
	*r = (struct rig){.vm = lull_vm_create(&config, &err)};
	if (!r->vm || lull_vm_add_device(r->vm, &port, &err) < 0 || lull_vm_start(r->vm, &err) < 0) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	for (unsigned i = 0; i < 20000 && !r->area_gpa; i++)
		sleep_ms(1);
	r->tid = lull_vm_vcpu_tid(r->vm, 0);
	r->area = lull_vm_memory(r->vm, r->area_gpa, sizeof(*r->area));
	if (!r->area_gpa || !r->area) {
		printf("Bail out! the guest did not come up\n");
		exit(1);
	}
}

/* As a guest reads it. */
static uint64_t steal(struct rig *r)
{
	uint32_t version;
	uint64_t value;
	do {
		version = r->area->version;
		atomic_thread_fence(memory_order_acquire);
		value = r->area->steal;
		atomic_thread_fence(memory_order_acquire);
	} while ((version & 1) || version != r->area->version);
	r->went_back = r->went_back || value < r->last;
	r->versions += version != r->version;
	r->version = version;
	r->last = value;
	return value;
}

/* What the scheduler says: the wait for a CPU. */
static uint64_t run_delay(const struct rig *r)
{
	char path[64];
	unsigned long long ran, delay = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", r->tid);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%llu %llu", &ran, &delay) != 2)
		delay = 0;
	if (f)
		fclose(f);
	return delay;
}

/* The two differ while the vCPU is away or has only just come back, so a moment without a change counts: the difference
 * in ns, of the best of some tries. */
static int64_t difference(struct rig *r)
{
	int64_t best = INT64_MAX;
	for (unsigned i = 0; i < 2000 && llabs(best) > MS / 100; i++) {
		uint64_t before = run_delay(r);
		int64_t d = (int64_t)(steal(r) - before);
		if (before == run_delay(r) && llabs(d) < llabs(best))
			best = d;
		sleep_ms(1);
	}
	return best;
}

/* --------------------------------------------------------------------------------------- the tests */

static void busy_guest(const char *mode, int seconds)
{
	char detail[160], title[96];
	struct rig r;
	start(&r, mode, "", NULL);
	pid_t hog = start_hog();
	int64_t worst = 0;
	uint64_t first = steal(&r);
	for (int i = 0; i < seconds * 10; i++) {
		sleep_ms(100);
		steal(&r);
		if (i % 10 == 9) {
			int64_t d = difference(&r);
			worst = llabs(d) > llabs(worst) ? d : worst;
		}
	}
	uint64_t stolen = r.last - first;
	kill(hog, SIGKILL);
	snprintf(detail, sizeof(detail), "%llu ms stolen in %d s, %llu versions seen, difference at most %lld us",
	         (unsigned long long)stolen / MS, seconds, (unsigned long long)r.versions, (long long)worst / 1000);
	snprintf(title, sizeof(title), "%s: steal is the thread's run_delay within a millisecond", mode);
	tap(llabs(worst) <= MS && stolen > 100 * MS, title, detail);
	snprintf(title, sizeof(title), "%s: steal never goes back", mode);
	tap(!r.went_back, title, "");
	lull_vm_destroy(r.vm);
}

/* Its time asleep is not stolen; what it waits for a CPU after its timer is. */
static void halting_guest(void)
{
	char detail[160];
	struct rig r;
	start(&r, "vmm", "do=halt", "none");
	pid_t hog = start_hog();
	uint64_t first = steal(&r);
	sleep_ms(2000);
	int64_t d = difference(&r);
	kill(hog, SIGKILL);
	snprintf(detail, sizeof(detail), "%llu ms stolen in 2 s, difference %lld us",
	         (unsigned long long)(r.last - first) / MS, (long long)d / 1000);
	tap(llabs(d) <= MS && !r.went_back, "vmm: a halting guest is told of its waits after wakes only", detail);
	lull_vm_destroy(r.vm);
}

/* A poller that loses its CPU delays nobody's work. */
static void polling_guest(void)
{
	char detail[160];
	struct rig r;
	start(&r, "vmm", "do=halt", "always");
	uint64_t first = steal(&r), delay = run_delay(&r);
	pid_t hog = start_hog();
	sleep_ms(2000);
	uint64_t stolen = steal(&r) - first, waited = run_delay(&r) - delay;
	kill(hog, SIGKILL);
	snprintf(detail, sizeof(detail), "%llu of %llu ms are the guest's loss", (unsigned long long)stolen / MS,
	         (unsigned long long)waited / MS);
	tap(stolen <= waited + MS && !r.went_back, "vmm: a poller's wait for a CPU is not all the guest's loss",
	    detail);
	lull_vm_destroy(r.vm);
}

static void paused_guest(void)
{
	struct rig r;
	start(&r, "vmm", "", NULL);
	pid_t hog = start_hog();
	for (unsigned i = 0; i < 10; i++) {
		sleep_ms(20);
		steal(&r);
		lull_vm_pause(r.vm);
		uint64_t before = steal(&r);
		sleep_ms(20);
		if (steal(&r) != before || (r.area->preempted & 1))
			r.went_back = true;
		lull_vm_resume(r.vm);
	}
	kill(hog, SIGKILL);
	tap(!r.went_back, "vmm: while it is paused a guest is neither stolen from nor preempted", "");
	lull_vm_destroy(r.vm);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	guest = argv[1];
	cpu = argv[2];
	signal(SIGCHLD, SIG_IGN);
	busy_guest("vmm", atoi(argv[3]));
	busy_guest("hybrid", 2);
	halting_guest();
	polling_guest();
	paused_guest();
	printf("1..%d\n", tests);
	return failed != 0;
}
