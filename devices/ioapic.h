/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioapic.h - a 24-pin I/O APIC, version 0x20 (with EOI register): Intel 82093AA data sheet, and the EOI register of the
 * ICH family. The same chip serves both backends: what it wants delivered leaves as an MSI message.
 *
 * Where it is kinder than the data sheet: an edge on a masked pin is kept, and so is a message that no APIC took. Both
 * are tried again when the entry is written or the input is set, so that no interrupt is lost to the order in which a
 * guest sets things up.
 *
 * Any thread; one lock inside, a leaf in the lock order.
 */
#ifndef LULL_IOAPIC_H
#define LULL_IOAPIC_H

#include "bus.h"
#include "irq.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOAPIC_BASE 0xfec00000ull
#define IOAPIC_SIZE 0x1000ull
#define IOAPIC_PINS 24

struct ioapic;

struct ioapic_out {
	/* Deliver this now. False: nobody took it (then a level does not set remote IRR, and an edge stays latched).
	 * Called with the chip's lock held: must not call back into the chip, may not block. */
	bool (*deliver)(void *ctx, const struct msi_msg *msg);
	/* Redirection entry of pin changed (also at reset): masked or not, level or not. NULL: not wanted.
	 * Lock held, as above. */
	void (*route)(void *ctx, unsigned pin, const struct msi_msg *msg, bool masked, bool level);
	void *ctx;
};

/* NULL: no memory. route is called for each pin. */
struct ioapic *ioapic_create(const struct ioapic_out *out);
void ioapic_destroy(struct ioapic *io);
/* All pins masked, nothing latched. The wires keep their levels: they are the devices'. */
void ioapic_reset(struct ioapic *io);

extern const struct bus_ops ioapic_bus_ops; /* for a region of IOAPIC_SIZE bytes, dev = struct ioapic */

/* An input changes level; true is asserted, whatever polarity the guest programmed. Edge pins latch the rise even while
 * masked; level pins are delivered when unmasked and their remote IRR is clear. One device per pin. */
void ioapic_set_pin(struct ioapic *io, unsigned pin, bool level);
struct irq_line ioapic_line(struct ioapic *io, unsigned pin);

/* The EOI broadcast of a level-triggered vector: clears remote IRR of every pin with it, and delivers again where the
 * input is still high. */
void ioapic_eoi(struct ioapic *io, uint8_t vector);

/* True when an unmasked pin is programmed for NMI: then a halted vCPU with IF = 0 can still be woken by a device. */
bool ioapic_has_nmi(struct ioapic *io);

/* For a dump: a line per pin that is unmasked, high or waiting, cut to size (always terminated). */
void ioapic_describe(struct ioapic *io, char *text, size_t size);

#endif
