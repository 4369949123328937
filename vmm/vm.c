/* SPDX-License-Identifier: Apache-2.0 */
/* vm.c - a VM's life: create, start, supervise, end, destroy. */
#include "vm.h"

#include "clock.h"
#include "error.h"
#include "thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/* --halt-poll of those who do not say. lull.h, the help and the man page have it, too. */
#define DEFAULT_HALT_POLL "cost"

#define FLUSH_MS 1000 /* how long the end waits for a slow reader of the serial port */

/* --------------------------------------------------------------------------- ending and pausing */

static bool wants_dump(enum lull_exit_reason reason)
{
	return reason == LULL_EXIT_TRIPLE_FAULT || reason == LULL_EXIT_KVM_ERROR || reason == LULL_EXIT_DEAD_HALT;
}

void vm_end(struct lull_vm *vm, enum lull_exit_reason reason, uint32_t code, unsigned vcpu, const char *text)
{
	pthread_mutex_lock(&vm->lock);
	if (reason == LULL_EXIT_STOPPED && vm->state == VM_RUNNING)
		vm->stop_wanted = true;
	if (!vm->ending && vm->state == VM_RUNNING) {
		vm->ending = true;
		vm->exit = (struct lull_exit){.size = sizeof(vm->exit), .reason = reason, .code = code, .vcpu = vcpu};
		snprintf(vm->exit.text, sizeof(vm->exit.text), "%s", text);
		for (unsigned i = 0; i < vm->vcpu_count; i++)
			vcpu_request(&vm->vcpus[i], VCPU_STOP | (wants_dump(reason) ? VCPU_DUMP : 0));
	}
	pthread_mutex_unlock(&vm->lock);
}

/* The end that is under way is a reset, and the machine boots again. */
static bool restarts(const struct lull_vm *vm)
{
	return vm->exit.reason == LULL_EXIT_RESET && (vm->config.flags & LULL_RESTART_ON_RESET) && !vm->stop_wanted;
}

static bool on_own_vcpu(const struct lull_vm *vm)
{
	for (unsigned i = 0; i < vm->vcpu_count; i++)
		if (vm->vcpus[i].started && pthread_equal(vm->vcpus[i].thread, pthread_self()))
			return true;
	return false;
}

/* Under lock. In a device's reset() no vCPU exists that could run; after it they start parked. */
static int wait_parked(struct lull_vm *vm)
{
	bool in_reset = vm->io_started && pthread_equal(vm->io_thread, pthread_self());
	while (vm->state == VM_RUNNING && (!vm->ending || restarts(vm))) {
		if (!vm->paused)
			return -ECANCELED;
		if (in_reset || (!vm->ending && vm->parked >= vm->vcpu_count))
			return 0;
		pthread_cond_wait(&vm->changed, &vm->lock);
	}
	return vm->state == VM_CREATED ? 0 : -ESRCH;
}

int vm_pause(struct lull_vm *vm)
{
	int ret = -EDEADLK;
	pthread_mutex_lock(&vm->lock);
	if (!on_own_vcpu(vm)) {
		vm->paused = true;
		for (unsigned i = 0; i < vm->vcpu_count && vm->state == VM_RUNNING; i++)
			vcpu_request(&vm->vcpus[i], VCPU_PAUSE);
		ret = wait_parked(vm);
	}
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

int vm_resume(struct lull_vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	vm->paused = false;
	for (unsigned i = 0; i < vm->vcpu_count && vm->state == VM_RUNNING; i++)
		vcpu_unpause(&vm->vcpus[i]);
	pthread_cond_broadcast(&vm->changed);
	int ret = vm->state == VM_ENDED ? -ESRCH : 0;
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

/* ---------------------------------------------------------------------- the I/O thread supervises */

static void log_dumps(struct lull_vm *vm)
{
	for (unsigned i = 0; i < vm->vcpu_count; i++) {
		char *rest = vm->vcpus[i].dump;
		for (char *line; rest && (line = strsep(&rest, "\n"));)
			if (*line)
				log_error(&vm->log, "%s", line);
	}
}

static void declare_end(struct lull_vm *vm)
{
	const uint64_t one = 1;
	chardev_detach(vm->chardev, FLUSH_MS);
	if (vm->console)
		chardev_detach(vm->console, FLUSH_MS);
	pthread_mutex_lock(&vm->lock);
	vm->state = VM_ENDED;
	pthread_cond_broadcast(&vm->changed);
	pthread_mutex_unlock(&vm->lock);
	(void)!write(vm->event_fd, &one, sizeof(one));
	event_loop_stop(&vm->loop);
}

/* A new machine over the same memory and host ends. Under lock. */
static int restart(struct lull_vm *vm, struct lull_error *err)
{
	vm->ending = false;
	vm->boots++;
	vm_unbuild(vm);
	int ret = guest_mem_clear(&vm->mem);
	if (ret < 0)
		return error_set(err, ret, "memory: cannot be cleared for the restart");
	ret = vm_build(vm, err);
	return ret < 0 ? ret : vm_start_vcpus(vm, err);
}

static bool wants_restart(struct lull_vm *vm)
{
	bool again = restarts(vm);
	if (!again && vm->exit.reason == LULL_EXIT_RESET && (vm->config.flags & LULL_RESTART_ON_RESET))
		vm->exit.reason = LULL_EXIT_STOPPED;
	return again;
}

/* No vCPU thread is left. True: the machine runs again. */
static bool reset_machine(struct lull_vm *vm)
{
	struct lull_error err;
	pthread_mutex_lock(&vm->lock);
	bool again = wants_restart(vm);
	pthread_mutex_unlock(&vm->lock);
	/* Embedders' callbacks may call the library, so the lock is not held. Nothing but a stop can change meanwhile.
	 */
	for (unsigned i = 0; i < vm->device_count && again; i++)
		if (vm->devices[i].config.reset)
			vm->devices[i].config.reset(vm->devices[i].config.ctx);
	pthread_mutex_lock(&vm->lock);
	again = again && wants_restart(vm);
	if (again && restart(vm, &err) < 0) {
		vm->ending = true;
		vm->exit.reason = LULL_EXIT_KVM_ERROR;
		error_wrap(&err, err.code, "restart");
		snprintf(vm->exit.text, sizeof(vm->exit.text), "%s", err.text);
		again = vm->vcpu_count > 0; /* what did start stops, and comes here once more */
	}
	pthread_mutex_unlock(&vm->lock);
	return again;
}

static void on_vcpus_finished(void *ctx, uint32_t events)
{
	struct lull_vm *vm = ctx;
	uint64_t count;
	(void)events;
	if (read(vm->finished.fd, &count, sizeof(count)) < 0)
		return;
	for (unsigned i = 0; i < vm->vcpu_count; i++)
		vcpu_join(&vm->vcpus[i]);
	log_dumps(vm);
	if (!reset_machine(vm))
		declare_end(vm);
}

static void *io_main(void *arg)
{
	struct lull_vm *vm = arg;
	prctl(PR_SET_NAME, "lull-io");
	event_loop_run(&vm->loop);
	return NULL;
}

static int start_io(struct lull_vm *vm, struct lull_error *err)
{
	int ret = thread_start(&vm->io_thread, 0, 0, io_main, vm);
	if (ret < 0)
		return error_sys(err, ret, "cannot start the I/O thread");
	vm->io_started = true;
	return 0;
}

int vm_start(struct lull_vm *vm, struct lull_error *err)
{
	pthread_mutex_lock(&vm->lock);
	int ret = vm->state == VM_CREATED ? 0 : error_set(err, -EALREADY, "this VM was started before");
	if (ret == 0 && (ret = chardev_attach(vm->chardev, &vm->loop)) < 0)
		error_sys(err, ret, "serial: the event loop does not take it");
	if (ret == 0 && vm->console && (ret = chardev_attach(vm->console, &vm->loop)) < 0)
		error_sys(err, ret, "console: the event loop does not take it");
	if (ret == 0)
		ret = start_io(vm, err);
	if (ret == 0) {
		vm->state = VM_RUNNING;
		vm->boots = 1;
		ret = vm_start_vcpus(vm, err);
		if (ret < 0) { /* those that run end by themselves, and the I/O thread says so */
			vm->ending = true;
			vm->exit.reason = LULL_EXIT_KVM_ERROR;
		}
	}
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

/* ------------------------------------------------------------------------------ create and destroy */

static int parse_affinity(struct lull_vm *vm, struct lull_error *err)
{
	const char *s = vm->config.cpu_affinity;
	if (!s)
		return 0;
	vm->affinity = calloc(vm->config.vcpus, sizeof(cpu_set_t));
	if (!vm->affinity)
		return error_set(err, -ENOMEM, "cpu-affinity: out of memory");
	cpu_set_t *set = vm->affinity;
	for (;;) {
		char *end;
		unsigned long first = strtoul(s, &end, 10), last = first;
		bool bad = *s < '0' || *s > '9';
		if (!bad && *end == '-') {
			s = end + 1;
			last = strtoul(s, &end, 10);
			bad = *s < '0' || *s > '9';
		}
		if (bad || last < first || last >= CPU_SETSIZE || (*end && *end != ',' && *end != ':'))
			return error_set(err, -EINVAL,
			                 "cpu-affinity '%s': not a list of CPUs; use one like 0 or 0-3,8 per vCPU, "
			                 "joined by ':'",
			                 vm->config.cpu_affinity);
		for (unsigned long cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, set);
		if (*end != ',') {
			vm->affinity_count++;
			if (!*end)
				return 0;
			if (vm->affinity_count == vm->config.vcpus)
				return error_set(err, -EINVAL, "cpu-affinity '%s': more lists than the %u vCPUs",
				                 vm->config.cpu_affinity, vm->config.vcpus);
			set++;
		}
		s = end + 1;
	}
}

#define STRINGS 12
static void list_strings(struct lull_vm *vm, const char **list[STRINGS])
{
	struct lull_config *c = &vm->config;
	const char **strings[STRINGS] = {&c->kernel,    &c->initrd,      &c->cmdline,      &c->irqchip,
	                                 &c->halt_poll, &c->serial,      &c->cpu_affinity, &c->poll_wait,
	                                 &c->powersave, &c->poll_budget, &c->console,      &c->halt_trace};
	memcpy(list, strings, sizeof(strings));
}

static int copy_string(const char **s, struct lull_error *err)
{
	if (!*s)
		return 0;
	*s = strdup(*s);
	return *s ? 0 : error_set(err, -ENOMEM, "configuration: out of memory");
}

/* Own copies, so that the caller's may go; pointers that cannot be copied are cleared so that vm_destroy() may free
 * all. */
static int copy_config(struct lull_vm *vm, const struct lull_config *config, struct lull_error *err)
{
	vm->config = *config;
	vm->config.cmdline = config->cmdline ? config->cmdline : "";
	const char **strings[STRINGS];
	int ret = 0;
	list_strings(vm, strings);
	for (size_t i = 0; i < STRINGS; i++) {
		if (ret == 0)
			ret = copy_string(strings[i], err);
		else
			*strings[i] = NULL;
	}
	return ret;
}

static int open_images(struct lull_vm *vm, struct lull_error *err)
{
	if (vm->config.kernel_image)
		image_from_memory(&vm->kernel, "built-in", vm->config.kernel_image, vm->config.kernel_bytes);
	else if (!vm->config.kernel)
		return error_set(err, -EINVAL, "kernel: none given; name a kernel image");
	else {
		int ret = image_open(&vm->kernel, "kernel", vm->config.kernel, err);
		if (ret < 0)
			return ret;
	}
	return vm->config.initrd ? image_open(&vm->initrd, "initrd", vm->config.initrd, err) : 0;
}

int vm_halt_config(const struct lull_vm *vm, const char *policy, struct halt_config *out, struct lull_error *err)
{
	const struct halt_words words = {
		.policy = policy ? policy : DEFAULT_HALT_POLL,
		.wait = vm->config.poll_wait,
		.power = vm->config.powersave,
		.budget = vm->config.poll_budget,
		.max_pollers = vm->config.max_pollers,
	};
	return halt_parse(out, &words, err);
}

static int parse_steal_time(struct lull_vm *vm, struct lull_error *err)
{
	bool kernel_chip = vm->chip_ops == &irqchip_kernel;
	bool asked = vm->config.steal_time; /* else the default was chosen by what works here */
	int ret = steal_mode_parse(&vm->steal_mode, vm->config.steal_time, kernel_chip, err);
	vm->config.steal_time = NULL; /* the caller's, and not needed any more */
	if (ret < 0 || !asked || vm->steal_mode < STEAL_HYBRID)
		return ret;
	int seen = steal_probe_preempt();
	if (seen < 0)
		log_debug(&vm->log, "steal-time: no vCPU is marked preempted: perf_event_open: %s", strerror(-seen));
	return 0;
}

static int check_config(struct lull_vm *vm, struct lull_error *err)
{
	const char *chip = vm->config.irqchip ? vm->config.irqchip : "user";
	if (!strcmp(chip, "user"))
		vm->chip_ops = &irqchip_user;
	else if (!strcmp(chip, "kernel"))
		vm->chip_ops = &irqchip_kernel;
	else
		return error_set(err, -EINVAL, "irqchip '%s': not known; use user or kernel", chip);
	if (vm->config.vcpus < 1 || vm->config.vcpus > vm->kvm.max_vcpus)
		return error_set(err, -EINVAL, "cpus: %u asked for; 1 to %u can be had here", vm->config.vcpus,
		                 vm->kvm.max_vcpus);
	vm->x2apic = !(vm->config.flags & LULL_NO_X2APIC);
	vm->tsc_deadline = !(vm->config.flags & LULL_NO_TSC_DEADLINE);
	int ret = vm->config.flags & LULL_GUEST_MWAIT ? kvm_check_mwait(&vm->kvm, err) : 0;
	if (ret < 0)
		return ret;
	struct halt_config halt;
	ret = vm_halt_config(vm, vm->config.halt_poll, &halt, err);
	if (ret < 0)
		return ret;
	halt_shared_set(&vm->halt, &halt);
	budget_init(&vm->halt.vm_budget, halt.vm_budget_percent);
	ret = parse_steal_time(vm, err);
	return ret < 0 ? ret : parse_affinity(vm, err);
}

static int open_events(struct lull_vm *vm, struct lull_error *err)
{
	int ret = event_loop_init(&vm->loop);
	if (ret < 0)
		return error_sys(err, ret, "event loop");
	vm->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	vm->finished = (struct event_source){.fn = on_vcpus_finished, .ctx = vm};
	vm->finished.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (vm->event_fd < 0 || vm->finished.fd < 0)
		return error_sys(err, -errno, "eventfd");
	ret = event_loop_set(&vm->loop, &vm->finished, EPOLLIN);
	if (ret < 0)
		return error_sys(err, ret, "event loop");
	ret = vm_dead_init(vm, err);
	return ret < 0 ? ret : vm_halt_init(vm, err);
}

static int create(struct lull_vm *vm, const struct lull_config *config, struct lull_error *err)
{
	uint64_t start = clock_ns();
	int ret = copy_config(vm, config, err);
	if (ret == 0)
		ret = kvm_open(&vm->kvm, err);
	if (ret == 0)
		ret = check_config(vm, err);
	if (ret == 0)
		ret = vcpu_install_kick(vm->config.kick_signal, err);
	if (ret == 0)
		ret = open_images(vm, err);
	uint64_t before_memory = clock_ns();
	if (ret == 0)
		ret = guest_mem_init(&vm->mem, vm->config.ram_bytes, vm->config.flags & LULL_SHARED_MEMORY, err);
	vm->times.memory_ns = clock_ns() - before_memory;
	if (ret == 0)
		ret = open_events(vm, err);
	uint64_t before_hosts = clock_ns();
	if (ret == 0) {
		vm->chardev = chardev_open(vm->config.serial ? vm->config.serial : "null", &vm->log, err);
		ret = vm->chardev ? 0 : -EINVAL;
	}
	if (ret == 0)
		ret = vm_hosts_open(vm, err);
	vm->times.hosts_ns = clock_ns() - before_hosts;
	/* The caller's, and not needed any more. */
	vm->config.disks = vm->config.nets = NULL;
	vm->config.vsock = vm->config.balloon = NULL;
	if (ret == 0)
		ret = vm_build(vm, err);
	vm->times.total_ns = clock_ns() - start;
	return ret;
}

struct lull_vm *vm_create(const struct lull_config *config, struct lull_error *err)
{
	struct lull_vm *vm = calloc(1, sizeof(*vm));
	if (!vm) {
		error_set(err, -ENOMEM, "vm: out of memory");
		return NULL;
	}
	vm->log = (struct log){config->log, config->log_ctx, config->log_level};
	vm->kvm = (struct kvm){.sys_fd = -1, .vm_fd = -1};
	vm->kernel.fd = vm->initrd.fd = vm->mem.fd = -1;
	vm->event_fd = vm->finished.fd = vm->dead_timer.fd = vm->kernel_halt.timer.fd = vm->loop.epoll_fd =
		vm->loop.wake_fd = -1;
	steal_thread_init(&vm->steal_thread);
	pthread_mutex_init(&vm->lock, NULL);
	halt_shared_init(&vm->halt);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&vm->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (create(vm, config, err) < 0) {
		vm_destroy(vm);
		return NULL;
	}
	return vm;
}

static void close_events(struct lull_vm *vm)
{
	vm_halt_fini(vm);
	vm_dead_fini(vm);
	if (vm->finished.fd >= 0)
		close(vm->finished.fd);
	if (vm->event_fd >= 0)
		close(vm->event_fd);
	event_loop_fini(&vm->loop);
}

void vm_destroy(struct lull_vm *vm)
{
	if (!vm)
		return;
	vm_end(vm, LULL_EXIT_STOPPED, 0, 0, "");
	if (vm->io_started)
		pthread_join(vm->io_thread, NULL);
	vm_unbuild(vm);
	if (vm->chardev)
		chardev_close(vm->chardev);
	vm_hosts_close(vm);
	const struct policy_host host = host_cost_read(&vm->halt.cost);
	trace_host(&vm->halt_trace, &host);
	trace_close(&vm->halt_trace);
	free(vm->halt_rings);
	close_events(vm);
	guest_mem_fini(&vm->mem);
	image_close(&vm->kernel);
	image_close(&vm->initrd);
	for (unsigned i = 0; i < vm->device_count; i++)
		free(vm->devices[i].name);
	free(vm->affinity);
	kvm_close(&vm->kvm);
	const char **strings[STRINGS];
	list_strings(vm, strings);
	for (size_t i = 0; i < STRINGS; i++)
		free((void *)(uintptr_t)*strings[i]);
	pthread_cond_destroy(&vm->changed);
	pthread_mutex_destroy(&vm->lock);
	steal_thread_fini(&vm->steal_thread);
	halt_shared_fini(&vm->halt);
	free(vm);
}
