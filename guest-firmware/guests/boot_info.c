/* SPDX-License-Identifier: Apache-2.0 */
/* boot_info.c - what the loader tells: command line, memory map, module, ACPI tables with right checksums, MP table,
 * device tree. */
#include "guest.h"

struct acpi_header {
	uint32_t signature, length;
	uint8_t revision, checksum, oem[6], oem_table[8];
	uint32_t oem_revision, creator, creator_revision;
} __attribute__((packed));

struct bytes {
	const uint8_t *at;
	uint32_t length;
};

static uint64_t sum(uint64_t arg)
{
	const struct bytes *b = (const struct bytes *)arg;
	uint8_t total = 0;
	uint32_t i;

	for (i = 0; i < b->length; i++)
		total = (uint8_t)(total + b->at[i]);
	return total;
}

/* At full speed. */
static uint8_t checksum(uint64_t addr, uint32_t length)
{
	struct bytes b = {(const uint8_t *)addr, length};

	return (uint8_t)ring3(sum, (uint64_t)&b);
}

static uint32_t get32(uint64_t addr)
{
	return *(const uint32_t *)addr;
}

static uint64_t get64(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static void memory_map(void)
{
	struct memory_range r;
	uint64_t end = 0, ram = 0;
	bool image = false;
	unsigned n;

	for (n = 0; boot_memory(n, &r); n++) {
		check(r.base >= end && r.size > 0);
		end = r.base + r.size;
		if (r.type != 1)
			continue;
		ram += r.size;
		if (r.base <= 0x100000 && end >= 0x200000)
			image = true;
	}
	check(n >= 2 && image);
	check(ram <= param_u64("mem", 128) << 20);
	check(ram >= (param_u64("mem", 128) << 20) - 0x100000);
}

static unsigned madt_cpus(uint64_t table)
{
	uint64_t at = table + 44, end = table + get32(table + 4);
	unsigned cpus = 0;

	while (at < end) {
		const uint8_t *e = (const uint8_t *)at;

		check(e[1] >= 2);
		if ((e[0] == 0 && e[4] & 1) || (e[0] == 9 && e[8] & 1))
			cpus++;
		at += e[1];
	}
	check_eq(at, end);
	return cpus;
}

static void acpi(void)
{
	uint64_t rsdp = boot.rsdp != 0 ? boot.rsdp : 0xe0000, xsdt, table;
	uint32_t i, count;
	bool fadt = false, madt = false;

	check_eq(get64(rsdp), 0x2052545020445352); /* "RSD PTR " */
	check_eq(checksum(rsdp, 20), 0);
	check_eq(*(const uint8_t *)(rsdp + 15), 2);
	check_eq(checksum(rsdp, get32(rsdp + 20)), 0);
	xsdt = get64(rsdp + 24);
	check_eq(get32(xsdt), 0x54445358);
	check_eq(checksum(xsdt, get32(xsdt + 4)), 0);
	count = (get32(xsdt + 4) - 36) / 8;
	for (i = 0; i < count; i++) {
		table = get64(xsdt + 36 + 8 * (uint64_t)i);
		check_eq(checksum(table, get32(table + 4)), 0);
		if (get32(table) == 0x50434146) { /* FACP */
			uint64_t dsdt = get64(table + 140);

			fadt = true;
			check_eq(get32(dsdt), 0x54445344);
			check_eq(checksum(dsdt, get32(dsdt + 4)), 0);
		}
		if (get32(table) == 0x43495041) { /* APIC */
			madt = true;
			check_eq(madt_cpus(table), param_u64("cpus", 1));
			check_eq(get32(table + 36), XAPIC_BASE);
		}
	}
	check(fadt && madt);
}

static void mp_table(void)
{
	uint64_t mp = 0xf0000, config;

	check_eq(get32(mp), 0x5f504d5f); /* _MP_ */
	check_eq(checksum(mp, 16), 0);
	config = get32(mp + 4);
	check_eq(get32(config), 0x504d4350); /* PCMP */
	check_eq(checksum(config, *(const uint16_t *)(config + 4)), 0);
}

static void device_tree(void)
{
	uint64_t fdt = boot.long_mode ? boot.rdx : 0x20000;

	check_eq(get32(fdt), 0xedfe0dd0);
	check(__builtin_bswap32(get32(fdt + 4)) <= 0x20000);
	check_eq(__builtin_bswap32(get32(fdt + 20)), 17);
}

int main(void)
{
	uint64_t base, bytes;
	uint32_t want = (uint32_t)param_u64("module", 0);

	check(param_is("word", "found") && param_u64("hex", 0) == 0x1f && param_u64("absent", 5) == 5);
	apic_setup();
	memory_map();
	if (want != 0) {
		check(boot_module(&base, &bytes));
		check_eq(bytes, want);
	} else {
		check(!boot_module(&base, &bytes));
	}
	if (param_is("tables", "none"))
		return 0;
	acpi();
	mp_table();
	device_tree();
	return 0;
}
