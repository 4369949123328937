/* SPDX-License-Identifier: Apache-2.0 */
/* mainboard.h - the devices of one machine, wired: addresses to devices, devices to interrupt pins, endings to the VM.
 * Built for each boot and torn down at each reset; what faces the host (serial's other end) belongs to the VM. */
#ifndef LULL_MAINBOARD_H
#define LULL_MAINBOARD_H

#include "board.h"
#include "bus.h"
#include "debug_console.h"
#include "endings.h"
#include "log.h"
#include "machine.h"

struct acpi_pm;
struct chardev;
struct fw_cfg;
struct irqchip;
struct serial;
struct lull_error;

struct mainboard {
	struct bus pio, mmio;
	struct machine machine;
	struct chardev *chardev;
	struct serial *serial;
	struct acpi_pm *pm;
	struct fw_cfg *fw_cfg;
	struct i8042 i8042;
	struct port_b port_b;
	struct reset_port reset_port;
	struct debug_exit debug_exit;
	struct pvpanic pvpanic;
	struct shutdown_port shutdown_port;
	struct debug_console debug_console;
};

/* The table alone, without a device behind it: enough for `lull dump`. */
int mainboard_describe(struct machine *m, struct lull_error *err);

/* chip and chardev outlive the board. */
int mainboard_init(struct mainboard *b, unsigned vcpus, uint64_t ram_bytes, struct irqchip *chip,
                   struct chardev *chardev, const struct board_sink *sink, const struct log *log,
                   struct lull_error *err);
void mainboard_fini(struct mainboard *b);

#endif
