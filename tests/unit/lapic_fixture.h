/* SPDX-License-Identifier: Apache-2.0 */
/* lapic_fixture.h - the local APICs of a VM of 40 CPUs for tests: no clock runs, "now" is a variable, and one TSC tick
 * is a nanosecond unless a test says otherwise. */
#ifndef LULL_TEST_LAPIC_FIXTURE_H
#define LULL_TEST_LAPIC_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lapic.h"
#include "util.h"

#define CPUS     40
#define MHZ_1000 1000000ull /* kHz: a tick is a nanosecond */

/* Offsets in the page. */
enum {
	ID = 0x20,
	VERSION = 0x30,
	TPR = 0x80,
	APR = 0x90,
	PPR = 0xa0,
	EOI = 0xb0,
	RRD = 0xc0,
	LDR = 0xd0,
	DFR = 0xe0,
	SVR = 0xf0,
	ISR = 0x100,
	TMR = 0x180,
	IRR = 0x200,
	ESR = 0x280,
	ICR = 0x300,
	ICR_HIGH = 0x310,
	LVT_TIMER = 0x320,
	LVT_THERMAL = 0x330,
	LVT_PERF = 0x340,
	LVT_LINT0 = 0x350,
	LVT_LINT1 = 0x360,
	LVT_ERROR = 0x370,
	INITIAL = 0x380,
	CURRENT = 0x390,
	DIVIDE = 0x3e0,
	SELF_IPI = 0x3f0,
};

enum {
	MASKED = 1u << 16,
	PERIODIC = 1u << 17,
	DEADLINE = 2u << 17,
	DIVIDE_1 = 0xb,
	DIVIDE_2 = 0x0,
};

#define GP (-EINVAL)

struct fixture {
	struct lapics *l;
	struct lapic *cpu[CPUS];
	uint64_t now;
	unsigned notified[CPUS];
	enum wake_cause cause[CPUS];
	unsigned eois;
	uint8_t eoi_vector;
};

static inline void record_notify(void *ctx, unsigned cpu, enum wake_cause cause)
{
	struct fixture *f = ctx;

	f->notified[cpu]++;
	f->cause[cpu] = cause;
}

static inline void record_eoi(void *ctx, uint8_t vector)
{
	struct fixture *f = ctx;

	f->eois++;
	f->eoi_vector = vector;
}

static inline struct fixture *make(uint64_t tsc_khz, bool x2apic, bool tsc_deadline)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct lapic_sink sink = {.notify = record_notify, .eoi = record_eoi, .ctx = f};

	assert_non_null(f);
	f->l = lapics_create(CPUS, tsc_khz, x2apic, tsc_deadline, &sink);
	assert_non_null(f->l);
	for (unsigned i = 0; i < CPUS; i++)
		f->cpu[i] = lapics_get(f->l, i);
	f->now = 1000000;
	return f;
}

static inline int setup(void **state)
{
	*state = make(MHZ_1000, true, true);
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	lapics_destroy(f->l);
	free(f);
	return 0;
}

static inline uint32_t rd(struct fixture *f, unsigned cpu, unsigned offset)
{
	return (uint32_t)lapic_mmio_read(f->cpu[cpu], offset, 4, f->now);
}

static inline void wr(struct fixture *f, unsigned cpu, unsigned offset, uint32_t value)
{
	lapic_mmio_write(f->cpu[cpu], offset, 4, value, f->now);
}

static inline uint32_t msr_of(unsigned offset)
{
	return MSR_X2APIC_FIRST + (offset >> 4);
}

static inline uint64_t rdmsr(struct fixture *f, unsigned cpu, uint32_t index)
{
	uint64_t value = 0xdead;

	assert_int_equal(lapic_msr_read(f->cpu[cpu], index, &value, f->now), 0);
	return value;
}

static inline int wrmsr(struct fixture *f, unsigned cpu, uint32_t index, uint64_t value)
{
	return lapic_msr_write(f->cpu[cpu], index, value, f->now);
}

static inline void enable(struct fixture *f, unsigned cpu)
{
	wr(f, cpu, SVR, 0x1ff);
}

static inline void to_x2apic(struct fixture *f, unsigned cpu)
{
	assert_int_equal(lapic_set_base(f->cpu[cpu], lapic_base(f->cpu[cpu]) | APIC_BASE_X2APIC), 0);
	assert_int_equal(wrmsr(f, cpu, msr_of(SVR), 0x1ff), 0);
}

static inline unsigned post(struct fixture *f, unsigned cpu, uint8_t vector, bool level)
{
	struct lapic_irq irq = {.dest = cpu, .vector = vector, .level = level};

	return lapics_deliver(f->l, &irq, WAKE_DEVICE);
}

static inline bool requested(struct fixture *f, unsigned cpu, uint8_t vector)
{
	uint64_t word = 0;

	if (lapic_base(f->cpu[cpu]) & APIC_BASE_X2APIC)
		word = rdmsr(f, cpu, msr_of(IRR + (vector >> 5) * 16u));
	else
		word = rd(f, cpu, IRR + (vector >> 5) * 16u);
	return word >> (vector & 31) & 1;
}

static inline void start(struct fixture *f, uint32_t lvt, uint32_t divide, uint32_t count)
{
	enable(f, 0);
	wr(f, 0, LVT_TIMER, lvt);
	wr(f, 0, DIVIDE, divide);
	wr(f, 0, INITIAL, count);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
