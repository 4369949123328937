/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_cpuid.c - edits KVM's supported CPUID. Topology: one package, one thread per core, APIC ID = vCPU index.
 * Sources: SDM vol. 2A CPUID (leaves 1, 4, 5, 6, 0xa, 0xb, 0x1f); APM vol. 3, appendix E (8000_0001, 8000_0008,
 * 8000_001D, 8000_001E, 8000_0026); Documentation/virt/kvm/x86/cpuid.rst for 4000_0000 and 4000_0001.
 */
#include "guest_cpuid.h"

#include "error.h"
#include "kvm.h"
#include "util.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <stdarg.h>
#include <string.h>

enum {
	LEAF1_ECX_MONITOR = 1 << 3,
	LEAF5_ECX = 3, /* that there are extensions; interrupts end an MWAIT though they are masked */
	LEAF1_ECX_VMX = 1 << 5,
	LEAF1_ECX_X2APIC = 1 << 21,
	LEAF1_ECX_TSC_DEADLINE = 1 << 24,
	LEAF1_EDX_APIC = 1 << 9,
	LEAF1_EDX_HTT = 1 << 28,
	EXT1_ECX_CMP_LEGACY = 1 << 1,
	EXT1_ECX_SVM = 1 << 2,
	EXT1_ECX_PERFCTR_CORE = 1 << 23,
	EXT1_ECX_PERFCTR_NB = 1 << 24,
	EXT1_ECX_PERFCTR_LLC = 1 << 28,
	LEVEL_THREAD = 1,
	LEVEL_CORE = 2,
};
#define LEAF1_ECX_HYPERVISOR (1u << 31)

/* What works, and is worth having, while lull owns the local APIC. Everything else either needs KVM's APIC or, like
 * PV_TLB_FLUSH, its cooperation with a preempted flag that KVM alone would have to keep. */
#define PV_FEATURES_USER                                                                                               \
	(1u << KVM_FEATURE_CLOCKSOURCE2 | 1u << KVM_FEATURE_STEAL_TIME | 1u << KVM_FEATURE_PV_EOI |                    \
	 1u << KVM_FEATURE_POLL_CONTROL | 1u << KVM_FEATURE_CLOCKSOURCE_STABLE_BIT)

static struct kvm_cpuid_entry2 *find(struct kvm_cpuid2 *cpuid, uint32_t function, uint32_t index)
{
	for (unsigned i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid->entries[i];
		if (e->function == function && (!(e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) || e->index == index))
			return e;
	}
	return NULL;
}

static void drop(struct kvm_cpuid2 *cpuid, uint32_t function)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function != function)
			cpuid->entries[kept++] = cpuid->entries[i];
	cpuid->nent = kept;
}

static void add(struct kvm_cpuid2 *cpuid, struct kvm_cpuid_entry2 entry)
{
	cpuid->entries[cpuid->nent++] = entry;
}

/* Number of bits in an APIC ID that tell cores of the package apart. */
static unsigned id_bits(unsigned vcpus)
{
	unsigned bits = 0;
	while ((1u << bits) < vcpus)
		bits++;
	return bits;
}

/* Leaves 0xb and 0x1f: thread level, core level, and the terminating level 0. EDX holds the x2APIC ID in all of them.
 */
static void add_topology(struct kvm_cpuid2 *cpuid, uint32_t function, unsigned vcpus)
{
	drop(cpuid, function);
	const struct kvm_cpuid_entry2 levels[] = {
		{.index = 0, .eax = 0, .ebx = 1, .ecx = LEVEL_THREAD << 8},
		{.index = 1, .eax = id_bits(vcpus), .ebx = vcpus, .ecx = LEVEL_CORE << 8 | 1},
		{.index = 2, .ecx = 2},
	};
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		struct kvm_cpuid_entry2 entry = levels[i];
		entry.function = function;
		entry.flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
		add(cpuid, entry);
	}
}

/* Leaves 4 and 0x8000001d say how many logical CPUs share each cache: the last level is shared by all, others by none.
 * Bits 25:14 in both; leaf 4 has the number of cores in bits 31:26 as well. */
static void edit_caches(struct kvm_cpuid2 *cpuid, unsigned vcpus)
{
	uint32_t sharing = (vcpus > 4096 ? 4095 : (1u << id_bits(vcpus)) - 1) << 14;
	uint32_t cores = vcpus > 64 ? 63 : (1u << id_bits(vcpus)) - 1;
	for (unsigned i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid->entries[i];
		if ((e->function != 4 && e->function != 0x8000001d) || !(e->eax & 0x1f))
			continue;
		unsigned level = e->eax >> 5 & 7;
		e->eax &= 0x00003fffu;
		e->eax |= level >= 3 ? sharing : 0;
		if (e->function == 4)
			e->eax |= cores << 26;
	}
}

static void edit_basic(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt)
{
	struct kvm_cpuid_entry2 *e = find(cpuid, 1, 0);
	if (e) {
		unsigned count = 1u << id_bits(opt->vcpus);
		e->ebx = (e->ebx & 0x0000ffffu) | (count > 255 ? 255 : count) << 16;
		e->ecx &= ~(uint32_t)(LEAF1_ECX_MONITOR | LEAF1_ECX_VMX | LEAF1_ECX_X2APIC | LEAF1_ECX_TSC_DEADLINE);
		e->ecx |= LEAF1_ECX_HYPERVISOR;
		e->ecx |= opt->mwait ? LEAF1_ECX_MONITOR : 0;
		e->ecx |= opt->x2apic ? LEAF1_ECX_X2APIC : 0;
		e->ecx |= opt->tsc_deadline ? LEAF1_ECX_TSC_DEADLINE : 0;
		e->edx |= LEAF1_EDX_APIC;
		e->edx = opt->vcpus > 1 ? e->edx | LEAF1_EDX_HTT : e->edx & ~(uint32_t)LEAF1_EDX_HTT;
	}
	/* No performance counters: their interrupt needs KVM's APIC. */
	e = find(cpuid, 0xa, 0);
	if (e)
		e->eax = e->ebx = e->ecx = e->edx = 0;
	struct kvm_cpuid_entry2 *max = find(cpuid, 0, 0);
	if (max && max->eax < 0xb)
		max->eax = 0xb;
	add_topology(cpuid, 0xb, opt->vcpus);
	if (max && max->eax >= 0x1f)
		add_topology(cpuid, 0x1f, opt->vcpus);
	else
		drop(cpuid, 0x1f);
}

/* KVM says nothing of leaf 5, so that it is there must not depend on KVM either. */
static void edit_mwait(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt)
{
	if (!opt->mwait)
		return;
	drop(cpuid, 5);
	add(cpuid, (struct kvm_cpuid_entry2){
			   .function = 5,
			   .eax = opt->mwait_leaf[0],
			   .ebx = opt->mwait_leaf[1],
			   .ecx = opt->mwait_leaf[2] & LEAF5_ECX,
			   .edx = opt->mwait_leaf[3],
		   });
}

static void edit_extended(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt)
{
	struct kvm_cpuid_entry2 *vendor = find(cpuid, 0, 0);
	bool amd = vendor && (vendor->ebx == 0x68747541 || vendor->ebx == 0x6f677948); /* Auth..., Hygo... */
	struct kvm_cpuid_entry2 *e = find(cpuid, 0x80000001, 0);
	if (e) {
		e->ecx &= ~(uint32_t)(EXT1_ECX_SVM | EXT1_ECX_CMP_LEGACY | EXT1_ECX_PERFCTR_CORE | EXT1_ECX_PERFCTR_NB |
		                      EXT1_ECX_PERFCTR_LLC);
		e->ecx |= amd && opt->vcpus > 1 ? EXT1_ECX_CMP_LEGACY : 0;
	}
	e = find(cpuid, 0x80000008, 0);
	if (e && amd) /* ECX[7:0] cores - 1, ECX[15:12] size of the core part of the APIC ID */
		e->ecx = (e->ecx & ~0xf0ffu) | (opt->vcpus > 256 ? 255 : opt->vcpus - 1) | id_bits(opt->vcpus) << 12;
	e = find(cpuid, 0x8000001e, 0);
	if (e)
		e->ebx = e->ecx = e->edx = 0; /* one thread per core, one node */
	drop(cpuid, 0x8000000a);              /* SVM */
	drop(cpuid, 0x80000022);              /* performance counters */
	drop(cpuid, 0x80000026);              /* says the same as 0xb and 0x1f, of the host */
}

static void edit_pv(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt)
{
	struct kvm_cpuid_entry2 *e = find(cpuid, KVM_CPUID_FEATURES, 0);
	if (!e)
		return;
	uint32_t supported = e->eax | 1u << KVM_FEATURE_POLL_CONTROL | 1u << KVM_FEATURE_PV_EOI;
	e->eax = opt->kernel_irqchip ? supported : supported & PV_FEATURES_USER;
	if (!opt->pv_eoi)
		e->eax &= ~(1u << KVM_FEATURE_PV_EOI);
	if (opt->no_steal_time)
		e->eax &= ~(1u << KVM_FEATURE_STEAL_TIME);
	else if (opt->own_steal_time)
		e->eax |= 1u << KVM_FEATURE_STEAL_TIME;
	e->edx = 0; /* KVM_HINTS_REALTIME is only for vCPUs that have a CPU to themselves */
}

void cpuid_edit(struct kvm_cpuid2 *cpuid, const struct cpuid_options *opt)
{
	edit_basic(cpuid, opt);
	edit_mwait(cpuid, opt);
	edit_caches(cpuid, opt->vcpus);
	edit_extended(cpuid, opt);
	edit_pv(cpuid, opt);
	cpuid_set_id(cpuid, 0);
}

void cpuid_set_id(struct kvm_cpuid2 *cpuid, uint32_t apic_id)
{
	for (unsigned i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid->entries[i];
		switch (e->function) {
		case 1:
			e->ebx = (e->ebx & 0x00ffffffu) | (apic_id & 0xff) << 24;
			break;
		case 0xb:
		case 0x1f:
			e->edx = apic_id;
			break;
		case 0x8000001e:
			e->eax = apic_id;
			e->ebx = apic_id & 0xff;
			break;
		default:
			break;
		}
	}
}

struct kvm_cpuid2 *cpuid_make(const struct kvm *kvm, const struct cpuid_options *opt, struct lull_error *err)
{
	struct kvm_cpuid2 *cpuid = kvm_supported_cpuid(kvm, CPUID_EXTRA, err);
	struct cpuid_options all = *opt;
	uint32_t *leaf = all.mwait_leaf;
	if (all.mwait)
		__get_cpuid(5, &leaf[0], &leaf[1], &leaf[2], &leaf[3]);
	if (cpuid)
		cpuid_edit(cpuid, &all);
	return cpuid;
}

char *cpuid_text(const struct kvm_cpuid2 *cpuid)
{
	const size_t line = 96;
	size_t size = (cpuid->nent + 2) * line, used = 0;
	char *text = malloc(size);
	if (!text)
		return NULL;
	used += (size_t)snprintf(text, size, "leaf       index    eax      ebx      ecx      edx\n");
	for (unsigned i = 0; i < cpuid->nent && used + line < size; i++) {
		const struct kvm_cpuid_entry2 *e = &cpuid->entries[i];
		used += (size_t)snprintf(text + used, size - used, "0x%08x 0x%-6x %08x %08x %08x %08x\n", e->function,
		                         e->index, e->eax, e->ebx, e->ecx, e->edx);
	}
	return text;
}
