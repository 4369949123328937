/* SPDX-License-Identifier: Apache-2.0 */
/*
 * irqchip.h - who owns the interrupt controllers. One table of functions, two backends:
 *
 *   user    lull's own local APICs (devices/lapic.c); KVM has none, so every HLT comes out.
 *   kernel  KVM's local APICs (split irqchip): HLT stays in KVM.
 *
 * The I/O APIC is devices/ioapic.c in both: same pins, same EOI handling, and no 8259 or 8254 in the kernel that no
 * guest of ours needs. That is why `kernel` is the split irqchip and not the full one.
 */
#ifndef LULL_IRQCHIP_H
#define LULL_IRQCHIP_H

#include "irq.h"
#include "wake.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ioapic;
struct irqchip;
struct kvm;
struct log;
struct lull_error;
struct vcpu;

struct irqchip_config {
	struct kvm *kvm;
	const struct log *log;
	unsigned cpus;
	uint64_t tsc_khz;
	bool x2apic, tsc_deadline, pv_eoi;
	bool steal_msr;                                                 /* accesses to MSR_KVM_STEAL_TIME come to us */
	void (*notify)(void *ctx, unsigned cpu, enum wake_cause cause); /* any thread: work was published */
	void (*active)(void *ctx); /* any thread; kernel backend: an interrupt went in, a halted vCPU may wake */
	void *notify_ctx;
};

enum irqchip_verdict {
	IRQCHIP_RUN,    /* enter the guest */
	IRQCHIP_HALTED, /* nothing for this vCPU to do until it is notified or its deadline comes */
	IRQCHIP_RESET,  /* INIT of the boot processor: the machine resets */
};

struct irqchip_ops {
	const char *name;
	int (*create)(struct irqchip **chip, const struct irqchip_config *config, struct lull_error *err);
	void (*destroy)(struct irqchip *chip);
	/* Any thread. */
	void (*msi)(struct irqchip *chip, const struct msi_msg *msg);
	void (*nmi)(struct irqchip *chip, unsigned cpu);
	/* An NMI, INIT or SIPI came that the vCPU's thread has not looked at yet. NULL: KVM has them. */
	bool (*has_events)(struct irqchip *chip, unsigned cpu);

	/* The rest: the vCPU's own thread. Before start, on the thread that creates. */
	int (*vcpu_init)(struct irqchip *chip, struct vcpu *v, struct lull_error *err);
	/* Before each entry: events, timer, interrupt to inject. What it injects stays queued in KVM if the entry is
	 * called off. */
	enum irqchip_verdict (*prepare)(struct irqchip *chip, struct vcpu *v);
	/* After each return from KVM_RUN. */
	void (*harvest)(struct irqchip *chip, struct vcpu *v);
	/* The guest executed HLT and it came out. */
	void (*halt)(struct irqchip *chip, struct vcpu *v);
	/* Host TSC at which a halted vCPU has work of its own, WAKE_NEVER: none. */
	uint64_t (*deadline)(struct irqchip *chip, struct vcpu *v);
	/* No interrupt can end this vCPU's halt: it waits for SIPI, or halted with IF = 0. */
	bool (*is_dead)(struct irqchip *chip, struct vcpu *v);
	/* The local APIC's page. NULL: KVM has it. */
	uint64_t (*mmio_read)(struct irqchip *chip, struct vcpu *v, uint64_t offset, unsigned size);
	void (*mmio_write)(struct irqchip *chip, struct vcpu *v, uint64_t offset, unsigned size, uint64_t value);
	/* 0, -EINVAL (#GP) or -ENOENT (not an MSR of the interrupt controller). */
	int (*msr_read)(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t *value);
	int (*msr_write)(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t value);
	/* A line or two on the local APIC for the register dump. */
	void (*describe)(struct irqchip *chip, struct vcpu *v, char *text, size_t size);
};

/* What both backends start with. */
struct irqchip {
	const struct irqchip_ops *ops;
	struct ioapic *ioapic;
};

extern const struct irqchip_ops irqchip_user, irqchip_kernel;

#endif
