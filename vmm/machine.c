// SPDX-License-Identifier: Apache-2.0
/* machine.c - the list of what is on the board, and its memory map. Knows no device. */
#include "machine.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <string.h>

enum {
	IO_PORTS = 0x10000,
	GSIS = 24, /* pins of the one IOAPIC */
	VGA_BASE = 0xa0000,
};

static const char *const kind_names[] = {
	[MACHINE_SERIAL] = "serial",
	[MACHINE_VIRTIO_MMIO] = "virtio-mmio",
	[MACHINE_PVPANIC] = "pvpanic",
	[MACHINE_FW_CFG] = "fw-cfg",
	[MACHINE_I8042] = "i8042",
	[MACHINE_PORT_B] = "port-b",
	[MACHINE_PM] = "acpi-pm",
	[MACHINE_RESET] = "reset",
	[MACHINE_DEBUG_EXIT] = "debug-exit",
	[MACHINE_DEBUG_CONSOLE] = "debug-console",
	[MACHINE_SHUTDOWN] = "shutdown",
	[MACHINE_LAPIC] = "lapic",
	[MACHINE_IOAPIC] = "ioapic",
	[MACHINE_CUSTOM] = "custom",
};
_Static_assert(ARRAY_SIZE(kind_names) == MACHINE_KINDS, "every kind has a name");

const char *machine_kind_name(enum machine_kind kind)
{
	return kind_names[kind];
}

void machine_init(struct machine *m, unsigned vcpus, uint64_t ram_bytes)
{
	uint64_t low = ram_bytes < GUEST_MEM_HOLE_BASE ? ram_bytes : GUEST_MEM_HOLE_BASE;

	memset(m, 0, sizeof(*m));
	m->vcpus = vcpus;
	m->ram[m->ram_count].size = low;
	m->ram_count++;
	if (ram_bytes > low) {
		m->ram[m->ram_count].base = GUEST_MEM_HOLE_END;
		m->ram[m->ram_count].size = ram_bytes - low;
		m->ram_count++;
	}
}

static int machine_check(const struct machine_entry *entry, struct lull_error *err)
{
	uint64_t end;

	if (!entry->size || add_overflow(entry->base, entry->size - 1, &end))
		return error_set(err, -EINVAL, "device %s: range of %#llx bytes at %#llx", entry->name,
		                 (unsigned long long)entry->size, (unsigned long long)entry->base);
	if (!entry->is_mmio && end >= IO_PORTS)
		return error_set(err, -EINVAL, "device %s: I/O ports end at 0xffff, its last would be %#llx",
		                 entry->name, (unsigned long long)end);
	if (entry->gsi >= GSIS || entry->gsi < -1)
		return error_set(err, -EINVAL, "device %s: GSI %d, the IOAPIC has pins 0 to %d", entry->name,
		                 entry->gsi, GSIS - 1);
	return 0;
}

/* Sizes are above 0 and ends do not wrap. */
static bool ranges_overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a <= b + (b_size - 1) && b <= a + (a_size - 1);
}

int machine_add(struct machine *m, const struct machine_entry *entry, struct lull_error *err)
{
	int ret = machine_check(entry, err);

	if (ret)
		return ret;
	for (unsigned i = 0; i < m->ram_count; i++)
		if (entry->is_mmio && m->ram[i].size &&
		    ranges_overlap(m->ram[i].base, m->ram[i].size, entry->base, entry->size))
			return error_set(err, -EEXIST, "device %s: %#llx bytes at %#llx overlap RAM", entry->name,
			                 (unsigned long long)entry->size, (unsigned long long)entry->base);
	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *other = &m->entries[i];

		if (other->is_mmio == entry->is_mmio &&
		    ranges_overlap(other->base, other->size, entry->base, entry->size))
			return error_set(err, -EEXIST, "device %s: %s range overlaps that of %s", entry->name,
			                 entry->is_mmio ? "memory" : "I/O port", other->name);
		if (entry->gsi >= 0 && other->gsi == entry->gsi)
			return error_set(err, -EEXIST, "device %s: GSI %d belongs to %s", entry->name, entry->gsi,
			                 other->name);
	}
	if (m->count == MACHINE_ENTRIES_MAX)
		return error_set(err, -ENOSPC, "device %s: the board holds %d devices at most", entry->name,
		                 MACHINE_ENTRIES_MAX);
	m->entries[m->count++] = *entry;
	return 0;
}

const struct machine_entry *machine_find(const struct machine *m, enum machine_kind kind, unsigned nth)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->entries[i].kind == kind && nth-- == 0)
			return &m->entries[i];
	return NULL;
}

static unsigned e820_add(struct e820_entry *out, unsigned n, uint64_t base, uint64_t end, uint32_t type)
{
	if (end <= base)
		return n;
	out[n] = (struct e820_entry){base, end - base, type};
	return n + 1;
}

/* The first megabyte as on a PC: RAM up to the EBDA, then the EBDA, the VGA hole (not listed), the BIOS area with our
 * tables. */
unsigned machine_e820(const struct machine *m, struct e820_entry out[E820_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->ram_count; i++) {
		uint64_t base = m->ram[i].base, end = base + m->ram[i].size;

		if (base < MACHINE_HIGH_BASE) {
			n = e820_add(out, n, base, end < MACHINE_EBDA ? end : MACHINE_EBDA, E820_RAM);
			n = e820_add(out, n, MACHINE_EBDA, end < VGA_BASE ? end : VGA_BASE, E820_RESERVED);
			n = e820_add(out, n, MACHINE_RSDP, end < MACHINE_HIGH_BASE ? end : MACHINE_HIGH_BASE,
			             E820_RESERVED);
			base = MACHINE_HIGH_BASE;
		}
		n = e820_add(out, n, base, end, E820_RAM);
	}
	return n;
}
