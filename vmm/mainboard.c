/* SPDX-License-Identifier: Apache-2.0 */
/* mainboard.c - what is in this machine, on one page. The only includer of device headers besides the interrupt
 * controllers. */
#include "mainboard.h"

#include "acpi_pm.h"
#include "chardev.h"
#include "clock.h"
#include "error.h"
#include "fw_cfg.h"
#include "ioapic.h"
#include "irqchip.h"
#include "lapic.h"
#include "serial.h"
#include "util.h"

#include <errno.h>
#include <string.h>

enum {
	ANY = 0,
	BYTE = 1,
	BYTE_WORD = 1 | 2,
	BYTE_WORD_DWORD = 1 | 2 | 4,
};

/* Every device that guests are told of, in the order they are told. */
static const struct machine_entry entries[] = {
	{MACHINE_LAPIC, "local apic", true, LAPIC_BASE_DEFAULT, LAPIC_SIZE, -1, false},
	{MACHINE_IOAPIC, "io-apic", true, IOAPIC_BASE, IOAPIC_SIZE, -1, false},
	{MACHINE_I8042, "i8042 data", false, PORT_I8042_DATA, 1, -1, false},
	{MACHINE_PORT_B, "port b", false, PORT_SYSTEM_B, 1, -1, false},
	{MACHINE_I8042, "i8042 command", false, PORT_I8042_COMMAND, 1, -1, false},
	{MACHINE_DEBUG_CONSOLE, "debug console", false, PORT_DEBUG_CONSOLE, 1, -1, false},
	{MACHINE_DEBUG_EXIT, "debug exit", false, PORT_DEBUG_EXIT, 4, -1, false},
	{MACHINE_SERIAL, "serial", false, PORT_COM1, 8, GSI_COM1, false},
	{MACHINE_DEBUG_EXIT, "debug exit", false, PORT_DEBUG_EXIT2, 2, -1, false},
	{MACHINE_PVPANIC, "pvpanic", false, PORT_PVPANIC, 1, -1, false},
	{MACHINE_FW_CFG, "fw_cfg", false, PORT_FW_CFG, FW_CFG_PORTS, -1, false},
	{MACHINE_PM, "power management", false, PORT_PM, ACPI_PM_PORTS, GSI_SCI, true},
	{MACHINE_RESET, "reset control", false, PORT_RESET, 1, -1, false},
	{MACHINE_SHUTDOWN, "shutdown port", false, PORT_SHUTDOWN, 1, -1, false},
};

int mainboard_describe(struct machine *m, struct lull_error *err)
{
	int ret = 0;
	for (size_t i = 0; i < ARRAY_SIZE(entries) && ret == 0; i++)
		ret = machine_add(m, &entries[i], err);
	return ret;
}

static void power_off(void *ctx)
{
	const struct mainboard *b = ctx;
	board_request(&b->i8042.board, BOARD_POWEROFF, 0);
}

static uint64_t now_ns(void *ctx)
{
	(void)ctx;
	return clock_ns();
}

static void put_debug(void *ctx, uint8_t byte)
{
	struct mainboard *b = ctx;
	chardev_write(b->chardev, &byte, 1);
}

static int create_devices(struct mainboard *b, unsigned vcpus, uint64_t ram_bytes, struct irqchip *chip,
                          const struct board_sink *sink, const struct log *log)
{
	const struct acpi_pm_config pm = {
		.sci = ioapic_line(chip->ioapic, GSI_SCI),
		.s5_type = ACPI_S5_TYPE,
		.power_off = power_off,
		.now_ns = now_ns,
		.ctx = b,
	};
	b->serial = serial_create(ioapic_line(chip->ioapic, GSI_COM1), b->chardev);
	b->pm = acpi_pm_create(&pm);
	b->fw_cfg = fw_cfg_create(vcpus, ram_bytes);
	i8042_init(&b->i8042, sink);
	port_b_init(&b->port_b);
	reset_port_init(&b->reset_port, sink);
	debug_exit_init(&b->debug_exit, sink);
	pvpanic_init(&b->pvpanic, sink, log);
	shutdown_port_init(&b->shutdown_port, sink);
	b->debug_console = (struct debug_console){.put = put_debug, .ctx = b};
	return b->serial && b->pm && b->fw_cfg ? 0 : -ENOMEM;
}

static int wire(struct mainboard *b, struct irqchip *chip, struct lull_error *err)
{
	const struct bus_region ports[] = {
		{"i8042 data", PORT_I8042_DATA, 1, BYTE, &i8042_data_ops, &b->i8042},
		{"port b", PORT_SYSTEM_B, 1, BYTE, &port_b_ops, &b->port_b},
		{"i8042 command", PORT_I8042_COMMAND, 1, BYTE, &i8042_command_ops, &b->i8042},
		{"debug console", PORT_DEBUG_CONSOLE, 1, BYTE, &debug_console_ops, &b->debug_console},
		{"debug exit", PORT_DEBUG_EXIT, 4, BYTE_WORD_DWORD, &debug_exit_ops, &b->debug_exit},
		{"serial", PORT_COM1, 8, ANY, &serial_bus_ops, b->serial},
		{"debug exit", PORT_DEBUG_EXIT2, 2, BYTE_WORD, &debug_exit_ops, &b->debug_exit},
		{"pvpanic", PORT_PVPANIC, 1, BYTE, &pvpanic_ops, &b->pvpanic},
		{"fw_cfg", PORT_FW_CFG, FW_CFG_PORTS, BYTE_WORD, &fw_cfg_ops, b->fw_cfg},
		{"power management", PORT_PM, ACPI_PM_PORTS, BYTE_WORD_DWORD, &acpi_pm_ops, b->pm},
		{"reset control", PORT_RESET, 1, BYTE, &reset_port_ops, &b->reset_port},
		{"shutdown port", PORT_SHUTDOWN, 1, BYTE, &shutdown_port_ops, &b->shutdown_port},
	};
	int ret = 0;
	for (size_t i = 0; i < ARRAY_SIZE(ports) && ret == 0; i++)
		ret = bus_add(&b->pio, &ports[i], err);
	const struct bus_region io = {"io-apic", IOAPIC_BASE, IOAPIC_SIZE, ANY, &ioapic_bus_ops, chip->ioapic};
	return ret < 0 ? ret : bus_add(&b->mmio, &io, err);
}

int mainboard_init(struct mainboard *b, unsigned vcpus, uint64_t ram_bytes, struct irqchip *chip,
                   struct chardev *chardev, const struct board_sink *sink, const struct log *log,
                   struct lull_error *err)
{
	memset(b, 0, sizeof(*b));
	bus_init(&b->pio, "i/o port");
	bus_init(&b->mmio, "memory");
	machine_init(&b->machine, vcpus, ram_bytes);
	b->chardev = chardev;
	int ret = mainboard_describe(&b->machine, err);
	if (ret == 0 && (ret = create_devices(b, vcpus, ram_bytes, chip, sink, log)) < 0)
		error_set(err, ret, "devices: out of memory");
	if (ret == 0)
		ret = wire(b, chip, err);
	if (ret < 0)
		mainboard_fini(b);
	return ret;
}

void mainboard_fini(struct mainboard *b)
{
	mainboard_unplug_virtio(b);
	serial_destroy(b->serial);
	acpi_pm_destroy(b->pm);
	fw_cfg_destroy(b->fw_cfg);
	b->serial = NULL;
	b->pm = NULL;
	b->fw_cfg = NULL;
}
