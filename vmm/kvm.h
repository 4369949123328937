/* SPDX-License-Identifier: Apache-2.0 */
/* kvm.h - /dev/kvm and the ioctls of a VM. vcpu*.c and irqchip_kernel.c hold the other ioctl sites. */
#ifndef LULL_KVM_H
#define LULL_KVM_H

#include "guest_mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_error;
struct kvm_cpuid2;

/* lull's own bound, below what KVM_CAP_MAX_VCPUS may allow: what the tables in the first megabyte can describe. */
#define KVM_VCPUS_MAX 512

struct kvm {
	int sys_fd, vm_fd; /* -1: closed */
	size_t run_bytes;  /* of the kvm_run mapping */
	unsigned max_vcpus;
};

/* Opens /dev/kvm and checks what lull cannot do without. Errors say what is missing and what to do. */
int kvm_open(struct kvm *kvm, struct lull_error *err);
void kvm_close(struct kvm *kvm);

/* A VM without any in-kernel interrupt controller. */
int kvm_create_vm(struct kvm *kvm, struct lull_error *err);
void kvm_destroy_vm(struct kvm *kvm);
int kvm_map_memory(struct kvm *kvm, const struct guest_mem *mem, struct lull_error *err);

/* KVM_CHECK_EXTENSION on the VM when there is one, else on the system. 0: not there. */
int kvm_check(const struct kvm *kvm, int cap);
/* KVM_ENABLE_CAP on the VM. */
int kvm_enable(struct kvm *kvm, uint32_t cap, uint64_t arg, struct lull_error *err);

/* 0 when KVM can let guests wait with MWAIT without an exit, else -ENOTSUP. */
int kvm_check_mwait(const struct kvm *kvm, struct lull_error *err);

/* The statistics file of a vCPU that has not run yet (a running one would make this wait), or -errno. */
int kvm_stats_fd(int vcpu_fd);

/* Guest accesses to these MSRs come out as exits: IA32_APIC_BASE, IA32_TSC_DEADLINE, PV EOI, poll control, and
 * steal time if asked for. */
int kvm_route_msrs(struct kvm *kvm, bool steal_time, struct lull_error *err);

/* For a VM in which KVM halts: what guests write to MSR_KVM_POLL_CONTROL comes out, and no other MSR. */
int kvm_watch_poll_control(struct kvm *kvm, struct lull_error *err);

/* Rate of the host's TSC: KVM's word, or measured over 20 ms where KVM does not say. */
uint64_t kvm_tsc_khz(const struct kvm *kvm);

/* KVM_GET_SUPPORTED_CPUID, malloc()ed with room for extra more entries. NULL and *err on failure. */
struct kvm_cpuid2 *kvm_supported_cpuid(const struct kvm *kvm, unsigned extra, struct lull_error *err);

#endif
