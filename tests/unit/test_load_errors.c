/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal of the loaders: one line that names the file, what was found and what to do. */
#include "load_fixture.h"

static struct test_image img;

static void refused(struct fixture *f, const char *text)
{
	load_fails(f, &img, "kernel /dir/test: ", text);
}

/* ---- files that are no kernels ---- */

#define FORMAT(off, bytes, text)                                                                                       \
	{                                                                                                              \
		off, bytes, sizeof(bytes) - 1, text                                                                    \
	}

static const struct {
	size_t off;
	const char *bytes;
	size_t len;
	const char *text;
} formats[] = {
	FORMAT(0, "\x1f\x8b\x08", "this is a gzip file: unpack it first (gunzip)"),
	FORMAT(0, "\3757zXZ\0", "xz file"),
	FORMAT(0, "\x28\xb5\x2f\xfd", "zstd file"),
	FORMAT(0, "BZh9", "bzip2 file"),
	FORMAT(0, "\x02\x21\x4c\x18", "lz4 file"),
	FORMAT(0, "PK\x03\x04", "zip file"),
	FORMAT(0, "MZ\0\0zimg", "compressed EFI kernel"),
	FORMAT(56, "ARM\x64", "ARM64 kernel image"),
	FORMAT(36, "\x18\x28\x6f\x01", "ARM zImage"),
	FORMAT(56, "RSC\x05", "RISC-V kernel image"),
	FORMAT(0, "070701", "--initrd"),
	FORMAT(257, "ustar", "tar archive"),
	FORMAT(0, "!<arch>\n", "static library"),
	FORMAT(0, "QFI\xfb", "qcow2"),
	FORMAT(512, "EFI PART", "GPT disk"),
	FORMAT(1080, "\x53\xef", "ext2/3/4"),
	FORMAT(0x8001, "CD001", "ISO image"),
	FORMAT(510, "\x55\xaa", "boot sector"),
	FORMAT(0, "\xd0\x0d\xfe\xed", "device tree"),
	FORMAT(0x100, "\x02\xb0\xad\x1b\0\0\0\0\x11\x22\x33\x44", "multiboot 1 header with a wrong checksum"),
	FORMAT(0x100, "\xd6\x50\x52\xe8\0\0\0\0", "multiboot 2 header with a wrong checksum"),
	FORMAT(4096, "x", "no format that lull knows (starts with 00 00 00 00)"),
	FORMAT(4096, "", "only zeros"),
};

static void the_text_says_what_the_file_is(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(2));
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		memset(&img, 0, sizeof(img));
		memcpy(img.bytes + formats[i].off, formats[i].bytes, formats[i].len);
		img.size = formats[i].off + 1024 > 4096 ? formats[i].off + 1024 : 4096;
		refused(&f, formats[i].text);
	}
	fixture_fini(&f);
}

static void text_files_are_told_apart(void **state)
{
	(void)state;
	static const char *const texts[][2] = {
		{"#!/bin/sh\nexit 0\n", "a script"},
		{"<!DOCTYPE html><title>404</title>", "an HTML page"},
		{"hello world, this is text\n", "a text file"},
		{"version https://git-lfs.github.com/spec/v1\n", "Git LFS"},
		{"\x01\x02", "2 bytes is too short"},
	};
	struct fixture f;
	fixture_init(&f, MiB(2));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		memset(&img, 0, sizeof(img));
		img.size = strlen(texts[i][0]);
		memcpy(img.bytes, texts[i][0], img.size);
		refused(&f, texts[i][1]);
	}
	img.size = 0;
	refused(&f, "is empty");
	fixture_fini(&f);
}

static void pe_programs_are_told_apart(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(2));
	memset(&img, 0, sizeof(img));
	img.size = 4096;
	memcpy(img.bytes, "MZ", 2);
	set32(&img, 60, 128);
	memcpy(img.bytes + 128, "PE\0\0", 4);
	set16(&img, 132, 0x8664);
	refused(&f, "section .linux");
	set16(&img, 132, 0xaa64);
	refused(&f, "64-bit ARM");
	set32(&img, 60, 0xfffffffe); /* a wild offset is not followed */
	refused(&f, "no format that lull knows");
	fixture_fini(&f);
}

/* ---- bzImage ---- */

static void bzimage_headers_are_checked(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	image_bzimage(&img);
	img.size = 0x210;
	refused(&f, "truncated: a Linux bzImage with only 528 bytes");
	image_bzimage(&img);
	img.size -= 16;
	refused(&f, "truncated: a Linux bzImage that needs 5120 bytes, has 5104");
	image_bzimage(&img);
	set16(&img, 0x206, 0x0209);
	refused(&f, "boot protocol 2.09");
	image_bzimage(&img);
	set16(&img, 0x236, 0);
	refused(&f, "32-bit Linux bzImage");
	image_bzimage(&img);
	img.bytes[0x211] = 0;
	refused(&f, "zImage that loads below 1 MiB");
	image_bzimage(&img);
	set32(&img, 0x1f4, 1);
	refused(&f, "the kernel has 16 bytes");
	image_bzimage(&img);
	set32(&img, 0x1f4, 0xffffffff);
	refused(&f, "truncated");
	image_bzimage(&img);
	set32(&img, 0x230, 3);
	refused(&f, "kernel_alignment is 0x3");
	image_bzimage(&img);
	set64(&img, 0x258, 0x100000000);
	refused(&f, "wants to be at 0x100000000");
	image_bzimage(&img);
	set64(&img, 0x258, 0xffffffff); /* the alignment takes it there */
	refused(&f, "wants to be at 0x100000000");
	image_bzimage(&img);
	img.bytes[0x234] = 0;
	set64(&img, 0x258, 0x10000);
	refused(&f, "wants to be at 0x10000");
	fixture_fini(&f);
}

static void bzimage_needs_room(void **state)
{
	(void)state;
	static uint8_t initrd_bytes[MiB(2)];
	static char cmdline[4096];
	struct fixture f;
	fixture_init(&f, MiB(20));
	image_bzimage(&img);
	set32(&img, 0x260, MiB(5));
	refused(&f, "it takes at least 21 MiB (--mem)");
	image_bzimage(&img);
	set32(&img, 0x260, 0xffffffff);
	refused(&f, "reaches beyond 3 GiB");
	image_bzimage(&img);
	memset(cmdline, 'x', 2048);
	f.req.cmdline = cmdline;
	refused(&f, "the command line is too long: 2048 bytes, this kernel takes 2047");
	cmdline[2047] = '\0';
	load_ok(&f, &img);
	image_from_memory(&f.initrd, "init", initrd_bytes, MiB(1) * 20);
	f.req.initrd = &f.initrd;
	load_fails(&f, &img, "initrd init: ", "20 MiB do not fit into 20 MiB");
	f.initrd.size = MiB(19);
	load_fails(&f, &img, "initrd init: ", "no room beside the kernel");
	f.initrd.size = UINT64_MAX;
	load_fails(&f, &img, "initrd init: ", "do not fit");
	fixture_fini(&f);
}

/* ---- ELF ---- */

static void elf_headers_are_checked(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	static const struct {
		size_t off;
		uint16_t value;
		const char *text;
	} cases[] = {
		{offsetof(Elf64_Ehdr, e_machine), EM_AARCH64, "64-bit ELF file for 64-bit ARM (machine 183)"},
		{offsetof(Elf64_Ehdr, e_machine), 9999, "unknown machine"},
		{offsetof(Elf64_Ehdr, e_type), ET_REL, "object file or kernel module"},
		{offsetof(Elf64_Ehdr, e_type), ET_DYN, "-no-pie"},
		{offsetof(Elf64_Ehdr, e_type), ET_CORE, "core dump"},
		{offsetof(Elf64_Ehdr, e_type), 77, "unknown type 77"},
		{offsetof(Elf64_Ehdr, e_phnum), 0, "without program headers"},
		{offsetof(Elf64_Ehdr, e_phnum), 0xffff, "65535 program headers"},
		{offsetof(Elf64_Ehdr, e_phentsize), 8, "program headers of 8 bytes, expected 56"},
		{offsetof(Elf64_Ehdr, e_phoff), 0x1ff0, "the program headers (56 bytes at 0x1ff0) end beyond the file"},
		{offsetof(Elf64_Ehdr, e_phoff) + 6, 0xffff, "end beyond the file"},
		{EI_DATA - 1, 0x0202, "big-endian"},
		{EI_CLASS, 0x0103, "its class is 3"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		image_elf_simple(&img, true);
		set16(&img, cases[i].off, cases[i].value);
		refused(&f, cases[i].text);
	}
	image_elf_simple(&img, true);
	img.size = 60;
	refused(&f, "truncated: an ELF file with only 60 bytes");
	img.size = 4;
	refused(&f, "truncated");
	fixture_fini(&f);
}

static void elf_segments_are_checked(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	static const struct {
		struct test_segment s[2];
		const char *text;
	} cases[] = {
		{{{PT_LOAD, ELF_DATA, 0, 0x100000, 0x2000, 0x1000}}, "8192 bytes in the file but 4096 in memory"},
		{{{PT_LOAD, ELF_DATA, 0, 0x100000, 0x30000, 0x30000}},
	         "truncated: segment 0 ends beyond the file: needs 200704 bytes, has 4096"},
		{{{PT_LOAD, UINT64_MAX, 0, 0x100000, 0x10, 0x10}}, "impossible file offset"},
		{{{PT_LOAD, ELF_DATA, 0, UINT64_MAX - 8, 0x10, 0x10}}, "wraps around"},
		{{{PT_LOAD, ELF_DATA, 0, MiB(16) - 4096, 0x1000, 0x1001}}, "it takes at least 17 MiB"},
		{{{PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, GiB(3)}}, "reaches beyond 3 GiB"},
		{{{PT_LOAD, ELF_DATA, 0, 0xd0000000, 0x1000, 0x1000}}, "where the devices live"},
		{{{PT_LOAD, ELF_DATA, 0, GiB(4), 0x1000, 0x1000}}, "it takes at least 3073 MiB"},
		{{{PT_LOAD, ELF_DATA, 0, 0x7fff, 0x1, 0x1}}, "lies on the Linux zero page (0x7000-0x7fff)"},
		{{{PT_LOAD, ELF_DATA, 0, 0x8000, 0x1000, 0x1000}}, "lies on the boot stack"},
		{{{PT_LOAD, ELF_DATA, 0, 0xfffff, 0x1000, 0x1000}}, "lies on the MP table"},
		{{{PT_LOAD, ELF_DATA, 0, 0, 0x1000, MiB(2)}}, "lies on the boot information"},
		{{{PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, 0x1001}, {PT_LOAD, ELF_DATA, 0, 0x101000, 0x10, 0x10}},
	         "segment 1 (0x101000-0x10100f) overlaps segment 0 (0x100000-0x101000)"},
		{{{PT_LOAD, ELF_DATA, 0, 0x200000, 0x10, 0x10}}, "the entry point 0x100010 lies in no segment"},
		{{{PT_NULL, 0, 0, 0, 0, 0}}, "nothing to load"},
		{{{PT_LOAD, ELF_DATA, 0, 0x100000, 0, 0}}, "nothing to load"},
		{{{PT_INTERP, ELF_DATA, 0, 0x100000, 0, 0}}, "dynamically linked"},
		{{{PT_NOTE, ELF_DATA, 0, 0, 0x30000, 0}}, "segment 0 (notes) ends beyond the file"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		image_elf(&img, true, 0x100010, cases[i].s, cases[i].s[1].type == PT_LOAD ? 2 : 1);
		if (cases[i].s[0].filesz > 0x20000)
			img.size = ELF_DATA;
		refused(&f, cases[i].text);
	}
	fixture_fini(&f);
}

static void adjacent_segments_are_fine(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(16));
	const struct test_segment s[] = {{PT_LOAD, ELF_DATA, 0, 0x101000, 0x10, 0xeff000},
	                                 {PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, 0x1000},
	                                 {PT_LOAD, ELF_DATA, 0, 0x0, 0x10, 0x6000},
	                                 {PT_LOAD, ELF_DATA, 0, 0x40000, 0x10, 0xa0000}};
	image_elf(&img, true, 0x100010, s, 4);
	load_ok(&f, &img);
	fixture_fini(&f);
}

static void too_many_segments_are_refused(void **state)
{
	(void)state;
	static struct test_segment s[65];
	struct fixture f;
	fixture_init(&f, MiB(16));
	for (unsigned i = 0; i < ARRAY_SIZE(s); i++)
		s[i] = (struct test_segment){PT_LOAD, ELF_DATA, 0, 0x100000 + i * 0x1000, 0x20, 0x20};
	image_elf(&img, true, 0x100010, s, 64);
	load_ok(&f, &img);
	image_elf(&img, true, 0x100010, s, 65);
	refused(&f, "more than 64 segments");
	fixture_fini(&f);
}

static void a_pvh_entry_outside_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	fixture_init(&f, MiB(64));
	image_pvh(&img, 8);
	set64(&img, img.size - 8, 0x5000000);
	refused(&f, "the PVH entry point 0x5000000 lies in no segment");
	set32(&img, img.size - 20, 12); /* a note of a wrong size is none: the entry point of the header serves */
	load_ok(&f, &img);
	assert_string_equal(f.out.protocol, "ELF64");
	fixture_fini(&f);
}

/* ---- multiboot ---- */

static void multiboot1_headers_are_checked(void **state)
{
	(void)state;
	static const struct {
		uint32_t fields[5];
		const char *text;
	} cases[] = {
		{{0x200040, 0x200041, 0, 0, 0x200060}, "cannot be at"},
		{{0x200080, 0x200000, 0, 0, 0x200060}, "cannot be at"},
		{{0x10, 0xffffffff, 0, 0, 0x60}, "cannot be at"},
		{{0x200040, 0x200000, 0x1ff000, 0, 0x200060}, "ends (0x1ff000) before it begins"},
		{{0x200040, 0x200000, 0x300000, 0, 0x200060}, "truncated: the image ends beyond the file"},
		{{0x200040, 0x200000, 0, 0x200100, 0x200060}, ".bss ends (0x200100) before its data"},
		{{0x200040, 0x200000, 0, 0xffffffff, 0x200060}, "reaches beyond 3 GiB"},
		{{0xf00040, 0xf00000, 0, 0x2000000, 0xf00060}, "it takes at least 32 MiB"},
		{{0x200040, 0x200000, 0, 0, 0x201000}, "entry point 0x201000 outside"},
	};
	struct fixture f;
	fixture_init(&f, MiB(16));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		image_multiboot1_kludge(&img);
		put_multiboot1_address(&img, 0x40, cases[i].fields);
		refused(&f, cases[i].text);
	}
	image_multiboot1_kludge(&img);
	put_multiboot1(&img, 0x40, 0);
	refused(&f, "multiboot 1 header without load addresses");
	put_multiboot1(&img, 0x40, 1 << 5 | 1 << 16);
	refused(&f, "demands features lull does not have (flags 0x20)");
	image_multiboot1_kludge(&img);
	img.size = 0x50;
	refused(&f, "truncated: the multiboot 1 header");
	fixture_fini(&f);
}

static void multiboot2_headers_are_checked(void **state)
{
	(void)state;
	static const struct {
		uint16_t type;
		uint32_t size;
		const char *text;
	} cases[] = {
		{1, 16, "demands information lull does not know (type 99)"},
		{2, 16, "tag 2 has only 16 bytes"},
		{3, 8, "tag 3 has only 8 bytes"},
		{5, 20, "demands a framebuffer"},
		{7, 8, "demands EFI boot services"},
		{77, 8, "demands a feature lull does not know (tag 77)"},
		{4, 0, "tag 4 has only 0 bytes"},
		{4, 0xfffffff0, "tag 4 has only"},
	};
	struct fixture f;
	fixture_init(&f, MiB(16));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		image_multiboot2(&img);
		put_tag(&img, ELF_DATA + 16, cases[i].type, 0, cases[i].size);
		set32(&img, ELF_DATA + 24, 99);
		refused(&f, cases[i].text);
		if (cases[i].type == 5 || cases[i].type == 7 || cases[i].type == 77) {
			put_tag(&img, ELF_DATA + 16, cases[i].type, 1, 16);
			load_ok(&f, &img);
		}
	}
	image_multiboot2(&img);
	put_multiboot2(&img, ELF_DATA, 16);
	set32(&img, ELF_DATA + 4, 4);
	set32(&img, ELF_DATA + 12, -(0xe85250d6u + 4 + 16));
	refused(&f, "another machine (architecture 4)");
	put_multiboot2(&img, ELF_DATA, 0x10000);
	refused(&f, "header of 65536 bytes");
	image_multiboot2_kludge(&img);
	put_tag(&img, 0x68, 0, 0, 8);
	refused(&f, "no entry point");
	put_tag(&img, 0x50, 0, 0, 8);
	refused(&f, "multiboot 2 header without load addresses");
	fixture_fini(&f);
}

static void multiboot_command_lines_are_bounded(void **state)
{
	(void)state;
	static char cmdline[0x10001];
	struct fixture f;
	fixture_init(&f, MiB(16));
	memset(cmdline, 'y', 0x10000);
	f.req.cmdline = cmdline;
	image_multiboot1(&img);
	refused(&f, "the command line is too long");
	image_multiboot2(&img);
	refused(&f, "the command line is too long");
	cmdline[MACHINE_CMDLINE_MAX - 16 - 1 - strlen("test ")] = '\0';
	image_multiboot1(&img);
	load_ok(&f, &img);
	cmdline[MACHINE_CMDLINE_MAX - 512] = '\0';
	image_multiboot2(&img);
	load_ok(&f, &img);
	fixture_fini(&f);
}

/* ---- flat ---- */

static void flat_binaries_are_bounded(void **state)
{
	(void)state;
	static const struct {
		bool real;
		uint64_t addr, size;
		const char *text;
	} cases[] = {
		{true, 0x100000, 512, "below 1 MiB, 0x100000 is too high"},
		{true, 0x7c00, 0x8401, "lies on the command line"},
		{true, 0x6fff, 1, "lies on the boot information"},
		{false, 0x7c00, 512, "lies on the Linux zero page"},
		{false, GiB(4), 512, "below 4 GiB"},
		{false, MiB(4) - 511, 512, "it takes at least 5 MiB"},
		{false, 0xfee00000, 512, "where the devices live"},
	};
	struct fixture f;
	fixture_init(&f, MiB(4));
	f.req.flat = true;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&img, 0, sizeof(img));
		fill(&img, 0, cases[i].size);
		f.req.flat_real_mode = cases[i].real;
		f.req.flat_addr = cases[i].addr;
		refused(&f, cases[i].text);
	}
	fixture_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_says_what_the_file_is),
		cmocka_unit_test(text_files_are_told_apart),
		cmocka_unit_test(pe_programs_are_told_apart),
		cmocka_unit_test(bzimage_headers_are_checked),
		cmocka_unit_test(bzimage_needs_room),
		cmocka_unit_test(elf_headers_are_checked),
		cmocka_unit_test(elf_segments_are_checked),
		cmocka_unit_test(adjacent_segments_are_fine),
		cmocka_unit_test(too_many_segments_are_refused),
		cmocka_unit_test(a_pvh_entry_outside_is_refused),
		cmocka_unit_test(multiboot1_headers_are_checked),
		cmocka_unit_test(multiboot2_headers_are_checked),
		cmocka_unit_test(multiboot_command_lines_are_bounded),
		cmocka_unit_test(flat_binaries_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
