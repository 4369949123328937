/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio_mmio.h - a virtio device as a window of registers: virtio 1.2, 4.2, version 2.
 *
 * A notification is a plain exit: the vCPU that notifies serves the queue itself, without a hop to another thread.
 * Interrupts are edges, so that the paravirtual EOI covers them; the status register says what they were for.
 */
#ifndef LULL_VIRTIO_MMIO_H
#define LULL_VIRTIO_MMIO_H

#include "bus.h"
#include "irq.h"
#include "virtio.h"

#define VIRTIO_MMIO_BYTES 0x1000u

struct event_loop;
struct log;
struct virtio_mmio;

extern const struct bus_ops virtio_mmio_bus_ops; /* all widths; dev = struct virtio_mmio */

struct virtio_mmio_config {
	struct virtio_dev *dev; /* outlives the transport */
	const struct guest_mem *mem;
	struct irq_line line;
	struct event_loop *loop; /* NULL: what one kick leaves over waits for the next */
	const struct log *log;
};

/* NULL: no memory. */
struct virtio_mmio *virtio_mmio_create(const struct virtio_mmio_config *config);
/* No vCPU runs. On the loop's thread, or when it has ended. Waits until nothing is in flight. NULL is fine. */
void virtio_mmio_destroy(struct virtio_mmio *t);

#endif
