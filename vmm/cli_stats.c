/* SPDX-License-Identifier: Apache-2.0 */
/* cli_stats.c - how the virtual CPUs waited, as a table: for the demo, --stats and Ctrl-a s. At most 79 columns. */
#include "cli_stats.h"

#include <errno.h>
#include <string.h>

const char *const cli_source_names[LULL_WAKE_SOURCES] = {
	[LULL_WAKE_TIMER] = "timer",      [LULL_WAKE_IPI] = "ipi",   [LULL_WAKE_DEVICE] = "device",
	[LULL_WAKE_NMI] = "nmi",          [LULL_WAKE_INIT] = "init", [LULL_WAKE_REQUEST] = "request",
	[LULL_WAKE_INLINE] = "io-inline",
};

const char *const cli_refusal_names[LULL_REFUSALS] = {
	[LULL_REFUSED_OFF] = "off",       [LULL_REFUSED_GUEST] = "guest",
	[LULL_REFUSED_POWER] = "power",   [LULL_REFUSED_CONTENTION] = "contention",
	[LULL_REFUSED_BUDGET] = "budget", [LULL_REFUSED_POLLERS] = "pollers",
};

static void larger(uint64_t *most, uint64_t other)
{
	if (other > *most)
		*most = other;
}

static void add_wake(struct lull_wake_stats *sum, const struct lull_wake_stats *more)
{
	sum->wakes += more->wakes;
	sum->polled += more->polled;
	sum->slept += more->slept;
	sum->latency_ns += more->latency_ns;
	larger(&sum->latency_max_ns, more->latency_max_ns);
}

static void add_all(uint64_t *sum, const uint64_t *more, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sum[i] += more[i];
}

static void add_halts(struct lull_vcpu_stats *sum, const struct lull_vcpu_stats *more)
{
	sum->halts += more->halts;
	sum->halt_poll_ns += more->halt_poll_ns;
	sum->halt_wait_ns += more->halt_wait_ns;
	for (int i = 0; i < LULL_WAKE_SOURCES; i++)
		add_wake(&sum->wake[i], &more->wake[i]);
	sum->halt_attempted_poll += more->halt_attempted_poll;
	sum->halt_successful_poll += more->halt_successful_poll;
	sum->halt_poll_invalid += more->halt_poll_invalid;
	sum->halt_wakeup += more->halt_wakeup;
	sum->halt_poll_success_ns += more->halt_poll_success_ns;
	sum->halt_poll_fail_ns += more->halt_poll_fail_ns;
	add_all(sum->halt_poll_success_hist, more->halt_poll_success_hist, LULL_HIST_BUCKETS);
	add_all(sum->halt_poll_fail_hist, more->halt_poll_fail_hist, LULL_HIST_BUCKETS);
	add_all(sum->halt_wait_hist, more->halt_wait_hist, LULL_HIST_BUCKETS);
	add_all(sum->wake_latency_hist, more->wake_latency_hist, LULL_HIST_BUCKETS);
	add_all(sum->poll_refused, more->poll_refused, LULL_REFUSALS);
	sum->poll_gaps += more->poll_gaps;
	sum->prewakes += more->prewakes;
	larger(&sum->window_ns, more->window_ns);
	larger(&sum->wake_cost_ns, more->wake_cost_ns);
	sum->poll_control += more->poll_control; /* on how many the host may poll */
	sum->steal_ns += more->steal_ns;
	sum->preempted_flags += more->preempted_flags;
	sum->cpu_ns += more->cpu_ns;
}

static void add_vcpu(struct lull_vcpu_stats *sum, const struct lull_vcpu_stats *more)
{
	sum->exits += more->exits;
	sum->exits_io += more->exits_io;
	sum->exits_mmio += more->exits_mmio;
	sum->exits_msr += more->exits_msr;
	sum->exits_halt += more->exits_halt;
	sum->exits_irq_window += more->exits_irq_window;
	sum->exits_signal += more->exits_signal;
	sum->exits_other += more->exits_other;
	sum->irqs_injected += more->irqs_injected;
	sum->eois_saved += more->eois_saved;
	sum->kicks += more->kicks;
	add_halts(sum, more);
}

int cli_stats_take(struct cli_stats *stats, const struct lull_vm *vm, const char *label, const char *irqchip)
{
	int ret;

	*stats = (struct cli_stats){.label = label, .vm.size = sizeof(stats->vm)};
	stats->kernel_irqchip = irqchip && strcmp(irqchip, "kernel") == 0;
	ret = lull_vm_stats(vm, &stats->vm);
	for (uint32_t i = 0; ret == 0 && i < stats->vm.vcpus; i++) {
		struct lull_vcpu_stats vcpu = {.size = sizeof(vcpu)};

		ret = lull_vm_vcpu_stats(vm, i, &vcpu);
		add_vcpu(&stats->sum, &vcpu);
	}
	return ret;
}

void cli_stats_time(char *text, size_t size, uint64_t ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	size_t i = 0;
	double value;

	if (ns < 1000) {
		snprintf(text, size, "%uns", (unsigned)ns);
		return;
	}
	while (i < 2 && (double)ns >= units[i].ns * 999.5)
		i++;
	value = (double)ns / units[i].ns;
	snprintf(text, size, "%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
}

/* At most 6 columns. */
static void count_text(char *text, size_t size, uint64_t n)
{
	if (n < 1000000)
		snprintf(text, size, "%u", (unsigned)n);
	else if (n < 1000000000)
		snprintf(text, size, "%.1fM", (double)n / 1e6);
	else
		snprintf(text, size, "%.1fG", (double)n / 1e9);
}

static void print_counts(FILE *out, const uint64_t *counts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[24];

		count_text(text, sizeof(text), counts[i]);
		fprintf(out, " %6s", text);
	}
}

static void print_wake(FILE *out, const struct lull_wake_stats *wake)
{
	const uint64_t counts[] = {wake->wakes, wake->polled, wake->slept};
	char mean[24] = "-", max[24] = "-";

	if (wake->wakes && wake->latency_max_ns) {
		cli_stats_time(mean, sizeof(mean), wake->latency_ns / wake->wakes);
		cli_stats_time(max, sizeof(max), wake->latency_max_ns);
	}
	print_counts(out, counts, 3);
	fprintf(out, " %6s %6s", mean, max);
}

static void print_wakes(FILE *out, const struct cli_stats *runs, size_t count)
{
	fprintf(out, "%-7s", "");
	for (size_t r = 0; r < count; r++)
		fprintf(out, "%s%35.35s", r ? " |" : "", runs[r].label);
	fprintf(out, "\n%-7s", "wake by");
	for (size_t r = 0; r < count; r++)
		fprintf(out, "%s  halts polled  slept   mean    max", r ? " |" : "");
	fputc('\n', out);
	for (int i = 0; i <= LULL_WAKE_SOURCES; i++) {
		bool all = i == LULL_WAKE_SOURCES, some = all || i <= LULL_WAKE_DEVICE;

		for (size_t r = 0; r < count && !some; r++)
			some = runs[r].sum.wake[i].wakes > 0;
		if (!some)
			continue;
		/* "io-inline" without its "io-": 80 columns hold two runs. */
		const char *name = all ? "all" : i == LULL_WAKE_INLINE ? "inline" : cli_source_names[i];
		fprintf(out, "%-7s", name);
		for (size_t r = 0; r < count; r++) {
			struct lull_wake_stats total = {0};

			for (int s = 0; s < LULL_WAKE_SOURCES; s++)
				add_wake(&total, &runs[r].sum.wake[s]);
			fputs(r ? " |" : "", out);
			print_wake(out, all ? &total : &runs[r].sum.wake[i]);
		}
		fputc('\n', out);
	}
}

static void print_exits(FILE *out, const struct cli_stats *run)
{
	const struct lull_vcpu_stats *s = &run->sum;
	const uint64_t counts[] = {s->exits,      s->exits_io,         s->exits_mmio,   s->exits_msr,
	                           s->exits_halt, s->exits_irq_window, s->exits_signal, s->exits_other};

	fprintf(out, "%-18.18s", run->label);
	print_counts(out, counts, sizeof(counts) / sizeof(counts[0]));
	fputc('\n', out);
}

static void print_rest(FILE *out, const struct cli_stats *run)
{
	const struct lull_vcpu_stats *s = &run->sum;
	const uint64_t counts[] = {s->irqs_injected, s->eois_saved, s->kicks};
	char polling[24], asleep[24];

	cli_stats_time(polling, sizeof(polling), s->halt_poll_ns);
	cli_stats_time(asleep, sizeof(asleep), s->halt_wait_ns);
	fprintf(out, "%-18.18s", run->label);
	print_counts(out, counts, 3);
	fprintf(out, " %6s %6s", polling, asleep);
	if (run->vm.boots > 1)
		fprintf(out, ", %llu boots", (unsigned long long)run->vm.boots);
	if (run->vm.serial_dropped)
		fprintf(out, ", %llu serial bytes lost", (unsigned long long)run->vm.serial_dropped);
	if (run->vm.console_dropped)
		fprintf(out, ", %llu console bytes lost", (unsigned long long)run->vm.console_dropped);
	fputc('\n', out);
}

/* One run: how polling went. */
static void print_polling(FILE *out, const struct lull_vcpu_stats *s)
{
	const uint64_t tries[] = {s->halts, s->halt_attempted_poll, s->halt_successful_poll};
	const uint64_t early[] = {s->prewakes, s->poll_gaps};
	uint64_t polls = s->halt_attempted_poll;
	char window[24], wake[24];

	cli_stats_time(window, sizeof(window), s->window_ns);
	cli_stats_time(wake, sizeof(wake), s->wake_cost_ns);
	fprintf(out, "%-18s%s\n%-18s", "polling", "  halts  tries  found      %  early   gaps window   wake", "");
	print_counts(out, tries, 3);
	fprintf(out, " %6.1f", polls ? 100.0 * (double)s->halt_successful_poll / (double)polls : 0.0);
	print_counts(out, early, 2);
	fprintf(out, " %6s %6s\n", window, wake);
}

/* Only if there were any. */
static void print_refusals(FILE *out, const struct lull_vcpu_stats *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < LULL_REFUSALS; i++)
		sum += s->poll_refused[i];
	if (!sum)
		return;
	fprintf(out, "%-18s%s\n%-18s", "not allowed by", "    off  guest  power others budget number", "");
	print_counts(out, s->poll_refused, LULL_REFUSALS);
	fputc('\n', out);
}

/* Only if there was any. */
static void print_steal(FILE *out, const struct lull_vcpu_stats *s)
{
	char told[24];

	if (!s->steal_ns && !s->preempted_flags)
		return;
	cli_stats_time(told, sizeof(told), s->steal_ns);
	fprintf(out, "%-18s%s\n%-18s %6s", "steal time", "   told  flags", "", told);
	print_counts(out, &s->preempted_flags, 1);
	fputc('\n', out);
}

void cli_stats_print(FILE *out, const struct cli_stats *runs, size_t count)
{
	bool kernel = true;

	for (size_t r = 0; r < count; r++)
		kernel = kernel && runs[r].kernel_irqchip;
	if (!kernel) /* KVM does not say what ends a halt */
		print_wakes(out, runs, count);
	fprintf(out, "%-18s%s\n", "exits", "    all     io   mmio    msr   halt window signal  other");
	for (size_t r = 0; r < count; r++)
		print_exits(out, &runs[r]);
	fprintf(out, "%-18s%s\n", "interrupts", "  given  pveoi  kicks  polls sleeps");
	for (size_t r = 0; r < count; r++)
		print_rest(out, &runs[r]);
	if (count > 1)
		return;
	print_polling(out, &runs[0].sum);
	print_refusals(out, &runs[0].sum);
	print_steal(out, &runs[0].sum);
}
