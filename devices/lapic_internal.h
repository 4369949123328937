/* SPDX-License-Identifier: Apache-2.0 */
/* lapic_internal.h - what lapic.c (delivery and priorities), lapic_regs.c (the guest's view) and lapic_timer.c share.
 * Nobody else includes it. */
#ifndef LULL_LAPIC_INTERNAL_H
#define LULL_LAPIC_INTERNAL_H

#include "lapic.h"

#include <stdatomic.h>

/* Register numbers: MMIO offset >> 4, MSR index - 0x800. SDM vol. 3, tables 11-1 and 11-6. */
enum {
	REG_ID = 0x02,
	REG_VERSION = 0x03,
	REG_TPR = 0x08,
	REG_APR = 0x09,
	REG_PPR = 0x0a,
	REG_EOI = 0x0b,
	REG_RRD = 0x0c,
	REG_LDR = 0x0d,
	REG_DFR = 0x0e,
	REG_SVR = 0x0f,
	REG_ISR = 0x10, /* 8 registers each */
	REG_TMR = 0x18,
	REG_IRR = 0x20,
	REG_ESR = 0x28,
	REG_ICR = 0x30,
	REG_ICR_HIGH = 0x31,
	REG_LVT = 0x32, /* + enum lapic_lvt */
	REG_INITIAL_COUNT = 0x38,
	REG_CURRENT_COUNT = 0x39,
	REG_DIVIDE = 0x3e,
	REG_SELF_IPI = 0x3f,
	REG_COUNT = 0x40
};

enum lapic_lvt {
	LVT_TIMER,
	LVT_THERMAL,
	LVT_PERF,
	LVT_LINT0,
	LVT_LINT1,
	LVT_ERROR,
	LVT_COUNT
};

enum {
	LVT_STATUS = 1u << 12,
	LVT_POLARITY = 1u << 13,
	LVT_REMOTE_IRR = 1u << 14,
	LVT_LEVEL = 1u << 15,
	LVT_MASKED = 1u << 16,
	LVT_TIMER_DEADLINE = 1u << 18,
};

enum {
	SVR_ENABLE = 1u << 8,
	SVR_FOCUS = 1u << 9, /* a bit that can be set and does nothing */
	SVR_NO_EOI_BROADCAST = 1u << 12,
};

/* SDM vol. 3, 11.5.3. */
enum {
	ERROR_SEND_VECTOR = 1u << 5,
	ERROR_RECEIVE_VECTOR = 1u << 6,
	ERROR_REGISTER = 1u << 7,
	ERROR_SIGNALLED = 1u << 31, /* ours: the error interrupt was sent, and not rearmed by a write to ESR */
};

/* SDM vol. 3, 11.6.1. */
enum {
	ICR_LOGICAL = 1u << 11,
	ICR_STATUS = 1u << 12,
	ICR_ASSERT = 1u << 14,
	ICR_LEVEL = 1u << 15,
	ICR_SHORTHAND_SHIFT = 18,
};

#define VECTOR_FIRST_LEGAL 16

struct lapic_timer {
	bool armed;
	uint32_t initial_count;
	uint32_t divide;   /* the register */
	uint64_t end_tsc;  /* host TSC of the next expiry, while armed */
	uint64_t deadline; /* IA32_TSC_DEADLINE, guest TSC; 0 when not armed */
	int64_t tsc_offset;
	uint64_t last_tsc; /* newest host TSC seen */
};

struct lapic {
	/* Posters and owner: atomic. */
	_Alignas(64) _Atomic uint32_t irr[8];
	_Atomic uint32_t tmr[8];

	/* Posters and owner: atomic. */
	_Alignas(64) _Atomic uint32_t events;
	_Atomic uint32_t errors; /* since the last write to ESR */

	/* Written by the owner, read by posters: atomic. */
	_Alignas(64) _Atomic uint64_t base;
	_Atomic uint32_t svr;
	_Atomic uint32_t ldr; /* xAPIC; in x2APIC mode it follows from the ID */
	_Atomic uint32_t dfr;
	_Atomic uint32_t ppr;
	_Atomic uint32_t lvt[LVT_COUNT];

	/* Constant. */
	struct lapics *all;
	uint32_t id;

	/* Owner. */
	_Alignas(64) uint32_t isr[8];
	uint32_t tpr;
	uint32_t esr;
	uint64_t icr;
	struct lapic_timer timer;
};

struct lapics {
	unsigned count;
	bool x2apic, tsc_deadline;
	uint64_t tsc_khz;
	struct lapic_sink sink;
	atomic_uint turn; /* any: where the search for the lowest priority starts */
	struct lapic apic[];
};

static inline bool lapic_enabled(const struct lapic *a)
{
	return atomic_load_explicit(&a->base, memory_order_acquire) & APIC_BASE_ENABLE;
}

static inline bool lapic_x2apic(const struct lapic *a)
{
	return atomic_load_explicit(&a->base, memory_order_acquire) & APIC_BASE_X2APIC;
}

/* Only while SVR says so are fixed interrupts accepted, and LVT entries unmasked. */
static inline bool lapic_accepts(const struct lapic *a)
{
	return lapic_enabled(a) && (atomic_load_explicit(&a->svr, memory_order_acquire) & SVR_ENABLE);
}

static inline uint32_t lapic_ldr_x2apic(uint32_t id)
{
	return (id >> 4) << 16 | 1u << (id & 15);
}

/* lapic.c */
void lapic_clear_state(struct lapic *a);
void lapic_update_ppr(struct lapic *a);
/* Any thread. vector is legal and the target accepts. */
void lapic_request(struct lapic *a, uint8_t vector, bool level);
/* Any thread. True when it requested the error interrupt. */
bool lapic_error(struct lapic *a, uint32_t error);
/* Owner: an interrupt of its own, edge-triggered. True when it, or an error interrupt for it, was requested. */
bool lapic_self(struct lapic *a, uint8_t vector);
/* Owner: an ICR was written, x2APIC layout of the destination or xAPIC's as the mode is. */
void lapic_send(struct lapic *a, uint64_t icr);

/* lapic_timer.c */
void lapic_timer_reset(struct lapic *a);
void lapic_timer_write_lvt(struct lapic *a, uint32_t value);
void lapic_timer_write_initial(struct lapic *a, uint32_t count, uint64_t now_tsc);
void lapic_timer_write_divide(struct lapic *a, uint32_t value, uint64_t now_tsc);
uint32_t lapic_timer_count(const struct lapic *a, uint64_t now_tsc);
uint64_t lapic_timer_read_deadline(const struct lapic *a);
void lapic_timer_write_deadline(struct lapic *a, uint64_t deadline, uint64_t now_tsc);
const char *lapic_timer_mode_name(const struct lapic *a);

#endif
