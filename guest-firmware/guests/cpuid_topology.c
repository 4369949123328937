/* SPDX-License-Identifier: Apache-2.0 */
/* cpuid_topology.c - each CPU sees its own APIC ID in every leaf, one package of single-threaded cores, and only
 * paravirtual features that work. */
#include "guest.h"

static uint32_t cpus;
static bool user;

static unsigned bits_for(unsigned n)
{
	unsigned bits = 0;

	while (1u << bits < n)
		bits++;
	return bits;
}

static void topology(uint32_t leaf, uint32_t id)
{
	struct cpuid threads = cpuid(leaf, 0), cores = cpuid(leaf, 1), end = cpuid(leaf, 2);

	check_eq(threads.edx, id);
	check_eq(cores.edx, id);
	check_eq(end.edx, id);
	check_eq(threads.ecx, 1 << 8);
	check_eq(threads.eax & 31, 0);
	check_eq(threads.ebx & 0xffff, 1);
	check_eq(cores.ecx, 2 << 8 | 1);
	check_eq(cores.eax & 31, bits_for(cpus));
	check_eq(cores.ebx & 0xffff, cpus);
	check_eq(end.ecx >> 8 & 0xff, 0);
	check_eq(end.eax | end.ebx, 0);
}

static void look(void *arg)
{
	uint32_t id = this_cpu()->id, max = cpuid(0, 0).eax, vendor = cpuid(0, 0).ebx, ext = cpuid(0x80000000, 0).eax;
	struct cpuid one = cpuid(1, 0), c;

	(void)arg;
	check_eq(apic_id(), id);
	check_eq(one.ebx >> 24, id & 0xff);
	check_eq(one.edx >> 28 & 1, cpus > 1);
	check_eq(one.ecx >> 31, 1); /* a hypervisor */
	check_eq(one.edx >> 9 & 1, 1);
	if (cpus > 1)
		check_eq(one.ebx >> 16 & 0xff, 1u << bits_for(cpus));
	check(max >= 0xb);
	topology(0xb, id);
	if (max >= 0x1f)
		topology(0x1f, id);
	if (vendor == 0x68747541 && ext >= 0x80000008) { /* AuthenticAMD */
		c = cpuid(0x80000008, 0);
		check_eq(c.ecx & 0xff, cpus - 1);
		check(c.ecx >> 12 == 0 || (c.ecx >> 12 & 15) == bits_for(cpus));
		if (ext >= 0x8000001e && cpuid(0x80000001, 0).ecx >> 22 & 1) {
			c = cpuid(0x8000001e, 0);
			check_eq(c.eax, id);
			check_eq(c.ebx >> 8 & 0xff, 0);
		}
	}
	if (user)
		check_eq(kvm_features() & ~(1u << KVM_FEATURE_CLOCKSOURCE2 | 1u << KVM_FEATURE_STEAL_TIME |
		                            1u << KVM_FEATURE_PV_EOI | 1u << KVM_FEATURE_POLL_CONTROL |
		                            1u << KVM_FEATURE_STABLE),
		         0);
}

int main(void)
{
	uint32_t i;

	cpus = (uint32_t)param_u64("cpus", 1);
	user = !apic_is_kvms();
	apic_setup();
	check_eq(cpuid(KVM_CPUID, 0).ebx, 0x4b4d564b);
	check(cpuid(KVM_CPUID, 0).eax >= KVM_CPUID + 1);
	check(kvm_features() & 1 << KVM_FEATURE_POLL_CONTROL);
	look(NULL);
	for (i = 1; i < cpus; i++) {
		cpu_start(i, look, NULL);
		cpu_wait(i);
	}
	return 0;
}
