/* SPDX-License-Identifier: Apache-2.0 */
/* vm_halt.h - kernel backend: how far KVM may poll when the guest halts, and what KVM counted. */
#ifndef LULL_VM_HALT_H
#define LULL_VM_HALT_H

#include "budget.h"
#include "event_loop.h"
#include "halt.h"
#include "halt_kernel.h"
#include "kvm_stats.h"
#include "power.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lull_error;
struct lull_vcpu_stats;
struct lull_vm;

struct vm_halt_vcpu {
	struct kvm_stats file;
	struct kvm_halt_stats last; /* at the last look */
	struct budget budget;
	uint64_t refused[HALT_REFUSALS]; /* halts while the limit was 0 for that reason */
};

/* Part of struct lull_vm; under its lock, unless said otherwise. */
struct vm_halt {
	struct event_source timer; /* timerfd: the next look */
	_Atomic uint64_t due_ns;   /* what it is set to, 0: nothing we know of. Any thread */
	atomic_bool watches;       /* looks are worth their while. Any thread */
	bool has_limit;            /* this KVM has KVM_CAP_HALT_POLL */
	unsigned generation;       /* of the configuration that was taken up */
	struct halt_config config;
	bool governs; /* the policy moves the limit */
	struct halt_kernel governor;
	struct halt_kernel_rule rule;
	uint64_t wanted_ns, limit_ns; /* what the policy wants, what KVM has */
	uint64_t wake_ns;             /* how late this host wakes a thread */
	unsigned wakes;               /* how often that was seen, up to WAKES_FIRST */
	uint64_t last_ns, period_ns;  /* of the looks */
	unsigned quiet_looks;         /* that saw no halt, up to QUIET_LOOKS */
	enum halt_refusal refused;    /* why the limit is 0; HALT_REFUSALS: it is as wanted */
	struct power power;
	uint64_t power_next_ns; /* when to ask it again */
	bool saves_power;
	struct vm_halt_vcpu *vcpus;
	unsigned count;
};

/* All of them do nothing in the user backend. */
int vm_halt_init(struct lull_vm *vm, struct lull_error *err);
void vm_halt_fini(struct lull_vm *vm);

/* Under the VM's lock, as the machine is built, started and taken apart. The vCPUs exist and have not run. */
void vm_halt_open(struct lull_vm *vm);
void vm_halt_start(struct lull_vm *vm);
void vm_halt_close(struct lull_vm *vm);

void vm_halt_changed(struct lull_vm *vm); /* under no lock: policy or switch are new */
void vm_halt_active(struct lull_vm *vm);  /* any thread, any lock: a guest at rest was woken */
void vm_halt_look(struct lull_vm *vm);    /* I/O thread: the guest is not at rest */

/* Under the VM's lock: puts KVM's figures in place of our own. */
void vm_halt_stats(const struct lull_vm *vm, unsigned index, struct lull_vcpu_stats *s);

#endif
