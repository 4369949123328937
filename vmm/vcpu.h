/* SPDX-License-Identifier: Apache-2.0 */
/* vcpu.h - one virtual CPU: its thread, its run loop, and the ways other threads reach it. */
#ifndef LULL_VCPU_H
#define LULL_VCPU_H

#include "halt.h"
#include "load.h"
#include "log.h"
#include "lull.h"
#include "stats.h"
#include "steal.h"
#include "wake.h"

#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct bus;
struct guest_mem;
struct irqchip;
struct kvm;
struct kvm_cpuid2;
struct vcpu;

/* What a vCPU asks of its VM, and what it may use. Outlives the vCPU. Callbacks come on the vCPU's thread. */
struct vcpu_env {
	struct kvm *kvm;
	struct bus *pio, *mmio;
	struct guest_mem *mem;
	struct irqchip *chip;
	const struct log *log;
	struct steal_config steal;
	uint64_t tsc_khz;
	int kick_signal;
	void *ctx;
	/* The VM ends: the first one counts. Does not wait. */
	void (*end)(void *ctx, enum lull_exit_reason reason, uint32_t code, unsigned vcpu, const char *text);
	/* This vCPU can be woken by no interrupt any more / again. */
	void (*dead)(void *ctx, bool dead);
	/* The thread reached a pause, or left it. */
	void (*parked)(void *ctx, bool parked);
	/* The thread is about to return. */
	void (*finished)(void *ctx);
};

enum vcpu_request {
	VCPU_STOP = 1u << 0,    /* leave the loop */
	VCPU_PAUSE = 1u << 1,   /* park until the bit is taken back */
	VCPU_DUMP = 1u << 2,    /* with STOP: describe the registers first */
	VCPU_INSPECT = 1u << 3, /* kernel backend: say whether this vCPU is halted for good */
};

enum exit_action {
	EXIT_RESUME,
	EXIT_HALT,
	EXIT_STOP, /* env->end() was called */
};

struct vcpu_counters {
	stat_t exits, io, mmio, msr, halt, irq_window, signal, other;
	stat_t irqs_injected, eois_saved;
	_Atomic uint64_t kicks; /* any thread */
	stat_t cpu_ns;          /* CPU time of the thread, when it has ended */
};

struct vcpu {
	/* Constant after creation. */
	const struct vcpu_env *env;
	unsigned index;
	int fd;
	struct kvm_run *run;
	struct kvm_cpuid2 *cpuid;     /* this vCPU's own copy */
	struct kvm_sregs reset_sregs; /* as KVM made it: what INIT and SIPI start from */

	/* vCPU thread. */
	struct halt halt;
	struct steal steal;      /* has a part for the I/O thread */
	int64_t tsc_offset;      /* guest TSC = host TSC + this; the guest may move it */
	bool dead;               /* what env->dead() was told last */
	bool syncs_events;       /* user backend: the run page carries KVM's event state */
	bool injected;           /* an interrupt was queued since KVM_RUN returned last */
	bool unfinished;         /* KVM finishes the access it handed out when it is entered next */
	int timer;               /* kernel timer id: kicks this thread out of the guest */
	uint64_t timer_tsc;      /* deadline it is armed for, WAKE_NEVER: not armed */
	volatile bool signalled; /* the kick handler ran: the timer may have fired */
	struct log_limit msr_limit;
	char *dump; /* malloc()ed register dump; read after the thread ended */

	/* Any thread. */
	struct wake wake;
	_Atomic uint32_t requests;
	_Atomic int tid;
	_Atomic clockid_t cpu_clock; /* of the thread while it lives, else 0 */
	_Atomic uint32_t
		inspected; /* bit 0: answered, bit 1: halted, bit 2: IF = 0 or waits for SIPI, bit 3: timer armed */
	struct vcpu_counters count;

	pthread_t thread;
	bool started;
};

enum {
	VCPU_INSPECT_DONE = 1u << 0,
	VCPU_INSPECT_HALTED = 1u << 1,
	VCPU_INSPECT_DEAF = 1u << 2,
	VCPU_INSPECT_TIMER = 1u << 3,
};

/* ---- life; on the thread that owns the VM ---- */
int vcpu_create(struct vcpu *v, unsigned index, const struct vcpu_env *env, struct lull_error *err);
void vcpu_destroy(struct vcpu *v); /* the thread must have ended */
int vcpu_start(struct vcpu *v, const cpu_set_t *affinity, struct lull_error *err);
void vcpu_join(struct vcpu *v);

/* ---- any thread ---- */
/* After publishing work: wakes or kicks, whichever fits. */
void vcpu_notify(struct vcpu *v, enum wake_cause cause);
void vcpu_request(struct vcpu *v, uint32_t requests);
void vcpu_unpause(struct vcpu *v);
/* CPU time that its thread has used, in ns. */
uint64_t vcpu_cpu_ns(const struct vcpu *v);
/* Installs the kick handler for the process; idempotent. */
int vcpu_install_kick(int signal, struct lull_error *err);

/* ---- vCPU thread, or before it started ---- */
/* CPUID (the vCPU keeps its own copy), TSC offset, PV feature enforcement; then saves the reset state. */
int vcpu_setup_cpuid(struct vcpu *v, const struct kvm_cpuid2 *cpuid, struct lull_error *err);
/* Registers for the kernel's first instruction. */
int vcpu_setup_boot(struct vcpu *v, const struct boot_state *boot, struct lull_error *err);
/* INIT: SDM vol. 3, table 10-1. Also withdraws what PV MSRs told KVM. */
int vcpu_setup_init(struct vcpu *v);
/* SIPI: real mode at vector << 12. */
int vcpu_setup_sipi(struct vcpu *v, uint8_t vector);
/* Page tables and GDT that BOOT_LONG relies on. */
int vcpu_write_boot_tables(struct guest_mem *mem, struct lull_error *err);
/* Before the VM's memory is loaded: does a write to IA32_TSC_DEADLINE come out, and a read of an x2APIC MSR? Runs a
 * stub on this vCPU, in the first page of memory, and cleans up. */
int vcpu_probe_msrs(struct vcpu *v, bool *tsc_deadline, bool *x2apic, struct lull_error *err);

enum exit_action vcpu_exit(struct vcpu *v);
/* True when KVM has left the last exit half done: an access whose instruction it finishes at the next entry. */
bool vcpu_exit_unfinished(const struct vcpu *v);
enum exit_action vcpu_msr_exit(struct vcpu *v);
/* Ends the VM with a reason and a text. Returns EXIT_STOP. */
enum exit_action vcpu_end(struct vcpu *v, enum lull_exit_reason reason, uint32_t code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Fills v->dump. */
void vcpu_dump(struct vcpu *v);

/* The kernel timer that kicks this vCPU at a host TSC; WAKE_NEVER disarms. */
void vcpu_arm_timer(struct vcpu *v, uint64_t deadline_tsc);

enum {
	MSR_IA32_TSC = 0x10,
	MSR_IA32_TSC_ADJUST = 0x3b,
};

/* The guest writes IA32_TSC or IA32_TSC_ADJUST (SDM vol. 3, 18.17.3: each moves the other by the same amount). */
int vcpu_write_tsc(struct vcpu *v, uint64_t value);
int vcpu_write_tsc_adjust(struct vcpu *v, uint64_t value);
int vcpu_set_msr(struct vcpu *v, uint32_t index, uint64_t value);
int vcpu_get_msr(struct vcpu *v, uint32_t index, uint64_t *value);

#endif
