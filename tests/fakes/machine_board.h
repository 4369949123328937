/* SPDX-License-Identifier: Apache-2.0 */
/* machine_board.h - a board as vm.c wires it, with any number of virtio-mmio slots. */
#ifndef LULL_TESTS_MACHINE_BOARD_H
#define LULL_TESTS_MACHINE_BOARD_H

#include "machine.h"
#include "util.h"

static inline int machine_board(struct machine *m, unsigned vcpus, uint64_t ram_bytes, unsigned virtio)
{
	static const struct machine_entry fixed[] = {
		{MACHINE_I8042, "i8042 data", false, PORT_I8042_DATA, 1, -1, false},
		{MACHINE_PORT_B, "system port B", false, PORT_SYSTEM_B, 1, -1, false},
		{MACHINE_I8042, "i8042 command", false, PORT_I8042_COMMAND, 1, -1, false},
		{MACHINE_DEBUG_CONSOLE, "debug console", false, PORT_DEBUG_CONSOLE, 1, -1, false},
		{MACHINE_DEBUG_EXIT, "debug exit", false, PORT_DEBUG_EXIT, 4, -1, false},
		{MACHINE_SERIAL, "com1", false, PORT_COM1, 8, GSI_COM1, false},
		{MACHINE_DEBUG_EXIT, "debug exit 2", false, PORT_DEBUG_EXIT2, 2, -1, false},
		{MACHINE_PVPANIC, "pvpanic", false, PORT_PVPANIC, 1, -1, false},
		{MACHINE_FW_CFG, "fw_cfg", false, PORT_FW_CFG, 2, -1, false},
		{MACHINE_PM, "acpi pm", false, PORT_PM, 12, GSI_SCI, true},
		{MACHINE_RESET, "reset control", false, PORT_RESET, 1, -1, false},
		{MACHINE_SHUTDOWN, "shutdown", false, PORT_SHUTDOWN, 1, -1, false},
		{MACHINE_LAPIC, "lapic", true, 0xfee00000, 0x1000, -1, false},
		{MACHINE_IOAPIC, "ioapic", true, 0xfec00000, 0x1000, -1, false},
	};
	int ret = 0;

	machine_init(m, vcpus, ram_bytes);
	for (size_t i = 0; i < ARRAY_SIZE(fixed) && !ret; i++)
		ret = machine_add(m, &fixed[i], NULL);
	for (unsigned slot = 0; slot < virtio && !ret; slot++) {
		struct machine_entry entry = {MACHINE_VIRTIO_MMIO,
		                              "virtio",
		                              true,
		                              MACHINE_VIRTIO_BASE + slot * MACHINE_VIRTIO_SIZE,
		                              MACHINE_VIRTIO_SIZE,
		                              (int)(MACHINE_VIRTIO_GSI + slot),
		                              true};

		ret = machine_add(m, &entry, NULL);
	}
	return ret;
}

#endif
