/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lapic.h - the local APICs of one VM: registers, priorities, destinations and the timer. SDM vol. 3, chapter 11
 * (xAPIC and x2APIC). Pure: no clock, no KVM, no thread of its own; time comes in as the host's TSC.
 *
 * Threads. Each APIC has an owner, its vCPU's thread. Posters (any thread) only OR bits into IRR, TMR, the events
 * word and the error bits of a target and then call sink.notify; everything else belongs to the owner. What posters
 * must know of a target to match a destination (mode, LDR, DFR, enabled, priority) is written by the owner and read
 * atomically. No lock anywhere.
 *
 * An APIC's ID is the number of its CPU; it cannot be changed by the guest.
 */
#ifndef LULL_LAPIC_H
#define LULL_LAPIC_H

#include "irq.h"
#include "wake.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAPIC_BASE_DEFAULT 0xfee00000ull
#define LAPIC_SIZE         0x1000ull

enum {
	MSR_IA32_APIC_BASE = 0x1b,
	MSR_IA32_TSC_DEADLINE = 0x6e0,
	MSR_X2APIC_FIRST = 0x800,
	MSR_X2APIC_LAST = 0x8ff,
};

/* IA32_APIC_BASE: SDM vol. 3, 11.4.4 and 11.12.1. */
enum {
	APIC_BASE_BSP = 1u << 8,
	APIC_BASE_X2APIC = 1u << 10,
	APIC_BASE_ENABLE = 1u << 11,
};

/* Delivery modes: SDM vol. 3, 11.6.1 (ICR) and 11.5.1 (LVT). */
enum lapic_delivery {
	LAPIC_FIXED = 0,
	LAPIC_LOWEST = 1, /* to the matching APIC with the lowest class in PPR; equal ones take turns */
	LAPIC_SMI = 2,    /* there is no SMM: nobody takes it */
	LAPIC_NMI = 4,
	LAPIC_INIT = 5,
	LAPIC_SIPI = 6,
	LAPIC_EXTINT = 7,
};

struct lapic_irq {
	uint32_t dest;    /* APIC ID or logical mask; the broadcast value of its width means all */
	bool dest_x2apic; /* dest is 32 bits wide (from an x2APIC ICR), else 8 bits */
	bool logical;
	bool level; /* level-triggered: EOI is broadcast to the IOAPIC */
	enum lapic_delivery mode;
	uint8_t vector;
};

/* What posters leave for the owner, besides IRR. An INIT drops what was posted before it; of several SIPIs the
 * first one counts. Whether a SIPI means anything (the CPU waits for it) is for the owner to know. */
enum lapic_event {
	LAPIC_EVENT_NMI = 1u << 0,
	LAPIC_EVENT_INIT = 1u << 1,
	LAPIC_EVENT_SIPI = 1u << 2,   /* vector in bits 15:8 of the events word */
	LAPIC_EVENT_EXTINT = 1u << 3, /* there is no 8259: counted, never raised */
};

struct lapic_sink {
	/* Work for cpu was published. Any thread, also that of cpu itself (a device it just wrote to). Not called for
	 * what an APIC sends to itself: its owner looks for work before it enters the guest anyway. */
	void (*notify)(void *ctx, unsigned cpu, enum wake_cause cause);
	/* A level-triggered vector ended on some CPU: tell the IOAPIC. Owner's thread. */
	void (*eoi)(void *ctx, uint8_t vector);
	void *ctx;
};

struct lapic;
struct lapics;

/* The count-mode timer runs at LAPIC_TIMER_HZ before the divider. A periodic timer fires at most every
 * LAPIC_TIMER_MIN_PERIOD_NS: a guest cannot make its host take timer interrupts faster than it can run the handler.
 * It is what KVM's own APIC allows by default, so guests meet the same limit with either backend. */
#define LAPIC_TIMER_HZ            1000000000ull
#define LAPIC_TIMER_MIN_PERIOD_NS 200000ull

/* tsc_khz: rate of the TSC values given to lapic_*(), not 0. cpus: not 0. Features hidden here are hidden in CPUID by
 * the caller as well. NULL: no memory. */
struct lapics *lapics_create(unsigned cpus, uint64_t tsc_khz, bool x2apic, bool tsc_deadline,
                             const struct lapic_sink *sink);
void lapics_destroy(struct lapics *l);
struct lapic *lapics_get(struct lapics *l, unsigned cpu);

/* Any thread. Returns how many APICs took it: an APIC that is disabled (by software: for fixed and lowest priority;
 * globally: for all) takes nothing. The cause told to sink.notify is WAKE_NMI or WAKE_INIT where the mode says so. */
unsigned lapics_deliver(struct lapics *l, const struct lapic_irq *irq, enum wake_cause cause);
/* Any thread: decodes the message, then delivers it as WAKE_DEVICE. Anything that is no interrupt message: 0. */
unsigned lapics_msi(struct lapics *l, const struct msi_msg *msg);

/* Any thread: events posted and not yet taken. */
uint32_t lapic_events(const struct lapic *a);

/* LINT0/LINT1 input, a pulse: NMI, ExtINT, INIT or fixed as its LVT says. Any thread. */
void lapic_lint(struct lapic *a, unsigned lint);

/* ---- Owner only from here on ---- */

/* Power-up or RESET (init false) or INIT (init true: keeps the APIC ID, IA32_APIC_BASE and events posted since). */
void lapic_reset(struct lapic *a, bool init);

/* offset within the 4 KiB page. Accesses are 4 bytes at 16-byte aligned offsets; narrower reads within these 4 bytes
 * work too; others read as 0 / are dropped (SDM vol. 3, 11.4.1). All ones while the APIC is disabled or in x2APIC
 * mode. Calls with now_tsc first fire what is due: look at lapic_pending() after them. */
uint64_t lapic_mmio_read(struct lapic *a, uint64_t offset, unsigned size, uint64_t now_tsc);
void lapic_mmio_write(struct lapic *a, uint64_t offset, unsigned size, uint64_t value, uint64_t now_tsc);

/* MSR 0x800-0x8ff and IA32_TSC_DEADLINE (in guest TSC = host TSC + tsc_offset). 0, or -EINVAL: #GP. */
int lapic_msr_read(struct lapic *a, uint32_t index, uint64_t *value, uint64_t now_tsc);
int lapic_msr_write(struct lapic *a, uint32_t index, uint64_t value, uint64_t now_tsc);
void lapic_set_tsc_offset(struct lapic *a, int64_t tsc_offset);

/* IA32_APIC_BASE. Write: 0, or -EINVAL for an illegal transition, reserved bits, or a base other than the default
 * (relocation is refused). Clearing the enable bit loses all state but TPR, which is the CPU's CR8. */
uint64_t lapic_base(const struct lapic *a);
int lapic_set_base(struct lapic *a, uint64_t value);

/* Events posted since the last call, and their SIPI vector (may be NULL). */
uint32_t lapic_take_events(struct lapic *a, uint8_t *sipi_vector);

/* The highest requested vector whose class is above PPR, or -1. Globally disabled APIC: -1. A software-disabled one
 * accepts nothing new but still delivers what it holds: "pending interrupts in IRR and ISR are held and require
 * masking or handling by the CPU" (SDM vol. 3, 11.4.7.2). */
int lapic_pending(struct lapic *a);
/* Moves that vector from IRR to ISR; the caller injects it. Returns it, or -1. */
int lapic_ack(struct lapic *a);
/* True when something more could be delivered at once if IF allowed: the caller wants an interrupt window. */
static inline bool lapic_has_work(struct lapic *a)
{
	return lapic_pending(a) >= 0;
}

void lapic_eoi(struct lapic *a);

/* CR8 <-> TPR[7:4]. Setting the value it has leaves TPR[3:0] alone, so it may be called after every exit. */
uint8_t lapic_cr8(const struct lapic *a);
void lapic_set_cr8(struct lapic *a, uint8_t cr8);

/* True when PV EOI may be armed: IRR empty, exactly one bit in ISR, and that vector not level-triggered. */
bool lapic_pv_eoi_ok(const struct lapic *a);

/* Host TSC at which the timer fires next, WAKE_NEVER when it is not armed or masked. */
uint64_t lapic_timer_deadline(const struct lapic *a);
/* Fires what is due. Returns true when it requested an interrupt (no notify: the owner is here). A periodic timer that
 * fell behind skips the periods it missed: one interrupt stands for them. */
bool lapic_timer_expire(struct lapic *a, uint64_t now_tsc);

/* For a dump: several short lines, each ended by a newline, cut to size (always terminated). */
void lapic_describe(const struct lapic *a, char *text, size_t size);

#endif
