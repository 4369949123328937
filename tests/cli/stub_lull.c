/* SPDX-License-Identifier: Apache-2.0 */
/* stub_lull.c - lull.h without KVM, so that the command's signals, terminal and exit codes can be tested anywhere. The
 * name of the kernel says how the guest behaves; see guest_main(). */
#include "lull.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lull_vm {
	struct lull_config config;
	char kernel[64], path[64];
	int in, out;           /* the guest's serial port */
	int ended_fd, call_fd; /* call_fd wakes the guest's thread */
	pthread_t thread;
	bool started;
	volatile bool stop, button;
	struct lull_exit exit;
};

static int fail(struct lull_error *err, int code, const char *text)
{
	err->code = code;
	snprintf(err->text, sizeof(err->text), "%s", text);
	return code;
}

static void print(struct lull_vm *vm, const char *text)
{
	if (vm->out >= 0 && write(vm->out, text, strlen(text)) < 0)
		vm->out = -1;
}

static void end(struct lull_vm *vm, enum lull_exit_reason reason, uint32_t code, const char *text)
{
	vm->exit.reason = reason;
	vm->exit.code = code;
	snprintf(vm->exit.text, sizeof(vm->exit.text), "%s", text);
	eventfd_write(vm->ended_fd, 1);
}

/* Shows each byte that comes in; 'q' powers off. */
static bool echo(struct lull_vm *vm)
{
	uint8_t bytes[256];
	ssize_t n = read(vm->in, bytes, sizeof(bytes));
	char text[16];

	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] == 'q') {
			end(vm, LULL_EXIT_POWEROFF, 0, "");
			return true;
		}
		snprintf(text, sizeof(text), "<%02x>", bytes[i]);
		print(vm, text);
	}
	return false;
}

/* Counts what comes in and sees that it is the sequence 0..250, again and again; ends on the byte 255. */
static bool count(struct lull_vm *vm, uint64_t *total)
{
	uint8_t bytes[4096];
	ssize_t n = read(vm->in, bytes, sizeof(bytes));
	char text[64];

	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] == 255 || bytes[i] != *total % 251) {
			snprintf(text, sizeof(text), "%s after %llu\n", bytes[i] == 255 ? "end" : "wrong",
			         (unsigned long long)*total);
			print(vm, text);
			end(vm, LULL_EXIT_POWEROFF, 0, "");
			return true;
		}
		++*total;
	}
	return false;
}

static const struct {
	const char *kernel;
	enum lull_exit_reason reason;
	uint32_t code;
	const char *text;
} ends[] = {
	{"poweroff", LULL_EXIT_POWEROFF, 0, ""},
	{"reset", LULL_EXIT_RESET, 0, ""},
	{"triple", LULL_EXIT_TRIPLE_FAULT, 0, "vcpu0: triple fault at rip 0x100000"},
	{"kvmerror", LULL_EXIT_KVM_ERROR, 0, "vcpu0: KVM internal error 1"},
	{"panic", LULL_EXIT_PANIC, 1, "guest: panicked (pvpanic 1)"},
	{"deadhalt", LULL_EXIT_DEAD_HALT, 0, ""},
	{"debug33", LULL_EXIT_DEBUG_EXIT, 33, ""},
	{"debug256", LULL_EXIT_DEBUG_EXIT, 256, ""},
};

/* "reader" starts to read late; "idle" ignores the power button, "acpi" does not; "stuck" does not even stop. */
static void *guest_main(void *arg)
{
	struct lull_vm *vm = arg;
	bool is_echo = strcmp(vm->kernel, "echo") == 0, reads = strcmp(vm->kernel, "reader") == 0;
	uint64_t total = 0;

	print(vm, "guest runs\r\n");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strcmp(vm->kernel, ends[i].kernel) == 0) {
			if (ends[i].reason == LULL_EXIT_TRIPLE_FAULT)
				vm->config.log(vm->config.log_ctx, LULL_LOG_ERROR, "rax 0000000000000000");
			end(vm, ends[i].reason, ends[i].code, ends[i].text);
			return NULL;
		}
	if (reads)
		usleep(500000);
	for (;;) {
		struct pollfd fds[] = {{.fd = vm->call_fd, .events = POLLIN},
		                       {.fd = is_echo || reads ? vm->in : -1, .events = POLLIN}};

		poll(fds, 2, -1);
		if (fds[0].revents) {
			eventfd_t value;

			eventfd_read(vm->call_fd, &value);
			if (vm->stop && strcmp(vm->kernel, "stuck") != 0)
				return end(vm, LULL_EXIT_STOPPED, 0, ""), NULL;
			if (vm->button && strcmp(vm->kernel, "acpi") == 0)
				return end(vm, LULL_EXIT_POWEROFF, 0, ""), NULL;
		}
		if (fds[1].revents && (is_echo ? echo(vm) : count(vm, &total)))
			return NULL;
	}
}

struct lull_vm *lull_vm_create(const struct lull_config *config, struct lull_error *err)
{
	struct lull_vm *vm = calloc(1, sizeof(*vm));

	vm->config = *config;
	snprintf(vm->kernel, sizeof(vm->kernel), "%s", config->kernel ? config->kernel : "poweroff");
	if (strcmp(vm->kernel, "bad") == 0) {
		fail(err, -ENOEXEC, "bad: not a kernel; give another");
		free(vm);
		return NULL;
	}
	if (strcmp(vm->kernel, "slow") == 0)
		sleep(5);
	vm->in = vm->out = -1;
	if (config->serial && strcmp(config->serial, "pty") == 0)
		strcpy(vm->path, "/dev/pts/stub");
	else if (config->serial)
		sscanf(config->serial, "fd=%d,%d", &vm->in, &vm->out);
	vm->ended_fd = eventfd(0, EFD_CLOEXEC);
	vm->call_fd = eventfd(0, EFD_CLOEXEC);
	vm->exit.size = sizeof(vm->exit);
	if (config->log_level >= LULL_LOG_INFO)
		config->log(config->log_ctx, LULL_LOG_INFO, "stub: created");
	return vm;
}

int lull_vm_start(struct lull_vm *vm, struct lull_error *err)
{
	if (strcmp(vm->kernel, "nostart") == 0)
		return fail(err, -EIO, "nostart: cannot start; give another");
	vm->started = true;
	return -pthread_create(&vm->thread, NULL, guest_main, vm);
}

int lull_vm_wait(struct lull_vm *vm, int64_t timeout_ns, struct lull_exit *out, struct lull_error *err)
{
	struct pollfd fd = {.fd = vm->ended_fd, .events = POLLIN};

	if (poll(&fd, 1, timeout_ns < 0 ? -1 : (int)(timeout_ns / 1000000)) != 1)
		return fail(err, -ETIMEDOUT, "still runs");
	*out = vm->exit;
	return 0;
}

int lull_vm_event_fd(const struct lull_vm *vm)
{
	return vm->ended_fd;
}

void lull_vm_stop(struct lull_vm *vm)
{
	vm->stop = true;
	eventfd_write(vm->call_fd, 1);
}

void lull_vm_power_button(struct lull_vm *vm)
{
	vm->button = true;
	eventfd_write(vm->call_fd, 1);
}

void lull_vm_destroy(struct lull_vm *vm)
{
	if (!vm)
		return;
	if (vm->started) {
		lull_vm_stop(vm);
		pthread_join(vm->thread, NULL);
	}
	close(vm->ended_fd);
	close(vm->call_fd);
	free(vm);
}

int lull_vm_vcpu_tid(const struct lull_vm *vm, uint32_t vcpu)
{
	return vcpu < (vm->config.vcpus ? vm->config.vcpus : 1) ? 1000 + (int)vcpu : -ESRCH;
}

const char *lull_vm_serial_path(const struct lull_vm *vm)
{
	return vm->path;
}

const char *lull_vm_console_path(const struct lull_vm *vm)
{
	(void)vm;
	return "";
}

const char *lull_vm_net_interface(const struct lull_vm *vm, uint32_t net)
{
	(void)vm;
	(void)net;
	return "";
}

int lull_vm_stats(const struct lull_vm *vm, struct lull_stats *out)
{
	*out = (struct lull_stats){.size = sizeof(*out), .vcpus = vm->config.vcpus ? vm->config.vcpus : 1, .boots = 1};
	return 0;
}

int lull_vm_disk_stats(const struct lull_vm *vm, uint32_t disk, struct lull_disk_stats *out)
{
	(void)vm, (void)disk, (void)out;
	return -EINVAL;
}

int lull_vm_net_stats(const struct lull_vm *vm, uint32_t net, struct lull_net_stats *out)
{
	(void)vm, (void)net, (void)out;
	return -EINVAL;
}

int lull_vm_vsock_stats(const struct lull_vm *vm, struct lull_vsock_stats *out)
{
	(void)vm, (void)out;
	return -EINVAL;
}

int lull_vm_balloon_stats(const struct lull_vm *vm, struct lull_balloon_stats *out)
{
	(void)vm, (void)out;
	return -ENODEV;
}

int lull_vm_vcpu_stats(const struct lull_vm *vm, uint32_t vcpu, struct lull_vcpu_stats *out)
{
	uint64_t polled = vm->config.halt_poll && strcmp(vm->config.halt_poll, "none") != 0 ? 900 : 0;

	*out = (struct lull_vcpu_stats){.size = sizeof(*out), .vcpu = vcpu, .exits = 4321, .exits_io = 1234567};
	out->exits_halt = out->halts = 1000;
	out->wake[LULL_WAKE_TIMER] = (struct lull_wake_stats){1000, polled, 1000 - polled, 51234000, 98765432};
	out->wake[LULL_WAKE_IPI] = (struct lull_wake_stats){10, 10, 0, 8120, 1999};
	out->halt_wait_ns = 2503000000;
	return 0;
}

int lull_dump(const struct lull_config *config, const char *what, void **data, size_t *bytes, struct lull_error *err)
{
	char *text;

	if (strcmp(what, "nothing") == 0)
		return fail(err, -EINVAL, "nothing: not known; use acpi");
	if (strcmp(what, "acpi") == 0) {
		*data = calloc(1, 16);
		*bytes = 16;
		return 0;
	}
	*bytes = (size_t)asprintf(&text, "%s: %u vCPUs, %llu bytes, flags %#x, cmdline '%s'\n", what, config->vcpus,
	                          (unsigned long long)config->ram_bytes, config->flags,
	                          config->cmdline ? config->cmdline : "");
	*data = text;
	return 0;
}

int lull_doctor(void (*line)(void *ctx, const char *verdict, const char *topic, const char *text), void *ctx)
{
	line(ctx, "ok", "stub", "all is well");
	line(ctx, "fail", "/dev/kvm", "never looked");
	return getenv("STUB_DOCTOR") ? 0 : -ENODEV;
}

int lull_replay(const struct lull_replay *replay, void (*text)(void *ctx, const char *text), void *ctx,
                struct lull_error *err)
{
	char line[200];

	for (uint32_t i = 0; i < replay->file_count; i++) {
		if (strcmp(replay->files[i], "bad") == 0)
			return fail(err, -EINVAL, "bad: not a halt trace; make one");
		snprintf(line, sizeof(line), "%s: flags %u, lambda %u, cost %llu %llu %llu, %u policies, last %s\n",
		         replay->files[i], replay->flags, replay->lambda_milli, (unsigned long long)replay->wake_ns,
		         (unsigned long long)replay->switch_ns, (unsigned long long)replay->arm_ns,
		         replay->policy_count, replay->policy_count ? replay->policies[replay->policy_count - 1] : "-");
		text(ctx, line);
	}
	return 0;
}

int lull_trace_generate(const char *workload, uint64_t seed, uint64_t halts, const char *path, struct lull_error *err)
{
	if (strcmp(workload, "bad") == 0)
		return fail(err, -EINVAL, "trace: 'bad' is not a workload; use another");
	printf("%s %llu %llu %s\n", workload, (unsigned long long)seed, (unsigned long long)halts, path);
	return 0;
}

const void *lull_demo_image(size_t *bytes)
{
	*bytes = 0;
	return NULL;
}

const char *lull_version(void)
{
	return "0.0.0-stub";
}
