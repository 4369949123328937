/* SPDX-License-Identifier: Apache-2.0 */
/* guest_cpuid.h - what the guest's CPUID says: KVM's supported leaves with the topology and the PV features of this VM.
 */
#ifndef LULL_GUEST_CPUID_H
#define LULL_GUEST_CPUID_H

#include <stdbool.h>
#include <stdint.h>

struct kvm;
struct kvm_cpuid2;
struct lull_error;

struct cpuid_options {
	unsigned vcpus;
	bool kernel_irqchip; /* then every PV feature that KVM supports stays */
	bool x2apic, tsc_deadline, pv_eoi;
	bool no_steal_time, own_steal_time; /* neither: as KVM has it */
	bool mwait;                         /* MONITOR and MWAIT */
	uint32_t mwait_leaf[4];             /* with mwait: leaf 5; cpuid_make() takes the host's */
};

#define CPUID_EXTRA 16 /* entries that cpuid_make() may add */

/* malloc()ed; the parts that differ per vCPU are those of vCPU 0. NULL and *err on failure. */
struct kvm_cpuid2 *cpuid_make(const struct kvm *kvm, const struct cpuid_options *opt, struct lull_error *err);
/* Edits the leaves that carry the APIC ID: 1, 0xb, 0x1f, 0x8000001e. */
void cpuid_set_id(struct kvm_cpuid2 *cpuid, uint32_t apic_id);
/* Pure part of cpuid_make(), with room for CPUID_EXTRA more entries: for tests. */
void cpuid_edit(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt);
/* malloc()ed text, one line per leaf. */
char *cpuid_text(const struct kvm_cpuid2 *cpuid);

#endif
