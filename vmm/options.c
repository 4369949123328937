/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the table of options, which drives parsing, --help and the check of the man page, and what each option
 * does. It knows what a value looks like; what a machine can have is for the library to judge. */
#include "options.h"

#include "cli_value.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int options_bad(struct lull_error *err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	err->code = -EINVAL;
	return -EINVAL;
}

static int no_memory(struct lull_error *err)
{
	options_bad(err, "command line: out of memory; make it shorter");
	err->code = -ENOMEM;
	return -ENOMEM;
}

static int bad_value(const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return options_bad(err, "--%s: cannot use '%.200s'; give %s", spec->name, value, spec->accepts);
}

/* ------------------------------------------------------------------------------ setters */

static void *target(struct options *opt, const struct option_spec *spec)
{
	return (char *)opt + spec->target;
}

static int set_flag(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	(void)value, (void)err;
	opt->config.flags |= spec->flag;
	return 0;
}

static int set_true(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	(void)value, (void)err;
	*(bool *)target(opt, spec) = true;
	return 0;
}

static int set_text(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	if (value[0] == '\0')
		return options_bad(err, "--%s: the value is empty; give %s", spec->name, spec->accepts);
	*(const char **)target(opt, spec) = value;
	return 0;
}

static int set_cpus(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!cli_value_number(value, &n) || n == 0 || n > UINT32_MAX)
		return bad_value(spec, value, err);
	opt->config.vcpus = (uint32_t)n;
	return 0;
}

static int set_mem(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!cli_value_size(value, 1 << 20, &n) || n == 0)
		return bad_value(spec, value, err);
	opt->config.ram_bytes = n;
	return 0;
}

static int set_flat_addr(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!cli_value_size(value, 1, &n) || n == 0)
		return bad_value(spec, value, err);
	opt->config.flat_addr = n;
	opt->config.flags |= LULL_FORCE_FLAT;
	return 0;
}

static int read_seconds(uint64_t *out_ns, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	const uint64_t year_ns = (uint64_t)366 * 86400 * 1000000000;
	uint64_t ns;

	if (!cli_value_seconds(value, &ns) || ns == 0 || ns > year_ns)
		return bad_value(spec, value, err);
	*out_ns = ns;
	return 0;
}

static int set_timeout(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return read_seconds(&opt->timeout_ns, spec, value, err);
}

static int set_interval(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return read_seconds(&opt->stats_interval_ns, spec, value, err);
}

static int set_count(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!cli_value_number(value, &n) || n > UINT32_MAX)
		return bad_value(spec, value, err);
	*(uint32_t *)target(opt, spec) = (uint32_t)n;
	return 0;
}

int options_add_word(struct options *opt, const char *value, struct lull_error *err)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", opt->cmdline ? opt->cmdline : "", opt->cmdline ? " " : "", value) < 0)
		return no_memory(err);
	free(opt->cmdline);
	opt->cmdline = joined;
	opt->config.cmdline = joined;
	return 0;
}

static int add_cmdline(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	(void)spec;
	return options_add_word(opt, value, err);
}

/* Where a serial port or a console leads: *stdio, or the text for the library. */
static int set_chardev(const struct option_spec *spec, const char *value, bool *stdio, const char **text,
                       struct lull_error *err)
{
	bool path = (strncmp(value, "file=", 5) == 0 && value[5]) || (strncmp(value, "socket=", 7) == 0 && value[7]);

	*stdio = strcmp(value, "stdio") == 0;
	if (*stdio)
		return 0;
	if (!path && strcmp(value, "null") != 0 && strcmp(value, "pty") != 0)
		return bad_value(spec, value, err);
	*text = value;
	return 0;
}

static int set_serial(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return set_chardev(spec, value, &opt->serial_stdio, &opt->config.serial, err);
}

static int set_console(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return set_chardev(spec, value, &opt->console_stdio, &opt->config.console, err);
}

static int add_disk(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	if (value[0] == '\0')
		return bad_value(spec, value, err);
	if (opt->config.disk_count == OPTIONS_DISKS_MAX)
		return options_bad(err, "--disk: %d disks are the most a machine takes", OPTIONS_DISKS_MAX);
	opt->disks[opt->config.disk_count++] = value;
	opt->config.disks = opt->disks;
	return 0;
}

static int add_net(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	if (value[0] == '\0')
		return bad_value(spec, value, err);
	if (opt->config.net_count == OPTIONS_NETS_MAX)
		return options_bad(err, "--net: more than %d are given; leave some out", OPTIONS_NETS_MAX);
	opt->nets[opt->config.net_count++] = value;
	opt->config.nets = opt->nets;
	return 0;
}

/* The position of value among two words, or -1. */
static int pick(const char *value, const char *first, const char *second)
{
	if (strcmp(value, first) == 0)
		return 0;
	return strcmp(value, second) == 0 ? 1 : -1;
}

/* One of the words that the name of the value consists of, as in "user|kernel". */
static int set_word(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	const char *word = spec->value;

	for (size_t length; *word; word += length + (word[length] == '|')) {
		length = strcspn(word, "|");
		if (strlen(value) == length && strncmp(word, value, length) == 0) {
			*(const char **)target(opt, spec) = value;
			return 0;
		}
	}
	return bad_value(spec, value, err);
}

static int set_on_reboot(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	int which = pick(value, "exit", "restart");

	if (which < 0)
		return bad_value(spec, value, err);
	opt->config.flags |= which ? LULL_RESTART_ON_RESET : 0u;
	return 0;
}

static int set_debug_exit(struct options *opt, const struct option_spec *spec, const char *value,
                          struct lull_error *err)
{
	int which = pick(value, "qemu", "raw");

	if (which < 0)
		return bad_value(spec, value, err);
	opt->config.flags |= which ? LULL_DEBUG_EXIT_RAW : 0u;
	return 0;
}

static int set_rng(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	int which = pick(value, "on", "off");

	if (which < 0)
		return bad_value(spec, value, err);
	opt->config.flags |= which ? LULL_NO_RNG : 0u;
	return 0;
}

static int set_balloon(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	if (value[0] == '\0')
		return bad_value(spec, value, err);
	opt->config.balloon = strcmp(value, "off") != 0 ? value : NULL;
	return 0;
}

static int set_flat_mode(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	int which = pick(value, "long", "real");

	if (which < 0)
		return bad_value(spec, value, err);
	opt->config.flags |= LULL_FORCE_FLAT | (which ? LULL_FLAT_REAL_MODE : 0u);
	return 0;
}

static int set_log_level(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	for (int i = LULL_LOG_ERROR; i <= LULL_LOG_DEBUG; i++)
		if (strcmp(value, names[i]) == 0) {
			opt->config.log_level = (enum lull_log_level)i;
			return 0;
		}
	return bad_value(spec, value, err);
}

static int set_verbose(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	(void)spec, (void)value, (void)err;
	if (opt->config.log_level < LULL_LOG_DEBUG)
		opt->config.log_level++;
	return 0;
}

static int add_policy(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	if (opt->replay.policy_count == OPTIONS_RULES_MAX)
		return options_bad(err, "--%s: more than %d of them; leave some out", spec->name, OPTIONS_RULES_MAX);
	opt->policies[opt->replay.policy_count++] = value;
	opt->replay.policies = opt->policies;
	return 0;
}

static int set_lambda(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!cli_value_seconds(value, &n) || n % 1000000 != 0 || n < 10000000 || n / 1000000 > 1000000)
		return bad_value(spec, value, err);
	opt->replay.lambda_milli = (uint32_t)(n / 1000000);
	return 0;
}

/* WAKE[,SWITCH[,ARM]] */
static int set_host_cost(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	uint64_t *const out[] = {&opt->replay.wake_ns, &opt->replay.switch_ns, &opt->replay.arm_ns};
	const char *at = value;
	char word[24];

	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		size_t length = strcspn(at, ",");
		snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : sizeof(word)), at);
		if (length >= sizeof(word) || !cli_value_number(word, out[i]) || *out[i] == 0 || *out[i] > 1000000000)
			return bad_value(spec, value, err);
		if (!at[length])
			return 0;
		at += length + 1;
	}
	return bad_value(spec, value, err);
}

static int set_number(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	return cli_value_number(value, target(opt, spec)) ? 0 : bad_value(spec, value, err);
}

static int set_json(struct options *opt, const struct option_spec *spec, const char *value, struct lull_error *err)
{
	(void)spec, (void)value, (void)err;
	opt->replay.flags |= LULL_REPLAY_JSON;
	return 0;
}

/* ------------------------------------------------------------------------------ the tables */

enum {
	RUN = COMMAND_RUN,
	DUMP = COMMAND_DUMP,
	DEMO = COMMAND_DEMO,
	REPLAY = COMMAND_REPLAY,
	TRACE = COMMAND_TRACE,
};

#define IN(member) offsetof(struct options, member)

const struct option_spec option_specs[] = {
	{"cpus", 'c', "N", RUN | DUMP, set_cpus, .accepts = "a number from 1 on", .help = "virtual CPUs (1)"},
	{"mem", 'm', "SIZE", RUN | DUMP, set_mem, .accepts = "MiB, or a number with K, M or G, such as 512M",
         .help = "guest memory, in MiB or with K, M or G behind it (256M)"},
	{"initrd", 'i', "PATH", RUN | DUMP, set_text, .target = IN(config.initrd), .accepts = "the path of a file",
         .help = "initial RAM disk, or the first module of a multiboot kernel"},
	{"cmdline", 'p', "TEXT", RUN | DUMP, add_cmdline, .repeats = true,
         .help = "kernel command line; given several times, the texts are joined with spaces. lull adds nothing"},
	{"irqchip", 0, "user|kernel", RUN | DUMP | DEMO, set_word, .target = IN(config.irqchip),
         .accepts = "user or kernel", .help = "whose interrupt controllers: lull's own, or KVM's (user)"},
	{"halt-poll", 0, "POLICY[:KEY=VALUE,...]", RUN | DEMO, set_text, .target = IN(config.halt_poll),
         .accepts = "none, fixed, always, kvm, haltpoll or cost, such as fixed:50us or cost:lambda=8",
         .help = "how a halted virtual CPU waits: none, fixed, always, kvm, haltpoll or cost, see lull(1) (cost)"},
	{"halt-trace", 0, "FILE", RUN, set_text, .target = IN(config.halt_trace), .accepts = "the path of a file",
         .help = "record each halt in FILE, the last 65536 of each virtual CPU, for lull replay"},
	{"poll-wait", 0, "auto|pause|umwait|mwaitx", RUN | DEMO, set_word, .target = IN(config.poll_wait),
         .accepts = "auto, pause, umwait or mwaitx",
         .help = "the instruction to poll with: pause, umwait, mwaitx, or the best that the host has (auto)"},
	{"powersave", 0, "ignore|strict|smart", RUN | DEMO, set_word, .target = IN(config.powersave),
         .accepts = "ignore, strict or smart",
         .help = "no polling on CPUs that should save power: never asked, by the governor's name, or by what it means "
                 "(smart)"},
	{"poll-budget", 0, "PERCENT[,vm=PERCENT]", RUN | DEMO, set_text, .target = IN(config.poll_budget),
         .accepts = "PERCENT, vm=PERCENT or both, such as 20 or 10,vm=50",
         .help = "most time that each virtual CPU, and all together, may poll, in percent of one host CPU (no limit)"},
	{"max-pollers", 0, "N", RUN | DEMO, set_count, .target = IN(config.max_pollers),
         .accepts = "a number, 0 for no limit", .help = "most virtual CPUs that poll at the same time (no limit)"},
	{"steal-time", 0, "vmm|kvm|hybrid|off", RUN | DEMO, set_word, .target = IN(config.steal_time),
         .accepts = "vmm, kvm, hybrid or off",
         .help = "who tells the guest how long it waited for a CPU: lull, KVM, KVM with lull's preempted flag, or "
                 "nobody"},
	{"cpu-affinity", 0, "LISTS", RUN, set_text, .target = IN(config.cpu_affinity),
         .accepts = "CPU lists joined by ':', such as 0:1 or 0-3,8",
         .help = "host CPUs of each virtual CPU: lists joined by ':', the last one repeats, such as 0:1 or 0-3,8"},
	{"serial", 0, "WHERE", RUN | DUMP, set_serial, .accepts = "stdio, null, file=PATH, pty or socket=PATH",
         .help = "the serial port: stdio, null, file=PATH, pty or socket=PATH (stdio)"},
	{"disk", 0, "WHAT", RUN | DUMP, add_disk, .repeats = true,
         .accepts = "path=FILE, maybe with more behind commas",
         .help = "a disk for the guest: path=FILE[,ro][,direct][,serial=TEXT][,queues=N][,engine=sync|io_uring]"
                 "[,rate=BYTES][,iops=N]"},
	{"net", 0, "WHERE", RUN | DUMP, add_net, .repeats = true,
         .accepts = "tap=NAME, tap, fd=N, socket=PATH or passt, maybe with more behind commas",
         .help = "a network interface: tap=NAME, tap, fd=N, socket=PATH or passt, then [,mac=ADDRESS][,mtu=N]"
                 "[,queues=N][,rate=BYTES][,name=TEXT]"},
	{"vsock", 0, "WHERE", RUN | DUMP, set_text, .target = IN(config.vsock), .accepts = "cid=N,socket=PATH",
         .help = "streams between the guest and unix sockets of the host: cid=N,socket=PATH (there are none)"},
	{"console", 0, "WHERE", RUN | DUMP, set_console, .accepts = "stdio, null, file=PATH, pty or socket=PATH",
         .help = "a paravirtual console (hvc0): stdio, null, file=PATH, pty or socket=PATH (there is none)"},
	{"rng", 0, "on|off", RUN | DUMP, set_rng, .accepts = "on or off",
         .help = "an entropy device, fed by the host's random numbers (on)"},
	{"balloon", 0, "WHAT", RUN | DUMP, set_balloon,
         .accepts = "on, off, or size=SIZE, deflate-on-oom, free-page-reporting and stats=SECONDS with commas between "
                    "them",
         .help = "a memory balloon: on, off, or [size=SIZE][,deflate-on-oom][,free-page-reporting][,stats=SECONDS]; on "
                 "is "
                 "free-page-reporting (off)"},
	{"timeout", 0, "SECONDS", RUN | DEMO, set_timeout, .accepts = "seconds above 0, such as 10 or 0.5",
         .help = "stop the guest after so long and exit with 124; fractions are fine"},
	{"on-reboot", 0, "exit|restart", RUN, set_on_reboot, .accepts = "exit or restart",
         .help = "what a reset by the guest does: exit with 64, or start again (exit)"},
	{"debug-exit", 0, "qemu|raw", RUN, set_debug_exit, .accepts = "qemu or raw",
         .help = "exit code when the guest writes V to isa-debug-exit: V, or as in QEMU (V << 1) | 1 (qemu)"},
	{"flat-addr", 0, "ADDR", RUN | DUMP, set_flat_addr, .accepts = "an address above 0, such as 0x100000 or 1M",
         .help = "KERNEL is a flat binary: where it goes and starts (1M, in real mode 0x7c00)"},
	{"flat-mode", 0, "long|real", RUN | DUMP, set_flat_mode, .accepts = "long or real",
         .help = "KERNEL is a flat binary: the CPU mode it starts in (long)"},
	{"no-x2apic", 0, NULL, RUN | DUMP, set_flag, .flag = LULL_NO_X2APIC, .help = "hide x2APIC from the guest"},
	{"no-tsc-deadline", 0, NULL, RUN | DUMP, set_flag, .flag = LULL_NO_TSC_DEADLINE,
         .help = "hide the TSC-deadline timer from the guest"},
	{"no-pv-eoi", 0, NULL, RUN | DUMP, set_flag, .flag = LULL_NO_PV_EOI,
         .help = "hide the paravirtual end of interrupt from the guest"},
	{"guest-mwait", 0, NULL, RUN | DUMP, set_flag, .flag = LULL_GUEST_MWAIT,
         .help = "let the guest wait with MWAIT, which keeps its host CPUs busy"},
	{"dry-run", 0, NULL, RUN, set_true, .target = IN(dry_run),
         .help = "create everything, print the machine, run nothing"},
	{"stats", 0, "table|FILE", RUN, set_text, .target = IN(stats), .accepts = "table or the path of a file",
         .help = "at the end, print halts, wakes and exits on standard error (table), or write all figures as JSON to "
                 "FILE"},
	{"stats-interval", 0, "SECONDS", RUN, set_interval, .accepts = "seconds above 0, such as 10 or 0.5",
         .help = "with --stats: also every so many seconds"},
	{"output", 'o', "FILE", DUMP, set_text, .target = IN(output), .accepts = "the path of a file",
         .help = "write to FILE instead of standard output"},
	{"policy", 0, "POLICY", REPLAY, add_policy, .repeats = true, .accepts = "a policy as in --halt-poll",
         .help = "a policy as in --halt-poll; give it for each that should be replayed (all)"},
	{"lambda", 0, "NUMBER", REPLAY, set_lambda, .accepts = "a number from 0.01 to 1000, such as 0.25",
         .help = "what latency is worth in CPU time, for the score (2)"},
	{"host-cost", 0, "WAKE[,SWITCH[,ARM]]", REPLAY, set_host_cost,
         .accepts = "one to three numbers of ns, such as 10000,3000,1000",
         .help = "ns that a wake takes, and ns of CPU time of a switch and of a host timer (as recorded)"},
	{"json", 0, NULL, REPLAY, set_json, .help = "print JSON instead of tables"},
	{"output", 'o', "FILE", TRACE, set_text, .target = IN(output), .accepts = "the path of a file",
         .help = "write to FILE (NAME.trace)"},
	{"seed", 0, "N", TRACE, set_number, .target = IN(seed), .accepts = "a number",
         .help = "another seed makes other halts of the same kind (1)"},
	{"halts", 0, "N", TRACE, set_number, .target = IN(halts), .accepts = "a number from 1 to 10000000",
         .help = "how many halts (100000)"},
	{"log-level", 0, "LEVEL", RUN | DUMP | DEMO, set_log_level, .accepts = "error, warn, info or debug",
         .help = "least important messages to show: error, warn, info or debug (warn)"},
	{"verbose", 'v', NULL, RUN | DUMP | DEMO, set_verbose, .repeats = true,
         .help = "show more messages: -v info, -vv debug"},
	{0},
};

const struct command_spec command_specs[] = {
	{COMMAND_RUN, "run", "[OPTION]... KERNEL [-- WORD...]", "run a kernel; words after -- join its command line"},
	{COMMAND_DEMO, "demo", "[OPTION]...", "run the built-in guest and show how its CPUs waited"},
	{COMMAND_DUMP, "dump", "WHAT [OPTION]... [KERNEL [-- WORD...]]",
         "show the machine: acpi, fdt, e820, cpuid, machine, or one ACPI table such as DSDT"},
	{COMMAND_DOCTOR, "doctor", "", "say what this host offers, each finding with a verdict"},
	{COMMAND_REPLAY, "replay", "[OPTION]... FILE...",
         "say what each halt policy would have made of recorded halts"},
	{COMMAND_TRACE, "trace", "gen NAME [OPTION]...", "make a trace of synthetic halts for replay"},
	{0},
};

void options_free(struct options *opt)
{
	free(opt->cmdline);
	opt->cmdline = NULL;
}
