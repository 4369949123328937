/* SPDX-License-Identifier: Apache-2.0 */
/* images.h - builds small kernel images in memory for tests: right ones, which a test then breaks. */
#ifndef TESTS_IMAGES_H
#define TESTS_IMAGES_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct test_image {
	size_t size;
	uint8_t bytes[0x20000];
};

static inline void set16(struct test_image *i, size_t off, uint16_t v)
{
	memcpy(i->bytes + off, &v, sizeof(v));
}

static inline void set32(struct test_image *i, size_t off, uint32_t v)
{
	memcpy(i->bytes + off, &v, sizeof(v));
}

static inline void set64(struct test_image *i, size_t off, uint64_t v)
{
	memcpy(i->bytes + off, &v, sizeof(v));
}

/* Bytes that differ from place to place and are never zero. */
static inline void fill(struct test_image *i, size_t off, size_t len)
{
	for (size_t n = 0; n < len; n++)
		i->bytes[off + n] = (uint8_t)((off + n) % 251 + 1);
	if (i->size < off + len)
		i->size = off + len;
}

/* ---- bzImage: 1 + 1 sectors of set-up, a kernel of 4 KiB that wants to be at 16 MiB with 64 KiB of room ---- */

enum {
	BZ_KERNEL = 0x400,
	BZ_KERNEL_BYTES = 0x1000,
	BZ_PREF = 0x1000000,
	BZ_INIT_SIZE = 0x10000,
};

static inline void image_bzimage(struct test_image *i)
{
	memset(i, 0, sizeof(*i));
	fill(i, BZ_KERNEL, BZ_KERNEL_BYTES);
	i->bytes[0x1ef] = 0xff; /* sentinel: must not reach boot_params */
	i->bytes[0x1f1] = 1;    /* setup_sects */
	set32(i, 0x1f4, BZ_KERNEL_BYTES / 16);
	set16(i, 0x1fe, 0xaa55);
	set16(i, 0x200, 0x6aeb); /* jmp: the header ends at 0x26c */
	memcpy(i->bytes + 0x202, "HdrS", 4);
	set16(i, 0x206, 0x020f);
	i->bytes[0x211] = 0x81;
	set32(i, 0x22c, 0x7fffffff); /* initrd_addr_max */
	set32(i, 0x230, 0x200000);   /* kernel_alignment */
	i->bytes[0x234] = 1;
	i->bytes[0x235] = 21;
	set16(i, 0x236, 0x3); /* 64-bit entry, may be above 4 GiB */
	set32(i, 0x238, 2047);
	set64(i, 0x258, BZ_PREF);
	set32(i, 0x260, BZ_INIT_SIZE);
	set32(i, 0x264, 0x1234); /* handover_offset */
}

/* ---- ELF ---- */

struct test_segment {
	uint32_t type;
	uint64_t off, vaddr, paddr, filesz, memsz;
};

enum {
	ELF_DATA = 0x1000, /* file offset of the first segment's bytes */
};

static inline void image_elf(struct test_image *i, bool is64, uint64_t entry, const struct test_segment *s, unsigned n)
{
	memset(i, 0, sizeof(*i));
	i->size = ELF_DATA;
	for (unsigned k = 0; k < n; k++) {
		if (s[k].type == PT_LOAD && s[k].off <= sizeof(i->bytes) && s[k].filesz <= sizeof(i->bytes) - s[k].off)
			fill(i, s[k].off, s[k].filesz);
	}
	uint8_t ident[EI_NIDENT] = {0x7f, 'E', 'L', 'F', is64 ? ELFCLASS64 : ELFCLASS32, ELFDATA2LSB, EV_CURRENT};
	Elf64_Ehdr e64 = {.e_type = ET_EXEC,
	                  .e_machine = EM_X86_64,
	                  .e_version = 1,
	                  .e_entry = entry,
	                  .e_phoff = 0x40,
	                  .e_ehsize = sizeof(e64),
	                  .e_phentsize = sizeof(Elf64_Phdr),
	                  .e_phnum = (Elf64_Half)n};
	Elf32_Ehdr e32 = {.e_type = ET_EXEC,
	                  .e_machine = EM_386,
	                  .e_version = 1,
	                  .e_entry = (Elf32_Addr)entry,
	                  .e_phoff = 0x40,
	                  .e_ehsize = sizeof(e32),
	                  .e_phentsize = sizeof(Elf32_Phdr),
	                  .e_phnum = (Elf32_Half)n};
	memcpy(i->bytes, is64 ? (void *)&e64 : (void *)&e32, is64 ? sizeof(e64) : sizeof(e32));
	memcpy(i->bytes, ident, sizeof(ident));
	for (unsigned k = 0; k < n; k++) {
		Elf64_Phdr p64 = {.p_type = s[k].type,
		                  .p_offset = s[k].off,
		                  .p_vaddr = s[k].vaddr,
		                  .p_paddr = s[k].paddr,
		                  .p_filesz = s[k].filesz,
		                  .p_memsz = s[k].memsz};
		Elf32_Phdr p32 = {.p_type = s[k].type,
		                  .p_offset = (Elf32_Off)s[k].off,
		                  .p_vaddr = (Elf32_Addr)s[k].vaddr,
		                  .p_paddr = (Elf32_Addr)s[k].paddr,
		                  .p_filesz = (Elf32_Word)s[k].filesz,
		                  .p_memsz = (Elf32_Word)s[k].memsz};
		if (is64)
			memcpy(i->bytes + 0x40 + k * sizeof(p64), &p64, sizeof(p64));
		else
			memcpy(i->bytes + 0x40 + k * sizeof(p32), &p32, sizeof(p32));
	}
}

/* One segment of 4 KiB + 4 KiB .bss at 1 MiB, entered 16 bytes in. */
static inline void image_elf_simple(struct test_image *i, bool is64)
{
	const struct test_segment s = {PT_LOAD, ELF_DATA, 0x100000, 0x100000, 0x1000, 0x2000};
	image_elf(i, is64, 0x100010, &s, 1);
}

/* Offsets of program header fields in an ELF64 image made here. */
static inline size_t phdr64(unsigned n, size_t field)
{
	return 0x40 + n * sizeof(Elf64_Phdr) + field;
}

/* A Xen note with the 32-bit entry point; desc is 4 or 8 bytes. */
static inline size_t put_pvh_note(struct test_image *i, size_t off, uint32_t type, uint64_t entry, uint32_t desc)
{
	set32(i, off, 4);
	set32(i, off + 4, desc);
	set32(i, off + 8, type);
	memcpy(i->bytes + off + 12, "Xen", 4);
	if (desc == 4)
		set32(i, off + 16, (uint32_t)entry);
	else
		set64(i, off + 16, entry);
	if (i->size < off + 16 + desc)
		i->size = off + 16 + desc;
	return 16 + desc;
}

/* ELF64 with notes in front: another vendor's, another of Xen's, then the entry point. */
static inline void image_pvh(struct test_image *i, uint32_t desc)
{
	struct test_segment s[] = {
		{PT_LOAD, ELF_DATA, 0xffffffff81000000, 0x1000000, 0x1000, 0x3000},
		{PT_NOTE, 0x2000, 0, 0, 0, 0},
	};
	image_elf(i, true, 0x1000100, s, 2);
	size_t off = 0x2000;
	set32(i, off, 4);
	set32(i, off + 4, 3);
	set32(i, off + 8, 18);
	memcpy(i->bytes + off + 12, "GNU\0abc", 8);
	off += 20;
	off += put_pvh_note(i, off, 5, 0x77, desc);
	off += put_pvh_note(i, off, 18, 0x1000200, desc);
	set64(i, phdr64(1, offsetof(Elf64_Phdr, p_filesz)), off - 0x2000);
	i->size = off;
}

/* ---- multiboot ---- */

static inline void put_multiboot1(struct test_image *i, size_t off, uint32_t flags)
{
	set32(i, off, 0x1badb002);
	set32(i, off + 4, flags);
	set32(i, off + 8, -(0x1badb002u + flags));
}

/* header_addr, load_addr, load_end_addr, bss_end_addr, entry_addr */
static inline void put_multiboot1_address(struct test_image *i, size_t off, const uint32_t a[5])
{
	for (unsigned n = 0; n < 5; n++)
		set32(i, off + 12 + n * 4, a[n]);
}

static inline void put_multiboot2(struct test_image *i, size_t off, uint32_t length)
{
	set32(i, off, 0xe85250d6);
	set32(i, off + 4, 0);
	set32(i, off + 8, length);
	set32(i, off + 12, -(0xe85250d6u + length));
}

static inline size_t put_tag(struct test_image *i, size_t off, uint16_t type, uint16_t flags, uint32_t size)
{
	set16(i, off, type);
	set16(i, off + 2, flags);
	set32(i, off + 4, size);
	return off + ((size + 7) & ~7u);
}

static inline void image_multiboot1(struct test_image *i)
{
	image_elf_simple(i, false);
	put_multiboot1(i, ELF_DATA, 3);
}

/* Not ELF: header at 0x40, the whole at 2 MiB, .bss up to 0x204000, entered at 0x200060. */
static inline void image_multiboot1_kludge(struct test_image *i)
{
	static const uint32_t fields[5] = {0x200040, 0x200000, 0, 0x204000, 0x200060};
	memset(i, 0, sizeof(*i));
	fill(i, 0, 0x1000);
	put_multiboot1(i, 0x40, 1u << 16);
	put_multiboot1_address(i, 0x40, fields);
}

static inline void image_multiboot2(struct test_image *i)
{
	image_elf_simple(i, true);
	size_t off = ELF_DATA + 16;
	put_tag(i, off, 1, 0, 16); /* wants the command line and the memory map */
	set32(i, off + 8, 1);
	set32(i, off + 12, 6);
	off = put_tag(i, off + 16, 6, 0, 8);
	off = put_tag(i, off, 8, 1, 12);
	off = put_tag(i, off, 0, 0, 8);
	put_multiboot2(i, ELF_DATA, (uint32_t)(off - ELF_DATA));
}

static inline void image_multiboot2_kludge(struct test_image *i)
{
	memset(i, 0, sizeof(*i));
	fill(i, 0, 0x1000);
	put_multiboot2(i, 0x40, 16 + 24 + 16 + 8);
	put_tag(i, 0x50, 2, 0, 24);
	set32(i, 0x58, 0x300040);
	set32(i, 0x5c, 0xffffffff); /* from the start of the file */
	set32(i, 0x60, 0x300800);
	set32(i, 0x64, 0x308000);
	put_tag(i, 0x68, 3, 0, 12);
	set32(i, 0x70, 0x300080);
	put_tag(i, 0x78, 0, 0, 8);
}

#endif
