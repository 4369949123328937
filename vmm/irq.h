/* SPDX-License-Identifier: Apache-2.0 */
/* irq.h - the wire a device holds and the message an interrupt travels as. */
#ifndef LULL_IRQ_H
#define LULL_IRQ_H

#include <stdbool.h>
#include <stdint.h>

/* One input of an interrupt controller. Any thread; may be called with the device's own lock held, the
 * controller never calls back into the device. set may be NULL: a wire that leads nowhere. */
struct irq_line {
	void (*set)(void *chip, unsigned pin, bool level);
	void *chip;
	unsigned pin;
};

static inline void irq_set(const struct irq_line *line, bool level)
{
	if (line->set)
		line->set(line->chip, line->pin, level);
}

/* A rise and a fall: an edge-triggered pin latches it, even while it is masked. */
static inline void irq_pulse(const struct irq_line *line)
{
	irq_set(line, true);
	irq_set(line, false);
}

/* A message-signalled interrupt: SDM vol. 3, 11.11. Destination IDs are 8 bits wide here. */
struct msi_msg {
	uint64_t address;
	uint32_t data;
};

#endif
