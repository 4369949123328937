/* SPDX-License-Identifier: Apache-2.0 */
/* What each loader puts where, and what the first instruction finds in registers and boot information. */
#include "load_fixture.h"

static struct test_image img;
static uint8_t initrd_bytes[5000];

static void with_initrd(struct fixture *f)
{
	memset(initrd_bytes, 0x77, sizeof(initrd_bytes));
	image_from_memory(&f->initrd, "some/initrd.gz", initrd_bytes, sizeof(initrd_bytes));
	f->req.initrd = &f->initrd;
}

static void is_initrd(const struct fixture *f, uint64_t base, uint64_t bytes)
{
	assert_int_equal(base, f->out.initrd_base);
	assert_int_equal(bytes, sizeof(initrd_bytes));
	assert_int_equal(f->out.initrd_bytes, bytes);
	assert_memory_equal(at(f, base), initrd_bytes, sizeof(initrd_bytes));
}

/* ---- bzImage ---- */

static void bzimage_goes_to_its_preferred_address(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	f.req.cmdline = "console=ttyS0 quiet";
	with_initrd(&f);
	image_bzimage(&img);
	load_ok(&f, &img);
	assert_int_equal(f.out.mode, BOOT_LONG);
	assert_int_equal(f.out.entry, BZ_PREF + 0x200);
	assert_int_equal(f.out.rsi, MACHINE_ZERO_PAGE);
	assert_int_equal(f.out.stack, MACHINE_BOOT_STACK);
	assert_string_equal(f.out.protocol, "Linux bzImage");
	assert_memory_equal(at(&f, BZ_PREF), img.bytes + BZ_KERNEL, BZ_KERNEL_BYTES);
	assert_string_equal(text_at(&f, MACHINE_CMDLINE), "console=ttyS0 quiet");
	assert_int_equal(f.out.initrd_base, MiB(64) - 8192);
	is_initrd(&f, at32(&f, MACHINE_ZERO_PAGE + 0x218), at32(&f, MACHINE_ZERO_PAGE + 0x21c));
	fixture_fini(&f);
}

static void bzimage_header_is_copied_into_a_clean_zero_page(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	image_bzimage(&img);
	set32(&img, 0x26c, 0x99999999); /* behind the header */
	memset(guest_mem_at(&f.mem, gpa(MACHINE_ZERO_PAGE), 4096), 0xee, 4096);
	load_ok(&f, &img);
	const uint64_t z = MACHINE_ZERO_PAGE;
	assert_int_equal(*at(&f, z + 0x1ef), 0);
	assert_int_equal(*at(&f, z + 0x1f1), 1);
	assert_int_equal(at32(&f, z + 0x202), 0x53726448);
	assert_int_equal(*at(&f, z + 0x210), 0xff);
	assert_int_equal(*at(&f, z + 0x211), 0x01);
	assert_int_equal(at32(&f, z + 0x214), BZ_PREF);
	assert_int_equal(at32(&f, z + 0x228), MACHINE_CMDLINE);
	assert_int_equal(at32(&f, z + 0x230), 0x200000);
	assert_int_equal(at64(&f, z + 0x258), BZ_PREF);
	assert_int_equal(at32(&f, z + 0x264), 0x1234);
	assert_int_equal(at32(&f, z + 0x26c), 0);
	assert_int_equal(at64(&f, z + 0x70), MACHINE_RSDP);
	assert_int_equal(at64(&f, z + 0x250), 0);
	assert_int_equal(*at(&f, z + 0x1e8), 2);
	assert_int_equal(at64(&f, z + 0x2d0 + 20), MACHINE_HIGH_BASE);
	assert_int_equal(at64(&f, z + 0x2d0 + 28), MiB(63));
	assert_int_equal(at32(&f, z + 0x2d0 + 36), 1);
	assert_int_equal(at32(&f, z + 0x2d0 + 40), 0);
	fixture_fini(&f);
}

static void bzimage_finds_the_device_tree_without_acpi_only(void **state)
{
	(void)state;
	static const struct {
		const char *cmdline;
		bool announced;
	} cases[] = {{"acpi=off", true},   {"a acpi=off b", true},       {"acpi=offset", false},
	             {"xacpi=off", false}, {"xacpi=off acpi=off", true}, {"", false}};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		fixture_init(&f, MiB(64));
		f.req.cmdline = cases[i].cmdline;
		image_bzimage(&img);
		load_ok(&f, &img);
		uint64_t node = at64(&f, MACHINE_ZERO_PAGE + 0x250);
		assert_int_equal(node, cases[i].announced ? MACHINE_FDT - 16 : 0);
		if (node != 0) {
			assert_int_equal(at64(&f, node), 0);
			assert_int_equal(at32(&f, node + 8), 2);
			assert_int_equal(at32(&f, node + 12), MACHINE_FDT_MAX);
		}
		fixture_fini(&f);
	}
}

static void bzimage_initrd_obeys_its_limit_unless_it_cannot(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	with_initrd(&f);
	image_bzimage(&img);
	f.initrd.size = 4096;
	set32(&img, 0x22c, 0x1ffffff); /* the last address it may use */
	load_ok(&f, &img);
	assert_int_equal(f.out.initrd_base, MiB(32) - 4096);
	set32(&img, 0x22c, 0x3000); /* no room below, but the kernel says it does not mind */
	load_ok(&f, &img);
	assert_int_equal(f.out.initrd_base, MiB(64) - 4096);
	set16(&img, 0x236, 1);
	load_fails(&f, &img, "initrd some/initrd.gz: ", "no room beside the kernel");
	fixture_fini(&f);
}

static void bzimage_initrd_stays_clear_of_the_kernels_room(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(17));
	with_initrd(&f);
	image_bzimage(&img);
	set32(&img, 0x260, MiB(1)); /* init_size up to the end of RAM */
	load_ok(&f, &img);
	assert_int_equal(f.out.initrd_base, BZ_PREF - 8192);
	fixture_fini(&f);
}

/* ---- ELF ---- */

static void elf64_without_a_protocol_starts_in_long_mode(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	f.req.cmdline = "a b";
	image_elf_simple(&img, true);
	load_ok(&f, &img);
	assert_int_equal(f.out.mode, BOOT_LONG);
	assert_int_equal(f.out.entry, 0x100010);
	assert_int_equal(f.out.rdi, MACHINE_BOOT_INFO);
	assert_int_equal(f.out.rsi, MACHINE_ZERO_PAGE);
	assert_int_equal(f.out.rdx, MACHINE_FDT);
	assert_string_equal(f.out.protocol, "ELF64");
	assert_memory_equal(at(&f, 0x100000), img.bytes + ELF_DATA, 0x1000);
	assert_int_equal(*at(&f, 0x101000), 0);
	assert_int_equal(at32(&f, MACHINE_ZERO_PAGE + 0x202), 0x53726448);
	assert_int_equal(*at(&f, MACHINE_ZERO_PAGE + 0x1e8), 2);
	assert_int_equal(at32(&f, MACHINE_BOOT_INFO), 0x336ec578);
	assert_string_equal(text_at(&f, at64(&f, MACHINE_BOOT_INFO + 0x18)), "a b");
	fixture_fini(&f);
}

static void elf32_without_a_protocol_starts_in_protected_mode(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	image_elf_simple(&img, false);
	load_ok(&f, &img);
	assert_int_equal(f.out.mode, BOOT_PROTECTED);
	assert_int_equal(f.out.entry, 0x100010);
	assert_int_equal(f.out.rax, 0);
	assert_int_equal(f.out.rbx, MACHINE_BOOT_INFO);
	assert_int_equal(f.out.rsi, MACHINE_ZERO_PAGE);
	assert_int_equal(f.out.rdx, MACHINE_FDT);
	fixture_fini(&f);
}

static void a_virtual_entry_point_is_translated(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	const struct test_segment s = {PT_LOAD, ELF_DATA, 0xffffffff80100000, 0x200000, 0x1000, 0x1000};
	image_elf(&img, true, 0xffffffff80100040, &s, 1);
	load_ok(&f, &img);
	assert_int_equal(f.out.entry, 0x200040);
	fixture_fini(&f);
}

static void missing_physical_addresses_are_taken_from_virtual_ones(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	const struct test_segment s[] = {{PT_LOAD, ELF_DATA, 0x100000, 0, 0x1000, 0x1000},
	                                 {PT_LOAD, ELF_DATA + 0x1000, 0x300000, 0, 0x10, 0x10}};
	image_elf(&img, true, 0x100000, s, 2);
	load_ok(&f, &img);
	assert_memory_equal(at(&f, 0x300000), img.bytes + ELF_DATA + 0x1000, 0x10);
	fixture_fini(&f);
}

static void bss_of_any_size_touches_no_memory(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, GiB(2));
	const struct test_segment s = {PT_LOAD, ELF_DATA, 0x100000, 0x100000, 0x1000, GiB(2) - MiB(4)};
	image_elf(&img, true, 0x100000, &s, 1);
	load_ok(&f, &img);
	unsigned long total, resident;
	FILE *statm = fopen("/proc/self/statm", "r");
	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu %lu", &total, &resident), 2);
	fclose(statm);
	assert_true(resident < MiB(512) / 4096); /* a sanitizer takes its share */
	fixture_fini(&f);
}

static void pvh(uint32_t desc)
{
	struct fixture f;
	fixture_init(&f, MiB(64));
	f.req.cmdline = "x=1";
	with_initrd(&f);
	image_pvh(&img, desc);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "PVH");
	assert_int_equal(f.out.mode, BOOT_PROTECTED);
	assert_int_equal(f.out.entry, 0x1000200);
	assert_int_equal(f.out.rbx, MACHINE_BOOT_INFO);
	const uint64_t s = MACHINE_BOOT_INFO;
	assert_int_equal(at32(&f, s), 0x336ec578);
	assert_int_equal(at32(&f, s + 4), 1);
	assert_int_equal(at32(&f, s + 0xc), 1);
	uint64_t module = at64(&f, s + 0x10);
	is_initrd(&f, at64(&f, module), at64(&f, module + 8));
	assert_int_equal(f.out.initrd_base, MiB(64) - 8192);
	assert_string_equal(text_at(&f, at64(&f, s + 0x18)), "x=1");
	assert_int_equal(at64(&f, s + 0x20), MACHINE_RSDP);
	assert_int_equal(at32(&f, s + 0x30), 2);
	uint64_t map = at64(&f, s + 0x28);
	assert_int_equal(at64(&f, map), 0);
	assert_int_equal(at64(&f, map + 8), MACHINE_EBDA);
	assert_int_equal(at32(&f, map + 16), 1);
	assert_int_equal(at64(&f, map + 24), MACHINE_HIGH_BASE);
	fixture_fini(&f);
}

static void pvh_note_of_4_and_of_8_bytes(void **state)
{
	(void)state;
	pvh(4);
	pvh(8);
}

static void pvh_wins_over_multiboot_in_elf64_only(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	image_pvh(&img, 4);
	put_multiboot1(&img, ELF_DATA, 0);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "PVH");
	struct test_segment s[] = {{PT_LOAD, ELF_DATA, 0x100000, 0x100000, 0x1000, 0x1000},
	                           {PT_NOTE, ELF_DATA + 0x800, 0, 0, 20, 0}};
	image_elf(&img, false, 0x100010, s, 2);
	put_pvh_note(&img, ELF_DATA + 0x800, 18, 0x100020, 4);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "PVH");
	assert_int_equal(f.out.entry, 0x100020);
	put_multiboot1(&img, ELF_DATA, 0);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "multiboot 1");
	assert_int_equal(f.out.entry, 0x100010);
	fixture_fini(&f);
}

/* ---- multiboot ---- */

static void multiboot1_information(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	f.req.cmdline = "one two";
	with_initrd(&f);
	image_multiboot1(&img);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "multiboot 1");
	assert_int_equal(f.out.mode, BOOT_PROTECTED);
	assert_int_equal(f.out.entry, 0x100010);
	assert_int_equal(f.out.rax, 0x2badb002);
	assert_int_equal(f.out.rdx, MACHINE_FDT);
	const uint64_t i = f.out.rbx;
	assert_int_equal(at32(&f, i), 0x24d);
	assert_int_equal(at32(&f, i + 4), 639);
	assert_int_equal(at32(&f, i + 8), 15 * 1024);
	assert_string_equal(text_at(&f, at32(&f, i + 16)), "test one two");
	assert_int_equal(at32(&f, i + 20), 1);
	uint64_t module = at32(&f, i + 24);
	assert_int_equal(at32(&f, module), 0x102000); /* the page behind .bss */
	is_initrd(&f, at32(&f, module), at32(&f, module + 4) - at32(&f, module));
	assert_string_equal(text_at(&f, at32(&f, module + 8)), "initrd.gz");
	assert_int_equal(at32(&f, i + 44), 48);
	uint64_t map = at32(&f, i + 48);
	assert_int_equal(at32(&f, map), 20);
	assert_int_equal(at64(&f, map + 4), 0);
	assert_int_equal(at64(&f, map + 24 + 4), MACHINE_HIGH_BASE);
	assert_int_equal(at32(&f, map + 24 + 20), 1);
	assert_string_equal(text_at(&f, at32(&f, i + 64)), "lull");
	fixture_fini(&f);
}

static void multiboot1_address_fields(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	with_initrd(&f);
	image_multiboot1_kludge(&img);
	load_ok(&f, &img);
	assert_int_equal(f.out.entry, 0x200060);
	assert_memory_equal(at(&f, 0x200000), img.bytes, 0x1000);
	assert_int_equal(*at(&f, 0x201000), 0);
	assert_int_equal(f.out.initrd_base, 0x204000);
	static const uint32_t part[5] = {0x300040, 0x300020, 0x300100, 0, 0x300050};
	put_multiboot1_address(&img, 0x40, part);
	load_ok(&f, &img);
	assert_memory_equal(at(&f, 0x300020), img.bytes + 0x20, 0xe0);
	assert_int_equal(*at(&f, 0x300100), 0);
	fixture_fini(&f);
}

static uint64_t find_tag(const struct fixture *f, uint32_t type)
{
	uint64_t info = f->out.rbx, end = info + at32(f, info);
	assert_int_equal(info % 8, 0);
	assert_int_equal(at32(f, end - 8), 0);
	assert_int_equal(at32(f, end - 4), 8);
	for (uint64_t tag = info + 8; tag < end; tag += align_up(at32(f, tag + 4), 8)) {
		if (at32(f, tag) == type)
			return tag;
	}
	fail_msg("no tag of type %u", type);
	return 0;
}

static void multiboot2_information(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	f.req.cmdline = "one two";
	with_initrd(&f);
	image_multiboot2(&img);
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "multiboot 2");
	assert_int_equal(f.out.mode, BOOT_PROTECTED);
	assert_int_equal(f.out.rax, 0x36d76289);
	assert_int_equal(f.out.entry, 0x100010);
	assert_string_equal(text_at(&f, find_tag(&f, 1) + 8), "test one two");
	assert_string_equal(text_at(&f, find_tag(&f, 2) + 8), "lull");
	uint64_t module = find_tag(&f, 3);
	is_initrd(&f, at32(&f, module + 8), at32(&f, module + 12) - at32(&f, module + 8));
	assert_string_equal(text_at(&f, module + 16), "initrd.gz");
	assert_int_equal(at32(&f, find_tag(&f, 4) + 12), 15 * 1024);
	uint64_t map = find_tag(&f, 6);
	assert_int_equal(at32(&f, map + 4), 16 + 2 * 24);
	assert_int_equal(at32(&f, map + 8), 24);
	assert_int_equal(at64(&f, map + 16 + 24), MACHINE_HIGH_BASE);
	assert_int_equal(at32(&f, map + 16 + 24 + 16), 1);
	assert_memory_equal(at(&f, find_tag(&f, 14) + 8), "RSD PTR abcdefghijkl", 20);
	assert_int_equal(at32(&f, find_tag(&f, 15) + 4), 44);
	fixture_fini(&f);
}

static void multiboot2_address_and_entry_tags(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	image_multiboot2_kludge(&img);
	load_ok(&f, &img);
	assert_int_equal(f.out.entry, 0x300080);
	assert_memory_equal(at(&f, 0x300000), img.bytes, 0x800);
	assert_int_equal(*at(&f, 0x300800), 0);
	fixture_fini(&f);
}

/* ---- flat ---- */

static void flat_binaries_start_where_they_are_put(void **state)
{
	(void)state;
	static const struct {
		bool real;
		uint64_t addr, entry, stack;
	} cases[] = {{true, 0, 0x7c00, MACHINE_ZERO_PAGE},
	             {true, 0x50000, 0x50000, MACHINE_ZERO_PAGE},
	             {false, 0, MACHINE_HIGH_BASE, MACHINE_BOOT_STACK},
	             {false, 0x400000, 0x400000, MACHINE_BOOT_STACK}};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		fixture_init(&f, MiB(16));
		image_elf_simple(&img, true); /* not sniffed */
		f.req.flat = true;
		f.req.flat_real_mode = cases[i].real;
		f.req.flat_addr = cases[i].addr;
		f.req.cmdline = "hello";
		load_ok(&f, &img);
		assert_int_equal(f.out.mode, cases[i].real ? BOOT_REAL : BOOT_LONG);
		assert_int_equal(f.out.entry, cases[i].entry);
		assert_int_equal(f.out.stack, cases[i].stack);
		assert_memory_equal(at(&f, cases[i].entry), img.bytes, img.size);
		assert_string_equal(text_at(&f, MACHINE_CMDLINE), "hello");
		fixture_fini(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bzimage_goes_to_its_preferred_address),
		cmocka_unit_test(bzimage_header_is_copied_into_a_clean_zero_page),
		cmocka_unit_test(bzimage_finds_the_device_tree_without_acpi_only),
		cmocka_unit_test(bzimage_initrd_obeys_its_limit_unless_it_cannot),
		cmocka_unit_test(bzimage_initrd_stays_clear_of_the_kernels_room),
		cmocka_unit_test(elf64_without_a_protocol_starts_in_long_mode),
		cmocka_unit_test(elf32_without_a_protocol_starts_in_protected_mode),
		cmocka_unit_test(a_virtual_entry_point_is_translated),
		cmocka_unit_test(missing_physical_addresses_are_taken_from_virtual_ones),
		cmocka_unit_test(bss_of_any_size_touches_no_memory),
		cmocka_unit_test(pvh_note_of_4_and_of_8_bytes),
		cmocka_unit_test(pvh_wins_over_multiboot_in_elf64_only),
		cmocka_unit_test(multiboot1_information),
		cmocka_unit_test(multiboot1_address_fields),
		cmocka_unit_test(multiboot2_information),
		cmocka_unit_test(multiboot2_address_and_entry_tags),
		cmocka_unit_test(flat_binaries_start_where_they_are_put),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
