/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_halt.c - kernel backend: KVM halts and polls, and --halt-poll says how far, by the limit of its poll window
 * (KVM_CAP_HALT_POLL of the VM, which may be set while vCPUs run). For the policy `cost` the limit follows what KVM's
 * statistics show (halt_kernel.c); off switch, power policy and budget make it 0 while they forbid polling. The guest's
 * poll control KVM honours by itself (what is written there comes by us, so it is known), and it stops polling when
 * another task wants the CPU.
 *
 * The I/O thread looks at the statistics every 10 to 100 ms while vCPUs halt often. When they do not, it stops: then
 * the looks of vm_dead.c, which end when the guest is at rest, tell whether that has changed.
 */
#include "vm_halt.h"

#include "vm.h"

#include "clock.h"
#include "error.h"
#include "text_file.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PERIOD_MIN_NS  10000000u
#define PERIOD_MAX_NS  100000000u
#define ACTIVE_PER_S   100 /* halts a second, below which their cost is not worth a look */
#define QUIET_LOOKS    10  /* looks without a halt, after which a budget is not watched any more */
#define WAKES_FIRST    8
#define WAKE_PRESET_NS 10000 /* as in policy_cost.c, until the timer has shown it */

/* ------------------------------------------------------------------------------------ the timer */

static void set_timer(struct vm_halt *h, uint64_t ns)
{
	const struct itimerspec spec = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
	atomic_store(&h->due_ns, ns ? clock_ns() + ns : 0);
	timerfd_settime(h->timer.fd, 0, &spec, NULL);
}

/* How late this thread woke up for its timer is how late a vCPU does. A busy CPU makes it too long now and then,
 * nothing makes it too short: so it follows quickly down and, but for the first few times, slowly up. */
static void learn_wake(struct vm_halt *h, uint64_t late_ns)
{
	if (late_ns < h->wake_ns)
		h->wake_ns -= (h->wake_ns - late_ns) / 4;
	else
		h->wake_ns += policy_min(late_ns - h->wake_ns, h->wake_ns) / (h->wakes < WAKES_FIRST ? 1 : 16);
	h->wakes += h->wakes < WAKES_FIRST;
	if (h->governs)
		halt_kernel_wake(&h->governor, h->wake_ns);
}

/* ------------------------------------------------------------------------------------ permission */

/* The CPU that a thread ran on last, field 39 of its stat file; -1: not known. */
static int cpu_of(int tid)
{
	char text[1024];
	text_file_head(text, sizeof(text), "/proc/self/task/%d/stat", tid);
	const char *at = strrchr(text, ')'); /* the end of field 2, which may contain anything */
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at) : -1;
}

/* One limit for all: a single CPU that should save power is enough. */
static bool saves_power(struct lull_vm *vm, uint64_t now)
{
	struct vm_halt *h = &vm->kernel_halt;
	if (h->config.power == POWER_IGNORE || now < h->power_next_ns)
		return h->saves_power;
	bool known = true;
	h->saves_power = false;
	for (unsigned i = 0; i < vm->vcpu_count && !h->saves_power; i++) {
		int cpu = cpu_of(atomic_load(&vm->vcpus[i].tid));
		known = known && cpu >= 0;
		h->saves_power = power_saves(&h->power, cpu, now, now); /* KVM may have polled all the time */
	}
	if (known) /* else a thread has not begun yet */
		h->power_next_ns = now + POWER_PERIOD_NS;
	return h->saves_power;
}

static bool has_budget(const struct lull_vm *vm)
{
	const struct halt_config *c = &vm->kernel_halt.config;
	return c->vcpu_budget_percent || c->vm_budget_percent;
}

/* What nobody watches counts as spent: KVM could poll until the next look, and that may be far. */
static bool budget_is_spent(struct lull_vm *vm, uint64_t now)
{
	struct vm_halt *h = &vm->kernel_halt;
	bool spent = (has_budget(vm) && h->quiet_looks >= QUIET_LOOKS) || budget_left(&vm->halt.vm_budget, now) == 0;
	for (unsigned i = 0; i < h->count; i++)
		spent = budget_left(&h->vcpus[i].budget, now) == 0 || spent;
	return spent;
}

static enum halt_refusal refusal(struct lull_vm *vm, uint64_t now)
{
	const struct vm_halt *h = &vm->kernel_halt;
	if (!h->governs && !h->wanted_ns)
		return HALT_REFUSALS; /* nobody wants to poll: no need to ask */
	if (atomic_load(&vm->halt.off))
		return HALT_REFUSED_OFF;
	if (budget_is_spent(vm, now))
		return HALT_REFUSED_BUDGET;
	return saves_power(vm, now) ? HALT_REFUSED_POWER : HALT_REFUSALS;
}

/* ------------------------------------------------------------------------------------ the limit */

static void apply(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	uint64_t ns = h->refused == HALT_REFUSALS ? h->wanted_ns : 0;
	ns = policy_min(policy_min(ns, atomic_load(&vm->halt.max_ns)), UINT32_MAX); /* KVM takes 32 bits */
	if (ns == h->limit_ns || !h->has_limit)
		return;
	if (kvm_enable(&vm->kvm, KVM_CAP_HALT_POLL, ns, NULL) == 0)
		h->limit_ns = ns;
}

/* Why this vCPU was not allowed to poll. KVM asks the guest's poll control by itself; here it is only known. */
static enum halt_refusal vcpu_refusal(const struct lull_vm *vm, unsigned index)
{
	const struct vm_halt *h = &vm->kernel_halt;
	bool guest_allows = atomic_load(&vm->vcpus[index].halt.guest_allows);
	bool is_asked = (h->governs || h->wanted_ns) && h->refused != HALT_REFUSED_OFF;
	return is_asked && !guest_allows ? HALT_REFUSED_GUEST : h->refused;
}

/* Adds up what the vCPUs did since the last look, and books it. */
static void take_stock(struct lull_vm *vm, struct kvm_halt_stats *sum)
{
	struct vm_halt *h = &vm->kernel_halt;
	memset(sum, 0, sizeof(*sum));
	for (unsigned i = 0; i < h->count; i++) {
		struct vm_halt_vcpu *v = &h->vcpus[i];
		struct kvm_halt_stats now, since;
		if (!kvm_stats_read(&v->file, &now))
			continue;
		kvm_halt_stats_since(&since, &now, &v->last);
		v->last = now;
		budget_spend(&v->budget, since.poll_success_ns + since.poll_fail_ns);
		budget_spend(&vm->halt.vm_budget, since.poll_success_ns + since.poll_fail_ns);
		enum halt_refusal why = vcpu_refusal(vm, i);
		if (why != HALT_REFUSALS)
			v->refused[why] += kvm_halt_stats_halts(&since);
		if (why != HALT_REFUSED_GUEST) /* its halts do not depend on the limit */
			kvm_halt_stats_add(sum, &since);
	}
}

static void decide(struct lull_vm *vm, const struct kvm_halt_stats *since, bool active)
{
	struct vm_halt *h = &vm->kernel_halt;
	uint64_t before = h->wanted_ns;
	if (!h->governs)
		return;
	/* Under another limit than the wanted one nothing is learned. */
	if (!active || h->refused != HALT_REFUSALS || h->limit_ns != h->wanted_ns)
		h->wanted_ns = halt_kernel_rest(&h->governor);
	else
		h->wanted_ns = halt_kernel_step(&h->governor, since);
	bool steady = h->wanted_ns == before && !halt_kernel_is_trying(&h->governor) && h->wakes == WAKES_FIRST;
	h->period_ns = steady ? policy_min(2 * h->period_ns, PERIOD_MAX_NS) : PERIOD_MIN_NS;
}

static void look(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	uint64_t now = clock_ns(), passed = now - h->last_ns;
	struct kvm_halt_stats since;
	h->last_ns = now;
	take_stock(vm, &since);
	bool active = kvm_halt_stats_halts(&since) * 1000000000 >= passed * ACTIVE_PER_S;
	h->quiet_looks = kvm_halt_stats_halts(&since) ? 0 : h->quiet_looks + (h->quiet_looks < QUIET_LOOKS);
	decide(vm, &since, active);
	h->refused = refusal(vm, now);
	apply(vm);
	uint64_t next = h->governs && active && h->refused == HALT_REFUSALS ? h->period_ns : 0;
	if (has_budget(vm) && h->quiet_looks < QUIET_LOOKS && atomic_load(&h->watches))
		next = PERIOD_MIN_NS;
	set_timer(h, next);
}

static void on_timer(void *ctx, uint32_t events)
{
	struct lull_vm *vm = ctx;
	struct vm_halt *h = &vm->kernel_halt;
	uint64_t count, now = clock_ns(), due = atomic_exchange(&h->due_ns, 0);
	(void)events;
	if (read(h->timer.fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&vm->lock);
	if (due && now > due)
		learn_wake(h, now - due);
	if (vm->state == VM_RUNNING && !vm->ending)
		look(vm);
	pthread_mutex_unlock(&vm->lock);
}

/* ------------------------------------------------------------------------------------ configuration */

static void take_up_config(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	pthread_mutex_lock(&vm->halt.lock);
	h->config = vm->halt.config;
	h->generation = atomic_load(&vm->halt.generation);
	pthread_mutex_unlock(&vm->halt.lock);
	power_init(&h->power, h->config.power, vm->halt.sysfs);
	h->power_next_ns = 0;
	h->saves_power = false;
	h->wanted_ns = halt_kernel_limit(&h->config.policy, &h->governs);
	h->period_ns = PERIOD_MIN_NS;
	atomic_store(&h->watches, h->governs || (h->wanted_ns && has_budget(vm)));
	if (!h->governs)
		return;
	halt_kernel_init(&h->governor, &h->config.policy, &h->rule);
	halt_kernel_wake(&h->governor, h->wake_ns);
	h->wanted_ns = halt_kernel_rest(&h->governor);
}

static bool is_ours(const struct lull_vm *vm)
{
	return vm->chip_ops == &irqchip_kernel;
}

static void reconsider(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	if (h->generation != atomic_load(&vm->halt.generation))
		take_up_config(vm);
	h->quiet_looks = 0;
	h->refused = refusal(vm, clock_ns());
	apply(vm);
	if (atomic_load(&h->watches) && vm->state == VM_RUNNING)
		set_timer(h, PERIOD_MIN_NS);
}

void vm_halt_changed(struct lull_vm *vm)
{
	if (!is_ours(vm))
		return;
	pthread_mutex_lock(&vm->lock);
	if (vm->chip)
		reconsider(vm);
	pthread_mutex_unlock(&vm->lock);
}

void vm_halt_active(struct lull_vm *vm)
{
	if (is_ours(vm) && atomic_load(&vm->kernel_halt.watches))
		set_timer(&vm->kernel_halt, PERIOD_MIN_NS);
}

void vm_halt_look(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	if (!is_ours(vm) || atomic_load(&h->due_ns))
		return;
	pthread_mutex_lock(&vm->lock);
	if (vm->state == VM_RUNNING && !vm->ending && (h->governs || h->wanted_ns))
		look(vm);
	pthread_mutex_unlock(&vm->lock);
}

/* ------------------------------------------------------------------------------------ life */

static uint32_t parameter(const struct lull_vm *vm, const char *name, uint32_t otherwise)
{
	char text[32];
	if (!text_file_head(text, sizeof(text), "%s/module/kvm/parameters/%s", vm->halt.sysfs, name))
		return otherwise;
	return (uint32_t)strtoul(text, NULL, 10);
}

static void open_file(struct lull_vm *vm, unsigned index)
{
	struct vm_halt_vcpu *v = &vm->kernel_halt.vcpus[index];
	int fd = kvm_stats_fd(vm->vcpus[index].fd);
	int ret = fd < 0 ? fd : kvm_stats_open(&v->file, fd);
	budget_init(&v->budget, vm->halt.config.vcpu_budget_percent);
	if (ret == 0)
		return;
	v->file.fd = -1;
	log_info(&vm->log, "vcpu %u: no statistics of halts from KVM (%s): --halt-poll cost keeps one limit", index,
	         strerror(-ret));
}

void vm_halt_open(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	if (!is_ours(vm))
		return;
	h->has_limit = kvm_check(&vm->kvm, KVM_CAP_HALT_POLL) > 0;
	if (!h->has_limit)
		log_info(&vm->log,
		         "kvm: no KVM_CAP_HALT_POLL: its parameter halt_poll_ns counts, and --halt-poll does not");
	h->rule.grow = parameter(vm, "halt_poll_ns_grow", 2);
	h->rule.start_ns = parameter(vm, "halt_poll_ns_grow_start", 10000);
	h->rule.shrink = parameter(vm, "halt_poll_ns_shrink", 2);
	h->vcpus = calloc(vm->vcpu_count, sizeof(*h->vcpus));
	h->count = h->vcpus ? vm->vcpu_count : 0;
	for (unsigned i = 0; i < h->count; i++)
		open_file(vm, i);
	h->limit_ns = UINT64_MAX; /* KVM's own, until we set one */
	h->generation = 0;
}

void vm_halt_start(struct lull_vm *vm)
{
	if (!is_ours(vm))
		return;
	vm->kernel_halt.last_ns = clock_ns();
	reconsider(vm);
}

void vm_halt_close(struct lull_vm *vm)
{
	struct vm_halt *h = &vm->kernel_halt;
	while (h->count)
		kvm_stats_close(&h->vcpus[--h->count].file);
	free(h->vcpus);
	h->vcpus = NULL;
}

int vm_halt_init(struct lull_vm *vm, struct lull_error *err)
{
	struct vm_halt *h = &vm->kernel_halt;
	h->wake_ns = WAKE_PRESET_NS;
	if (!is_ours(vm))
		return 0;
	h->timer = (struct event_source){.fn = on_timer, .ctx = vm};
	h->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (h->timer.fd < 0)
		return error_sys(err, -errno, "timerfd");
	return event_loop_set(&vm->loop, &h->timer, EPOLLIN);
}

void vm_halt_fini(struct lull_vm *vm)
{
	if (vm->kernel_halt.timer.fd >= 0)
		close(vm->kernel_halt.timer.fd);
}

/* ------------------------------------------------------------------------------------ statistics */

_Static_assert(KVM_STATS_BUCKETS == LULL_HIST_BUCKETS, "the same rule");

void vm_halt_stats(const struct lull_vm *vm, unsigned index, struct lull_vcpu_stats *s)
{
	const struct vm_halt *h = &vm->kernel_halt;
	struct kvm_halt_stats k;
	if (!is_ours(vm) || index >= h->count)
		return;
	kvm_stats_read(&h->vcpus[index].file, &k);
	s->halts = kvm_halt_stats_halts(&k);
	s->halt_attempted_poll = k.attempted_poll;
	s->halt_successful_poll = k.successful_poll;
	s->halt_poll_invalid = k.poll_invalid;
	s->halt_wakeup = k.wakeup;
	s->halt_poll_success_ns = k.poll_success_ns;
	s->halt_poll_fail_ns = k.poll_fail_ns;
	s->halt_poll_ns = k.poll_success_ns + k.poll_fail_ns;
	s->halt_wait_ns = k.wait_ns;
	memcpy(s->halt_poll_success_hist, k.poll_success_hist, sizeof(k.poll_success_hist));
	memcpy(s->halt_poll_fail_hist, k.poll_fail_hist, sizeof(k.poll_fail_hist));
	memcpy(s->halt_wait_hist, k.wait_hist, sizeof(k.wait_hist));
	for (unsigned i = 0; i < HALT_REFUSALS; i++)
		s->poll_refused[i] = h->vcpus[index].refused[i];
	s->window_ns = h->limit_ns == UINT64_MAX ? 0 : h->limit_ns;
	s->wake_cost_ns = h->governs ? (uint64_t)h->governor.wake_ns : 0;
}
