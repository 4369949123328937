// SPDX-License-Identifier: Apache-2.0
/* mptable.c - the machine as Intel's MultiProcessor specification 1.4, chapter 4, describes it. */
#include "machine.h"

#include "error.h"
#include "table_buf.h"
#include "util.h"

#include <errno.h>
#include <string.h>

#define PACKED __attribute__((packed))

struct PACKED mp_pointer {
	char signature[4];
	uint32_t table;
	uint8_t length, revision, checksum; /* length in 16 bytes */
	uint8_t features[5];                /* 0: there is a table, virtual wire mode */
};

struct PACKED mp_header {
	char signature[4];
	uint16_t length;
	uint8_t revision, checksum;
	char oem_id[8], product_id[12];
	uint32_t oem_table;
	uint16_t oem_size, entries;
	uint32_t lapic;
	uint16_t extended_length;
	uint8_t extended_checksum, reserved;
};

_Static_assert(sizeof(struct mp_pointer) == 16, "4.1");
_Static_assert(sizeof(struct mp_header) == 44, "4.2");

enum {
	MP_REVISION = 4,
	MP_PROCESSOR = 0,
	MP_BUS = 1,
	MP_IOAPIC = 2,
	MP_IO_INTERRUPT = 3,
	MP_LOCAL_INTERRUPT = 4,
	MP_ENABLED = 1,
	MP_BOOT_CPU = 2,
	MP_LAPIC_VERSION = 0x14,
	MP_IOAPIC_VERSION = 0x20,
	MP_CPU_SIGNATURE = 0x600,
	MP_CPU_FEATURES = 0x201, /* FPU, APIC */
	MP_ISA = 0,              /* bus ID */
	MP_IOAPIC_ID = 0,        /* what the chip's register says after reset */
	MP_INT = 0,
	MP_NMI = 1,
	MP_EXTINT = 3,
	MP_CONFORMS = 0,
	MP_EDGE_HIGH = 1 | 1 << 2,
	MP_LEVEL_HIGH = 1 | 3 << 2,
	MP_ALL = 0xff,
	MP_CPUS_MAX = 255, /* APIC IDs 0 to 254 */
};

static void mp_processor(struct table_buf *buf, uint8_t id)
{
	table_buf_u8(buf, MP_PROCESSOR);
	table_buf_u8(buf, id);
	table_buf_u8(buf, MP_LAPIC_VERSION);
	table_buf_u8(buf, MP_ENABLED | (id == 0 ? MP_BOOT_CPU : 0));
	table_buf_u32(buf, MP_CPU_SIGNATURE);
	table_buf_u32(buf, MP_CPU_FEATURES);
	table_buf_u64(buf, 0);
}

/* I/O and local interrupt entries have the same shape: 4.3.4, 4.3.5. */
static void mp_interrupt(struct table_buf *buf, uint8_t entry, uint8_t type, uint16_t flags, const uint8_t route[3])
{
	table_buf_u8(buf, entry);
	table_buf_u8(buf, type);
	table_buf_u16(buf, flags);
	table_buf_u8(buf, MP_ISA);
	table_buf_add(buf, route, 3); /* bus interrupt, destination APIC, its pin */
}

static unsigned mp_entries(struct table_buf *buf, const struct machine *m, const struct machine_entry *ioapic)
{
	unsigned cpus = m->vcpus < MP_CPUS_MAX ? m->vcpus : MP_CPUS_MAX, count = cpus + 4;

	for (unsigned id = 0; id < cpus; id++)
		mp_processor(buf, (uint8_t)id);

	table_buf_u8(buf, MP_BUS);
	table_buf_u8(buf, MP_ISA);
	table_buf_add(buf, "ISA   ", 6);

	table_buf_u8(buf, MP_IOAPIC);
	table_buf_u8(buf, MP_IOAPIC_ID);
	table_buf_u8(buf, MP_IOAPIC_VERSION);
	table_buf_u8(buf, MP_ENABLED);
	table_buf_u32(buf, (uint32_t)ioapic->base);

	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *entry = &m->entries[i];
		const uint8_t route[] = {(uint8_t)entry->gsi, MP_IOAPIC_ID, (uint8_t)entry->gsi};

		if (entry->gsi < 0)
			continue;
		mp_interrupt(buf, MP_IO_INTERRUPT, MP_INT, entry->level ? MP_LEVEL_HIGH : MP_EDGE_HIGH, route);
		count++;
	}
	mp_interrupt(buf, MP_LOCAL_INTERRUPT, MP_EXTINT, MP_CONFORMS, (const uint8_t[]){0, 0, 0});
	mp_interrupt(buf, MP_LOCAL_INTERRUPT, MP_NMI, MP_CONFORMS, (const uint8_t[]){0, MP_ALL, 1});
	return count;
}

int mptable_build(const struct machine *m, void *buf, size_t size, struct lull_error *err)
{
	const struct machine_entry *lapic = machine_find(m, MACHINE_LAPIC, 0);
	const struct machine_entry *ioapic = machine_find(m, MACHINE_IOAPIC, 0);
	struct mp_pointer pointer = {
		.signature = {'_', 'M', 'P', '_'},
		.table = MACHINE_MPTABLE + sizeof(pointer),
		.length = 1,
		.revision = MP_REVISION,
	};
	struct mp_header header = {
		.signature = {'P', 'C', 'M', 'P'},
		.revision = MP_REVISION,
		.oem_id = {'L', 'U', 'L', 'L', ' ', ' ', ' ', ' '},
		.product_id = {'M', 'I', 'C', 'R', 'O', 'V', 'M', ' ', ' ', ' ', ' ', ' '},
	};
	struct table_buf tables;
	uint8_t *table;

	if (!lapic || !ioapic)
		return error_set(err, -EINVAL, "MP table: a machine needs a local APIC and an IOAPIC");
	pointer.checksum = table_checksum(&pointer, sizeof(pointer));
	header.lapic = (uint32_t)lapic->base;

	table_buf_init(&tables, buf, size);
	table_buf_add(&tables, &pointer, sizeof(pointer));
	table_buf_add(&tables, &header, sizeof(header));
	header.entries = (uint16_t)mp_entries(&tables, m, ioapic);
	if (tables.overflow)
		return error_set(err, -E2BIG, "MP table: needs more than %zu bytes", size);

	table = tables.data + sizeof(pointer);
	header.length = (uint16_t)(tables.used - sizeof(pointer));
	memcpy(table, &header, sizeof(header));
	header.checksum = table_checksum(table, header.length);
	memcpy(table, &header, sizeof(header));
	return (int)tables.used;
}
