// SPDX-License-Identifier: Apache-2.0
/*
 * fdt.c - the machine as a flattened device tree, for guests that like it better than ACPI. Node and property names are
 * those of the devicetree specification 0.4 and of what Linux knows on x86 (the ce4100 bindings).
 */
#include "machine.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <libfdt.h>
#include <string.h>

enum {
	FDT_PHANDLE_IOAPIC = 1,
	FDT_ISA_IO = 1,    /* first address cell on an ISA bus: I/O space */
	FDT_IRQ_EDGE = 3,  /* rising; what Linux programs for it, not what the old binding text calls it */
	FDT_IRQ_LEVEL = 1, /* active high */
	UART_CLOCK_HZ = 1843200,
	UART_BAUD = 115200,
	IO_PORTS = 0x10000,
};

/* A tree under construction. After the first failure nothing more happens. */
struct tree {
	void *fdt;
	int error; /* of libfdt */
};

static void tree_begin(struct tree *t, const char *name)
{
	if (!t->error)
		t->error = fdt_begin_node(t->fdt, name);
}

static void tree_begin_at(struct tree *t, const char *name, const char *prefix, uint64_t unit)
{
	char full[40];

	snprintf(full, sizeof(full), "%s@%s%llx", name, prefix, (unsigned long long)unit);
	tree_begin(t, full);
}

static void tree_end(struct tree *t)
{
	if (!t->error)
		t->error = fdt_end_node(t->fdt);
}

static void tree_bytes(struct tree *t, const char *name, const void *data, size_t len)
{
	if (!t->error)
		t->error = fdt_property(t->fdt, name, data, (int)len);
}

static void tree_flag(struct tree *t, const char *name)
{
	tree_bytes(t, name, NULL, 0);
}

static void tree_string(struct tree *t, const char *name, const char *value)
{
	tree_bytes(t, name, value, strlen(value) + 1);
}

static void tree_cells(struct tree *t, const char *name, const uint32_t *cells, unsigned count)
{
	fdt32_t big[8];

	invariant(count <= ARRAY_SIZE(big));
	for (unsigned i = 0; i < count; i++)
		big[i] = cpu_to_fdt32(cells[i]);
	tree_bytes(t, name, big, count * sizeof(big[0]));
}

static void tree_u32(struct tree *t, const char *name, uint32_t value)
{
	tree_cells(t, name, &value, 1);
}

static void tree_u64(struct tree *t, const char *name, uint64_t value)
{
	fdt64_t big = cpu_to_fdt64(value);

	tree_bytes(t, name, &big, sizeof(big));
}

/* reg with two cells each for address and size. */
static void tree_reg(struct tree *t, uint64_t base, uint64_t size)
{
	fdt64_t reg[] = {cpu_to_fdt64(base), cpu_to_fdt64(size)};

	tree_bytes(t, "reg", reg, sizeof(reg));
}

static void tree_cell_sizes(struct tree *t, uint32_t address, uint32_t size)
{
	tree_u32(t, "#address-cells", address);
	tree_u32(t, "#size-cells", size);
}

static void tree_interrupts(struct tree *t, const struct machine_entry *entry)
{
	uint32_t cells[] = {(uint32_t)entry->gsi, entry->level ? FDT_IRQ_LEVEL : FDT_IRQ_EDGE};

	if (entry->gsi >= 0)
		tree_cells(t, "interrupts", cells, ARRAY_SIZE(cells));
}

static void tree_chosen(struct tree *t, const struct machine *m)
{
	const struct machine_entry *serial = machine_find(m, MACHINE_SERIAL, 0);
	char path[48];

	tree_begin(t, "chosen");
	tree_string(t, "bootargs", m->cmdline ? m->cmdline : "");
	if (m->initrd_bytes) {
		tree_u64(t, "linux,initrd-start", m->initrd_base);
		tree_u64(t, "linux,initrd-end", m->initrd_base + m->initrd_bytes);
	}
	if (serial && !serial->is_mmio) {
		snprintf(path, sizeof(path), "/isa@i0/serial@i%llx", (unsigned long long)serial->base);
		tree_string(t, "stdout-path", path);
	}
	tree_end(t);
}

static void tree_memory(struct tree *t, const struct machine *m)
{
	struct e820_entry map[E820_MAX];
	fdt64_t reg[2 * E820_MAX];
	unsigned count = machine_e820(m, map), cells = 0;

	for (unsigned i = 0; i < count; i++) {
		if (map[i].type != E820_RAM)
			continue;
		reg[cells++] = cpu_to_fdt64(map[i].addr);
		reg[cells++] = cpu_to_fdt64(map[i].size);
	}
	tree_begin(t, "memory@0");
	tree_string(t, "device_type", "memory");
	tree_bytes(t, "reg", reg, cells * sizeof(reg[0]));
	tree_end(t);
}

static void tree_cpus(struct tree *t, const struct machine *m)
{
	tree_begin(t, "cpus");
	tree_cell_sizes(t, 1, 0);
	if (m->tsc_khz)
		tree_u64(t, "timebase-frequency", m->tsc_khz * 1000);
	for (uint32_t id = 0; id < m->vcpus; id++) {
		tree_begin_at(t, "cpu", "", id);
		tree_string(t, "device_type", "cpu");
		tree_u32(t, "reg", id);
		tree_end(t);
	}
	tree_end(t);
}

static void tree_interrupt_controller(struct tree *t, const struct machine_entry *entry)
{
	tree_begin_at(t, "interrupt-controller", "", entry->base);
	if (entry->kind == MACHINE_IOAPIC) {
		tree_string(t, "compatible", "intel,ce4100-ioapic");
		tree_u32(t, "phandle", FDT_PHANDLE_IOAPIC);
	} else {
		tree_string(t, "compatible", "intel,ce4100-lapic");
		tree_flag(t, "intel,virtual-wire-mode"); /* no IMCR */
	}
	tree_flag(t, "interrupt-controller");
	tree_u32(t, "#address-cells", 0);
	tree_u32(t, "#interrupt-cells", 2);
	tree_reg(t, entry->base, entry->size);
	tree_end(t);
}

static void tree_soc(struct tree *t, const struct machine *m)
{
	tree_begin(t, "soc");
	tree_string(t, "compatible", "simple-bus");
	tree_cell_sizes(t, 2, 2);
	tree_flag(t, "ranges");
	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *entry = &m->entries[i];

		if (entry->kind == MACHINE_IOAPIC || entry->kind == MACHINE_LAPIC) {
			tree_interrupt_controller(t, entry);
		} else if (entry->kind == MACHINE_VIRTIO_MMIO) {
			tree_begin_at(t, "virtio_mmio", "", entry->base);
			tree_string(t, "compatible", "virtio,mmio");
			tree_reg(t, entry->base, entry->size);
			tree_interrupts(t, entry);
			tree_end(t);
		}
	}
	tree_end(t);
}

/* I/O ports: children of a bus named isa have addresses <space port>. */
static void tree_isa(struct tree *t, const struct machine *m)
{
	static const uint32_t ranges[] = {FDT_ISA_IO, 0, 0, 0, IO_PORTS};

	tree_begin(t, "isa@i0");
	tree_string(t, "device_type", "isa");
	tree_string(t, "compatible", "isa");
	tree_cell_sizes(t, 2, 1);
	tree_cells(t, "ranges", ranges, ARRAY_SIZE(ranges));
	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *entry = &m->entries[i];
		const uint32_t reg[] = {FDT_ISA_IO, (uint32_t)entry->base, (uint32_t)entry->size};

		if (entry->kind != MACHINE_SERIAL || entry->is_mmio)
			continue;
		tree_begin_at(t, "serial", "i", entry->base);
		tree_string(t, "compatible", "ns16550a");
		tree_cells(t, "reg", reg, ARRAY_SIZE(reg));
		tree_interrupts(t, entry);
		tree_u32(t, "clock-frequency", UART_CLOCK_HZ);
		tree_u32(t, "current-speed", UART_BAUD);
		tree_end(t);
	}
	tree_end(t);
}

/* A cpu node takes 52 bytes, a device node at most 200; header, fixed nodes and property names less than 2 KiB. */
size_t fdt_room(const struct machine *m)
{
	return 2048 + 64ull * m->vcpus + 256ull * m->count + (m->cmdline ? strlen(m->cmdline) : 0);
}

int fdt_build(const struct machine *m, void *buf, size_t size, struct lull_error *err)
{
	struct tree t = {.fdt = buf};
	int len = (int)(size < INT32_MAX ? size : INT32_MAX);

	t.error = fdt_create(buf, len);
	if (!t.error)
		t.error = fdt_finish_reservemap(buf);
	tree_begin(&t, "");
	tree_cell_sizes(&t, 2, 2);
	tree_string(&t, "compatible", "lull,microvm");
	tree_string(&t, "model", "lull microVM");
	tree_u32(&t, "interrupt-parent", FDT_PHANDLE_IOAPIC);
	tree_chosen(&t, m);
	tree_memory(&t, m);
	tree_cpus(&t, m);
	tree_isa(&t, m);
	tree_soc(&t, m);
	tree_end(&t);
	if (!t.error)
		t.error = fdt_finish(buf);
	if (t.error == -FDT_ERR_NOSPACE)
		return error_set(err, -E2BIG, "device tree: needs more than %zu bytes", size);
	if (t.error)
		return error_set(err, -EINVAL, "device tree: %s", fdt_strerror(t.error));
	return (int)fdt_totalsize(buf);
}
