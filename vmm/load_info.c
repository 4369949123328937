/* SPDX-License-Identifier: Apache-2.0 */
/* load_info.c - the boot information that several formats share: PVH start_info and the Linux zero page. */
#include "load_internal.h"

#include "util.h"

/* Xen's public/arch-x86/hvm/start_info.h: offsets of struct hvm_start_info, and entry sizes. */
enum {
	START_MAGIC = 0x00,
	START_VERSION = 0x04,
	START_NR_MODULES = 0x0c,
	START_MODLIST = 0x10,
	START_CMDLINE = 0x18,
	START_RSDP = 0x20,
	START_MEMMAP = 0x28,
	START_MEMMAP_ENTRIES = 0x30,
	START_BYTES = 0x38,
	START_MODULE_BYTES = 32,
	START_MEMMAP_BYTES = 24,
};
#define START_MAGIC_VALUE 0x336ec578u

/* Documentation/arch/x86/zero-page.rst and boot.rst: offsets in struct boot_params. */
enum {
	ZERO_RSDP = 0x070,
	ZERO_EXT_INITRD = 0x0c0,
	ZERO_EXT_INITRD_SIZE = 0x0c4,
	ZERO_E820_ENTRIES = 0x1e8,
	ZERO_HEADER = 0x1f1,
	ZERO_VID_MODE = 0x1fa,
	ZERO_BOOT_FLAG = 0x1fe,
	ZERO_MAGIC = 0x202,
	ZERO_VERSION = 0x206,
	ZERO_TYPE_OF_LOADER = 0x210,
	ZERO_LOADFLAGS = 0x211,
	ZERO_CODE32_START = 0x214,
	ZERO_INITRD = 0x218,
	ZERO_INITRD_SIZE = 0x21c,
	ZERO_CMDLINE = 0x228,
	ZERO_KERNEL_ALIGNMENT = 0x230,
	ZERO_CMDLINE_SIZE = 0x238,
	ZERO_SETUP_DATA = 0x250,
	ZERO_HEADER_END = 0x290,
	ZERO_E820 = 0x2d0,
	ZERO_E820_BYTES = 20,
	ZERO_BYTES = 0x1000,
};

enum {
	LOADFLAG_LOADED_HIGH = 1 << 0,
	LOADFLAG_KEEP_SEGMENTS = 1 << 6,
	LOADFLAG_CAN_USE_HEAP = 1 << 7,
	LOADER_UNKNOWN = 0xff,
	VID_MODE_NORMAL = 0xffff,
	SETUP_DTB_TYPE = 2,
	SETUP_DATA_BYTES = 16, /* next, type, len */
};

int load_start_info(struct load *l)
{
	uint8_t *info = guest_mem_at(l->req->mem, gpa(MACHINE_BOOT_INFO), KiB(4));
	invariant(info != NULL);
	memset(info, 0, KiB(4));
	put32(info + START_MAGIC, START_MAGIC_VALUE);
	put32(info + START_VERSION, 1);
	put64(info + START_CMDLINE, MACHINE_CMDLINE);
	put64(info + START_RSDP, MACHINE_RSDP);
	uint8_t *at = info + START_BYTES;
	if (l->out->initrd_bytes != 0) {
		put32(info + START_NR_MODULES, 1);
		put64(info + START_MODLIST, MACHINE_BOOT_INFO + START_BYTES);
		put64(at, l->out->initrd_base);
		put64(at + 8, l->out->initrd_bytes);
		at += START_MODULE_BYTES;
	}
	struct e820_entry map[E820_MAX];
	unsigned count = machine_e820(l->req->machine, map);
	invariant(count <= E820_MAX);
	put64(info + START_MEMMAP, (uint64_t)(at - info) + MACHINE_BOOT_INFO);
	put32(info + START_MEMMAP_ENTRIES, count);
	for (unsigned i = 0; i < count; i++, at += START_MEMMAP_BYTES) {
		put64(at, map[i].addr);
		put64(at + 8, map[i].size);
		put32(at + 16, map[i].type);
	}
	return 0;
}

/* True when the command line has this word by itself. */
static bool cmdline_has(const char *cmdline, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = strstr(cmdline, word); at != NULL; at = strstr(at + 1, word)) {
		bool starts = at == cmdline || at[-1] == ' ';
		if (starts && (at[len] == '\0' || at[len] == ' '))
			return true;
	}
	return false;
}

/*
 * Linux with both ACPI and CONFIG_OF (before 6.14) takes the CPUs and the APICs from a device tree a second time and
 * loses their ACPI identity, so the tree is announced only to a kernel that is told not to use ACPI. The tables are
 * written after the kernel is loaded, so len is the room for them: Linux takes the real size from the tree itself and
 * uses len only to keep the memory from being used otherwise.
 */
static void announce_fdt(struct load *l, uint8_t *page)
{
	if (!cmdline_has(l->req->cmdline, "acpi=off"))
		return;
	uint8_t *node = guest_mem_at(l->req->mem, gpa(MACHINE_FDT - SETUP_DATA_BYTES), SETUP_DATA_BYTES);
	invariant(node != NULL);
	put64(node, 0);
	put32(node + 8, SETUP_DTB_TYPE);
	put32(node + 12, MACHINE_FDT_MAX);
	put64(page + ZERO_SETUP_DATA, MACHINE_FDT - SETUP_DATA_BYTES);
}

/* What a kernel without a setup header of its own (vmlinux) expects to find. */
static void default_header(uint8_t *page)
{
	put16(page + ZERO_BOOT_FLAG, 0xaa55);
	put32(page + ZERO_MAGIC, 0x53726448); /* HdrS */
	put16(page + ZERO_VERSION, 0x020f);
	put32(page + ZERO_KERNEL_ALIGNMENT, (uint32_t)MiB(2));
	put32(page + ZERO_CMDLINE_SIZE, LOAD_CMDLINE_MAX - 1);
}

int load_zero_page(struct load *l, const uint8_t *setup_header, size_t header_bytes, uint64_t load_addr)
{
	uint8_t *page = guest_mem_at(l->req->mem, gpa(MACHINE_ZERO_PAGE), ZERO_BYTES);
	invariant(page != NULL);
	invariant(header_bytes <= ZERO_HEADER_END - ZERO_HEADER);
	memset(page, 0, ZERO_BYTES);
	if (setup_header != NULL)
		memcpy(page + ZERO_HEADER, setup_header, header_bytes);
	else
		default_header(page);
	put16(page + ZERO_VID_MODE, VID_MODE_NORMAL);
	page[ZERO_TYPE_OF_LOADER] = LOADER_UNKNOWN;
	page[ZERO_LOADFLAGS] &= (uint8_t) ~(LOADFLAG_KEEP_SEGMENTS | LOADFLAG_CAN_USE_HEAP);
	page[ZERO_LOADFLAGS] |= LOADFLAG_LOADED_HIGH;
	put32(page + ZERO_CODE32_START, (uint32_t)load_addr);
	put32(page + ZERO_CMDLINE, MACHINE_CMDLINE);
	put32(page + ZERO_INITRD, (uint32_t)l->out->initrd_base);
	put32(page + ZERO_INITRD_SIZE, (uint32_t)l->out->initrd_bytes);
	put32(page + ZERO_EXT_INITRD, (uint32_t)(l->out->initrd_base >> 32));
	put32(page + ZERO_EXT_INITRD_SIZE, (uint32_t)(l->out->initrd_bytes >> 32));
	put64(page + ZERO_RSDP, MACHINE_RSDP);
	put64(page + ZERO_SETUP_DATA, 0);
	announce_fdt(l, page);
	struct e820_entry map[E820_MAX];
	unsigned count = machine_e820(l->req->machine, map);
	invariant(count <= E820_MAX);
	page[ZERO_E820_ENTRIES] = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		uint8_t *e = page + ZERO_E820 + (size_t)i * ZERO_E820_BYTES;
		put64(e, map[i].addr);
		put64(e + 8, map[i].size);
		put32(e + 16, map[i].type);
	}
	return 0;
}
