/* SPDX-License-Identifier: Apache-2.0 */
/* cli_run.c - lull run: one guest from its configuration to its exit code. The main thread waits here for the end of
 * the guest, for signals, for input and for the timeout, all in one ppoll(), and wakes up for nothing else. */
#include "cli.h"
#include "cli_input.h"
#include "cli_net.h"
#include "cli_out.h"
#include "cli_report.h"
#include "cli_tty.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	STOP_S = 5, /* how long a guest may take to be stopped */
	VSOCK_FILES = 5000,
};

enum cause {
	CAUSE_NONE,
	CAUSE_KEY,
	CAUSE_SIGNAL,
	CAUSE_TIMEOUT
};

/* Main thread only. */
struct run {
	const struct options *opt;
	struct lull_vm *vm;
	struct cli_report report;
	struct cli_input input;
	bool has_input;
	sigset_t poll_mask;  /* while ppoll() waits: the only time at which our signals come in */
	int64_t deadline_ns; /* CLOCK_MONOTONIC: of the guest, then of its being stopped; 0: none */
	bool asked;          /* the power button was pressed for a signal */
	enum cause cause;    /* why we stopped the guest */
	int signo;
	bool give_up; /* it did not stop in time */
};

/* ------------------------------------------------------------------------------ the end, and asking for it */

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void stop(struct run *run, enum cause cause, int signo)
{
	if (run->cause != CAUSE_NONE)
		return;
	run->cause = cause;
	run->signo = signo;
	run->deadline_ns = now_ns() + (int64_t)STOP_S * 1000000000;
	lull_vm_stop(run->vm);
}

static const char *signal_name(int signo)
{
	switch (signo) {
	case SIGTERM:
		return "SIGTERM";
	case SIGINT:
		return "SIGINT";
	case SIGHUP:
		return "SIGHUP";
	default:
		return "SIGQUIT";
	}
}

static void press_power_button(struct run *run, int signo)
{
	run->asked = true;
	cli_say("%s: asked the guest to power off; send it again to stop it at once", signal_name(signo));
	lull_vm_power_button(run->vm);
}

/* ------------------------------------------------------------------------------ keys */

static void on_key(void *ctx, enum cli_key key)
{
	struct run *run = ctx;

	switch (key) {
	case CLI_KEY_HELP:
		cli_text("Ctrl-a h       this help\n"
		         "Ctrl-a s       statistics\n"
		         "Ctrl-a x       stop the guest\n"
		         "Ctrl-a Ctrl-a  send Ctrl-a to the guest");
		break;
	case CLI_KEY_STATS:
		cli_report_table(&run->report, run->vm, "until now");
		break;
	case CLI_KEY_STOP:
		stop(run, CAUSE_KEY, 0);
		break;
	case CLI_KEY_NONE:
		break;
	}
}

/* ------------------------------------------------------------------------------ signals */

static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR2};

/* Signals that came in, a bit each, in the order of wanted[]. Handler and main thread, which blocks them meanwhile. */
static volatile sig_atomic_t arrived;

static void on_arrival(int signo)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (wanted[i] == signo)
			arrived |= 1 << i;
}

/* Until here each signal has its default effect; from here on they come in while the loop waits, and only then. Those
 * that were ignored when we were started (nohup) stay so.
 *
 * Not a signalfd: its wait queue is that of the whole process, and so each timer signal of a vCPU would wake us. */
static void take_signals(struct run *run)
{
	struct sigaction action;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, wanted[i]);
	pthread_sigmask(SIG_BLOCK, &set, &run->poll_mask);
	action = (struct sigaction){.sa_handler = on_arrival};
	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (sigismember(&set, wanted[i])) {
			sigdelset(&run->poll_mask, wanted[i]);
			sigaction(wanted[i], &action, NULL);
		}
}

/* We may be in the foreground again, or no longer, and whoever had the terminal may have changed it. */
static void come_back(struct run *run)
{
	if (!run->has_input)
		return;
	cli_tty_enter();
	run->input.paused = !cli_tty_may_read();
}

/* Stops like a process that knows nothing of terminals, which also means: not at all in an orphaned group. */
static void suspend(struct run *run)
{
	struct sigaction ours, theirs = {.sa_handler = SIG_DFL};
	sigset_t set;

	cli_tty_leave();
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigaction(SIGTSTP, &theirs, &ours);
	pthread_kill(pthread_self(), SIGTSTP);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTSTP, &ours, NULL);
	come_back(run);
}

static void on_signal(struct run *run, int signo)
{
	switch (signo) {
	case SIGCONT:
		come_back(run);
		break;
	case SIGTSTP:
		suspend(run);
		break;
	case SIGUSR2:
		cli_report_table(&run->report, run->vm, "until now");
		break;
	default:
		if ((signo == SIGTERM || signo == SIGINT) && !run->asked && run->cause == CAUSE_NONE)
			press_power_button(run, signo);
		else
			stop(run, CAUSE_SIGNAL, signo);
	}
}

static void act_on_signals(struct run *run)
{
	int now = arrived;

	arrived = 0;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (now & 1 << i)
			on_signal(run, wanted[i]);
}

/* ------------------------------------------------------------------------------ the loop */

/* Time left until there is something to do, or NULL for ever. */
static const struct timespec *time_left(struct run *run, struct timespec *ts)
{
	int64_t now = now_ns(), until = INT64_MAX;

	cli_report_due(&run->report, run->vm, now);
	if (run->deadline_ns && run->deadline_ns <= now) {
		run->give_up = run->cause != CAUSE_NONE;
		stop(run, CAUSE_TIMEOUT, 0);
		until = now; /* the next round knows */
	} else if (run->deadline_ns) {
		until = run->deadline_ns;
	}
	if (run->report.next_ns && run->report.next_ns < until)
		until = run->report.next_ns;
	if (until == INT64_MAX)
		return NULL;
	until = until > now ? until - now : 0;
	*ts = (struct timespec){.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
	return ts;
}

static void loop(struct run *run)
{
	int ended_fd = lull_vm_event_fd(run->vm);

	while (!run->give_up) {
		struct pollfd fds[] = {
			{.fd = ended_fd, .events = POLLIN},
			{.fd = -1},
			{.fd = -1},
		};
		struct timespec left;
		int ready;

		if (run->has_input)
			cli_input_before_poll(&run->input, fds + 1);
		ready = ppoll(fds, 3, time_left(run, &left), &run->poll_mask);
		act_on_signals(run);
		if (ready <= 0)
			continue; /* interrupted, or the timeout, which the next round sees */
		if (fds[0].revents)
			return;
		if (run->has_input)
			cli_input_after_poll(&run->input, fds + 1);
	}
}

/* ------------------------------------------------------------------------------ before and after */

/* With stdio the guest's input comes through a pipe from us, and its output goes to stdout without us. */
static int open_stdio(struct run *run, struct lull_config *config, char *text, size_t size)
{
	int ret;

	if (!run->opt->serial_stdio && !run->opt->console_stdio)
		return 0;
	ret = cli_input_open(&run->input, on_key, run);
	if (ret)
		return ret;
	run->has_input = true;
	snprintf(text, size, "fd=%d,%d", run->input.pipe_in, STDOUT_FILENO);
	*(run->opt->serial_stdio ? &config->serial : &config->console) = text;
	return 0;
}

static void say_started(struct run *run)
{
	const char *serial = lull_vm_serial_path(run->vm), *console = lull_vm_console_path(run->vm);
	struct lull_stats stats = {.size = sizeof(stats)};

	if (*serial)
		cli_say("serial: %s", serial);
	if (*console)
		cli_say("console: %s", console);
	cli_net_say(&run->opt->config, run->vm);
	if (run->opt->config.log_level >= LULL_LOG_INFO)
		for (uint32_t i = 0; lull_vm_vcpu_tid(run->vm, i) > 0; i++)
			cli_say("vcpu%u: thread %d", i, lull_vm_vcpu_tid(run->vm, i));
	if (run->opt->config.log_level >= LULL_LOG_DEBUG && lull_vm_stats(run->vm, &stats) == 0)
		cli_say("set-up: %.2f ms (KVM %.2f, memory %.2f, devices %.2f, loading %.2f, tables %.2f)",
		        (double)stats.setup_total_ns / 1e6, (double)stats.setup_kvm_ns / 1e6,
		        (double)stats.setup_memory_ns / 1e6, (double)stats.setup_devices_ns / 1e6,
		        (double)stats.setup_load_ns / 1e6, (double)stats.setup_tables_ns / 1e6);
}

/* The exit code when it was us who stopped the guest, and its line. */
static int stopped_by_us(const struct run *run)
{
	switch (run->cause) {
	case CAUSE_TIMEOUT:
		cli_say("timeout: the guest still ran after %g s; stopped it", (double)run->opt->timeout_ns / 1e9);
		return CLI_TIMEOUT;
	case CAUSE_SIGNAL:
		cli_say("%s: stopped the guest", signal_name(run->signo));
		return CLI_SIGNAL + run->signo;
	case CAUSE_KEY:
		cli_say("Ctrl-a x: stopped the guest");
		return CLI_OK;
	case CAUSE_NONE:
		break;
	}
	return CLI_OK;
}

static int finish(struct run *run)
{
	struct lull_exit end = {.size = sizeof(end)};
	struct lull_error err = {0};
	const char *line;
	char *report;
	int code, ret;

	if (run->give_up) { /* ending the process ends it, too */
		cli_tty_leave();
		cli_say("guest: did not stop within %d s; left it to the kernel", STOP_S);
		return stopped_by_us(run);
	}
	ret = lull_vm_wait(run->vm, 0, &end, &err);
	report = cli_report_take_last(&run->report, run->vm, now_ns());
	lull_vm_destroy(run->vm); /* writes out what the guest printed last */
	cli_tty_leave();
	cli_report_put_last(&run->report, report);
	if (ret) {
		cli_say("%s", err.text);
		return CLI_KVM_ERROR;
	}
	if (end.reason == LULL_EXIT_STOPPED)
		return stopped_by_us(run);
	code = cli_end(&end, &line);
	if (*line)
		cli_say("%s", line);
	return code;
}

static int run_vm(struct run *run)
{
	struct lull_error err = {0};

	take_signals(run);
	if (run->has_input && cli_tty_enter())
		cli_say("Ctrl-a x stops the guest, Ctrl-a h lists the keys");
	if (lull_vm_start(run->vm, &err) < 0) {
		cli_tty_leave();
		cli_say("%s", err.text);
		lull_vm_destroy(run->vm);
		return CLI_CANNOT;
	}
	cli_report_start(&run->report, now_ns());
	if (run->opt->timeout_ns)
		run->deadline_ns = now_ns() + (int64_t)run->opt->timeout_ns;
	say_started(run);
	loop(run);
	return finish(run);
}

static int dry_run(struct run *run, const struct lull_config *config)
{
	struct lull_error err = {0};
	void *text = NULL;
	size_t bytes = 0;
	int ret = lull_dump(config, "machine", &text, &bytes, &err);

	lull_vm_destroy(run->vm);
	if (ret < 0) {
		cli_say("%s", err.text);
		return CLI_CANNOT;
	}
	fwrite(text, 1, bytes, stdout);
	free(text);
	return cli_finish_stdout(CLI_OK);
}

/* Each connection of a vsock takes a descriptor, and the usual limit is meant for select(). */
static void allow_files(rlim_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= count)
		return;
	limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int cli_run(const struct options *opt)
{
	struct run run = {.opt = opt};
	struct lull_config config = opt->config;
	struct lull_error err = {0};
	struct cli_net net;
	char stdio[48];
	int code, ret;

	config.log = cli_log;
	if (cli_report_open(&run.report, opt, &err)) {
		cli_say("%s", err.text);
		return CLI_CANNOT;
	}
	ret = open_stdio(&run, &config, stdio, sizeof(stdio));
	if (ret) {
		cli_say("stdio: cannot make a pipe: %s; raise the limit of open files", strerror(-ret));
		cli_report_close(&run.report);
		return CLI_CANNOT;
	}
	ret = cli_net_open(&net, &config);
	if (config.vsock)
		allow_files(VSOCK_FILES);
	run.vm = ret ? NULL : lull_vm_create(&config, &err);
	if (!run.vm) {
		if (!ret)
			cli_say("%s", err.text);
		code = CLI_CANNOT;
	} else if (opt->dry_run) {
		code = dry_run(&run, &config);
	} else {
		code = run_vm(&run);
	}
	cli_net_close(&net);
	if (run.has_input)
		cli_input_close(&run.input);
	cli_report_close(&run.report);
	return code;
}
