/* SPDX-License-Identifier: Apache-2.0 */
/* serial.h - a 16550A between a bus window of 8 bytes, an interrupt wire and a chardev. */
#ifndef LULL_SERIAL_H
#define LULL_SERIAL_H

#include "bus.h"
#include "irq.h"

#define SERIAL_WINDOW_BYTES 8

struct chardev;
struct serial;

/* The registers; byte accesses, wider ones use the low byte. The device is a struct serial. */
extern const struct bus_ops serial_bus_ops;

/* cd outlives it. NULL: out of memory. */
struct serial *serial_create(struct irq_line line, struct chardev *cd);
void serial_destroy(struct serial *serial); /* NULL is fine */
void serial_reset(struct serial *serial);

#endif
