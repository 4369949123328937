// SPDX-License-Identifier: Apache-2.0
/* acpi_dsdt.c - the devices of the machine that have to be found through ACPI, their processors and the S5 state. */
#include "acpi_dsdt.h"

#include "aml.h"
#include "error.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>

/* How a kind of device shows up. Kinds that are not here are found by their fixed address or not at all. */
struct dsdt_kind {
	char name[4]; /* a digit takes the place of the last character */
	const char *hid;
	bool is_eisa;
	bool has_crs_irq;
};

static const struct dsdt_kind dsdt_kinds[MACHINE_KINDS] = {
	[MACHINE_SERIAL] = {"COM", "PNP0501", true, true},
	[MACHINE_VIRTIO_MMIO] = {"VIO", "LNRO0005", false, true},
	[MACHINE_PVPANIC] = {"PAN", "QEMU0001", false, false},
	[MACHINE_FW_CFG] = {"FWC", "QEMU0002", false, false},
};

enum {
	ISA_IRQS = 16,
	DSDT_PER_KIND = 36, /* one digit or letter */
	STA_PRESENT = 0xf,  /* present, enabled, shown, functioning */
};

int acpi_dsdt_check(const struct machine *m, struct lull_error *err)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *entry = &m->entries[i];
		uint64_t limit = entry->is_mmio ? UINT32_MAX : UINT8_MAX;

		if (!dsdt_kinds[entry->kind].hid)
			continue;
		if (entry->size > limit || (entry->is_mmio && entry->base > UINT32_MAX - entry->size))
			return error_set(err, -EINVAL, "ACPI: device %s: %#llx bytes at %#llx cannot be described",
			                 entry->name, (unsigned long long)entry->size, (unsigned long long)entry->base);
		if (machine_find(m, entry->kind, DSDT_PER_KIND))
			return error_set(err, -EINVAL, "ACPI: more than %d devices like %s", DSDT_PER_KIND,
			                 entry->name);
	}
	return 0;
}

static void dsdt_resources(struct table_buf *buf, const struct machine_entry *entry, bool has_irq)
{
	size_t mark = aml_begin_resources(buf);

	if (entry->is_mmio)
		aml_memory32(buf, (uint32_t)entry->base, (uint32_t)entry->size);
	else
		aml_io(buf, (uint16_t)entry->base, (uint8_t)entry->size);
	if (has_irq && entry->gsi >= 0) {
		if (!entry->is_mmio && entry->gsi < ISA_IRQS && !entry->level)
			aml_irq(buf, (unsigned)entry->gsi);
		else
			aml_interrupt(buf, (uint32_t)entry->gsi, entry->level);
	}
	aml_end_resources(buf, mark);
}

/* Serial ports count from 1, as COM1 does, all others from 0. */
static void dsdt_device(struct table_buf *buf, const struct machine_entry *entry, unsigned nth)
{
	const struct dsdt_kind *kind = &dsdt_kinds[entry->kind];
	unsigned uid = entry->kind == MACHINE_SERIAL ? nth + 1 : nth;
	char name[5];
	size_t mark;

	snprintf(name, sizeof(name), "%s%c", kind->name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[uid % DSDT_PER_KIND]);
	mark = aml_begin_device(buf, name);
	if (kind->is_eisa)
		aml_name_eisa_id(buf, "_HID", kind->hid);
	else
		aml_name_string(buf, "_HID", kind->hid);
	aml_name_integer(buf, "_UID", uid);
	aml_name_integer(buf, "_STA", STA_PRESENT);
	dsdt_resources(buf, entry, kind->has_crs_irq);
	aml_end(buf, mark);
}

/* Not needed to find processors, that is the MADT's business; they tie UIDs above 255 to something. */
static void dsdt_processors(struct table_buf *buf, unsigned vcpus)
{
	for (unsigned id = 0; id < vcpus; id++) {
		char name[5];
		size_t mark;

		snprintf(name, sizeof(name), "C%03X", id & 0xfff);
		mark = aml_begin_device(buf, name);
		aml_name_string(buf, "_HID", "ACPI0007");
		aml_name_integer(buf, "_UID", id);
		aml_end(buf, mark);
	}
}

void acpi_dsdt_write(const struct machine *m, struct table_buf *buf)
{
	static const uint8_t s5[] = {ACPI_S5_TYPE, ACPI_S5_TYPE, 0, 0};
	unsigned seen[MACHINE_KINDS] = {0};
	size_t scope = aml_begin_scope(buf, "\\_SB");

	for (unsigned i = 0; i < m->count; i++)
		if (dsdt_kinds[m->entries[i].kind].hid)
			dsdt_device(buf, &m->entries[i], seen[m->entries[i].kind]++);
	dsdt_processors(buf, m->vcpus);
	aml_end(buf, scope);

	aml_name(buf, "\\_S5");
	aml_package(buf, s5, sizeof(s5));
}
