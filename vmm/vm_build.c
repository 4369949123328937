/* SPDX-License-Identifier: Apache-2.0 */
/* vm_build.c - what exists from one boot to the next reset, made in visible order and undone in reverse. KVM never
 * resets a vCPU for us, so a reset is a new VM over the same memory: nothing of the old one can leak into the next
 * kernel. */
#include "vm.h"

#include "clock.h"
#include "error.h"
#include "ioapic.h"
#include "util.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>
#include <unistd.h>

#define TRACE_RECORDS 65536 /* of each vCPU: 4 MiB */

/* ---- what vCPUs, chips and devices call ---- */

static void on_vcpu_end(void *ctx, enum lull_exit_reason reason, uint32_t code, unsigned vcpu, const char *text)
{
	vm_end(ctx, reason, code, vcpu, text);
}

static void on_dead(void *ctx, bool dead)
{
	vm_dead_changed(ctx, dead);
}

static void on_parked(void *ctx, bool parked)
{
	struct lull_vm *vm = ctx;
	pthread_mutex_lock(&vm->lock);
	vm->parked += parked ? 1 : -1u;
	pthread_cond_broadcast(&vm->changed);
	pthread_mutex_unlock(&vm->lock);
}

static void on_finished(void *ctx)
{
	struct lull_vm *vm = ctx;
	const uint64_t one = 1;
	if (atomic_fetch_sub(&vm->live, 1) == 1)
		(void)!write(vm->finished.fd, &one, sizeof(one));
}

static void on_notify(void *ctx, unsigned cpu, enum wake_cause cause)
{
	struct lull_vm *vm = ctx;
	vcpu_notify(&vm->vcpus[cpu], cause);
}

static void on_active(void *ctx)
{
	vm_dead_active(ctx);
}

static void on_board(void *ctx, enum board_request kind, uint32_t code)
{
	struct lull_vm *vm = ctx;
	switch (kind) {
	case BOARD_POWEROFF:
		vm_end(vm, LULL_EXIT_POWEROFF, 0, 0, "");
		break;
	case BOARD_RESET:
		vm_end(vm, LULL_EXIT_RESET, 0, 0, "");
		break;
	case BOARD_DEBUG_EXIT:
		vm_end(vm, LULL_EXIT_DEBUG_EXIT, (vm->config.flags & LULL_DEBUG_EXIT_RAW ? code : code << 1 | 1) & 0xff,
		       0, "");
		break;
	case BOARD_PANIC:
		vm_end(vm, LULL_EXIT_PANIC, code, 0, "the guest reported a panic");
		break;
	}
}

/* ------------------------------------------------------------------------------- building */

static int make_chip(struct lull_vm *vm, struct lull_error *err)
{
	const struct irqchip_config config = {
		.kvm = &vm->kvm,
		.log = &vm->log,
		.cpus = vm->config.vcpus,
		.tsc_khz = vm->env.tsc_khz,
		.x2apic = vm->x2apic,
		.tsc_deadline = vm->tsc_deadline,
		.pv_eoi = !(vm->config.flags & LULL_NO_PV_EOI),
		.steal_msr = vm->steal_mode != STEAL_KVM,
		.notify = on_notify,
		.active = on_active,
		.notify_ctx = vm,
	};
	return vm->chip_ops->create(&vm->chip, &config, err);
}

static int make_vcpu(struct lull_vm *vm, unsigned index, const struct kvm_cpuid2 *cpuid, struct lull_error *err)
{
	struct vcpu *v = &vm->vcpus[index];
	int ret = vcpu_create(v, index, &vm->env, err);
	if (ret < 0)
		return ret;
	vm->vcpu_count++;
	ret = vcpu_setup_cpuid(v, cpuid, err);
	if (ret < 0)
		return ret;
	halt_init(&v->halt, &vm->halt, &vm->poll_hooks, &v->wake, vm->env.tsc_khz);
	if (vm->halt_rings)
		halt_record(&v->halt, &vm->halt_trace, &vm->halt_rings[index]);
	return vm->chip_ops->vcpu_init(vm->chip, v, err);
}

/* KVM does not say whether it lets these accesses out, so the first vCPU tries. Once per VM; 1: the answer is not what
 * CPUID promised, build again. */
static int probe(struct lull_vm *vm, struct lull_error *err)
{
	bool tsc_deadline, x2apic;
	if (vm->probed || vm->chip_ops != &irqchip_user)
		return 0;
	int ret = vcpu_probe_msrs(&vm->vcpus[0], &tsc_deadline, &x2apic, err);
	if (ret < 0)
		return ret;
	vm->probed = true;
	bool promised_less = vm->x2apic <= x2apic && vm->tsc_deadline <= tsc_deadline;
	log_debug(&vm->log, "kvm: TSC-deadline writes %s, x2APIC accesses %s",
	          tsc_deadline ? "come out" : "are swallowed", x2apic ? "come out" : "do not come out");
	vm->x2apic = vm->x2apic && x2apic;
	vm->tsc_deadline = vm->tsc_deadline && tsc_deadline;
	return promised_less ? 0 : 1;
}

static int make_vcpus(struct lull_vm *vm, struct lull_error *err)
{
	const struct cpuid_options opt = {
		.vcpus = vm->config.vcpus,
		.kernel_irqchip = vm->chip_ops == &irqchip_kernel,
		.x2apic = vm->x2apic,
		.tsc_deadline = vm->tsc_deadline,
		.pv_eoi = !(vm->config.flags & LULL_NO_PV_EOI),
		.no_steal_time = vm->steal_mode == STEAL_OFF,
		.own_steal_time = vm->steal_mode == STEAL_VMM,
		.mwait = vm->config.flags & LULL_GUEST_MWAIT,
	};
	struct kvm_cpuid2 *cpuid = cpuid_make(&vm->kvm, &opt, err);
	if (!cpuid)
		return -ENOMEM;
	vm->vcpus = calloc(vm->config.vcpus, sizeof(vm->vcpus[0]));
	int ret = vm->vcpus ? 0 : error_set(err, -ENOMEM, "vcpus: out of memory");
	for (unsigned i = 0; i < vm->config.vcpus && ret == 0; i++) {
		ret = make_vcpu(vm, i, cpuid, err);
		if (i == 0 && ret == 0)
			ret = probe(vm, err);
	}
	free(cpuid);
	return ret;
}

/* Once: the rings go on over a reset. Here, because the clock of the trace is the TSC, whose rate KVM knows. */
static int open_trace(struct lull_vm *vm, struct lull_error *err)
{
	if (!vm->config.halt_trace || vm->halt_rings)
		return 0;
	uint64_t now_ns = clock_tsc_to_ns(clock_tsc(), vm->env.tsc_khz);
	int ret = trace_create(&vm->halt_trace, vm->config.halt_trace, vm->config.vcpus, TRACE_RECORDS, now_ns, NULL,
	                       "lull run", err);
	if (ret < 0)
		return ret;
	vm->halt_rings = calloc(vm->config.vcpus, sizeof(*vm->halt_rings));
	if (!vm->halt_rings)
		return error_set(err, -ENOMEM, "halt-trace: out of memory");
	for (unsigned i = 0; i < vm->config.vcpus; i++)
		vm->halt_rings[i] = trace_ring(&vm->halt_trace, i);
	return 0;
}

static int make_kvm(struct lull_vm *vm, struct lull_error *err)
{
	int ret = kvm_create_vm(&vm->kvm, err);
	if (ret < 0)
		return ret;
	vm->env = (struct vcpu_env){
		.kvm = &vm->kvm,
		.pio = &vm->board.pio,
		.mmio = &vm->board.mmio,
		.mem = &vm->mem,
		.log = &vm->log,
		.tsc_khz = kvm_tsc_khz(&vm->kvm),
		.kick_signal = vm->config.kick_signal,
		.ctx = vm,
		.end = on_vcpu_end,
		.dead = on_dead,
		.parked = on_parked,
		.finished = on_finished,
	};
	vm->env.steal = (struct steal_config){
		.mode = vm->steal_mode,
		.mem = &vm->mem,
		.thread = &vm->steal_thread,
		.log = &vm->log,
		.tsc_khz = vm->env.tsc_khz,
		.kick_signal = vm->config.kick_signal,
	};
	if (vm->chip_ops == &irqchip_kernel && kvm_check(&vm->kvm, KVM_CAP_TSC_DEADLINE_TIMER) <= 0)
		vm->tsc_deadline = false;
	ret = open_trace(vm, err);
	if (ret == 0 && vm->config.flags & LULL_GUEST_MWAIT) /* and nothing else: HLT is ours */
		ret = kvm_enable(&vm->kvm, KVM_CAP_X86_DISABLE_EXITS, KVM_X86_DISABLE_EXITS_MWAIT, err);
	if (ret < 0)
		return ret;
	ret = make_chip(vm, err);
	vm->env.chip = vm->chip;
	if (ret == 0)
		ret = kvm_map_memory(&vm->kvm, &vm->mem, err);
	if (ret == 0)
		ret = make_vcpus(vm, err);
	if (ret == 0)
		vm_halt_open(vm);
	return ret;
}

static uint64_t device_read(void *dev, uint64_t offset, unsigned size)
{
	const struct lull_device *d = &((struct vm_device *)dev)->config;
	return d->read ? d->read(d->ctx, offset, size) : ~0ull;
}

static void device_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	const struct lull_device *d = &((struct vm_device *)dev)->config;
	if (d->write)
		d->write(d->ctx, offset, size, value);
}

static const struct bus_ops device_ops = {.read = device_read, .write = device_write};

static int plug(struct lull_vm *vm, struct vm_device *d, struct lull_error *err)
{
	const struct lull_device *c = &d->config;
	const struct bus_region region = {d->name, c->base, c->length, c->widths, &device_ops, d};
	const struct machine_entry entry = {MACHINE_CUSTOM, d->name, c->is_mmio, c->base, c->length, c->gsi, true};
	int ret = machine_add(&vm->board.machine, &entry, err);
	if (ret < 0)
		return ret;
	ret = bus_add(c->is_mmio ? &vm->board.mmio : &vm->board.pio, &region, err);
	if (ret < 0)
		vm->board.machine.count--; /* a refused device leaves nothing behind */
	return ret;
}

static int make_board(struct lull_vm *vm, struct lull_error *err)
{
	const struct board_sink sink = {.request = on_board, .ctx = vm};
	int ret = mainboard_init(&vm->board, vm->config.vcpus, vm->config.ram_bytes, vm->chip, vm->chardev, &sink,
	                         &vm->log, err);
	const struct mainboard_hosts hosts = {
		.mem = &vm->mem,
		.loop = &vm->loop,
		.log = &vm->log,
		.poll_hooks = &vm->poll_hooks,
		.disks = vm->disks,
		.disk_count = vm->disk_count,
		.nets = vm->nets,
		.net_count = vm->net_count,
		.console = vm->console,
		.vsock = vm->vsock,
		.balloon = vm->balloon,
		.rng = !(vm->config.flags & LULL_NO_RNG),
	};
	if (ret == 0)
		ret = mainboard_plug_virtio(&vm->board, &hosts, vm->chip, err);
	for (unsigned i = 0; i < vm->device_count && ret == 0; i++)
		ret = plug(vm, &vm->devices[i], err);
	vm->board.machine.tsc_khz = vm->env.tsc_khz;
	vm->board.machine.cmdline = vm->config.cmdline;
	return ret;
}

static int load(struct lull_vm *vm, struct lull_error *err)
{
	const struct load_request req = {
		.kernel = &vm->kernel,
		.initrd = vm->config.initrd ? &vm->initrd : NULL,
		.cmdline = vm->config.cmdline,
		.machine = &vm->board.machine,
		.mem = &vm->mem,
		.flat = vm->config.flags & LULL_FORCE_FLAT,
		.flat_real_mode = vm->config.flags & LULL_FLAT_REAL_MODE,
		.flat_addr = vm->config.flat_addr,
	};
	int ret = load_kernel(&req, &vm->boot, err);
	if (ret < 0)
		return ret;
	vm->board.machine.initrd_base = vm->boot.initrd_base;
	vm->board.machine.initrd_bytes = vm->boot.initrd_bytes;
	return 0;
}

static int write_tables(struct lull_vm *vm, struct lull_error *err)
{
	int ret = boot_tables_write(&vm->board.machine, &vm->mem, err);
	if (ret == 0 && vm->boot.mode == BOOT_LONG)
		ret = vcpu_write_boot_tables(&vm->mem, err);
	return ret < 0 ? ret : vcpu_setup_boot(&vm->vcpus[0], &vm->boot, err);
}

int vm_build(struct lull_vm *vm, struct lull_error *err)
{
	uint64_t t0 = clock_ns();
	int ret = make_kvm(vm, err);
	if (ret == 1) { /* CPUID has to promise less, and KVM takes no second CPUID once a vCPU ran */
		vm_unbuild(vm);
		ret = make_kvm(vm, err);
	}
	uint64_t t1 = clock_ns();
	if (ret == 0)
		ret = make_board(vm, err);
	uint64_t t2 = clock_ns();
	if (ret == 0)
		ret = load(vm, err);
	uint64_t t3 = clock_ns();
	if (ret == 0)
		ret = write_tables(vm, err);
	uint64_t t4 = clock_ns();
	if (ret < 0) {
		vm_unbuild(vm);
		return ret;
	}
	vm->times.kvm_ns = t1 - t0;
	vm->times.board_ns = t2 - t1;
	vm->times.load_ns = t3 - t2;
	vm->times.tables_ns = t4 - t3;
	log_debug(&vm->log, "boot: %s, entry 0x%llx; KVM %llu us, loading %llu us, tables %llu us", vm->boot.protocol,
	          (unsigned long long)vm->boot.entry, (unsigned long long)(vm->times.kvm_ns / 1000),
	          (unsigned long long)(vm->times.load_ns / 1000), (unsigned long long)(vm->times.tables_ns / 1000));
	return 0;
}

void vm_unbuild(struct lull_vm *vm)
{
	mainboard_fini(&vm->board);
	steal_thread_stop(&vm->steal_thread);
	vm_halt_close(vm);
	while (vm->vcpu_count)
		vcpu_destroy(&vm->vcpus[--vm->vcpu_count]);
	free(vm->vcpus);
	vm->vcpus = NULL;
	if (vm->chip)
		vm->chip->ops->destroy(vm->chip);
	vm->chip = NULL;
	kvm_destroy_vm(&vm->kvm);
}

int vm_add_device(struct lull_vm *vm, const struct lull_device *device, struct lull_error *err)
{
	if (vm->device_count == VM_DEVICES_MAX)
		return error_set(err, -ENOSPC, "device %s: %u devices are the most a VM takes", device->name,
		                 VM_DEVICES_MAX);
	struct vm_device *d = &vm->devices[vm->device_count];
	*d = (struct vm_device){.config = *device, .name = strdup(device->name)};
	int ret = d->name ? plug(vm, d, err) : error_set(err, -ENOMEM, "device %s: out of memory", device->name);
	if (ret < 0) {
		free(d->name);
		return ret;
	}
	vm->device_count++;
	return 0;
}

/* ------------------------------------------------------------------------------- starting */

int vm_start_vcpus(struct lull_vm *vm, struct lull_error *err)
{
	bus_freeze(&vm->board.pio);
	bus_freeze(&vm->board.mmio);
	atomic_store(&vm->dead, 0);
	vm_halt_start(vm);
	/* One more than there are threads, so that the last of them does not report the end before all are started. */
	atomic_store(&vm->live, 1);
	int ret = 0;
	for (unsigned i = 0; i < vm->vcpu_count && ret == 0; i++) {
		const cpu_set_t *set = NULL;
		if (vm->affinity_count)
			set = &vm->affinity[i < vm->affinity_count ? i : vm->affinity_count - 1];
		if (vm->paused)
			atomic_fetch_or(&vm->vcpus[i].requests, VCPU_PAUSE);
		atomic_fetch_add(&vm->live, 1);
		ret = vcpu_start(&vm->vcpus[i], set, err);
		if (ret < 0 && !vm->vcpus[i].started)
			atomic_fetch_sub(&vm->live, 1);
	}
	if (ret < 0)
		for (unsigned i = 0; i < vm->vcpu_count; i++)
			vcpu_request(&vm->vcpus[i], VCPU_STOP);
	on_finished(vm);
	vm_dead_active(vm);
	return ret;
}
