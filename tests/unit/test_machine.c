// SPDX-License-Identifier: Apache-2.0
/* test_machine.c - the descriptions of the machine, read back by code that shares nothing with the writers. */
#include "fakes/machine_board.h"
#include "lull.h"

#include <errno.h>
#include <libfdt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const unsigned vcpu_counts[] = {1, 2, 16, 254, 255, 256, 300, 512};

static uint32_t get16(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) | get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static unsigned sum(const uint8_t *p, size_t len)
{
	uint8_t total = 0;

	while (len--)
		total = (uint8_t)(total + *p++);
	return total;
}

/* The image in a buffer of exactly its size, so that a sanitizer sees every byte too far. */
static uint8_t *acpi_image(const struct machine *m, size_t *size)
{
	static uint8_t room[MACHINE_ACPI_MAX];
	uint8_t *image;
	int len = acpi_build(m, room, sizeof(room), NULL);

	assert_true(len > 0);
	image = malloc((size_t)len);
	assert_non_null(image);
	assert_int_equal(acpi_build(m, image, (size_t)len, NULL), len);
	*size = (size_t)len;
	return image;
}

/* A table at a guest-physical address, checked for its place and its sum. */
static const uint8_t *table_at(const uint8_t *image, size_t size, uint64_t address, const char *signature)
{
	const uint8_t *table;
	size_t bytes = 0;

	assert_true(address >= MACHINE_RSDP && address - MACHINE_RSDP + 36 <= size);
	table = image + (address - MACHINE_RSDP);
	assert_memory_equal(table, signature, 4);
	assert_true(address - MACHINE_RSDP + get32(table + 4) <= size);
	assert_ptr_equal(acpi_find(image, size, signature, &bytes), table);
	assert_int_equal(bytes, get32(table + 4));
	if (strcmp(signature, "FACS") != 0) {
		assert_int_equal(sum(table, get32(table + 4)), 0);
		assert_memory_equal(table + 10, "LULL  MICROVM ", 14);
	}
	return table;
}

static const uint8_t *xsdt_table(const uint8_t *image, size_t size, unsigned nth, const char *signature)
{
	const uint8_t *xsdt = table_at(image, size, get64(image + 24), "XSDT");

	assert_int_equal(get32(xsdt + 4), 36 + 2 * 8);
	return table_at(image, size, get64(xsdt + 36 + 8ul * nth), signature);
}

static void rsdp_is_revision_2_with_both_sums(void **state)
{
	struct machine m;
	uint8_t *image;
	size_t size;

	(void)state;
	assert_int_equal(machine_board(&m, 1, MiB(64), 0), 0);
	image = acpi_image(&m, &size);
	assert_memory_equal(image, "RSD PTR ", 8);
	assert_int_equal(image[15], 2);
	assert_int_equal(get32(image + 16), 0);
	assert_int_equal(get32(image + 20), 36);
	assert_int_equal(sum(image, 20), 0);
	assert_int_equal(sum(image, 36), 0);
	free(image);
}

static void fadt_says_the_same_twice(void **state)
{
	const uint8_t *fadt, *facs;
	struct machine m;
	uint8_t *image;
	size_t size;

	(void)state;
	assert_int_equal(machine_board(&m, 2, MiB(64), 0), 0);
	image = acpi_image(&m, &size);
	fadt = xsdt_table(image, size, 0, "FACP");
	assert_int_equal(get32(fadt + 4), 276);
	assert_int_equal(fadt[8], 6);
	assert_int_equal(get16(fadt + 46), 9);
	assert_int_equal(get32(fadt + 48), 0);
	assert_int_equal(get32(fadt + 56), 0x600);
	assert_int_equal(get32(fadt + 64), 0x604);
	assert_int_equal(get32(fadt + 76), 0x608);
	assert_int_equal(get32(fadt + 88), 4 | 2 << 8 | 4u << 24);
	assert_int_equal(get32(fadt + 112) & 1u << 20, 0);
	assert_int_equal(get32(fadt + 112) & 0x530, 0x520); /* timer, reset register, no sleep button, power button */
	assert_int_equal(get64(fadt + 120), 0xcf9);
	assert_int_equal(fadt[128], 6);
	assert_int_equal(get64(fadt + 140), get32(fadt + 40));
	assert_int_equal(get64(fadt + 152), 0x600);
	assert_int_equal(fadt[149], 32);
	assert_int_equal(get64(fadt + 176), 0x604);
	assert_int_equal(fadt[173], 16);
	assert_int_equal(get64(fadt + 212), 0x608);
	assert_int_equal(fadt[209], 32);
	facs = table_at(image, size, get32(fadt + 36), "FACS");
	assert_int_equal(get32(facs + 4), 64);
	assert_int_equal(get32(fadt + 36) % 64, 0);
	free(image);
}

static void check_madt(const uint8_t *madt, unsigned vcpus)
{
	unsigned lapics = 0, x2apics = 0, ioapics = 0, overrides = 0, nmis = 0;
	const uint8_t *end = madt + get32(madt + 4), *p;

	assert_int_equal(get32(madt + 36), 0xfee00000);
	assert_int_equal(get32(madt + 40), 0);
	for (p = madt + 44; p < end; p += p[1]) {
		assert_true(p[1] >= 2 && p + p[1] <= end);
		switch (p[0]) {
		case 0:
			assert_int_equal(p[2], lapics);
			assert_int_equal(p[3], lapics++);
			assert_int_equal(get32(p + 4), 1);
			break;
		case 9:
			assert_int_equal(get32(p + 4), 255 + x2apics);
			assert_int_equal(get32(p + 8), 1);
			assert_int_equal(get32(p + 12), 255 + x2apics++);
			break;
		case 1:
			ioapics++;
			assert_int_equal(get32(p + 4), 0xfec00000);
			break;
		case 2:
			overrides++;
			assert_int_equal(p[3], 9);
			assert_int_equal(get32(p + 4), 9);
			assert_int_equal(get16(p + 8), 0xd);
			break;
		case 4:
			nmis++;
			assert_int_equal(p[2], 0xff);
			assert_int_equal(p[5], 1);
			break;
		case 10:
			nmis++;
			assert_int_equal(get32(p + 4), 0xffffffff);
			assert_int_equal(p[8], 1);
			break;
		default:
			fail_msg("MADT entry of type %u", p[0]);
		}
	}
	assert_ptr_equal(p, end);
	assert_int_equal(lapics, vcpus < 255 ? vcpus : 255);
	assert_int_equal(x2apics, vcpus < 255 ? 0 : vcpus - 255);
	assert_int_equal(ioapics, 1);
	assert_int_equal(overrides, 1);
	assert_int_equal(nmis, vcpus > 255 ? 2 : 1);
}

static void madt_has_x2apic_entries_from_255_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vcpu_counts); i++) {
		struct machine m;
		uint8_t *image;
		size_t size;

		assert_int_equal(machine_board(&m, vcpu_counts[i], GiB(2), 8), 0);
		image = acpi_image(&m, &size);
		check_madt(xsdt_table(image, size, 1, "APIC"), vcpu_counts[i]);
		free(image);
	}
}

static unsigned occurrences(const uint8_t *data, size_t len, const char *text)
{
	size_t n = strlen(text) + 1;
	unsigned count = 0;

	for (size_t i = 0; i + n <= len; i++)
		count += memcmp(data + i, text, n) == 0;
	return count;
}

/* Length of a package from its first byte, its encoding included. */
static size_t pkg_length(const uint8_t *p)
{
	size_t len = p[0] & 0x3f;

	if (p[0] >> 6)
		len = p[0] & 0xf;
	for (unsigned i = 1; i <= p[0] >> 6; i++)
		len |= (size_t)p[i] << (8 * i - 4);
	return len;
}

static void dsdt_has_every_device_once(void **state)
{
	static const uint8_t s5[] = {0x08, '\\', '_',  'S',  '5',  '_',  0x12, 0x08,
	                             0x04, 0x0a, 0x05, 0x0a, 0x05, 0x00, 0x00};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vcpu_counts); i++) {
		for (unsigned virtio = 0; virtio <= MACHINE_VIRTIO_SLOTS; virtio += 4) {
			const uint8_t *fadt, *dsdt;
			struct machine m;
			uint8_t *image;
			size_t size, len;

			assert_int_equal(machine_board(&m, vcpu_counts[i], GiB(4), virtio), 0);
			image = acpi_image(&m, &size);
			fadt = xsdt_table(image, size, 0, "FACP");
			dsdt = table_at(image, size, get64(fadt + 140), "DSDT");
			len = get32(dsdt + 4);
			assert_int_equal(occurrences(dsdt, len, "LNRO0005"), virtio);
			assert_int_equal(occurrences(dsdt, len, "ACPI0007"), vcpu_counts[i]);
			assert_int_equal(occurrences(dsdt, len, "QEMU0001"), 1);
			assert_int_equal(occurrences(dsdt, len, "QEMU0002"), 1);
			assert_int_equal(dsdt[36], 0x10); /* Scope (\_SB) up to Name (\_S5) */
			assert_int_equal(37 + pkg_length(dsdt + 37), len - sizeof(s5));
			assert_memory_equal(dsdt + len - sizeof(s5), s5, sizeof(s5));
			free(image);
		}
	}
}

static void acpi_that_does_not_fit_is_refused(void **state)
{
	struct lull_error err = {0};
	struct machine m;
	uint8_t *image;
	size_t size;

	(void)state;
	assert_int_equal(machine_board(&m, 512, GiB(16), 8), 0);
	image = acpi_image(&m, &size);
	free(image);
	for (size_t room = 1; room < size; room += 1 + room / 8) {
		uint8_t *exact = malloc(room);

		assert_int_equal(acpi_build(&m, exact, room, &err), -E2BIG);
		free(exact);
	}
	assert_non_null(strstr(err.text, "512 vCPUs"));
}

static void acpi_needs_its_board(void **state)
{
	static const enum machine_kind needed[] = {MACHINE_PM, MACHINE_LAPIC, MACHINE_IOAPIC};
	static uint8_t room[MACHINE_ACPI_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		struct machine m;

		assert_int_equal(machine_board(&m, 1, MiB(64), 0), 0);
		for (unsigned n = 0; n < m.count; n++)
			if (m.entries[n].kind == needed[i])
				m.entries[n].kind = MACHINE_CUSTOM;
		assert_int_equal(acpi_build(&m, room, sizeof(room), NULL), -EINVAL);
	}
}

static void acpi_find_survives_garbage(void **state)
{
	struct machine m;
	uint8_t *image;
	size_t size, bytes;

	(void)state;
	assert_int_equal(machine_board(&m, 1, MiB(64), 1), 0);
	image = acpi_image(&m, &size);
	assert_null(acpi_find(image, size, "SSDT", &bytes));
	assert_null(acpi_find(image, size, "APICX", &bytes));
	assert_null(acpi_find(image, 8, "APIC", &bytes));
	for (size_t i = 0; i < size; i++) {
		uint8_t keep = image[i];

		image[i] = 0xff;
		acpi_find(image, size, "DSDT", &bytes);
		acpi_find(image, size, "APIC", &bytes);
		image[i] = keep;
	}
	free(image);
}

static unsigned cpu_nodes(const void *fdt)
{
	int cpus = fdt_path_offset(fdt, "/cpus"), node;
	unsigned count = 0;

	assert_true(cpus >= 0);
	fdt_for_each_subnode(node, fdt, cpus)
	{
		int len;
		const fdt32_t *reg = fdt_getprop(fdt, node, "reg", &len);

		assert_non_null(reg);
		assert_int_equal(len, 4);
		assert_int_equal(fdt32_to_cpu(*reg), count);
		count++;
	}
	return count;
}

static void fdt_describes_the_machine(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vcpu_counts); i++) {
		struct machine m;
		const fdt64_t *value;
		void *fdt;
		size_t room;
		int len, node;

		assert_int_equal(machine_board(&m, vcpu_counts[i], GiB(4), 3), 0);
		m.cmdline = "console=ttyS0";
		m.initrd_base = 0x2000000;
		m.initrd_bytes = 0x1234;
		room = fdt_room(&m);
		fdt = malloc(room);
		len = fdt_build(&m, fdt, room, NULL);
		assert_true(len > 0 && (size_t)len <= room);
		assert_int_equal(fdt_check_full(fdt, (size_t)len), 0);
		assert_int_equal(cpu_nodes(fdt), vcpu_counts[i]);

		node = fdt_path_offset(fdt, "/chosen");
		assert_string_equal(fdt_getprop(fdt, node, "bootargs", NULL), "console=ttyS0");
		value = fdt_getprop(fdt, node, "linux,initrd-end", NULL);
		assert_int_equal(fdt64_ld(value), 0x2001234);
		assert_true(fdt_path_offset(fdt, fdt_getprop(fdt, node, "stdout-path", NULL)) > 0);
		value = fdt_getprop(fdt, fdt_path_offset(fdt, "/memory@0"), "reg", &len);
		assert_int_equal(len, 3 * 16);
		assert_int_equal(fdt64_ld(&value[4]), GiB(4));
		assert_int_equal(fdt64_ld(&value[5]), GiB(1));
		node = -1;
		for (len = 0; (node = fdt_node_offset_by_compatible(fdt, node, "virtio,mmio")) >= 0; len++)
			;
		assert_int_equal(len, 3);
		free(fdt);
	}
}

static void fdt_room_is_enough_and_less_is_refused(void **state)
{
	static char cmdline[MACHINE_CMDLINE_MAX];
	struct machine m;
	size_t room;
	void *fdt;
	int len;

	(void)state;
	memset(cmdline, 'x', sizeof(cmdline) - 1);
	assert_int_equal(machine_board(&m, 512, GiB(16), 8), 0);
	m.cmdline = cmdline;
	m.tsc_khz = 2500000;
	for (unsigned port = 0x1000; m.count < MACHINE_ENTRIES_MAX; port += 8) {
		struct machine_entry entry = {MACHINE_SERIAL, "serial", false, port, 8, -1, false};

		assert_int_equal(machine_add(&m, &entry, NULL), 0);
	}
	room = fdt_room(&m);
	assert_true(room <= MACHINE_FDT_MAX);
	fdt = malloc(room);
	len = fdt_build(&m, fdt, room, NULL);
	assert_true(len > 0);
	free(fdt);
	for (size_t less = 1; less < (size_t)len; less += 1 + less / 8) {
		fdt = malloc(less);
		assert_int_equal(fdt_build(&m, fdt, less, NULL), -E2BIG);
		free(fdt);
	}
}

static void check_mp(const uint8_t *mp, size_t size, unsigned vcpus)
{
	static const uint8_t lengths[] = {20, 8, 8, 8, 8};
	unsigned seen[ARRAY_SIZE(lengths)] = {0}, entries = 0;
	const uint8_t *table = mp + 16, *p = table + 44;

	assert_memory_equal(mp, "_MP_", 4);
	assert_int_equal(sum(mp, 16), 0);
	assert_int_equal(get32(mp + 4), MACHINE_MPTABLE + 16);
	assert_int_equal(mp[9], 4);
	assert_memory_equal(table, "PCMP", 4);
	assert_int_equal(get16(table + 4), size - 16);
	assert_int_equal(sum(table, size - 16), 0);
	assert_int_equal(get32(table + 36), 0xfee00000);
	for (; p < mp + size; p += lengths[p[0]], entries++) {
		assert_in_range(p[0], 0, ARRAY_SIZE(lengths) - 1);
		if (p[0] == 0)
			assert_int_equal(p[1], seen[0]);
		if (p[0] == 3)
			assert_int_equal(get16(p + 2), p[5] == GSI_COM1 ? 5 : 13);
		seen[p[0]]++;
	}
	assert_ptr_equal(p, mp + size);
	assert_int_equal(entries, get16(table + 34));
	assert_int_equal(seen[0], vcpus < 255 ? vcpus : 255);
	assert_int_equal(seen[1], 1);
	assert_int_equal(seen[2], 1);
	assert_int_equal(seen[3], 2 + 2); /* COM1, SCI, two virtio slots */
	assert_int_equal(seen[4], 2);
}

static void mptable_leaves_out_what_it_cannot_say(void **state)
{
	static uint8_t room[MACHINE_MPTABLE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vcpu_counts); i++) {
		struct machine m;
		uint8_t *exact;
		int len;

		assert_int_equal(machine_board(&m, vcpu_counts[i], MiB(64), 2), 0);
		len = mptable_build(&m, room, sizeof(room), NULL);
		assert_true(len > 0);
		check_mp(room, (size_t)len, vcpu_counts[i]);
		exact = malloc((size_t)len - 1);
		assert_int_equal(mptable_build(&m, exact, (size_t)len - 1, NULL), -E2BIG);
		free(exact);
	}
}

static void e820_is_sorted_and_loses_nothing_above_1_mib(void **state)
{
	static const uint64_t sizes[] = {KiB(4), KiB(640), KiB(700),        MiB(1), MiB(64),
	                                 GiB(2), GiB(3),   GiB(3) + KiB(4), GiB(4), GiB(16)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct e820_entry map[E820_MAX];
		uint64_t at = 0, high = 0;
		struct machine m;
		unsigned count;

		machine_init(&m, 1, sizes[i]);
		count = machine_e820(&m, map);
		assert_in_range(count, 1, E820_MAX);
		for (unsigned n = 0; n < count; n++) {
			assert_true(map[n].addr >= at && map[n].size > 0);
			at = map[n].addr + map[n].size;
			assert_true(at <= sizes[i] + (at > GiB(4) ? GiB(1) : 0));
			if (map[n].addr >= MiB(1)) {
				assert_int_equal(map[n].type, E820_RAM);
				high += map[n].size;
			}
		}
		assert_int_equal(high, sizes[i] > MiB(1) ? sizes[i] - MiB(1) : 0);
		if (sizes[i] >= MiB(1)) {
			assert_int_equal(map[0].size, 0x9fc00);
			assert_int_equal(map[2].addr, MACHINE_RSDP);
			assert_int_equal(map[2].type, E820_RESERVED);
		}
	}
}

static void add_refuses_conflicts_by_name(void **state)
{
	static const struct {
		struct machine_entry entry;
		int code;
		const char *text;
	} bad[] = {
		{{MACHINE_CUSTOM, "mine", false, 0x3ff, 1, -1, false}, -EEXIST, "com1"},
		{{MACHINE_CUSTOM, "mine", false, 0x3f0, 9, -1, false}, -EEXIST, "com1"},
		{{MACHINE_CUSTOM, "mine", false, 0x2f8, 8, GSI_COM1, true}, -EEXIST, "com1"},
		{{MACHINE_CUSTOM, "mine", true, 0xfec00fff, 2, -1, false}, -EEXIST, "ioapic"},
		{{MACHINE_CUSTOM, "mine", true, MiB(64) - 1, 2, -1, false}, -EEXIST, "RAM"},
		{{MACHINE_CUSTOM, "mine", false, 0x2f8, 8, 24, true}, -EINVAL, "GSI 24"},
		{{MACHINE_CUSTOM, "mine", false, 0x2f8, 8, -2, true}, -EINVAL, "GSI -2"},
		{{MACHINE_CUSTOM, "mine", false, 0x2f8, 0, -1, true}, -EINVAL, "0 bytes"},
		{{MACHINE_CUSTOM, "mine", false, 0xffff, 2, -1, true}, -EINVAL, "0x10000"},
		{{MACHINE_CUSTOM, "mine", true, UINT64_MAX, 2, -1, true}, -EINVAL, "0xffffffffffffffff"},
	};
	const struct machine_entry good = {MACHINE_CUSTOM, "mine", true, UINT64_MAX - 7, 8, 23, true};
	struct lull_error err;
	struct machine m;
	unsigned count;

	(void)state;
	assert_int_equal(machine_board(&m, 1, MiB(64), 0), 0);
	count = m.count;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(machine_add(&m, &bad[i].entry, &err), bad[i].code);
		assert_non_null(strstr(err.text, "mine"));
		assert_non_null(strstr(err.text, bad[i].text));
	}
	assert_int_equal(m.count, count);
	assert_int_equal(machine_add(&m, &good, &err), 0);
	assert_ptr_equal(machine_find(&m, MACHINE_CUSTOM, 0), &m.entries[count]);
	assert_null(machine_find(&m, MACHINE_CUSTOM, 1));
}

static void add_stops_when_full(void **state)
{
	struct machine m;
	struct machine_entry entry = {MACHINE_CUSTOM, "one", false, 0, 1, -1, false};

	(void)state;
	machine_init(&m, 1, MiB(64));
	for (; entry.base < MACHINE_ENTRIES_MAX; entry.base++)
		assert_int_equal(machine_add(&m, &entry, NULL), 0);
	assert_int_equal(machine_add(&m, &entry, NULL), -ENOSPC);
}

static void boot_tables_land_in_their_places(void **state)
{
	struct guest_mem mem;
	struct machine m;
	const uint8_t *low;

	(void)state;
	assert_int_equal(guest_mem_init(&mem, MiB(4), false, NULL), 0);
	assert_int_equal(machine_board(&m, 2, MiB(4), 1), 0);
	low = guest_mem_at(&mem, gpa(0), MiB(1));
	memset(guest_mem_at(&mem, gpa(0), MiB(1)), 0xa5, MiB(1)); /* what a rebooting guest leaves */
	assert_int_equal(boot_tables_write(&m, &mem, NULL), 0);
	assert_memory_equal(low + MACHINE_RSDP, "RSD PTR ", 8);
	assert_int_equal(sum(low + MACHINE_RSDP, 36), 0);
	assert_int_equal(fdt_check_full(low + MACHINE_FDT, MACHINE_FDT_MAX), 0);
	assert_memory_equal(low + MACHINE_MPTABLE, "_MP_", 4);
	assert_memory_equal(low + MACHINE_RESET_STUB, "\xba\xf9\x0c\xb0\x06\xee\xfa\xf4", 8);
	guest_mem_fini(&mem);
}

static void boot_tables_need_a_megabyte(void **state)
{
	struct guest_mem mem = {.count = 1, .bytes = KiB(640), .fd = -1};
	struct lull_error err;
	struct machine m;

	(void)state;
	mem.regions[0] = (struct guest_mem_region){.size = mem.bytes, .hva = malloc(mem.bytes)};
	assert_int_equal(machine_board(&m, 1, mem.bytes, 0), 0);
	assert_int_equal(boot_tables_write(&m, &mem, &err), -EFAULT);
	assert_non_null(strstr(err.text, "655360"));
	free(mem.regions[0].hva);
}

static void text_shows_ranges_pins_and_names(void **state)
{
	struct machine m;
	char *text;

	(void)state;
	assert_int_equal(machine_board(&m, 4, GiB(4), 1), 0);
	text = machine_text(&m);
	assert_non_null(strstr(text, "0x03f8        0x03ff            8B    4  edge     serial         com1\n"));
	assert_non_null(strstr(text, "0x0d0000000   0x0d0000fff       4K   16  level    virtio-mmio    virtio\n"));
	assert_null(strstr(text, " \n"));
	free(text);
	text = e820_text(&m);
	assert_non_null(strstr(text, "0x100000000   0x13fffffff       1G  1 RAM\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsdp_is_revision_2_with_both_sums),
		cmocka_unit_test(fadt_says_the_same_twice),
		cmocka_unit_test(madt_has_x2apic_entries_from_255_on),
		cmocka_unit_test(dsdt_has_every_device_once),
		cmocka_unit_test(acpi_that_does_not_fit_is_refused),
		cmocka_unit_test(acpi_needs_its_board),
		cmocka_unit_test(acpi_find_survives_garbage),
		cmocka_unit_test(fdt_describes_the_machine),
		cmocka_unit_test(fdt_room_is_enough_and_less_is_refused),
		cmocka_unit_test(mptable_leaves_out_what_it_cannot_say),
		cmocka_unit_test(e820_is_sorted_and_loses_nothing_above_1_mib),
		cmocka_unit_test(add_refuses_conflicts_by_name),
		cmocka_unit_test(add_stops_when_full),
		cmocka_unit_test(boot_tables_land_in_their_places),
		cmocka_unit_test(boot_tables_need_a_megabyte),
		cmocka_unit_test(text_shows_ranges_pins_and_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
