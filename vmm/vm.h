/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.h - one VM's life. It owns everything: what faces the host (memory, serial, images) for its whole life, and what
 * faces the guest (KVM's VM, interrupt controllers, devices, vCPUs) from boot to reset.
 *
 * Threads: the caller's, one per vCPU, and one I/O thread, which runs the event loop and supervises: it joins the vCPUs
 * when they have ended, and then boots the machine again or declares the end.
 */
#ifndef LULL_VM_H
#define LULL_VM_H

#include "chardev.h"
#include "event_loop.h"
#include "guest_cpuid.h"
#include "guest_mem.h"
#include "halt.h"
#include "image.h"
#include "irqchip.h"
#include "kvm.h"
#include "load.h"
#include "log.h"
#include "lull.h"
#include "mainboard.h"
#include "trace.h"
#include "vcpu.h"
#include "vm_halt.h"

#include <pthread.h>

#define VM_DEVICES_MAX 32

/* An embedder's device: what lull_vm_add_device() was given. */
struct vm_device {
	struct lull_device config;
	char *name;
};

enum vm_state {
	VM_CREATED,
	VM_RUNNING,
	VM_ENDED,
};

struct vm_setup_times {
	uint64_t kvm_ns, memory_ns, hosts_ns, board_ns, load_ns, tables_ns, total_ns;
};

struct lull_vm {
	/* Constant after vm_create(). */
	struct lull_config config; /* strings are ours */
	struct log log;
	const struct irqchip_ops *chip_ops;
	struct halt_shared halt; /* any thread */
	enum steal_mode steal_mode;
	struct steal_thread steal_thread; /* stopped when no vCPU runs */
	struct trace_file halt_trace;     /* zeroed: none */
	struct trace_ring *halt_rings;    /* with it, one per vCPU: they go on over a reset */
	struct poll_hooks poll_hooks;     /* filled when the machine is built */
	cpu_set_t *affinity;
	unsigned affinity_count;
	struct guest_mem mem;
	struct image kernel, initrd;
	struct chardev *chardev;
	struct chardev *console;  /* or NULL */
	struct vsock_host *vsock; /* or NULL */
	struct disk_file *disks[MACHINE_VIRTIO_SLOTS];
	unsigned disk_count;
	struct net_host *nets[MACHINE_VIRTIO_SLOTS];
	unsigned net_count;
	struct balloon_host *balloon; /* or NULL */
	struct vm_device devices[VM_DEVICES_MAX];
	unsigned device_count;

	/* From boot to reset: changed by the creator, then by the I/O thread, under lock. */
	struct kvm kvm;
	struct irqchip *chip;
	struct mainboard board;
	struct vcpu_env env;
	struct vcpu *vcpus;
	unsigned vcpu_count; /* how many of them exist */
	struct boot_state boot;
	bool probed, x2apic, tsc_deadline;
	struct vm_setup_times times;

	/* Under lock, unless said otherwise. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum vm_state state;
	bool ending;      /* exit holds the reason */
	bool stop_wanted; /* lull_vm_stop(): no restart any more */
	bool paused;
	unsigned parked;
	struct lull_exit exit;
	uint64_t boots;

	atomic_uint live; /* vCPU threads that have not finished */
	atomic_uint dead; /* of these, how many no interrupt can wake */

	int event_fd;
	struct event_loop loop;
	struct event_source finished;   /* eventfd: the last vCPU thread finished */
	struct event_source dead_timer; /* timerfd: see vm_dead.c */
	/* kernel backend: */
	atomic_bool watching;                 /* the timer is armed, or about to be */
	atomic_uint activity;                 /* interrupts that went in */
	unsigned asked_activity, dead_rounds; /* I/O thread */
	uint64_t *cpu_ns;                     /* kernel backend: CPU time of each vCPU thread at the last look */
	struct vm_halt kernel_halt;           /* kernel backend: see vm_halt.c */
	pthread_t io_thread;
	bool io_started;
};

struct lull_vm *vm_create(const struct lull_config *config, struct lull_error *err);
int vm_start(struct lull_vm *vm, struct lull_error *err);
void vm_destroy(struct lull_vm *vm);

/* Ends the run: the first reason counts. Any thread, does not wait. dump: with the registers of every vCPU. */
void vm_end(struct lull_vm *vm, enum lull_exit_reason reason, uint32_t code, unsigned vcpu, const char *text);
int vm_pause(struct lull_vm *vm);
int vm_resume(struct lull_vm *vm);
int vm_add_device(struct lull_vm *vm, const struct lull_device *device, struct lull_error *err);

/* The engine's configuration with another policy than the one the VM was made with (NULL: the default). */
int vm_halt_config(const struct lull_vm *vm, const char *policy, struct halt_config *out, struct lull_error *err);

/* ---- vm_build.c: from boot to reset ---- */
int vm_build(struct lull_vm *vm, struct lull_error *err);
void vm_unbuild(struct lull_vm *vm);
int vm_start_vcpus(struct lull_vm *vm, struct lull_error *err);

/* ---- vm_hosts.c: what faces the host ---- */
int vm_hosts_open(struct lull_vm *vm, struct lull_error *err);
void vm_hosts_close(struct lull_vm *vm);

/* ---- vm_dead.c: when no vCPU can ever run again ---- */
int vm_dead_init(struct lull_vm *vm, struct lull_error *err);
void vm_dead_fini(struct lull_vm *vm);
void vm_dead_changed(struct lull_vm *vm, bool dead); /* a vCPU's thread */
void vm_dead_active(struct lull_vm *vm);             /* kernel backend, any thread */

#endif
