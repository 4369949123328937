/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a local APIC: SDM vol. 3, tables 11-1 and 11-6, figure 11-27. Tables go through every MSR and
 * every reserved bit. */
#include "lapic_fixture.h"

/* ------------------------------------------------------------------------- xAPIC registers */

static void registers_after_reset(void **state)
{
	static const struct {
		unsigned offset;
		uint32_t value;
	} expected[] = {
		{ID, 3u << 24},
		{VERSION, 0x01050014},
		{TPR, 0},
		{APR, 0},
		{PPR, 0},
		{RRD, 0},
		{LDR, 0},
		{DFR, UINT32_MAX},
		{SVR, 0xff},
		{ESR, 0},
		{ICR, 0},
		{ICR_HIGH, 0},
		{LVT_TIMER, MASKED},
		{LVT_THERMAL, MASKED},
		{LVT_PERF, MASKED},
		{LVT_LINT0, MASKED},
		{LVT_LINT1, MASKED},
		{LVT_ERROR, MASKED},
		{INITIAL, 0},
		{CURRENT, 0},
		{DIVIDE, 0},
		{EOI, 0},
		{ISR, 0},
		{TMR + 0x70, 0},
		{IRR, 0},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(rd(*state, 3, expected[i].offset), expected[i].value);
	wr(*state, 3, ESR, 0);
	assert_int_equal(rd(*state, 3, ESR), 0); /* none of these was an illegal register */
}

static void only_writable_bits_are_kept(void **state)
{
	static const struct {
		unsigned offset;
		uint32_t kept; /* of all ones */
	} table[] = {
		{ID, 2u << 24},
		{VERSION, 0x01050014},
		{TPR, 0xff},
		{LDR, 0xff000000},
		{DFR, UINT32_MAX},
		{SVR, 0x13ff},
		{ICR_HIGH, 0xff000000},
		{LVT_TIMER, 0x700ff},
		{LVT_THERMAL, 0x107ff},
		{LVT_PERF, 0x107ff},
		{LVT_LINT0, 0x1a7ff},
		{LVT_LINT1, 0x1a7ff},
		{LVT_ERROR, 0x100ff},
		{DIVIDE, 0xb},
		{ISR, 0},
		{TMR, 0},
		{IRR, 0},
		{CURRENT, 0},
		{PPR, 0xff}, /* read-only; follows the TPR written above */
	};

	enable(*state, 2);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		wr(*state, 2, table[i].offset, UINT32_MAX);
		assert_int_equal(rd(*state, 2, table[i].offset), table[i].kept);
	}
	wr(*state, 2, DFR, 0);
	assert_int_equal(rd(*state, 2, DFR), 0x0fffffff);
}

static void accesses_off_the_register_grid_do_nothing(void **state)
{
	struct fixture *f = *state;

	enable(f, 0);
	wr(f, 0, TPR, 0x5a);
	lapic_mmio_write(f->cpu[0], TPR, 1, 0x11, f->now);
	lapic_mmio_write(f->cpu[0], TPR, 2, 0x11, f->now);
	lapic_mmio_write(f->cpu[0], TPR, 8, 0x11, f->now);
	lapic_mmio_write(f->cpu[0], TPR + 1, 4, 0x11, f->now);
	lapic_mmio_write(f->cpu[0], TPR + 4, 4, 0x11, f->now);
	assert_int_equal(rd(f, 0, TPR), 0x5a);
	assert_int_equal(lapic_mmio_read(f->cpu[0], TPR + 4, 4, f->now), 0);
	assert_int_equal(lapic_mmio_read(f->cpu[0], TPR + 1, 4, f->now), 0);
	assert_int_equal(lapic_mmio_read(f->cpu[0], TPR, 8, f->now), 0);
	assert_int_equal(lapic_mmio_read(f->cpu[0], TPR + 15, 8, f->now), 0);
}

static void narrow_reads_give_their_part_of_the_register(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lapic_mmio_read(f->cpu[7], ID + 3, 1, f->now), 7);
	assert_int_equal(lapic_mmio_read(f->cpu[7], VERSION, 1, f->now), 0x14);
	assert_int_equal(lapic_mmio_read(f->cpu[7], VERSION + 2, 2, f->now), 0x0105);
	assert_int_equal(lapic_mmio_read(f->cpu[7], VERSION + 3, 2, f->now), 0);
}

static void reserved_registers_are_an_error(void **state)
{
	static const unsigned reserved[] = {0x000, 0x010, 0x040, 0x070, 0x290, 0x2e0, 0x2f0,
	                                    0x3a0, 0x3d0, 0x3f0, 0x400, 0x500, 0xff0};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(reserved); i++) {
		assert_int_equal(rd(f, 0, reserved[i]), 0);
		wr(f, 0, ESR, 0);
		assert_int_equal(rd(f, 0, ESR), 0x80);
		wr(f, 0, reserved[i], 1);
		wr(f, 0, ESR, 0);
		assert_int_equal(rd(f, 0, ESR), 0x80);
	}
}

static void page_reads_all_ones_when_not_in_xapic_mode(void **state)
{
	struct fixture *f = *state;

	wr(f, 1, TPR, 0x20);
	to_x2apic(f, 1);
	assert_int_equal(lapic_mmio_read(f->cpu[1], TPR, 4, f->now), UINT32_MAX);
	assert_int_equal(lapic_mmio_read(f->cpu[1], TPR, 1, f->now), 0xff);
	assert_true(lapic_mmio_read(f->cpu[1], TPR, 8, f->now) == UINT64_MAX);
	wr(f, 1, TPR, 0x70);
	assert_int_equal(rdmsr(f, 1, msr_of(TPR)), 0x20);
	assert_int_equal(lapic_set_base(f->cpu[1], LAPIC_BASE_DEFAULT), 0);
	assert_int_equal(lapic_mmio_read(f->cpu[1], ID, 4, f->now), UINT32_MAX);
}

/* ------------------------------------------------------------------------------ x2APIC MSRs */

/* bits: those that may be set in a write. */
static const struct {
	uint8_t reg;
	bool read, write;
	uint64_t bits;
} msrs[] = {
	{0x02, true, false, 0},         {0x03, true, false, 0},      {0x08, true, true, 0xff},
	{0x0a, true, false, 0},         {0x0b, false, true, 0},      {0x0d, true, false, 0},
	{0x0f, true, true, 0x13ff},     {0x10, true, false, 0},      {0x11, true, false, 0},
	{0x12, true, false, 0},         {0x13, true, false, 0},      {0x14, true, false, 0},
	{0x15, true, false, 0},         {0x16, true, false, 0},      {0x17, true, false, 0},
	{0x18, true, false, 0},         {0x19, true, false, 0},      {0x1a, true, false, 0},
	{0x1b, true, false, 0},         {0x1c, true, false, 0},      {0x1d, true, false, 0},
	{0x1e, true, false, 0},         {0x1f, true, false, 0},      {0x20, true, false, 0},
	{0x21, true, false, 0},         {0x22, true, false, 0},      {0x23, true, false, 0},
	{0x24, true, false, 0},         {0x25, true, false, 0},      {0x26, true, false, 0},
	{0x27, true, false, 0},         {0x28, true, true, 0},       {0x30, true, true, 0xffffffff000cdfff},
	{0x32, true, true, 0x710ff},    {0x33, true, true, 0x117ff}, {0x34, true, true, 0x117ff},
	{0x35, true, true, 0x1f7ff},    {0x36, true, true, 0x1f7ff}, {0x37, true, true, 0x110ff},
	{0x38, true, true, UINT32_MAX}, {0x39, true, false, 0},      {0x3e, true, true, 0xb},
	{0x3f, false, true, 0xff},
};

static unsigned find_msr(uint32_t index)
{
	for (unsigned i = 0; i < ARRAY_SIZE(msrs); i++) {
		if (msrs[i].reg == index - MSR_X2APIC_FIRST)
			return i;
	}
	return ARRAY_SIZE(msrs);
}

static void each_msr_can_be_read_or_faults(void **state)
{
	struct fixture *f = *state;
	uint64_t value;

	to_x2apic(f, 0);
	for (uint32_t index = MSR_X2APIC_FIRST - 1; index <= MSR_X2APIC_LAST + 1; index++) {
		unsigned i = find_msr(index);
		bool ok = i < ARRAY_SIZE(msrs) && msrs[i].read;

		assert_int_equal(lapic_msr_read(f->cpu[0], index, &value, f->now), ok ? 0 : GP);
	}
}

static void each_msr_can_be_written_or_faults(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	for (uint32_t index = MSR_X2APIC_FIRST - 1; index <= MSR_X2APIC_LAST + 1; index++) {
		unsigned i = find_msr(index);
		bool ok = i < ARRAY_SIZE(msrs) && msrs[i].write;

		assert_int_equal(wrmsr(f, 0, index, 0), ok ? 0 : GP);
	}
}

static void each_reserved_bit_of_each_msr_faults(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(msrs); i++) {
		for (unsigned bit = 0; msrs[i].write && bit < 64; bit++) {
			bool ok = msrs[i].bits >> bit & 1;

			assert_int_equal(wrmsr(f, 0, MSR_X2APIC_FIRST + msrs[i].reg, 1ull << bit), ok ? 0 : GP);
		}
	}
}

static void a_write_that_faults_changes_nothing(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	assert_int_equal(wrmsr(f, 0, msr_of(TPR), 0x30), 0);
	assert_int_equal(wrmsr(f, 0, msr_of(TPR), 0x140), GP);
	assert_int_equal(rdmsr(f, 0, msr_of(TPR)), 0x30);
	assert_int_equal(wrmsr(f, 0, msr_of(ICR), 0x100000ull << 32 | 1u << 13 | 0x40), GP);
	assert_int_equal(rdmsr(f, 0, msr_of(ICR)), 0);
}

static void msrs_fault_outside_x2apic_mode(void **state)
{
	struct fixture *f = *state;
	uint64_t value;

	assert_int_equal(lapic_msr_read(f->cpu[0], msr_of(ID), &value, f->now), GP);
	assert_int_equal(wrmsr(f, 0, msr_of(TPR), 0), GP);
	assert_int_equal(wrmsr(f, 0, msr_of(SELF_IPI), 0x40), GP);
	assert_int_equal(lapic_set_base(f->cpu[0], LAPIC_BASE_DEFAULT | APIC_BASE_BSP), 0);
	assert_int_equal(lapic_msr_read(f->cpu[0], msr_of(ID), &value, f->now), GP);
}

static void x2apic_id_and_ldr_follow_from_the_cpu(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 37);
	assert_int_equal(rdmsr(f, 37, msr_of(ID)), 37);
	assert_int_equal(rdmsr(f, 37, msr_of(LDR)), 2u << 16 | 1u << 5);
	to_x2apic(f, 15);
	assert_int_equal(rdmsr(f, 15, msr_of(LDR)), 1u << 15);
}

static void x2apic_icr_is_64_bits_wide(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	assert_int_equal(wrmsr(f, 0, msr_of(ICR), 0x12345678ull << 32 | 0x50), 0);
	assert_true(rdmsr(f, 0, msr_of(ICR)) == (0x12345678ull << 32 | 0x50));
	assert_int_equal(wrmsr(f, 0, msr_of(ICR), 0x50 | 1u << 12), 0); /* the delivery status of old is dropped */
	assert_int_equal(rdmsr(f, 0, msr_of(ICR)), 0x50);
}

static void tsc_deadline_bit_is_reserved_without_the_feature(void **state)
{
	struct fixture *f = make(MHZ_1000, true, false);
	uint64_t value;

	(void)state;
	enable(f, 0);
	wr(f, 0, LVT_TIMER, DEADLINE | 0x40);
	assert_int_equal(rd(f, 0, LVT_TIMER), 0x40);
	to_x2apic(f, 1);
	assert_int_equal(wrmsr(f, 1, msr_of(LVT_TIMER), DEADLINE | 0x40), GP);
	assert_int_equal(wrmsr(f, 1, MSR_IA32_TSC_DEADLINE, 5), GP);
	assert_int_equal(lapic_msr_read(f->cpu[1], MSR_IA32_TSC_DEADLINE, &value, f->now), GP);
	teardown((void **)&f);
}

/* --------------------------------------------------------------------------- IA32_APIC_BASE */

static void base_after_reset(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lapic_base(f->cpu[0]), LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE | APIC_BASE_BSP);
	assert_int_equal(lapic_base(f->cpu[1]), LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE);
}

static void base_transitions(void **state)
{
	enum {
		OFF = 0,
		XAPIC = APIC_BASE_ENABLE,
		X2APIC = APIC_BASE_ENABLE | APIC_BASE_X2APIC,
		BAD = APIC_BASE_X2APIC
	};
	static const struct {
		unsigned from, to;
		int result;
	} table[] = {
		{OFF, OFF, 0},    {OFF, XAPIC, 0},     {OFF, X2APIC, GP},   {OFF, BAD, GP},
		{XAPIC, OFF, 0},  {XAPIC, XAPIC, 0},   {XAPIC, X2APIC, 0},  {XAPIC, BAD, GP},
		{X2APIC, OFF, 0}, {X2APIC, XAPIC, GP}, {X2APIC, X2APIC, 0}, {X2APIC, BAD, GP},
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		struct lapic *a = f->cpu[i];

		if (table[i].from == OFF)
			assert_int_equal(lapic_set_base(a, LAPIC_BASE_DEFAULT), 0);
		if (table[i].from == X2APIC)
			assert_int_equal(lapic_set_base(a, LAPIC_BASE_DEFAULT | X2APIC), 0);
		assert_int_equal(lapic_set_base(a, LAPIC_BASE_DEFAULT | table[i].to), table[i].result);
		if (table[i].result)
			assert_int_equal(lapic_base(a) & X2APIC, table[i].from);
		else
			assert_int_equal(lapic_base(a), LAPIC_BASE_DEFAULT | table[i].to);
	}
}

static void base_reserved_bits_and_relocation_fault(void **state)
{
	struct fixture *f = *state;
	uint64_t good = lapic_base(f->cpu[0]);

	for (unsigned bit = 0; bit < 64; bit++) {
		bool flag = bit == 8 || bit == 10 || bit == 11;

		if (!flag)
			assert_int_equal(lapic_set_base(f->cpu[0], good ^ 1ull << bit), GP);
	}
	assert_int_equal(lapic_base(f->cpu[0]), good);
	assert_int_equal(lapic_set_base(f->cpu[0], good ^ APIC_BASE_BSP), 0);
}

static void x2apic_bit_is_reserved_without_the_feature(void **state)
{
	struct fixture *f = make(MHZ_1000, false, true);

	(void)state;
	assert_int_equal(lapic_set_base(f->cpu[0], lapic_base(f->cpu[0]) | APIC_BASE_X2APIC), GP);
	teardown((void **)&f);
}

static void entering_x2apic_keeps_all_but_ldr_and_icr_high(void **state)
{
	struct fixture *f = *state;

	enable(f, 5);
	wr(f, 5, TPR, 0x20);
	wr(f, 5, LDR, 0x80000000);
	wr(f, 5, ICR_HIGH, 0x09000000);
	wr(f, 5, LVT_LINT1, 0x400);
	post(f, 5, 0x91, true);
	assert_int_equal(lapic_set_base(f->cpu[5], lapic_base(f->cpu[5]) | APIC_BASE_X2APIC), 0);
	assert_int_equal(rdmsr(f, 5, msr_of(TPR)), 0x20);
	assert_int_equal(rdmsr(f, 5, msr_of(SVR)), 0x1ff);
	assert_int_equal(rdmsr(f, 5, msr_of(LVT_LINT1)), 0x400);
	assert_int_equal(rdmsr(f, 5, msr_of(LDR)), 1u << 5);
	assert_int_equal(rdmsr(f, 5, msr_of(ICR)), 0);
	assert_int_equal(lapic_pending(f->cpu[5]), 0x91);
}

static void disabling_loses_all_but_tpr(void **state)
{
	struct fixture *f = *state;

	enable(f, 5);
	lapic_set_cr8(f->cpu[5], 3);
	wr(f, 5, ICR_HIGH, 6u << 24);
	wr(f, 5, ICR, 0x40);
	wr(f, 5, LVT_TIMER, 0x40);
	wr(f, 5, INITIAL, 1000);
	post(f, 5, 0x91, false);
	post(f, 5, 0x92, false);
	lapic_ack(f->cpu[5]);
	assert_int_equal(lapic_set_base(f->cpu[5], LAPIC_BASE_DEFAULT), 0);
	assert_int_equal(lapic_pending(f->cpu[5]), -1);
	assert_int_equal(lapic_cr8(f->cpu[5]), 3);
	assert_true(lapic_timer_deadline(f->cpu[5]) == WAKE_NEVER);
	lapic_set_cr8(f->cpu[5], 2); /* CR8 works without an APIC */
	assert_int_equal(lapic_cr8(f->cpu[5]), 2);
	assert_int_equal(lapic_set_base(f->cpu[5], LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE), 0);
	assert_int_equal(rd(f, 5, SVR), 0xff);
	assert_int_equal(rd(f, 5, LVT_TIMER), MASKED);
	assert_int_equal(rd(f, 5, ICR), 0);
	assert_int_equal(rd(f, 5, ICR_HIGH), 0);
	assert_int_equal(rd(f, 5, ISR + 0x40), 0);
	assert_int_equal(rd(f, 5, IRR + 0x40), 0);
	assert_int_equal(lapic_pending(f->cpu[5]), -1);
}

/* lapic_internal.h; here the second half of a post that began before the APIC was disabled. */
void lapic_request(struct lapic *a, uint8_t vector, bool level);

static void a_post_that_meets_the_disabling_is_forgotten(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lapic_set_base(f->cpu[5], LAPIC_BASE_DEFAULT), 0);
	lapic_request(f->cpu[5], 0x40, false);
	assert_int_equal(lapic_pending(f->cpu[5]), -1);
	assert_int_equal(lapic_set_base(f->cpu[5], LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE), 0);
	assert_int_equal(lapic_pending(f->cpu[5]), -1);
}

/* Everything a guest can say, at random, at wild times: the sanitizers watch. */
static void any_access_is_survived(void **state)
{
	static const uint64_t bases[] = {0, APIC_BASE_ENABLE, APIC_BASE_ENABLE | APIC_BASE_X2APIC, APIC_BASE_X2APIC};
	struct fixture *f = *state;
	uint64_t random = 88172645463325252ull, value;

	for (unsigned i = 0; i < 300000; i++) {
		struct lapic *a = f->cpu[i % 3];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		value = random >> (random & 63);
		f->now = (i & 0xff) < 0x80 ? value : f->now + (random & 0xffff);
		switch (random >> 8 & 15) {
		case 0:
			lapic_set_base(a, LAPIC_BASE_DEFAULT | bases[random >> 16 & 3]);
			break;
		case 1:
			lapic_set_tsc_offset(a, (int64_t)value);
			break;
		case 2:
			lapic_ack(a);
			break;
		case 3:
			lapic_msr_write(a, MSR_IA32_TSC_DEADLINE, value, f->now);
			break;
		case 4:
		case 5:
			lapic_msr_read(a, MSR_X2APIC_FIRST + (random >> 16 & 0x1ff), &value, f->now);
			break;
		case 6:
		case 7:
		case 8:
			lapic_msr_write(a, MSR_X2APIC_FIRST + (random >> 16 & 0x3f), value & UINT32_MAX, f->now);
			break;
		case 9:
			lapic_mmio_read(a, random >> 16 & 0xfff, 1u << (random >> 32 & 3), f->now);
			break;
		case 10:
			wr(f, i % 3, SVR, 0x1ff);
			break;
		case 11:
			lapic_lint(a, random >> 16 & 1);
			break;
		default:
			lapic_mmio_write(a, random >> 16 & 0x3f0, 4, value, f->now);
			break;
		}
		assert_true(lapic_timer_deadline(a) == WAKE_NEVER || lapic_timer_deadline(a) > 0);
		assert_true(lapic_pending(a) < 256);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(registers_after_reset),
		T(only_writable_bits_are_kept),
		T(accesses_off_the_register_grid_do_nothing),
		T(narrow_reads_give_their_part_of_the_register),
		T(reserved_registers_are_an_error),
		T(page_reads_all_ones_when_not_in_xapic_mode),
		T(each_msr_can_be_read_or_faults),
		T(each_msr_can_be_written_or_faults),
		T(each_reserved_bit_of_each_msr_faults),
		T(a_write_that_faults_changes_nothing),
		T(msrs_fault_outside_x2apic_mode),
		T(x2apic_id_and_ldr_follow_from_the_cpu),
		T(x2apic_icr_is_64_bits_wide),
		T(tsc_deadline_bit_is_reserved_without_the_feature),
		T(base_after_reset),
		T(base_transitions),
		T(base_reserved_bits_and_relocation_fault),
		T(x2apic_bit_is_reserved_without_the_feature),
		T(entering_x2apic_keeps_all_but_ldr_and_icr_high),
		T(disabling_loses_all_but_tpr),
		T(a_post_that_meets_the_disabling_is_forgotten),
		T(any_access_is_survived),
	};

	return cmocka_run_group_tests_name("lapic_regs", tests, NULL, NULL);
}
