/* SPDX-License-Identifier: Apache-2.0 */
/* cli_report.c - statistics while a guest runs and at its end, as a table or as lines of JSON. docs/statistics.md has
 * the format; the names are those of lull.h. */
#include "cli_report.h"

#include "cli_json.h"
#include "cli_out.h"
#include "cli_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	FORMAT = 1, /* of the JSON; grows when a name goes or changes its meaning */
};

struct field {
	const char *name;
	size_t offset, count; /* count: of an array; 0: a plain number */
};

#define NUMBER(type, name)                                                                                             \
	{                                                                                                              \
#name, offsetof(struct type, name), 0                                                                  \
	}
#define ARRAY(type, name)                                                                                              \
	{                                                                                                              \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name) / sizeof(uint64_t)                \
	}

static const struct field vm_fields[] = {
	NUMBER(lull_stats, boots),
	NUMBER(lull_stats, serial_dropped),
	NUMBER(lull_stats, unclaimed_io),
	NUMBER(lull_stats, unclaimed_mmio),
	NUMBER(lull_stats, ram_bytes),
	NUMBER(lull_stats, setup_kvm_ns),
	NUMBER(lull_stats, setup_memory_ns),
	NUMBER(lull_stats, setup_load_ns),
	NUMBER(lull_stats, setup_tables_ns),
	NUMBER(lull_stats, setup_total_ns),
	NUMBER(lull_stats, console_dropped),
	NUMBER(lull_stats, setup_devices_ns),
	{0},
};

static const struct field disk_fields[] = {
	NUMBER(lull_disk_stats, bytes),
	NUMBER(lull_disk_stats, requests),
	NUMBER(lull_disk_stats, errors),
	NUMBER(lull_disk_stats, inline_done),
	{0},
};

static const struct field net_fields[] = {
	NUMBER(lull_net_stats, rx_frames),  NUMBER(lull_net_stats, rx_bytes),  NUMBER(lull_net_stats, rx_dropped),
	NUMBER(lull_net_stats, rx_waits),   NUMBER(lull_net_stats, tx_frames), NUMBER(lull_net_stats, tx_bytes),
	NUMBER(lull_net_stats, tx_dropped), NUMBER(lull_net_stats, tx_waits),  {0},
};

static const struct field vsock_fields[] = {
	NUMBER(lull_vsock_stats, opened),
	NUMBER(lull_vsock_stats, refused),
	NUMBER(lull_vsock_stats, resets),
	NUMBER(lull_vsock_stats, to_guest),
	NUMBER(lull_vsock_stats, from_guest),
	NUMBER(lull_vsock_stats, waits),
	{0},
};

static const struct field balloon_fields[] = {
	NUMBER(lull_balloon_stats, target_bytes),
	NUMBER(lull_balloon_stats, actual_bytes),
	NUMBER(lull_balloon_stats, inflated_bytes),
	NUMBER(lull_balloon_stats, deflated_bytes),
	NUMBER(lull_balloon_stats, reported_bytes),
	NUMBER(lull_balloon_stats, ignored_pages),
	NUMBER(lull_balloon_stats, failures),
	NUMBER(lull_balloon_stats, guest_updates),
	{0},
};

/* By enum lull_balloon_stat. */
static const char *const balloon_names[LULL_BALLOON_STATS] = {
	"swap_in_bytes",
	"swap_out_bytes",
	"major_faults",
	"minor_faults",
	"free_bytes",
	"total_bytes",
	"available_bytes",
	"cache_bytes",
	"hugetlb_allocations",
	"hugetlb_failures",
	"oom_kills",
	"stalls",
	"async_scanned_bytes",
	"direct_scanned_bytes",
	"async_reclaimed_bytes",
	"direct_reclaimed_bytes",
};

static const struct field vcpu_fields[] = {
	NUMBER(lull_vcpu_stats, exits),
	NUMBER(lull_vcpu_stats, exits_io),
	NUMBER(lull_vcpu_stats, exits_mmio),
	NUMBER(lull_vcpu_stats, exits_msr),
	NUMBER(lull_vcpu_stats, exits_halt),
	NUMBER(lull_vcpu_stats, exits_irq_window),
	NUMBER(lull_vcpu_stats, exits_signal),
	NUMBER(lull_vcpu_stats, exits_other),
	NUMBER(lull_vcpu_stats, irqs_injected),
	NUMBER(lull_vcpu_stats, eois_saved),
	NUMBER(lull_vcpu_stats, kicks),
	NUMBER(lull_vcpu_stats, halts),
	NUMBER(lull_vcpu_stats, halt_poll_ns),
	NUMBER(lull_vcpu_stats, halt_wait_ns),
	NUMBER(lull_vcpu_stats, halt_attempted_poll),
	NUMBER(lull_vcpu_stats, halt_successful_poll),
	NUMBER(lull_vcpu_stats, halt_poll_invalid),
	NUMBER(lull_vcpu_stats, halt_wakeup),
	NUMBER(lull_vcpu_stats, halt_poll_success_ns),
	NUMBER(lull_vcpu_stats, halt_poll_fail_ns),
	ARRAY(lull_vcpu_stats, halt_poll_success_hist),
	ARRAY(lull_vcpu_stats, halt_poll_fail_hist),
	ARRAY(lull_vcpu_stats, halt_wait_hist),
	ARRAY(lull_vcpu_stats, wake_latency_hist),
	NUMBER(lull_vcpu_stats, poll_gaps),
	NUMBER(lull_vcpu_stats, prewakes),
	NUMBER(lull_vcpu_stats, window_ns),
	NUMBER(lull_vcpu_stats, wake_cost_ns),
	NUMBER(lull_vcpu_stats, poll_control),
	NUMBER(lull_vcpu_stats, steal_ns),
	NUMBER(lull_vcpu_stats, preempted_flags),
	NUMBER(lull_vcpu_stats, cpu_ns),
	{0},
};

static const struct field wake_fields[] = {
	NUMBER(lull_wake_stats, wakes),      NUMBER(lull_wake_stats, polled),         NUMBER(lull_wake_stats, slept),
	NUMBER(lull_wake_stats, latency_ns), NUMBER(lull_wake_stats, latency_max_ns), {0},
};

static void put_fields(struct json *j, const struct field *fields, const void *from)
{
	for (const struct field *f = fields; f->name; f++) {
		const uint64_t *values = (const uint64_t *)(const void *)((const char *)from + f->offset);

		if (f->count)
			json_numbers(j, f->name, values, f->count);
		else
			json_number(j, f->name, *values);
	}
}

static void put_vcpu(struct json *j, const struct lull_vcpu_stats *stats)
{
	json_open(j, NULL, '{');
	json_number(j, "vcpu", stats->vcpu);
	put_fields(j, vcpu_fields, stats);
	json_open(j, "poll_refused", '{');
	for (int i = 0; i < LULL_REFUSALS; i++)
		json_number(j, cli_refusal_names[i], stats->poll_refused[i]);
	json_close(j, '}');
	json_open(j, "wake", '{');
	for (int i = 0; i < LULL_WAKE_SOURCES; i++) {
		json_open(j, cli_source_names[i], '{');
		put_fields(j, wake_fields, &stats->wake[i]);
		json_close(j, '}');
	}
	json_close(j, '}');
	json_close(j, '}');
}

static void put_devices(struct json *j, const struct lull_vm *vm)
{
	struct lull_disk_stats disk = {.size = sizeof(disk)};
	struct lull_net_stats net = {.size = sizeof(net)};
	struct lull_vsock_stats vsock = {.size = sizeof(vsock)};

	json_open(j, "disks", '[');
	for (uint32_t i = 0; lull_vm_disk_stats(vm, i, &disk) == 0; i++) {
		json_open(j, NULL, '{');
		json_bool(j, "uses_io_uring", disk.uses_io_uring);
		put_fields(j, disk_fields, &disk);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "nets", '[');
	for (uint32_t i = 0; lull_vm_net_stats(vm, i, &net) == 0; i++) {
		json_open(j, NULL, '{');
		json_bool(j, "link_is_up", net.link_is_up);
		put_fields(j, net_fields, &net);
		json_close(j, '}');
	}
	json_close(j, ']');
	if (lull_vm_vsock_stats(vm, &vsock) < 0)
		return;
	json_open(j, "vsock", '{');
	json_number(j, "connections", vsock.connections);
	put_fields(j, vsock_fields, &vsock);
	json_close(j, '}');
}

/* What the guest did not tell is not there. */
static void put_balloon(struct json *j, const struct lull_vm *vm)
{
	struct lull_balloon_stats balloon = {.size = sizeof(balloon)};

	if (lull_vm_balloon_stats(vm, &balloon) != 0)
		return;
	json_open(j, "balloon", '{');
	put_fields(j, balloon_fields, &balloon);
	json_open(j, "guest", '{');
	for (unsigned i = 0; i < LULL_BALLOON_STATS; i++)
		if (balloon.guest_has >> i & 1)
			json_number(j, balloon_names[i], balloon.guest[i]);
	json_close(j, '}');
	json_close(j, '}');
}

static void put_report(FILE *out, const struct cli_report *report, const struct lull_vm *vm, int64_t now_ns, bool last)
{
	const struct lull_config *config = &report->opt->config;
	struct lull_stats stats = {.size = sizeof(stats)};
	struct json j = {.out = out};

	lull_vm_stats(vm, &stats);
	json_open(&j, NULL, '{');
	json_number(&j, "format", FORMAT);
	json_text(&j, "lull", lull_version());
	json_number(&j, "elapsed_ns", (uint64_t)(now_ns - report->start_ns));
	json_bool(&j, "last", last);
	json_text(&j, "kernel", config->kernel);
	json_text(&j, "irqchip", config->irqchip ? config->irqchip : "user");
	json_text(&j, "halt_poll", config->halt_poll);
	json_open(&j, "vm", '{');
	put_fields(&j, vm_fields, &stats);
	json_close(&j, '}');
	json_open(&j, "vcpus", '[');
	for (uint32_t i = 0; i < stats.vcpus; i++) {
		struct lull_vcpu_stats vcpu = {.size = sizeof(vcpu)};

		if (lull_vm_vcpu_stats(vm, i, &vcpu) == 0)
			put_vcpu(&j, &vcpu);
	}
	json_close(&j, ']');
	put_devices(&j, vm);
	put_balloon(&j, vm);
	json_close(&j, '}');
	fputc('\n', out);
}

/* malloc()ed, or NULL. */
static char *take(const struct cli_report *report, const struct lull_vm *vm, int64_t now_ns, const char *label,
                  bool last)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);
	struct cli_stats stats;

	if (!memory)
		return NULL;
	if (report->fd >= 0)
		put_report(memory, report, vm, now_ns, last);
	else if (cli_stats_take(&stats, vm, label, report->opt->config.irqchip) == 0)
		cli_stats_print(memory, &stats, 1);
	if (fclose(memory) == 0)
		return text;
	free(text);
	return NULL;
}

/* One line is one write(), and the file is opened to append: a reader that follows it sees whole lines. */
static void put(struct cli_report *report, char *text)
{
	size_t length = text ? strlen(text) : 0, done = 0;

	if (report->fd < 0 && text)
		cli_text(text);
	while (report->fd >= 0 && done < length) {
		ssize_t n = write(report->fd, text + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (!report->failed)
				cli_say("--stats %s: %s", report->opt->stats, strerror(errno));
			report->failed = true;
			break;
		}
		done += (size_t)n;
	}
	free(text);
}

/* ------------------------------------------------------------------------------ interface */

int cli_report_open(struct cli_report *report, const struct options *opt, struct lull_error *err)
{
	*report = (struct cli_report){.opt = opt, .fd = -1};
	if (!opt->stats || strcmp(opt->stats, "table") == 0)
		return 0;
	report->fd = open(opt->stats, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	if (report->fd >= 0)
		return 0;
	err->code = -EIO;
	snprintf(err->text, sizeof(err->text), "--stats %.200s: cannot write: %s; name another file", opt->stats,
	         strerror(errno));
	return -EIO;
}

void cli_report_close(struct cli_report *report)
{
	if (report->fd >= 0)
		close(report->fd);
	report->fd = -1;
}

void cli_report_start(struct cli_report *report, int64_t now_ns)
{
	report->start_ns = now_ns;
	if (report->opt->stats_interval_ns)
		report->next_ns = now_ns + (int64_t)report->opt->stats_interval_ns;
}

void cli_report_due(struct cli_report *report, const struct lull_vm *vm, int64_t now_ns)
{
	const int64_t interval = (int64_t)report->opt->stats_interval_ns;

	if (!report->next_ns || now_ns < report->next_ns)
		return;
	put(report, take(report, vm, now_ns, "until now", false));
	report->next_ns += (1 + (now_ns - report->next_ns) / interval) * interval; /* those missed stay missed */
}

void cli_report_table(const struct cli_report *report, const struct lull_vm *vm, const char *label)
{
	struct cli_report table = {.opt = report->opt, .fd = -1};

	put(&table, take(&table, vm, 0, label, false));
}

char *cli_report_take_last(const struct cli_report *report, const struct lull_vm *vm, int64_t now_ns)
{
	return report->opt->stats ? take(report, vm, now_ns, "whole run", true) : NULL;
}

void cli_report_put_last(struct cli_report *report, char *text)
{
	put(report, text);
}
