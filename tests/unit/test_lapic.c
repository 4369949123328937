/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local APICs: who takes an interrupt and which one comes next, SDM vol. 3, chapter 11. Priorities are compared with a
 * model that has one bool per vector; a stress test with real threads and the real eventcount shows that no posted
 * interrupt is lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "clock.h"
#include "lapic_fixture.h"

/* ------------------------------------------------------------------------------- priorities */

static void higher_class_interrupts_lower_and_nests(void **state)
{
	struct fixture *f = *state;
	struct lapic *a = f->cpu[0];

	enable(f, 0);
	post(f, 0, 0x31, false);
	assert_int_equal(lapic_ack(a), 0x31);
	post(f, 0, 0x3f, false);
	assert_int_equal(lapic_pending(a), -1); /* same class waits, however high in it */
	post(f, 0, 0x40, false);
	assert_int_equal(lapic_ack(a), 0x40);
	assert_int_equal(rd(f, 0, PPR), 0x40);
	lapic_eoi(a);
	assert_int_equal(rd(f, 0, PPR), 0x30);
	assert_int_equal(lapic_ack(a), -1);
	lapic_eoi(a);
	assert_int_equal(lapic_ack(a), 0x3f);
	lapic_eoi(a);
	assert_int_equal(lapic_ack(a), -1);
	assert_int_equal(rd(f, 0, PPR), 0);
}

static void tpr_holds_back_its_class_and_those_below(void **state)
{
	struct fixture *f = *state;

	enable(f, 0);
	for (unsigned vector = 16; vector < 256; vector++) {
		post(f, 0, (uint8_t)vector, false);
		for (unsigned tpr = 0; tpr < 256; tpr++) {
			wr(f, 0, TPR, tpr);
			assert_int_equal(lapic_pending(f->cpu[0]), vector >> 4 > tpr >> 4 ? (int)vector : -1);
			assert_int_equal(lapic_has_work(f->cpu[0]), vector >> 4 > tpr >> 4);
		}
		wr(f, 0, TPR, 0);
		assert_int_equal(lapic_ack(f->cpu[0]), vector);
		lapic_eoi(f->cpu[0]);
	}
}

/* One bool per vector, and every loop over all of them. */
struct model {
	bool irr[256], isr[256], tmr[256];
	unsigned tpr, eois;
};

static int model_highest(const bool bits[256])
{
	int highest = -1;

	for (int i = 0; i < 256; i++)
		highest = bits[i] ? i : highest;
	return highest;
}

static unsigned model_ppr(const struct model *m)
{
	int isr = model_highest(m->isr);
	unsigned isr_class = isr < 0 ? 0 : (unsigned)isr >> 4;

	return m->tpr >> 4 >= isr_class ? m->tpr : isr_class << 4;
}

static int model_pending(const struct model *m)
{
	int irr = model_highest(m->irr);

	return irr >= 0 && (unsigned)irr >> 4 > model_ppr(m) >> 4 ? irr : -1;
}

static bool model_pv_eoi_ok(const struct model *m)
{
	int isr = 0;

	for (int i = 0; i < 256; i++)
		isr += m->isr[i];
	return isr == 1 && model_highest(m->irr) < 0 && !m->tmr[model_highest(m->isr)];
}

static uint32_t model_word(const bool bits[256], unsigned word)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < 32; i++)
		value |= (uint32_t)bits[word * 32 + i] << i;
	return value;
}

static void model_compare(struct fixture *f, const struct model *m)
{
	assert_int_equal(lapic_pending(f->cpu[0]), model_pending(m));
	assert_int_equal(rd(f, 0, PPR), model_ppr(m));
	assert_int_equal(lapic_pv_eoi_ok(f->cpu[0]), model_pv_eoi_ok(m));
	assert_int_equal(f->eois, m->eois);
	for (unsigned word = 0; word < 8; word++) {
		assert_int_equal(rd(f, 0, IRR + word * 16), model_word(m->irr, word));
		assert_int_equal(rd(f, 0, ISR + word * 16), model_word(m->isr, word));
		assert_int_equal(rd(f, 0, TMR + word * 16), model_word(m->tmr, word));
	}
}

static void model_step(struct fixture *f, struct model *m, uint32_t random)
{
	uint8_t vector = (uint8_t)(random >> 8);
	int highest;

	switch (random & 7) {
	case 0:
	case 1:
	case 2:
		vector = vector < 16 ? (uint8_t)(vector + 16) : vector;
		assert_int_equal(post(f, 0, vector, random >> 16 & 1), 1);
		m->irr[vector] = true;
		m->tmr[vector] = random >> 16 & 1;
		break;
	case 3:
		m->tpr = vector;
		wr(f, 0, TPR, vector);
		break;
	case 4:
		if (m->tpr >> 4 != vector >> 4)
			m->tpr = vector & 0xf0u;
		lapic_set_cr8(f->cpu[0], vector >> 4);
		assert_int_equal(lapic_cr8(f->cpu[0]), m->tpr >> 4);
		break;
	case 5:
		highest = model_pending(m);
		assert_int_equal(lapic_ack(f->cpu[0]), highest);
		if (highest >= 0) {
			m->irr[highest] = false;
			m->isr[highest] = true;
		}
		break;
	default:
		highest = model_highest(m->isr);
		wr(f, 0, EOI, random);
		if (highest >= 0) {
			m->isr[highest] = false;
			m->eois += m->tmr[highest];
		}
		break;
	}
}

static void priorities_agree_with_a_model(void **state)
{
	struct fixture *f = *state;
	struct model m = {0};
	uint32_t random = 12345;

	enable(f, 0);
	for (unsigned i = 0; i < 20000; i++) {
		random = random * 1664525 + 1013904223;
		model_step(f, &m, random >> 7);
		model_compare(f, &m);
	}
}

static void cr8_keeps_the_subclass_when_it_says_nothing_new(void **state)
{
	struct fixture *f = *state;

	wr(f, 0, TPR, 0x57);
	assert_int_equal(lapic_cr8(f->cpu[0]), 5);
	lapic_set_cr8(f->cpu[0], 5);
	assert_int_equal(rd(f, 0, TPR), 0x57);
	lapic_set_cr8(f->cpu[0], 6);
	assert_int_equal(rd(f, 0, TPR), 0x60);
}

static void pv_eoi_only_for_one_lone_edge(void **state)
{
	struct fixture *f = *state;
	struct lapic *a = f->cpu[0];

	enable(f, 0);
	assert_false(lapic_pv_eoi_ok(a));
	post(f, 0, 0x40, false);
	assert_false(lapic_pv_eoi_ok(a)); /* IRR */
	lapic_ack(a);
	assert_true(lapic_pv_eoi_ok(a));
	post(f, 0, 0x22, false);
	assert_false(lapic_pv_eoi_ok(a)); /* IRR, even though it has to wait */
	lapic_eoi(a);
	lapic_ack(a);
	post(f, 0, 0x80, false);
	lapic_ack(a);
	assert_false(lapic_pv_eoi_ok(a)); /* two in ISR */
	lapic_eoi(a);
	assert_true(lapic_pv_eoi_ok(a));
	lapic_eoi(a);
	post(f, 0, 0x50, true);
	lapic_ack(a);
	assert_false(lapic_pv_eoi_ok(a)); /* the IOAPIC waits for this one */
}

/* -------------------------------------------------------------------------------------- EOI */

static void eoi_of_a_level_is_broadcast_and_of_an_edge_not(void **state)
{
	struct fixture *f = *state;

	enable(f, 0);
	post(f, 0, 0x41, false);
	lapic_ack(f->cpu[0]);
	wr(f, 0, EOI, 0);
	assert_int_equal(f->eois, 0);
	post(f, 0, 0x41, true);
	lapic_ack(f->cpu[0]);
	wr(f, 0, EOI, 0);
	assert_int_equal(f->eois, 1);
	assert_int_equal(f->eoi_vector, 0x41);
	wr(f, 0, EOI, 0); /* nothing in service */
	assert_int_equal(f->eois, 1);
	post(f, 0, 0x41, false); /* an edge again clears TMR */
	lapic_ack(f->cpu[0]);
	wr(f, 0, EOI, 0);
	assert_int_equal(f->eois, 1);
}

static void eoi_broadcast_can_be_suppressed(void **state)
{
	struct fixture *f = *state;

	wr(f, 0, SVR, 0x11ff);
	post(f, 0, 0x41, true);
	lapic_ack(f->cpu[0]);
	wr(f, 0, EOI, 0);
	assert_int_equal(f->eois, 0);
	assert_int_equal(rd(f, 0, ISR + 0x20), 0);
}

static void x2apic_eoi_takes_zero_only(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	post(f, 0, 0x41, true);
	lapic_ack(f->cpu[0]);
	assert_int_equal(wrmsr(f, 0, msr_of(EOI), 1), GP);
	assert_int_equal(f->eois, 0);
	assert_int_equal(wrmsr(f, 0, msr_of(EOI), 0), 0);
	assert_int_equal(f->eois, 1);
}

/* --------------------------------------------------------------------- disabled by software */

static void software_disabled_takes_events_but_no_vectors(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 4};
	uint8_t vector;

	irq.vector = 0x40;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 0);
	irq.mode = LAPIC_LOWEST;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 0);
	assert_int_equal(f->notified[4], 0);
	irq.mode = LAPIC_NMI;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
	assert_int_equal(lapic_events(f->cpu[4]), LAPIC_EVENT_NMI);
	irq.mode = LAPIC_INIT;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
	irq.mode = LAPIC_SIPI;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
	assert_int_equal(lapic_take_events(f->cpu[4], &vector), LAPIC_EVENT_INIT | LAPIC_EVENT_SIPI);
	assert_int_equal(rd(f, 4, IRR + 0x20), 0);
}

static void software_disabled_keeps_and_delivers_what_it_holds(void **state)
{
	struct fixture *f = *state;
	struct lapic *a = f->cpu[4];

	enable(f, 4);
	post(f, 4, 0x40, true);
	post(f, 4, 0x60, true);
	assert_int_equal(lapic_ack(a), 0x60);
	wr(f, 4, SVR, 0xff);
	post(f, 4, 0x80, false);
	assert_int_equal(rd(f, 4, ISR + 0x30), 1);
	wr(f, 4, EOI, 0);
	assert_int_equal(f->eois, 1);
	assert_int_equal(lapic_ack(a), 0x40);
	assert_int_equal(lapic_ack(a), -1);
}

static void software_disabled_masks_lvt_and_keeps_it_masked(void **state)
{
	static const unsigned lvt[] = {LVT_TIMER, LVT_THERMAL, LVT_PERF, LVT_LINT0, LVT_LINT1, LVT_ERROR};
	struct fixture *f = *state;

	enable(f, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(lvt); i++)
		wr(f, 0, lvt[i], 0x40 + i);
	wr(f, 0, SVR, 0xff);
	for (unsigned i = 0; i < ARRAY_SIZE(lvt); i++) {
		assert_int_equal(rd(f, 0, lvt[i]), MASKED | (0x40 + i));
		wr(f, 0, lvt[i], 0x50);
		assert_int_equal(rd(f, 0, lvt[i]), MASKED | 0x50);
	}
	enable(f, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(lvt); i++) {
		assert_int_equal(rd(f, 0, lvt[i]), MASKED | 0x50); /* enabling unmasks nothing */
		wr(f, 0, lvt[i], 0x51);
		assert_int_equal(rd(f, 0, lvt[i]), 0x51);
	}
}

static void software_disabled_still_sends(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	wr(f, 0, ICR_HIGH, 1u << 24);
	wr(f, 0, ICR, 0x44);
	assert_int_equal(lapic_pending(f->cpu[1]), 0x44);
}

static void globally_disabled_takes_nothing(void **state)
{
	static const enum lapic_delivery modes[] = {LAPIC_FIXED, LAPIC_LOWEST, LAPIC_NMI,
	                                            LAPIC_INIT,  LAPIC_SIPI,   LAPIC_EXTINT};
	struct fixture *f = *state;

	enable(f, 4);
	assert_int_equal(lapic_set_base(f->cpu[4], LAPIC_BASE_DEFAULT), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(modes); i++) {
		struct lapic_irq irq = {.dest = 4, .mode = modes[i], .vector = 0x40};

		assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 0);
	}
	assert_int_equal(lapic_events(f->cpu[4]), 0);
	assert_int_equal(f->notified[4], 0);
}

/* ----------------------------------------------------------------------------- destinations */

/* CPUs 0-3: xAPIC flat with LDR 1 << n; 4-7: xAPIC cluster, CPU 4 and 5 in cluster 1, 6 and 7 in cluster 2, both with
 * members 1 and 2; 8: xAPIC with LDR 0; 9: a DFR that means nothing; from 16 on: x2APIC; the others are disabled. */
static void spread(struct fixture *f)
{
	for (unsigned i = 0; i < 10; i++)
		enable(f, i);
	for (unsigned i = 0; i < 4; i++)
		wr(f, i, LDR, 1u << (24 + i));
	for (unsigned i = 4; i < 8; i++) {
		wr(f, i, DFR, 0);
		wr(f, i, LDR, (i < 6 ? 0x10u : 0x20u) << 24 | 1u << (24 + (i & 1)));
	}
	wr(f, 9, DFR, 0x70000000);
	wr(f, 9, LDR, 0xff000000);
	for (unsigned i = 16; i < CPUS; i++)
		to_x2apic(f, i);
}

static uint64_t receivers(struct fixture *f, uint8_t vector)
{
	uint64_t set = 0;

	for (unsigned i = 0; i < CPUS; i++)
		set |= (uint64_t)requested(f, i, vector) << i;
	return set;
}

#define X2_ALL  (((1ull << CPUS) - 1) & ~0xffffull)
#define ENABLED (X2_ALL | 0x3ff)

static void destinations(void **state)
{
	static const struct {
		const char *name;
		uint32_t dest;
		bool wide, logical;
		uint64_t set;
	} table[] = {
		{"physical", 2, false, false, 1u << 2},
		{"physical to x2apic with 8 bits", 20, false, false, 1u << 20},
		{"physical to xapic with 32 bits", 2, true, false, 1u << 2},
		{"physical to nobody", 200, false, false, 0},
		{"physical to nobody with 32 bits", 0x80000002, true, false, 0},
		{"physical to a disabled one", 12, false, false, 0},
		{"broadcast", 0xff, false, false, ENABLED},
		{"broadcast with 32 bits", UINT32_MAX, true, false, ENABLED},
		{"0xff with 32 bits is an id", 0xff, true, false, 0},
		{"logical broadcast", 0xff, false, true, ENABLED},
		{"logical broadcast with 32 bits", UINT32_MAX, true, true, ENABLED},
		{"flat, one", 0x08, false, true, 1u << 3},
		{"flat two, cluster 0", 0x0c, false, true, 3u << 2},
		{"flat none, cluster 1 both", 0x13, false, true, 0x3 | 3u << 4},
		{"cluster 1, second member", 0x12, false, true, 1u << 1 | 1u << 5},
		{"cluster 2, first member", 0x21, false, true, 1u << 0 | 1u << 6},
		{"cluster 2, member nobody is", 0x28, false, true, 1u << 3},
		{"a model that is neither matches nothing", 0xf1, false, true, 1u << 0},
		{"logical to nobody", 0, false, true, 0},
		{"x2apic cluster 1, all", 1u << 16 | 0xffff, true, true, 0xffff0000},
		{"x2apic cluster 1, two", 1u << 16 | 0x8001, true, true, 1ull << 16 | 1ull << 31},
		{"x2apic cluster 2", 2u << 16 | 0xff, true, true, 0xffull << 32},
		{"x2apic cluster 2, beyond the last cpu", 2u << 16 | 0xff00, true, true, 0},
		{"x2apic cluster 3: nobody", 3u << 16 | 0xffff, true, true, 0},
		{"x2apic cluster without members", 1u << 16, true, true, 0},
	};
	struct fixture *f = *state;

	spread(f);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		struct lapic_irq irq = {.dest = table[i].dest,
		                        .dest_x2apic = table[i].wide,
		                        .logical = table[i].logical,
		                        .vector = (uint8_t)(0x40 + i)};
		unsigned taken = lapics_deliver(f->l, &irq, WAKE_DEVICE);

		if (receivers(f, irq.vector) != table[i].set)
			fail_msg("%s: %#llx", table[i].name, (unsigned long long)receivers(f, irq.vector));
		assert_int_equal(taken, __builtin_popcountll(table[i].set));
	}
}

static void low_x2apic_ids_are_reached_by_an_8_bit_logical_mask(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 0x81, .logical = true, .vector = 0x50};

	for (unsigned i = 0; i < CPUS; i++)
		to_x2apic(f, i);
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 2);
	assert_int_equal(receivers(f, 0x50), 0x81);
}

static void shorthands(void **state)
{
	static const struct {
		unsigned sender, shorthand;
		uint64_t set;
	} table[] = {
		{1, 0, 1u << 2},  {1, 1, 1u << 1},   {1, 2, ENABLED},  {1, 3, ENABLED & ~(1ull << 1)},
		{20, 0, 1u << 2}, {20, 1, 1u << 20}, {20, 2, ENABLED}, {20, 3, ENABLED & ~(1ull << 20)},
	};
	struct fixture *f = *state;

	spread(f);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		uint8_t vector = (uint8_t)(0x40 + i);
		unsigned sender = table[i].sender;
		uint32_t low = table[i].shorthand << 18 | vector;

		memset(f->notified, 0, sizeof(f->notified));
		if (sender < 16) {
			wr(f, sender, ICR_HIGH, 2u << 24);
			wr(f, sender, ICR, low);
		} else {
			assert_int_equal(wrmsr(f, sender, msr_of(ICR), 2ull << 32 | low), 0);
		}
		assert_true(receivers(f, vector) == table[i].set);
		for (unsigned cpu = 0; cpu < CPUS; cpu++) {
			bool told = (table[i].set >> cpu & 1) && cpu != sender; /* its own owner is here */

			assert_int_equal(f->notified[cpu], told);
		}
	}
}

static void self_ipi_register(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 20);
	assert_int_equal(wrmsr(f, 20, msr_of(SELF_IPI), 0x77), 0);
	assert_int_equal(lapic_pending(f->cpu[20]), 0x77);
	assert_int_equal(rdmsr(f, 20, msr_of(ICR)), 0); /* does not pass through the ICR */
	assert_int_equal(f->notified[20], 0);
}

static void ipis_are_edges_whatever_the_trigger_bit_says(void **state)
{
	static const uint32_t low[] = {0, 1u << 14, 1u << 15, 3u << 14};
	struct fixture *f = *state;

	enable(f, 0);
	enable(f, 1);
	wr(f, 0, ICR_HIGH, 1u << 24);
	for (unsigned i = 0; i < ARRAY_SIZE(low); i++) {
		wr(f, 0, ICR, low[i] | 0x40);
		assert_int_equal(lapic_ack(f->cpu[1]), 0x40);
		assert_int_equal(rd(f, 1, TMR + 0x20), 0);
		wr(f, 1, EOI, 0);
		assert_int_equal(f->eois, 0);
	}
}

static void icr_delivery_status_reads_idle(void **state)
{
	struct fixture *f = *state;

	wr(f, 0, ICR, 0x1040);
	assert_int_equal(rd(f, 0, ICR), 0x40);
}

/* -------------------------------------------------------------------------- lowest priority */

static void lowest_priority_goes_to_the_lowest_ppr(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 0x0f, .logical = true, .mode = LAPIC_LOWEST, .vector = 0x50};

	spread(f);
	wr(f, 0, TPR, 0x30);
	wr(f, 1, TPR, 0x20);
	wr(f, 2, TPR, 0x10);
	post(f, 3, 0x60, false);
	lapic_ack(f->cpu[3]);
	for (unsigned i = 0; i < 4; i++) {
		irq.vector = (uint8_t)(0x50 + i);
		assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
		assert_int_equal(receivers(f, irq.vector), 1u << 2);
	}
	lapic_eoi(f->cpu[3]);
	irq.vector = 0x55;
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
	assert_int_equal(receivers(f, 0x55), 1u << 3);
}

static void lowest_priority_takes_turns_among_equals(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 0x0f, .logical = true, .mode = LAPIC_LOWEST, .vector = 0x50};

	spread(f);
	for (unsigned class = 0; class < 16; class += 5) {
		memset(f->notified, 0, sizeof(f->notified));
		for (unsigned i = 0; i < 4; i++)
			wr(f, i, TPR, class << 4);
		for (unsigned i = 0; i < 40; i++)
			assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(f->notified[i], 10);
	}
}

static void lowest_priority_skips_the_disabled(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 0x0f, .logical = true, .mode = LAPIC_LOWEST, .vector = 0x50};

	spread(f);
	for (unsigned i = 0; i < 4; i++)
		wr(f, i, SVR, i == 2 ? 0x1ff : 0xff);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 1);
	assert_int_equal(f->notified[2], 8);
	wr(f, 2, SVR, 0xff);
	assert_int_equal(lapics_deliver(f->l, &irq, WAKE_DEVICE), 0);
}

/* ------------------------------------------------------------------------ NMI, INIT and SIPI */

static void events_and_their_causes(void **state)
{
	static const struct {
		enum lapic_delivery mode;
		uint32_t event;
		enum wake_cause cause;
	} table[] = {
		{LAPIC_NMI, LAPIC_EVENT_NMI, WAKE_NMI},
		{LAPIC_INIT, LAPIC_EVENT_INIT, WAKE_INIT},
		{LAPIC_SIPI, LAPIC_EVENT_SIPI, WAKE_INIT},
	};
	struct fixture *f = *state;
	uint8_t vector;

	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		wr(f, 0, ICR_HIGH, 3u << 24);
		wr(f, 0, ICR, (uint32_t)table[i].mode << 8 | 1u << 14 | 0x9a);
		assert_int_equal(lapic_events(f->cpu[3]), table[i].event);
		assert_int_equal(f->notified[3], i + 1);
		assert_int_equal(f->cause[3], table[i].cause);
		assert_int_equal(lapic_take_events(f->cpu[3], &vector), table[i].event);
		assert_int_equal(vector, table[i].mode == LAPIC_SIPI ? 0x9a : 0);
		assert_int_equal(lapic_take_events(f->cpu[3], &vector), 0);
		assert_int_equal(vector, 0);
	}
}

static void fixed_ipis_and_devices_tell_their_cause(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	wr(f, 0, ICR_HIGH, 1u << 24);
	wr(f, 0, ICR, 0x40);
	assert_int_equal(f->cause[1], WAKE_IPI);
	post(f, 1, 0x41, false);
	assert_int_equal(f->cause[1], WAKE_DEVICE);
}

static void init_deassert_is_ignored(void **state)
{
	static const struct {
		uint32_t bits;
		bool taken;
	} table[] = {{0, true}, {1u << 14, true}, {1u << 15, false}, {3u << 14, true}};
	struct fixture *f = *state;

	wr(f, 0, ICR_HIGH, 3u << 24);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		wr(f, 0, ICR, 0x500 | table[i].bits);
		assert_int_equal(lapic_take_events(f->cpu[3], NULL), table[i].taken ? LAPIC_EVENT_INIT : 0);
	}
}

static void of_several_sipis_the_first_counts_and_init_drops_what_came_before(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 3, .mode = LAPIC_SIPI, .vector = 0x10};
	uint8_t vector;

	lapics_deliver(f->l, &irq, WAKE_IPI);
	irq.vector = 0x2f;
	lapics_deliver(f->l, &irq, WAKE_IPI);
	assert_int_equal(lapic_take_events(f->cpu[3], &vector), LAPIC_EVENT_SIPI);
	assert_int_equal(vector, 0x10);

	lapics_deliver(f->l, &irq, WAKE_IPI);
	irq.mode = LAPIC_NMI;
	lapics_deliver(f->l, &irq, WAKE_IPI);
	irq.mode = LAPIC_INIT;
	lapics_deliver(f->l, &irq, WAKE_IPI);
	assert_int_equal(lapic_events(f->cpu[3]), LAPIC_EVENT_INIT);
	irq.mode = LAPIC_NMI;
	lapics_deliver(f->l, &irq, WAKE_IPI);
	irq.mode = LAPIC_SIPI;
	irq.vector = 0x30;
	lapics_deliver(f->l, &irq, WAKE_IPI);
	assert_int_equal(lapic_take_events(f->cpu[3], &vector), LAPIC_EVENT_INIT | LAPIC_EVENT_NMI | LAPIC_EVENT_SIPI);
	assert_int_equal(vector, 0x30);
}

static void reserved_modes_in_the_icr_send_nothing(void **state)
{
	static const uint32_t modes[] = {LAPIC_SMI, 3, LAPIC_EXTINT};
	struct fixture *f = *state;

	enable(f, 3);
	for (unsigned i = 0; i < ARRAY_SIZE(modes); i++) {
		wr(f, 0, ICR_HIGH, 3u << 24);
		wr(f, 0, ICR, modes[i] << 8 | 0x40);
		assert_int_equal(f->notified[3], 0);
		assert_int_equal(lapic_events(f->cpu[3]), 0);
		assert_int_equal(lapic_pending(f->cpu[3]), -1);
	}
}

static void init_keeps_id_and_mode_and_newer_events(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 3, .mode = LAPIC_SIPI, .vector = 0x10};
	uint8_t vector;

	to_x2apic(f, 3);
	assert_int_equal(wrmsr(f, 3, msr_of(TPR), 0x20), 0);
	assert_int_equal(wrmsr(f, 3, msr_of(LVT_TIMER), DEADLINE | 0x40), 0);
	assert_int_equal(wrmsr(f, 3, MSR_IA32_TSC_DEADLINE, f->now + 10), 0);
	post(f, 3, 0x90, true);
	post(f, 3, 0x91, true);
	lapic_ack(f->cpu[3]);
	lapics_deliver(f->l, &irq, WAKE_IPI);
	lapic_reset(f->cpu[3], true);
	assert_int_equal(rdmsr(f, 3, msr_of(ID)), 3);
	assert_int_equal(lapic_base(f->cpu[3]), LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE | APIC_BASE_X2APIC);
	assert_int_equal(rdmsr(f, 3, msr_of(SVR)), 0xff);
	assert_int_equal(rdmsr(f, 3, msr_of(TPR)), 0);
	assert_int_equal(rdmsr(f, 3, msr_of(PPR)), 0);
	assert_int_equal(rdmsr(f, 3, msr_of(LVT_TIMER)), MASKED);
	assert_int_equal(rdmsr(f, 3, MSR_IA32_TSC_DEADLINE), 0);
	assert_int_equal(rdmsr(f, 3, msr_of(TMR + 0x40)), 0);
	assert_int_equal(lapic_pending(f->cpu[3]), -1);
	assert_int_equal(lapic_take_events(f->cpu[3], &vector), LAPIC_EVENT_SIPI);
	assert_int_equal(vector, 0x10);
}

static void reset_returns_to_xapic_and_drops_events(void **state)
{
	struct fixture *f = *state;
	struct lapic_irq irq = {.dest = 0, .mode = LAPIC_NMI};

	to_x2apic(f, 0);
	lapics_deliver(f->l, &irq, WAKE_IPI);
	lapic_reset(f->cpu[0], false);
	assert_int_equal(lapic_base(f->cpu[0]), LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE | APIC_BASE_BSP);
	assert_int_equal(lapic_events(f->cpu[0]), 0);
	assert_int_equal(rd(f, 0, SVR), 0xff);
}

/* -------------------------------------------------------------------------------------- MSI */

static void messages(void **state)
{
	static const struct {
		const char *name;
		uint64_t address;
		uint32_t data;
		unsigned taken;
		uint64_t set;
	} table[] = {
		{"physical", 0xfee02000, 0x40, 1, 1u << 2},
		{"physical, assert bit ignored for an edge", 0xfee02000, 0x4041, 1, 1u << 2},
		{"logical flat", 0xfee0c004, 0x42, 2, 3u << 2},
		{"broadcast", 0xfeeff000, 0x43, __builtin_popcountll(ENABLED), ENABLED},
		{"lowest of two: the less busy one", 0xfee0300c, 0x0144, 1, 1u << 1},
		{"a hint makes fixed lowest", 0xfee0300c, 0x45, 1, 1u << 1},
		{"level, asserted", 0xfee02000, 0xc046, 1, 1u << 2},
		{"level, de-asserted", 0xfee02000, 0x8047, 0, 0},
		{"smi", 0xfee02000, 0x0248, 0, 0},
		{"reserved mode", 0xfee02000, 0x0349, 0, 0},
		{"sipi is no message", 0xfee02000, 0x064a, 0, 0},
		{"vector too low", 0xfee02000, 0x0f, 0, 0},
		{"not an interrupt address", 0xfed02000, 0x4c, 0, 0},
		{"not an interrupt address, upper half", 0x1fee02000, 0x4d, 0, 0},
		{"address zero", 0, 0x4e, 0, 0},
	};
	struct fixture *f = *state;

	spread(f);
	wr(f, 0, TPR, 0x10);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		struct msi_msg msg = {.address = table[i].address, .data = table[i].data};

		if (lapics_msi(f->l, &msg) != table[i].taken || receivers(f, (uint8_t)table[i].data) != table[i].set)
			fail_msg("%s", table[i].name);
	}
	assert_int_equal(rd(f, 2, TMR + 0x20), 1u << 6);
}

static void nmi_init_and_extint_as_messages(void **state)
{
	struct fixture *f = *state;
	struct msi_msg msg = {.address = 0xfee05000, .data = 0x400};

	assert_int_equal(lapics_msi(f->l, &msg), 1);
	assert_int_equal(f->cause[5], WAKE_NMI);
	assert_int_equal(lapic_take_events(f->cpu[5], NULL), LAPIC_EVENT_NMI);
	msg.data = 0x500;
	assert_int_equal(lapics_msi(f->l, &msg), 1);
	assert_int_equal(lapic_take_events(f->cpu[5], NULL), LAPIC_EVENT_INIT);
	msg.data = 0x700;
	assert_int_equal(lapics_msi(f->l, &msg), 1);
	assert_int_equal(lapic_take_events(f->cpu[5], NULL), LAPIC_EVENT_EXTINT);
	assert_int_equal(lapic_pending(f->cpu[5]), -1);
}

/* ------------------------------------------------------------------------------ LINT0, LINT1 */

static void lint_pins_do_what_their_lvt_says(void **state)
{
	static const struct {
		uint32_t lvt, events;
		int pending;
	} table[] = {
		{MASKED | 0x400, 0, -1},
		{0x400, LAPIC_EVENT_NMI, -1},
		{0x700, LAPIC_EVENT_EXTINT, -1},
		{0x500, LAPIC_EVENT_INIT, -1},
		{0x200, 0, -1},
		{0x300, 0, -1},
		{0x600 | 0x40, 0, -1},
		{0x100 | 0x40, 0, -1},
		{0x040, 0, 0x40},
	};
	struct fixture *f = *state;

	enable(f, 2);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		wr(f, 2, i & 1 ? LVT_LINT1 : LVT_LINT0, table[i].lvt);
		lapic_lint(f->cpu[2], i & 1);
		assert_int_equal(lapic_take_events(f->cpu[2], NULL), table[i].events);
		assert_int_equal(lapic_pending(f->cpu[2]), table[i].pending);
	}
}

static void lint_pins_of_a_disabled_apic_are_intr_and_nmi(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lapic_set_base(f->cpu[2], LAPIC_BASE_DEFAULT), 0);
	lapic_lint(f->cpu[2], 1);
	assert_int_equal(lapic_take_events(f->cpu[2], NULL), LAPIC_EVENT_NMI);
	assert_int_equal(f->cause[2], WAKE_NMI);
	lapic_lint(f->cpu[2], 0);
	assert_int_equal(lapic_take_events(f->cpu[2], NULL), LAPIC_EVENT_EXTINT);
}

/* ----------------------------------------------------------------------------------- errors */

static void esr_shows_errors_only_after_a_write(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	post(f, 1, 0x0f, false);
	assert_int_equal(rd(f, 1, ESR), 0);
	wr(f, 1, ESR, 0x1234);
	assert_int_equal(rd(f, 1, ESR), 0x40);
	assert_int_equal(rd(f, 1, ESR), 0x40);
	wr(f, 1, ESR, 0);
	assert_int_equal(rd(f, 1, ESR), 0);
}

static void illegal_vectors_are_errors_at_both_ends(void **state)
{
	struct fixture *f = *state;

	enable(f, 0);
	enable(f, 1);
	for (uint32_t vector = 0; vector < 20; vector++) {
		wr(f, 0, ICR_HIGH, 1u << 24);
		wr(f, 0, ICR, vector);
		wr(f, 0, ESR, 0);
		wr(f, 1, ESR, 0);
		assert_int_equal(rd(f, 0, ESR), vector < 16 ? 0x20 : 0);
		assert_int_equal(rd(f, 1, ESR), vector < 16 ? 0x40 : 0);
		assert_int_equal(requested(f, 1, (uint8_t)vector), vector >= 16);
	}
	wr(f, 0, ICR, 0x400); /* an NMI has no vector to be wrong */
	wr(f, 0, ESR, 0);
	assert_int_equal(rd(f, 0, ESR), 0);
}

static void illegal_vector_by_self_ipi_and_timer(void **state)
{
	struct fixture *f = *state;

	to_x2apic(f, 0);
	assert_int_equal(wrmsr(f, 0, msr_of(SELF_IPI), 0x0f), 0);
	assert_int_equal(wrmsr(f, 0, msr_of(ESR), 1), GP);
	assert_int_equal(wrmsr(f, 0, msr_of(ESR), 0), 0);
	assert_int_equal(rdmsr(f, 0, msr_of(ESR)), 0x60);
	assert_int_equal(wrmsr(f, 0, msr_of(LVT_TIMER), 0x0f), 0);
	assert_int_equal(wrmsr(f, 0, msr_of(INITIAL), 1), 0);
	f->now += 100;
	assert_false(lapic_timer_expire(f->cpu[0], f->now));
	assert_int_equal(wrmsr(f, 0, msr_of(ESR), 0), 0);
	assert_int_equal(rdmsr(f, 0, msr_of(ESR)), 0x40);
	assert_int_equal(lapic_pending(f->cpu[0]), -1);
}

static void error_interrupt_once_per_rearm(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	wr(f, 1, LVT_ERROR, 0xfe);
	post(f, 1, 3, false);
	assert_int_equal(f->notified[1], 1);
	assert_int_equal(lapic_ack(f->cpu[1]), 0xfe);
	wr(f, 1, EOI, 0);
	post(f, 1, 3, false);
	(void)rd(f, 1, 0x400);
	assert_int_equal(lapic_ack(f->cpu[1]), -1);
	assert_int_equal(f->notified[1], 1);
	wr(f, 1, ESR, 0);
	assert_int_equal(rd(f, 1, ESR), 0xc0);
	(void)rd(f, 1, 0x400);
	assert_int_equal(lapic_ack(f->cpu[1]), 0xfe);
}

static void error_while_masked_does_not_use_up_the_interrupt(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	post(f, 1, 3, false);
	assert_int_equal(lapic_pending(f->cpu[1]), -1);
	wr(f, 1, LVT_ERROR, 0xfe);
	assert_int_equal(lapic_pending(f->cpu[1]), -1);
	post(f, 1, 3, false);
	assert_int_equal(lapic_pending(f->cpu[1]), 0xfe);
}

static void error_interrupt_with_an_illegal_vector_does_not_recurse(void **state)
{
	struct fixture *f = *state;

	enable(f, 1);
	wr(f, 1, LVT_ERROR, 0x02);
	(void)rd(f, 1, 0x400);
	assert_int_equal(lapic_pending(f->cpu[1]), -1);
	wr(f, 1, ESR, 0);
	assert_int_equal(rd(f, 1, ESR), 0xc0);
}

/* ----------------------------------------------------------------------------------- stress */

/* Posters never post a vector again before its owner took it, so each post must come out: a lost one leaves an owner
 * asleep, which its futex timeout reports. */
enum {
	OWNERS = 2,
	POSTERS = 4,
	VECTORS = 8, /* per poster */
	ROUNDS = 1500,
};

struct stress {
	struct lapics *l;
	struct wake wake[OWNERS];
	atomic_bool taken[256];
	atomic_bool nmi_taken;
	atomic_uint count[256], nmis, levels, eois;
	atomic_bool stop, lost;
};

struct stress_thread {
	struct stress *s;
	unsigned index;
};

static void stress_notify(void *ctx, unsigned cpu, enum wake_cause cause)
{
	struct stress *s = ctx;

	wake_post(&s->wake[cpu], cause, 1);
}

static void stress_eoi(void *ctx, uint8_t vector)
{
	struct stress *s = ctx;

	(void)vector;
	atomic_fetch_add(&s->eois, 1);
}

static void no_kick(void *ctx)
{
	(void)ctx;
}

/* Level for the vectors of odd number, so that TMR is written by several threads too. */
static void stress_post(struct stress *s, uint8_t vector, unsigned round)
{
	struct msi_msg msg = {
		.address = 0xfee00000 | (uint64_t)(round % OWNERS) << 12,
		.data = vector,
	};

	if (vector & 1) {
		msg.data |= 3u << 14;
		atomic_fetch_add(&s->levels, 1);
	}
	if (round % 3 == 0) { /* lowest priority: either of them */
		msg.address = 0xfee0300c;
		msg.data |= LAPIC_LOWEST << 8;
	}
	if (lapics_msi(s->l, &msg) != 1)
		atomic_store(&s->lost, true);
}

static void wait_for(struct stress *s, atomic_bool *flag)
{
	while (!atomic_exchange(flag, false) && !atomic_load(&s->lost))
		sched_yield();
}

/* All in one word of IRR, so that posters and owner change it at the same time. */
static uint8_t stress_vector(const struct stress_thread *t, unsigned i)
{
	return (uint8_t)(0x40 + t->index * VECTORS + i);
}

static void *stress_poster(void *arg)
{
	struct stress_thread *t = arg;
	struct stress *s = t->s;

	for (unsigned round = 0; round < ROUNDS && !atomic_load(&s->lost); round++) {
		for (unsigned i = 0; i < VECTORS; i++) {
			wait_for(s, &s->taken[stress_vector(t, i)]);
			stress_post(s, stress_vector(t, i), round);
		}
		if (t->index == 0) {
			struct lapic_irq nmi = {.dest = round % OWNERS, .mode = LAPIC_NMI};

			wait_for(s, &s->nmi_taken);
			lapics_deliver(s->l, &nmi, WAKE_DEVICE);
		}
	}
	/* Until the last of each is out. */
	for (unsigned i = 0; i < VECTORS; i++)
		wait_for(s, &s->taken[stress_vector(t, i)]);
	if (t->index == 0)
		wait_for(s, &s->nmi_taken);
	return NULL;
}

static bool stress_look(struct stress *s, struct lapic *a)
{
	bool found = false;
	int vector;

	if (lapic_take_events(a, NULL) & LAPIC_EVENT_NMI) {
		atomic_fetch_add(&s->nmis, 1);
		atomic_store(&s->nmi_taken, true);
		found = true;
	}
	while ((vector = lapic_ack(a)) >= 0) {
		lapic_eoi(a);
		atomic_fetch_add(&s->count[vector], 1);
		atomic_store(&s->taken[vector], true);
		found = true;
	}
	return found;
}

static void *stress_owner(void *arg)
{
	struct stress_thread *t = arg;
	struct stress *s = t->s;
	struct wake *w = &s->wake[t->index];
	struct lapic *a = lapics_get(s->l, t->index);

	while (!atomic_load(&s->stop)) {
		uint32_t ticket = wake_ticket(w);

		if (stress_look(s, a) || atomic_load(&s->stop))
			continue;
		if (wake_block(w, ticket, clock_ns() + 10000000000ull) == -ETIMEDOUT)
			atomic_store(&s->lost, true);
	}
	return NULL;
}

static void no_interrupt_is_lost_between_threads(void **state)
{
	struct stress *s = calloc(1, sizeof(*s));
	struct lapic_sink sink = {.notify = stress_notify, .eoi = stress_eoi, .ctx = s};
	struct stress_thread threads[OWNERS + POSTERS];
	pthread_t id[OWNERS + POSTERS];
	unsigned total = 0;

	(void)state;
	assert_non_null(s);
	s->l = lapics_create(OWNERS, MHZ_1000, true, true, &sink);
	assert_non_null(s->l);
	for (unsigned i = 0; i < OWNERS; i++) {
		struct lapic *a = lapics_get(s->l, i);

		wake_init(&s->wake[i], no_kick, NULL);
		lapic_mmio_write(a, SVR, 4, 0x1ff, 0);
		lapic_mmio_write(a, LDR, 4, 1u << (24 + i), 0);
	}
	for (unsigned i = 0; i < 256; i++)
		atomic_store(&s->taken[i], true);
	atomic_store(&s->nmi_taken, true);
	for (unsigned i = 0; i < OWNERS + POSTERS; i++) {
		threads[i] = (struct stress_thread){s, i < OWNERS ? i : i - OWNERS};
		assert_int_equal(pthread_create(&id[i], NULL, i < OWNERS ? stress_owner : stress_poster, &threads[i]),
		                 0);
	}
	for (unsigned i = OWNERS; i < OWNERS + POSTERS; i++)
		pthread_join(id[i], NULL);
	atomic_store(&s->stop, true);
	for (unsigned i = 0; i < OWNERS; i++) {
		wake_post(&s->wake[i], WAKE_REQUEST, 1);
		pthread_join(id[i], NULL);
	}
	for (unsigned i = 0; i < 256; i++)
		total += atomic_load(&s->count[i]);
	assert_false(atomic_load(&s->lost));
	assert_int_equal(total, POSTERS * VECTORS * ROUNDS);
	assert_int_equal(atomic_load(&s->nmis), ROUNDS);
	assert_int_equal(atomic_load(&s->eois), atomic_load(&s->levels));
	lapics_destroy(s->l);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(higher_class_interrupts_lower_and_nests),
		T(tpr_holds_back_its_class_and_those_below),
		T(priorities_agree_with_a_model),
		T(cr8_keeps_the_subclass_when_it_says_nothing_new),
		T(pv_eoi_only_for_one_lone_edge),
		T(eoi_of_a_level_is_broadcast_and_of_an_edge_not),
		T(eoi_broadcast_can_be_suppressed),
		T(x2apic_eoi_takes_zero_only),
		T(software_disabled_takes_events_but_no_vectors),
		T(software_disabled_keeps_and_delivers_what_it_holds),
		T(software_disabled_masks_lvt_and_keeps_it_masked),
		T(software_disabled_still_sends),
		T(globally_disabled_takes_nothing),
		T(destinations),
		T(low_x2apic_ids_are_reached_by_an_8_bit_logical_mask),
		T(shorthands),
		T(self_ipi_register),
		T(ipis_are_edges_whatever_the_trigger_bit_says),
		T(icr_delivery_status_reads_idle),
		T(lowest_priority_goes_to_the_lowest_ppr),
		T(lowest_priority_takes_turns_among_equals),
		T(lowest_priority_skips_the_disabled),
		T(events_and_their_causes),
		T(fixed_ipis_and_devices_tell_their_cause),
		T(init_deassert_is_ignored),
		T(of_several_sipis_the_first_counts_and_init_drops_what_came_before),
		T(reserved_modes_in_the_icr_send_nothing),
		T(init_keeps_id_and_mode_and_newer_events),
		T(reset_returns_to_xapic_and_drops_events),
		T(messages),
		T(nmi_init_and_extint_as_messages),
		T(lint_pins_do_what_their_lvt_says),
		T(lint_pins_of_a_disabled_apic_are_intr_and_nmi),
		T(esr_shows_errors_only_after_a_write),
		T(illegal_vectors_are_errors_at_both_ends),
		T(illegal_vector_by_self_ipi_and_timer),
		T(error_interrupt_once_per_rearm),
		T(error_while_masked_does_not_use_up_the_interrupt),
		T(error_interrupt_with_an_illegal_vector_does_not_recurse),
		cmocka_unit_test(no_interrupt_is_lost_between_threads),
	};

	return cmocka_run_group_tests_name("lapic", tests, NULL, NULL);
}
