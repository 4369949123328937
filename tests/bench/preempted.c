/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempted.c - how late the preempted flag is. A vCPU that never halts shares one host CPU with hogs; whenever it is
 * taken off that CPU the kernel notes the time in its record, and the flag's setter notes his.
 *
 * usage: preempted GUEST SECONDS HOGS CPU MODE
 *
 * Prints one line: preemptions the thread had, the part of them flagged before it was back, and how late (us).
 */
#include "sorted.h"
#include "vm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NOTES = 1 << 16,
	HOGS = 16,
};

struct notes {
	double late_us[NOTES];
	unsigned in_time, too_late;
};

static void on_notice(void *ctx, unsigned vcpu, uint64_t out_ns, uint64_t set_ns, bool in_time)
{
	struct notes *n = ctx;
	(void)vcpu;
	if (!in_time)
		n->too_late++;
	else if (n->in_time < NOTES)
		n->late_us[n->in_time++] = (double)(int64_t)(set_ns - out_ns) / 1000;
}

static double at(const struct notes *n, unsigned percent)
{
	return n->in_time ? n->late_us[(n->in_time - 1) * (uint64_t)percent / 100] : 0;
}

static pid_t start_hog(int cpu)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (volatile unsigned long i = 0;; i++)
		;
}

/* Of a thread of ours: involuntary switches, and the wait for a CPU. */
static void look_at(int tid, unsigned long *switches, unsigned long long *delay_ns)
{
	char path[64], line[128];
	unsigned long long ran;
	*switches = 0;
	*delay_ns = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		(void)!sscanf(line, "nonvoluntary_ctxt_switches: %lu", switches);
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu %llu", &ran, delay_ns) != 2)
		*delay_ns = 0;
	if (f)
		fclose(f);
}

static void write_port(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value)
{
	(void)ctx, (void)offset, (void)bytes, (void)value;
}

int main(int argc, char **argv)
{
	static struct notes notes;
	struct lull_error err;
	if (argc != 6)
		return 2;
	struct lull_config config = {
		.size = sizeof(config),
		.ram_bytes = 64 << 20,
		.kernel = argv[1],
		.cpu_affinity = argv[4],
		.steal_time = argv[5],
	};
	const struct lull_device port = {
		.size = sizeof(port), .name = "area", .base = 0x540, .length = 4, .gsi = -1, .write = write_port};
	struct lull_vm *vm = lull_vm_create(&config, &err);
	if (!vm || lull_vm_add_device(vm, &port, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	struct steal *s = &vm->vcpus[0].steal;
	s->trace = on_notice;
	s->trace_ctx = &notes;
	pid_t hogs[HOGS];
	int count = atoi(argv[3]) < HOGS ? atoi(argv[3]) : HOGS;
	for (int i = 0; i < count; i++)
		hogs[i] = start_hog(atoi(argv[4]));
	if (lull_vm_start(vm, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	sleep(1);
	int tid = lull_vm_vcpu_tid(vm, 0);
	unsigned long switches, before;
	unsigned long long delay, delay_before;
	notes = (struct notes){0};
	look_at(tid, &before, &delay_before);
	sleep((unsigned)atoi(argv[2]));
	look_at(tid, &switches, &delay);
	for (int i = 0; i < count; i++)
		kill(hogs[i], SIGKILL);
	lull_vm_destroy(vm);
	sort_figures(notes.late_us, notes.in_time);
	switches -= before;
	double away_us = switches ? (double)(delay - delay_before) / 1000 / (double)switches : 0;
	printf("%d:1 %s: %lu preemptions of %.0f us, %.1f %% flagged in time, %u found back; late us: median %.1f, p90 "
	       "%.1f, "
	       "p99 %.1f, max %.1f\n",
	       count + 1, argv[5], switches, away_us, switches ? 100.0 * notes.in_time / (double)switches : 0,
	       notes.too_late, at(&notes, 50), at(&notes, 90), at(&notes, 99), at(&notes, 100));
	return 0;
}
