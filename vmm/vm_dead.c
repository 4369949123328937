/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_dead.c - notices that no vCPU can ever run again: all halted with interrupts off or waiting for SIPI, and no
 * device can raise an NMI.
 *
 * user backend: every vCPU says so itself when it goes to sleep. Only when the last one does is a timer armed; it goes
 * off if nothing changes for dead_halt_ms. A running or idle guest costs nothing.
 *
 * kernel backend: KVM halts, and tells nobody. The I/O thread looks now and then: first at the CPU time of the vCPU
 * threads, and only if none of them ran, by asking each for its state. When all of them are halted, with interrupts on
 * but without a timer, nothing but an interrupt of ours can wake one: the looking ends until then. So an idle guest
 * without timers causes no wakeups here either.
 */
#include "vm.h"

#include "clock.h"
#include "error.h"
#include "ioapic.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ANSWER_MS 20 /* how long the vCPUs get to answer */

static void arm(struct lull_vm *vm, uint32_t ms)
{
	const struct itimerspec spec = {.it_value = {ms / 1000, (long)(ms % 1000) * 1000000}};
	timerfd_settime(vm->dead_timer.fd, 0, &spec, NULL);
}

void vm_dead_changed(struct lull_vm *vm, bool dead)
{
	if (!dead)
		atomic_fetch_sub(&vm->dead, 1);
	else if (atomic_fetch_add(&vm->dead, 1) + 1 == vm->config.vcpus)
		arm(vm, vm->config.dead_halt_ms); /* from now: an earlier expiry is put off */
}

void vm_dead_active(struct lull_vm *vm)
{
	if (vm->chip_ops != &irqchip_kernel)
		return;
	atomic_fetch_add(&vm->activity, 1);
	if (atomic_exchange(&vm->watching, true))
		return;
	arm(vm, vm->config.dead_halt_ms);
	vm_halt_active(vm);
}

static void end_dead(struct lull_vm *vm)
{
	vm_end(vm, LULL_EXIT_DEAD_HALT, 0, 0, "every vCPU is halted with interrupts off: nothing can wake the guest");
}

/* True when some vCPU thread used CPU time since the last look. */
static bool any_ran(struct lull_vm *vm)
{
	bool ran = false;
	for (unsigned i = 0; i < vm->vcpu_count; i++) {
		uint64_t ns = vcpu_cpu_ns(&vm->vcpus[i]);
		ran = ran || ns != vm->cpu_ns[i];
		vm->cpu_ns[i] = ns;
	}
	return ran;
}

static void ask(struct lull_vm *vm)
{
	vm->asked_activity = atomic_load(&vm->activity);
	for (unsigned i = 0; i < vm->vcpu_count; i++)
		vcpu_request(&vm->vcpus[i], VCPU_INSPECT);
}

/* Nothing to look for until an interrupt of ours goes in. One that slipped in since the question was asked counts. */
static void rest(struct lull_vm *vm)
{
	atomic_store(&vm->watching, false);
	if (atomic_load(&vm->activity) != vm->asked_activity)
		vm_dead_active(vm);
}

/* Takes the answers of the round before, then asks again if that is worth it. */
static void look(struct lull_vm *vm)
{
	uint32_t all = VCPU_INSPECT_DONE | VCPU_INSPECT_HALTED | VCPU_INSPECT_DEAF, any = 0;
	for (unsigned i = 0; i < vm->vcpu_count; i++) {
		uint32_t answer = atomic_exchange(&vm->vcpus[i].inspected, 0);
		all &= answer;
		any |= answer;
	}
	bool ran = any_ran(vm); /* answering counts as running */
	bool dead = (all & VCPU_INSPECT_HALTED) && (all & VCPU_INSPECT_DEAF) && !ioapic_has_nmi(vm->chip->ioapic);
	vm->dead_rounds = dead ? vm->dead_rounds + 1 : 0;
	/* The answers of one round are not of one instant: an NMI may have been on its way. So two rounds. */
	if (vm->dead_rounds == 2) {
		end_dead(vm);
		return;
	}
	if (!dead && (all & VCPU_INSPECT_HALTED) && !(any & VCPU_INSPECT_TIMER)) {
		rest(vm);
		return;
	}
	bool asks = dead || (!ran && !(all & VCPU_INSPECT_DONE));
	if (asks)
		ask(vm);
	/* In the worst case twice the interval and two rounds of answers: within a second at the default of 500 ms. */
	arm(vm, asks ? ANSWER_MS : vm->config.dead_halt_ms / 10 * 9 + 1);
}

/* A vCPU that something wakes counts as dead until its thread gets to run, which may be long: this process may have
 * been stopped, and the timer was not. */
static bool any_wakes(struct lull_vm *vm)
{
	for (unsigned i = 0; i < vm->vcpu_count; i++)
		if (vm->chip_ops->has_events(vm->chip, i))
			return true;
	return false;
}

static void on_timer(void *ctx, uint32_t events)
{
	struct lull_vm *vm = ctx;
	uint64_t count;
	(void)events;
	if (read(vm->dead_timer.fd, &count, sizeof(count)) < 0 || !vm->chip)
		return;
	vm_halt_look(vm);
	if (vm->chip_ops == &irqchip_kernel)
		look(vm);
	else if (atomic_load(&vm->dead) != vm->config.vcpus || ioapic_has_nmi(vm->chip->ioapic))
		return;
	else if (any_wakes(vm))
		arm(vm, vm->config.dead_halt_ms);
	else
		end_dead(vm);
}

int vm_dead_init(struct lull_vm *vm, struct lull_error *err)
{
	vm->dead_timer = (struct event_source){.fn = on_timer, .ctx = vm};
	vm->dead_timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (vm->dead_timer.fd < 0)
		return error_sys(err, -errno, "timerfd");
	vm->cpu_ns = calloc(vm->config.vcpus, sizeof(*vm->cpu_ns));
	if (!vm->cpu_ns)
		return error_set(err, -ENOMEM, "vcpus: out of memory");
	return event_loop_set(&vm->loop, &vm->dead_timer, EPOLLIN);
}

void vm_dead_fini(struct lull_vm *vm)
{
	if (vm->dead_timer.fd >= 0)
		close(vm->dead_timer.fd);
	free(vm->cpu_ns);
}
