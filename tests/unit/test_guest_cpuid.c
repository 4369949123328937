/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest_cpuid.c - what guest_cpuid.c makes of what KVM supports on an Intel and on an AMD host. */
#include "guest_cpuid.h"

#include "kvm.h"
#include "lull.h"

#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 room[64];
} table;
#define cpuid (&table.head)

static void add(uint32_t function, uint32_t index, uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx, bool indexed)
{
	table.head.entries[table.head.nent++] = (struct kvm_cpuid_entry2){
		.function = function,
		.index = index,
		.flags = indexed ? KVM_CPUID_FLAG_SIGNIFCANT_INDEX : 0,
		.eax = eax,
		.ebx = ebx,
		.ecx = ecx,
		.edx = edx,
	};
}

static void host(bool amd)
{
	memset(&table, 0, sizeof(table));
	add(0, 0, amd ? 0x10 : 0x1f, amd ? 0x68747541 : 0x756e6547, amd ? 0x444d4163 : 0x6c65746e,
	    amd ? 0x69746e65 : 0x49656e69, false);
	add(1, 0, 0x800f12, 0x05100800, 0xfffaffff, 0x178bfbff, false);
	add(4, 0, amd ? 0 : 0xfc1fc121, 0x1c0003f, 0x3f, 0, true);
	add(4, 3, amd ? 0 : 0xfc1fc163, 0x1c0003f, 0x3f, 0, true);
	add(0xa, 0, 0x07300402, 0, 0, 0x603, false);
	add(0xb, 0, 1, 2, 0x100, 5, true);
	add(0xb, 1, 4, 16, 0x201, 5, true);
	add(0x1f, 0, 1, 2, 0x100, 5, true);
	add(KVM_CPUID_SIGNATURE, 0, KVM_CPUID_FEATURES, 0x4b4d564b, 0x564b4d56, 0x4d, false);
	add(KVM_CPUID_FEATURES, 0, 0x01007efb, 0, 0, 1, false);
	add(0x80000001, 0, 0, 0, 0xffffffff, 0xffffffff, false);
	add(0x80000008, 0, 0x3030, 0, 0x703f, 0, false);
	add(0x8000000a, 0, 1, 8, 0, 0, false);
	add(0x8000001d, 3, 0x0003c163, 0, 0, 0, true);
	add(0x8000001e, 0, 5, 0x102, 0x303, 0, false);
	add(0x80000022, 0, 1, 6, 0, 0, false);
	add(0x80000026, 0, 1, 2, 0x100, 5, true);
}

static const struct kvm_cpuid_entry2 *leaf(uint32_t function, uint32_t index)
{
	const struct kvm_cpuid_entry2 *found = NULL;
	for (unsigned i = 0; i < table.head.nent; i++) {
		const struct kvm_cpuid_entry2 *e = &table.head.entries[i];
		if (e->function != function || ((e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) && e->index != index))
			continue;
		assert_null(found); /* KVM takes the first of two, a guest may see the other */
		found = e;
	}
	return found;
}

static const struct cpuid_options four = {.vcpus = 4, .x2apic = true, .tsc_deadline = true, .pv_eoi = true};

static void leaf_1_says_what_the_irqchip_offers(void **state)
{
	(void)state;
	host(false);
	cpuid_edit(cpuid, &four);
	cpuid_set_id(cpuid, 3);
	const struct kvm_cpuid_entry2 *e = leaf(1, 0);
	assert_int_equal(e->ebx >> 24, 3);
	assert_int_equal(e->ebx >> 16 & 0xff, 4);
	assert_true(e->ecx & 1u << 31 && e->ecx & 1u << 21 && e->ecx & 1u << 24);
	assert_false(e->ecx & 1u << 3); /* MONITOR */
	assert_false(e->ecx & 1u << 5); /* VMX */
	assert_true(e->edx & 1u << 9 && e->edx & 1u << 28);

	const struct cpuid_options bare = {.vcpus = 1};
	host(false);
	cpuid_edit(cpuid, &bare);
	e = leaf(1, 0);
	assert_false(e->ecx & (1u << 21 | 1u << 24));
	assert_false(e->edx & 1u << 28); /* HTT */
	assert_true(e->edx & 1u << 9);
	assert_int_equal(e->ebx >> 16, 1);
}

static void topology_is_one_package_of_single_threaded_cores(void **state)
{
	static const struct {
		unsigned vcpus, bits;
	} rows[] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {16, 4}, {255, 8}, {256, 8}, {257, 9}, {512, 9}};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct cpuid_options opt = {.vcpus = rows[i].vcpus, .x2apic = true};
		host(false);
		cpuid_edit(cpuid, &opt);
		cpuid_set_id(cpuid, rows[i].vcpus - 1);
		for (unsigned f = 0; f < 2; f++) {
			uint32_t function = f ? 0x1f : 0xb;
			assert_int_equal(leaf(function, 0)->eax, 0);
			assert_int_equal(leaf(function, 0)->ebx, 1);
			assert_int_equal(leaf(function, 0)->ecx, 0x100);
			assert_int_equal(leaf(function, 1)->eax, rows[i].bits);
			assert_int_equal(leaf(function, 1)->ebx, rows[i].vcpus);
			assert_int_equal(leaf(function, 1)->ecx, 0x201);
			assert_int_equal(leaf(function, 2)->ecx, 2);
			for (unsigned level = 0; level < 3; level++)
				assert_int_equal(leaf(function, level)->edx, rows[i].vcpus - 1);
		}
	}
}

static void amd_has_its_own_leaves(void **state)
{
	(void)state;
	host(true);
	cpuid_edit(cpuid, &four);
	cpuid_set_id(cpuid, 2);
	assert_int_equal(leaf(0x80000008, 0)->ecx & 0xff, 3);
	assert_int_equal(leaf(0x80000008, 0)->ecx >> 12 & 15, 2);
	assert_int_equal(leaf(0x8000001e, 0)->eax, 2);
	assert_int_equal(leaf(0x8000001e, 0)->ebx, 2);
	assert_int_equal(leaf(0x8000001e, 0)->ecx, 0);
	assert_true(leaf(0x80000001, 0)->ecx & 2); /* CmpLegacy */
	assert_int_equal(leaf(0x8000001d, 3)->eax >> 14 & 0xfff, 3);
	assert_null(leaf(0x1f, 0)); /* beyond the highest leaf of that host */
	assert_non_null(leaf(0xb, 0));
}

static void intel_caches_are_shared_at_the_last_level_only(void **state)
{
	(void)state;
	host(false);
	cpuid_edit(cpuid, &four);
	assert_int_equal(leaf(4, 0)->eax >> 14 & 0xfff, 0);
	assert_int_equal(leaf(4, 3)->eax >> 14 & 0xfff, 3);
	assert_int_equal(leaf(4, 3)->eax >> 26, 3);
	assert_false(leaf(0x80000001, 0)->ecx & 2);
}

static void what_needs_kvms_apic_or_nested_state_is_hidden(void **state)
{
	(void)state;
	host(true);
	cpuid_edit(cpuid, &four);
	uint32_t pv = leaf(KVM_CPUID_FEATURES, 0)->eax;
	assert_int_equal(pv, 1u << 3 | 1u << 5 | 1u << 6 | 1u << 12 | 1u << 24);
	assert_int_equal(leaf(KVM_CPUID_FEATURES, 0)->edx, 0);
	assert_false(leaf(0x80000001, 0)->ecx & 4); /* SVM */
	assert_null(leaf(0x8000000a, 0));
	assert_null(leaf(0x80000022, 0));
	assert_null(leaf(0x80000026, 0));
	assert_int_equal(leaf(0xa, 0)->eax, 0);
}

static void the_kernel_backend_keeps_what_kvm_supports(void **state)
{
	struct cpuid_options opt = four;
	(void)state;
	opt.kernel_irqchip = true;
	host(false);
	cpuid_edit(cpuid, &opt);
	assert_int_equal(leaf(KVM_CPUID_FEATURES, 0)->eax, 0x01007efb);
	opt.pv_eoi = false;
	host(false);
	cpuid_edit(cpuid, &opt);
	assert_false(leaf(KVM_CPUID_FEATURES, 0)->eax & 1u << 6);
}

static void steal_time_is_kvms_ours_or_hidden(void **state)
{
	const uint32_t steal = 1u << 5;
	struct cpuid_options opt = four;
	(void)state;
	host(false);
	cpuid_edit(cpuid, &opt);
	assert_true(leaf(KVM_CPUID_FEATURES, 0)->eax & steal);
	opt.no_steal_time = true;
	host(false);
	cpuid_edit(cpuid, &opt);
	assert_false(leaf(KVM_CPUID_FEATURES, 0)->eax & steal);
	opt.no_steal_time = false;
	opt.own_steal_time = true; /* also where KVM has none */
	host(false);
	for (unsigned i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function == KVM_CPUID_FEATURES)
			cpuid->entries[i].eax &= ~steal;
	cpuid_edit(cpuid, &opt);
	assert_true(leaf(KVM_CPUID_FEATURES, 0)->eax & steal);
}

static void mwait_is_there_when_asked_for(void **state)
{
	struct cpuid_options opt = four;
	const uint32_t words[] = {64, 128, 0xff, 0x1120};
	(void)state;
	host(false);
	add(5, 0, 0, 0, 0, 0, false); /* all that KVM says of it */
	cpuid_edit(cpuid, &opt);
	assert_false(leaf(1, 0)->ecx & 1u << 3);
	assert_int_equal(leaf(5, 0)->eax, 0);
	opt.mwait = true;
	memcpy(opt.mwait_leaf, words, sizeof(words));
	for (unsigned known = 0; known < 2; known++) {
		host(known);
		if (known)
			add(5, 0, 0, 0, 0, 0, false);
		cpuid_edit(cpuid, &opt);
		assert_true(leaf(1, 0)->ecx & 1u << 3);
		assert_int_equal(leaf(5, 0)->eax, 64);
		assert_int_equal(leaf(5, 0)->ebx, 128);
		assert_int_equal(leaf(5, 0)->ecx, 3);
		assert_int_equal(leaf(5, 0)->edx, 0x1120);
	}
}

static void the_text_has_a_line_per_leaf(void **state)
{
	(void)state;
	host(false);
	cpuid_edit(cpuid, &four);
	char *text = cpuid_text(cpuid);
	unsigned lines = 0;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, table.head.nent + 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaf_1_says_what_the_irqchip_offers),
		cmocka_unit_test(topology_is_one_package_of_single_threaded_cores),
		cmocka_unit_test(amd_has_its_own_leaves),
		cmocka_unit_test(intel_caches_are_shared_at_the_last_level_only),
		cmocka_unit_test(what_needs_kvms_apic_or_nested_state_is_hidden),
		cmocka_unit_test(the_kernel_backend_keeps_what_kvm_supports),
		cmocka_unit_test(steal_time_is_kvms_ours_or_hidden),
		cmocka_unit_test(mwait_is_there_when_asked_for),
		cmocka_unit_test(the_text_has_a_line_per_leaf),
	};
	return cmocka_run_group_tests_name("guest_cpuid", tests, NULL, NULL);
}
