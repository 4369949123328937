/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - lull.h: size rules, defaults and locking around vm.h. */
#include "api.h"
#include "vm.h"

#include "acpi_pm.h"
#include "balloon_host.h"
#include "disk_file.h"
#include "error.h"
#include "ioapic.h"
#include "net_host.h"
#include "util.h"
#include "virtio_balloon.h"
#include "vsock_host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define DEFAULT_RAM          MiB(256)
#define DEFAULT_DEAD_HALT_MS 500

/* Copies a caller's structure of any version into ours: what it does not have is 0, what we do not know must be 0. */
static int import(void *dst, size_t dst_size, const void *src, uint32_t src_size, const char *what,
                  struct lull_error *err)
{
	if (src_size < sizeof(uint32_t))
		return error_set(err, -EINVAL, "%s: its size is %u; set it to sizeof the structure", what, src_size);
	for (size_t i = dst_size; i < src_size; i++)
		if (((const uint8_t *)src)[i])
			return error_set(err, -E2BIG, "%s: uses fields that this version of lull does not know", what);
	memset(dst, 0, dst_size);
	memcpy(dst, src, src_size < dst_size ? src_size : dst_size);
	return 0;
}

/* The other way: as much as the caller has room for, its size stays. */
static int export(void *dst, const void *src, size_t src_size)
{
	uint32_t room = *(const uint32_t *)dst;
	if (room < sizeof(uint32_t))
		return -EINVAL;
	size_t bytes = room < src_size ? room : src_size;
	memcpy((uint8_t *)dst + sizeof(room), (const uint8_t *)src + sizeof(room), bytes - sizeof(room));
	if (room > bytes)
		memset((uint8_t *)dst + bytes, 0, room - bytes);
	return 0;
}

int api_import_config(struct lull_config *dst, const struct lull_config *src, struct lull_error *err)
{
	if (!src)
		return error_set(err, -EINVAL, "configuration: none given");
	int ret = import(dst, sizeof(*dst), src, src->size, "configuration", err);
	if (ret < 0)
		return ret;
	dst->vcpus = dst->vcpus ? dst->vcpus : 1;
	dst->ram_bytes = dst->ram_bytes ? dst->ram_bytes : DEFAULT_RAM;
	dst->dead_halt_ms = dst->dead_halt_ms ? dst->dead_halt_ms : DEFAULT_DEAD_HALT_MS;
	dst->kick_signal = dst->kick_signal ? dst->kick_signal : SIGRTMIN + 5;
	return 0;
}

struct lull_vm *lull_vm_create(const struct lull_config *config, struct lull_error *err)
{
	struct lull_config full;
	return api_import_config(&full, config, err) < 0 ? NULL : vm_create(&full, err);
}

int lull_vm_start(struct lull_vm *vm, struct lull_error *err)
{
	return vm_start(vm, err);
}

int lull_vm_wait(struct lull_vm *vm, int64_t timeout_ns, struct lull_exit *out, struct lull_error *err)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	if (timeout_ns > 0) {
		until.tv_sec += (time_t)(timeout_ns / 1000000000);
		until.tv_nsec += (long)(timeout_ns % 1000000000);
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	}
	int ret = 0;
	pthread_mutex_lock(&vm->lock);
	if (vm->state == VM_CREATED)
		ret = error_set(err, -EINVAL, "this VM was not started");
	while (ret == 0 && vm->state == VM_RUNNING) {
		if (timeout_ns < 0)
			pthread_cond_wait(&vm->changed, &vm->lock);
		else if (timeout_ns == 0 || pthread_cond_timedwait(&vm->changed, &vm->lock, &until) == ETIMEDOUT)
			ret = vm->state == VM_RUNNING ? error_set(err, -ETIMEDOUT, "the VM still runs") : 0;
	}
	struct lull_exit exit = vm->exit;
	pthread_mutex_unlock(&vm->lock);
	if (ret < 0 || !out)
		return ret;
	ret = export(out, &exit, sizeof(exit));
	return ret < 0 ? error_set(err, ret, "exit: its size is not set") : 0;
}

int lull_vm_event_fd(const struct lull_vm *vm)
{
	return vm->event_fd;
}

void lull_vm_stop(struct lull_vm *vm)
{
	vm_end(vm, LULL_EXIT_STOPPED, 0, 0, "");
}

int lull_vm_pause(struct lull_vm *vm)
{
	return vm_pause(vm);
}

int lull_vm_resume(struct lull_vm *vm)
{
	return vm_resume(vm);
}

void lull_vm_reset(struct lull_vm *vm)
{
	vm_end(vm, LULL_EXIT_RESET, 0, 0, "");
}

void lull_vm_power_button(struct lull_vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	if (vm->state == VM_RUNNING && vm->board.pm)
		acpi_pm_power_button(vm->board.pm);
	pthread_mutex_unlock(&vm->lock);
}

void lull_vm_nmi(struct lull_vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	if (vm->state == VM_RUNNING && vm->chip)
		vm->chip->ops->nmi(vm->chip, 0);
	pthread_mutex_unlock(&vm->lock);
}

void lull_vm_destroy(struct lull_vm *vm)
{
	vm_destroy(vm);
}

int lull_vm_set_halt_poll(struct lull_vm *vm, const char *halt_poll, struct lull_error *err)
{
	struct halt_config config;
	int ret = vm_halt_config(vm, halt_poll, &config, err);
	if (ret == 0)
		halt_shared_set(&vm->halt, &config);
	if (ret == 0)
		vm_halt_changed(vm);
	return ret;
}

void lull_vm_allow_polling(struct lull_vm *vm, bool allow)
{
	atomic_store(&vm->halt.off, !allow);
	vm_halt_changed(vm);
}

int lull_vm_set_balloon(struct lull_vm *vm, uint64_t bytes, struct lull_error *err)
{
	if (!vm->balloon)
		return error_set(err, -ENODEV, "balloon: this VM was made without one");
	pthread_mutex_lock(&vm->lock); /* a reset makes the board anew */
	int ret = balloon_host_set_target(vm->balloon, bytes, err);
	if (ret == 0 && vm->board.balloon)
		virtio_balloon_retarget(vm->board.balloon);
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

int lull_vm_vcpu_tid(const struct lull_vm *vm, uint32_t vcpu)
{
	struct lull_vm *locked = (struct lull_vm *)(uintptr_t)vm;
	int tid = -1;
	pthread_mutex_lock(&locked->lock);
	if (vcpu < vm->vcpu_count)
		tid = atomic_load(&vm->vcpus[vcpu].tid);
	pthread_mutex_unlock(&locked->lock);
	return tid > 0 ? tid : -ESRCH;
}

const char *lull_vm_serial_path(const struct lull_vm *vm)
{
	return chardev_path(vm->chardev);
}

const char *lull_vm_console_path(const struct lull_vm *vm)
{
	return vm->console ? chardev_path(vm->console) : "";
}

const char *lull_vm_net_interface(const struct lull_vm *vm, uint32_t net)
{
	return net < vm->net_count ? vm->nets[net]->interface : "";
}

/* ------------------------------------------------------------------------------- statistics */

int lull_vm_stats(const struct lull_vm *vm, struct lull_stats *out)
{
	struct lull_vm *locked = (struct lull_vm *)(uintptr_t)vm;
	pthread_mutex_lock(&locked->lock); /* a reset makes the board anew */
	struct lull_stats s = {
		.vcpus = vm->config.vcpus,
		.boots = vm->boots,
		.serial_dropped = chardev_dropped(vm->chardev),
		.unclaimed_io = atomic_load(&vm->board.pio.unclaimed),
		.unclaimed_mmio = atomic_load(&vm->board.mmio.unclaimed),
		.ram_bytes = vm->config.ram_bytes,
		.setup_kvm_ns = vm->times.kvm_ns,
		.setup_memory_ns = vm->times.memory_ns,
		.setup_load_ns = vm->times.load_ns,
		.setup_tables_ns = vm->times.tables_ns,
		.setup_total_ns = vm->times.total_ns,
		.console_dropped = vm->console ? chardev_dropped(vm->console) : 0,
		.setup_devices_ns = vm->times.hosts_ns + vm->times.board_ns,
	};
	pthread_mutex_unlock(&locked->lock);
	return export(out, &s, sizeof(s));
}

int lull_vm_disk_stats(const struct lull_vm *vm, uint32_t disk, struct lull_disk_stats *out)
{
	if (disk >= vm->disk_count)
		return -EINVAL;
	const struct disk_file *f = vm->disks[disk];
	const struct lull_disk_stats s = {
		.uses_io_uring = atomic_load(&f->uses_io_uring),
		.bytes = f->bytes,
		.requests = atomic_load(&f->requests),
		.errors = atomic_load(&f->errors),
		.inline_done = atomic_load(&f->inline_done),
	};
	return export(out, &s, sizeof(s));
}

int lull_vm_net_stats(const struct lull_vm *vm, uint32_t net, struct lull_net_stats *out)
{
	if (net >= vm->net_count)
		return -EINVAL;
	const struct net_host *h = vm->nets[net];
	const struct lull_net_stats s = {
		.link_is_up = !atomic_load(&h->gone),
		.rx_frames = atomic_load(&h->rx.frames),
		.rx_bytes = atomic_load(&h->rx.bytes),
		.rx_dropped = atomic_load(&h->rx.dropped),
		.rx_waits = atomic_load(&h->rx.waits),
		.tx_frames = atomic_load(&h->tx.frames),
		.tx_bytes = atomic_load(&h->tx.bytes),
		.tx_dropped = atomic_load(&h->tx.dropped),
		.tx_waits = atomic_load(&h->tx.waits),
	};
	return export(out, &s, sizeof(s));
}

int lull_vm_vsock_stats(const struct lull_vm *vm, struct lull_vsock_stats *out)
{
	if (!vm->vsock)
		return -EINVAL;
	const struct vsock_counters *c = &vm->vsock->counters;
	const struct lull_vsock_stats s = {
		.connections = atomic_load(&c->now),
		.opened = atomic_load(&c->opened),
		.refused = atomic_load(&c->refused),
		.resets = atomic_load(&c->resets),
		.to_guest = atomic_load(&c->to_guest),
		.from_guest = atomic_load(&c->from_guest),
		.waits = atomic_load(&c->waits),
	};
	return export(out, &s, sizeof(s));
}

_Static_assert(BALLOON_STATS == LULL_BALLOON_STATS, "the tags of the balloon's statistics are those of lull.h");

int lull_vm_balloon_stats(const struct lull_vm *vm, struct lull_balloon_stats *out)
{
	const struct balloon_host *h = vm->balloon;
	if (!h)
		return -ENODEV;
	struct lull_balloon_stats s = {
		.guest_has = atomic_load(&h->guest_has),
		.target_bytes = (uint64_t)atomic_load(&h->target_pages) * BALLOON_PAGE,
		.actual_bytes = (uint64_t)atomic_load(&h->actual_pages) * BALLOON_PAGE,
		.inflated_bytes = atomic_load(&h->inflated_pages) * BALLOON_PAGE,
		.deflated_bytes = atomic_load(&h->deflated_pages) * BALLOON_PAGE,
		.reported_bytes = atomic_load(&h->reported_pages) * BALLOON_PAGE,
		.ignored_pages = atomic_load(&h->ignored_pages),
		.failures = atomic_load(&h->failed),
		.guest_updates = atomic_load(&h->guest_updates),
	};
	for (unsigned i = 0; i < BALLOON_STATS; i++)
		s.guest[i] = s.guest_has >> i & 1 ? atomic_load(&h->guest[i]) : 0;
	return export(out, &s, sizeof(s));
}

static void read_hist(const stat_t *from, uint64_t *to)
{
	for (unsigned i = 0; i < HALT_BUCKETS; i++)
		to[i] = stat_get(&from[i]);
}

static void read_halt(const struct halt_stats *h, struct lull_vcpu_stats *s)
{
	s->halts = stat_get(&h->halts);
	s->halt_attempted_poll = stat_get(&h->attempted_poll);
	s->halt_successful_poll = stat_get(&h->successful_poll);
	s->halt_poll_invalid = stat_get(&h->poll_invalid);
	s->halt_wakeup = stat_get(&h->wakeup);
	s->halt_poll_success_ns = stat_get(&h->poll_success_ns);
	s->halt_poll_fail_ns = stat_get(&h->poll_fail_ns);
	s->halt_poll_ns = s->halt_poll_success_ns + s->halt_poll_fail_ns;
	s->halt_wait_ns = stat_get(&h->wait_ns);
	s->poll_gaps = stat_get(&h->gaps);
	s->prewakes = stat_get(&h->prewakes);
	s->window_ns = stat_get(&h->window_ns);
	s->wake_cost_ns = stat_get(&h->wake_cost_ns);
	read_hist(h->poll_success_hist, s->halt_poll_success_hist);
	read_hist(h->poll_fail_hist, s->halt_poll_fail_hist);
	read_hist(h->wait_hist, s->halt_wait_hist);
	read_hist(h->latency_hist, s->wake_latency_hist);
	for (unsigned i = 0; i < HALT_REFUSALS; i++)
		s->poll_refused[i] = stat_get(&h->refused[i]);
}

static void read_vcpu(const struct vcpu *v, struct lull_vcpu_stats *s)
{
	const struct vcpu_counters *c = &v->count;
	*s = (struct lull_vcpu_stats){
		.vcpu = v->index,
		.exits = stat_get(&c->exits),
		.exits_io = stat_get(&c->io),
		.exits_mmio = stat_get(&c->mmio),
		.exits_msr = stat_get(&c->msr),
		.exits_halt = stat_get(&c->halt),
		.exits_irq_window = stat_get(&c->irq_window),
		.exits_signal = stat_get(&c->signal),
		.exits_other = stat_get(&c->other),
		.irqs_injected = stat_get(&c->irqs_injected),
		.eois_saved = stat_get(&c->eois_saved),
		.kicks = stat_get(&c->kicks),
	};
	read_halt(&v->halt.stats, s);
	s->poll_control = atomic_load(&v->halt.guest_allows);
	s->steal_ns = stat_get(&v->steal.stats.told_ns);
	s->preempted_flags = stat_get(&v->steal.stats.flagged);
	s->cpu_ns = vcpu_cpu_ns(v);
	for (unsigned i = 0; i < WAKE_CAUSES; i++) {
		const struct halt_wake_stats *w = &v->halt.stats.sources[i];
		s->wake[i] = (struct lull_wake_stats){stat_get(&w->wakes), stat_get(&w->polled), stat_get(&w->slept),
		                                      stat_get(&w->latency_ns), stat_get(&w->latency_max_ns)};
	}
}

_Static_assert((int)HALT_REFUSALS == (int)LULL_REFUSALS && (int)HALT_REFUSED_POLLERS == (int)LULL_REFUSED_POLLERS &&
                       HALT_BUCKETS == LULL_HIST_BUCKETS,
               "enum halt_refusal and enum lull_refusal name the same reasons in the same order");
_Static_assert((int)WAKE_CAUSES == (int)LULL_WAKE_SOURCES && (int)WAKE_INLINE == (int)LULL_WAKE_INLINE,
               "enum wake_cause and enum lull_wake_source name the same sources in the same order");

int lull_vm_vcpu_stats(const struct lull_vm *vm, uint32_t vcpu, struct lull_vcpu_stats *out)
{
	struct lull_vm *locked = (struct lull_vm *)(uintptr_t)vm;
	struct lull_vcpu_stats s;
	pthread_mutex_lock(&locked->lock);
	bool there = vcpu < vm->vcpu_count;
	if (there) {
		read_vcpu(&vm->vcpus[vcpu], &s);
		vm_halt_stats(vm, vcpu, &s);
	}
	pthread_mutex_unlock(&locked->lock);
	return there ? export(out, &s, sizeof(s)) : -ESRCH;
}

/* --------------------------------------------------------------------------- custom devices */

int lull_vm_add_device(struct lull_vm *vm, const struct lull_device *device, struct lull_error *err)
{
	struct lull_device full = {0};
	if (!device)
		return error_set(err, -EINVAL, "device: none given");
	int ret = import(&full, sizeof(full), device, device->size, "device", err);
	if (ret < 0)
		return ret;
	if (!full.name || !*full.name)
		return error_set(err, -EINVAL, "device: it has no name");
	pthread_mutex_lock(&vm->lock);
	if (vm->state != VM_CREATED)
		ret = error_set(err, -EBUSY, "device %s: the VM was started already", full.name);
	else
		ret = vm_add_device(vm, &full, err);
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

int lull_vm_set_irq(struct lull_vm *vm, uint32_t gsi, bool level)
{
	if (gsi >= IOAPIC_PINS)
		return -EINVAL;
	pthread_mutex_lock(&vm->lock);
	int ret = vm->chip ? 0 : -ESRCH;
	if (ret == 0)
		ioapic_set_pin(vm->chip->ioapic, gsi, level);
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

int lull_vm_msi(struct lull_vm *vm, uint64_t address, uint32_t data)
{
	const struct msi_msg msg = {.address = address, .data = data};
	pthread_mutex_lock(&vm->lock);
	int ret = vm->chip ? 0 : -ESRCH;
	if (ret == 0)
		vm->chip->ops->msi(vm->chip, &msg);
	pthread_mutex_unlock(&vm->lock);
	return ret;
}

void *lull_vm_memory(struct lull_vm *vm, uint64_t gpa_value, uint64_t bytes)
{
	return guest_mem_at(&vm->mem, gpa(gpa_value), bytes);
}

extern const uint8_t lull_demo_start[], lull_demo_end[];

const void *lull_demo_image(size_t *bytes)
{
	*bytes = (uintptr_t)lull_demo_end - (uintptr_t)lull_demo_start;
	return lull_demo_start;
}

const char *lull_version(void)
{
	return LULL_VERSION;
}
