/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_multiboot.c - multiboot 1 (0.6.96) and multiboot 2 (2.0): headers and boot information. The initrd is the only
 * module. There is no display: multiboot 1 video requests are ignored, as other loaders do. EFI entry points are
 * ignored, there is no EFI. Relocatable multiboot 2 images stay where they were linked.
 */
#include "load_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>

#define MB1_SEARCH       8192
#define MB1_MAGIC        0x1badb002u
#define MB1_BOOT_MAGIC   0x2badb002u
#define MB1_FLAG_ADDRESS (1u << 16)
#define MB1_FLAGS_KNOWN  0x7u /* of the mandatory ones: page alignment, memory, video */
#define MB2_MAGIC        0xe85250d6u
#define MB2_BOOT_MAGIC   0x36d76289u

static const char loader_name[] = "lull";

/* What the headers of both versions say about an image that is not ELF. */
struct address_fields {
	uint32_t header, load, load_end, bss_end;
};

/* offset: of the header in the file. */
static int load_by_address(struct load *l, uint32_t offset, const struct address_fields *a)
{
	uint64_t size = l->req->kernel->size;
	/* -1: from the start of the file. */
	uint64_t load = a->load == UINT32_MAX ? (uint64_t)a->header - offset : a->load;
	if (a->load == UINT32_MAX ? a->header < offset : (a->load > a->header || a->header - a->load > offset))
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot image whose header at offset %u cannot be at 0x%x when it loads at 0x%x",
		                 offset, a->header, a->load);
	uint64_t file_off = offset - (a->header - load);
	if (a->load_end != 0 && a->load_end <= load)
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot image that ends (0x%x) before it begins (0x%" PRIx64 ")", a->load_end,
		                 load);
	uint64_t file_bytes = a->load_end != 0 ? a->load_end - load : size - file_off;
	uint64_t bytes = file_bytes;
	if (a->bss_end != 0 && a->bss_end < load + file_bytes)
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot image whose .bss ends (0x%x) before its data (0x%" PRIx64 ")", a->bss_end,
		                 load + file_bytes);
	if (a->bss_end != 0)
		bytes = a->bss_end - load;
	int ret = load_claim(l, load, bytes, "the image", LOAD_ONLY);
	if (ret == 0)
		ret = load_copy(l, file_off, file_bytes, load, "the image", LOAD_ONLY);
	return ret;
}

static int check_entry(struct load *l, uint64_t entry)
{
	if (!load_claimed(l, entry))
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot image with the entry point 0x%" PRIx64 " outside of itself", entry);
	return 0;
}

static void set_registers(struct load *l, uint32_t magic, uint64_t info, uint64_t entry)
{
	struct boot_state *out = l->out;
	out->mode = BOOT_PROTECTED;
	out->entry = entry;
	out->stack = MACHINE_BOOT_STACK;
	out->rax = magic;
	out->rbx = info;
	out->rdx = MACHINE_FDT;
}

/* KiB from 1 MiB to the first hole. */
static uint32_t mem_upper(const struct load *l)
{
	return (uint32_t)((l->req->mem->regions[0].size - MACHINE_HIGH_BASE) / KiB(1));
}

/* ---- multiboot 1 ---- */

int load_multiboot1_probe(const struct load *l)
{
	uint32_t end = l->head_bytes < MB1_SEARCH ? l->head_bytes : MB1_SEARCH;
	for (uint32_t off = 0; off + 12 <= end; off += 4) {
		const uint8_t *h = l->head + off;
		if (get32(h) == MB1_MAGIC && get32(h) + get32(h + 4) + get32(h + 8) == 0)
			return (int)off;
	}
	return -1;
}

int load_multiboot1_header(struct load *l, int off, bool *loaded, uint64_t *entry)
{
	const uint8_t *h = l->head + off;
	uint32_t flags = get32(h + 4);
	if ((flags & 0xffff & ~MB1_FLAGS_KNOWN) != 0)
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot 1 kernel that demands features lull does not have (flags 0x%x)",
		                 flags & 0xffff);
	*loaded = (flags & MB1_FLAG_ADDRESS) != 0;
	if (!*loaded)
		return 0;
	if ((uint32_t)off + 32 > l->head_bytes)
		return error_set(l->err, -ENOEXEC,
		                 "truncated: the multiboot 1 header ends beyond the file: copy it again");
	struct address_fields a = {get32(h + 12), get32(h + 16), get32(h + 20), get32(h + 24)};
	*entry = get32(h + 28);
	int ret = load_by_address(l, (uint32_t)off, &a);
	return ret != 0 ? ret : check_entry(l, *entry);
}

enum { /* offsets in the information structure, and what lull puts behind it */
	MBI_FLAGS = 0,
	MBI_MEM_LOWER = 4,
	MBI_MEM_UPPER = 8,
	MBI_CMDLINE = 16,
	MBI_MODS_COUNT = 20,
	MBI_MODS_ADDR = 24,
	MBI_MMAP_LENGTH = 44,
	MBI_MMAP_ADDR = 48,
	MBI_LOADER_NAME = 64,
	MBI_MODULE = 0x80,
	MBI_NAMES = 0x90, /* loader, then module */
	MBI_MMAP = 0x200,
	MBI_MMAP_BYTES = 24,
};

static void mbi_memory_map(struct load *l, uint8_t *info)
{
	struct e820_entry map[E820_MAX];
	unsigned count = machine_e820(l->req->machine, map);
	invariant(count <= E820_MAX);
	put32(info + MBI_MMAP_LENGTH, count * MBI_MMAP_BYTES);
	put32(info + MBI_MMAP_ADDR, MACHINE_BOOT_INFO + MBI_MMAP);
	for (unsigned i = 0; i < count; i++) {
		uint8_t *e = info + MBI_MMAP + (size_t)i * MBI_MMAP_BYTES;
		put32(e, MBI_MMAP_BYTES - 4);
		put64(e + 4, map[i].addr);
		put64(e + 12, map[i].size);
		put32(e + 20, map[i].type);
	}
}

int load_multiboot1_finish(struct load *l, uint64_t entry)
{
	int ret = load_cmdline(l, load_basename(l->req->kernel->name), UINT64_MAX);
	if (ret == 0)
		ret = load_initrd(l, PLACE_LOW, LOAD_REACH);
	if (ret != 0)
		return ret;
	uint8_t *info = guest_mem_at(l->req->mem, gpa(MACHINE_BOOT_INFO), KiB(4));
	invariant(info != NULL);
	memset(info, 0, KiB(4));
	/* memory, command line, modules, memory map, loader name */
	put32(info + MBI_FLAGS, 1u << 0 | 1u << 2 | 1u << 3 | 1u << 6 | 1u << 9);
	put32(info + MBI_MEM_LOWER, MACHINE_EBDA / 1024);
	put32(info + MBI_MEM_UPPER, mem_upper(l));
	put32(info + MBI_CMDLINE, MACHINE_CMDLINE);
	put32(info + MBI_LOADER_NAME, MACHINE_BOOT_INFO + MBI_NAMES);
	memcpy(info + MBI_NAMES, loader_name, sizeof(loader_name));
	if (l->req->initrd != NULL) {
		put32(info + MBI_MODS_COUNT, 1);
		put32(info + MBI_MODS_ADDR, MACHINE_BOOT_INFO + MBI_MODULE);
		put32(info + MBI_MODULE, (uint32_t)l->out->initrd_base);
		put32(info + MBI_MODULE + 4, (uint32_t)(l->out->initrd_base + l->out->initrd_bytes));
		put32(info + MBI_MODULE + 8, MACHINE_BOOT_INFO + MBI_NAMES + sizeof(loader_name));
		snprintf((char *)info + MBI_NAMES + sizeof(loader_name), MBI_MMAP - MBI_NAMES - sizeof(loader_name),
		         "%s", load_basename(l->req->initrd->name));
	}
	mbi_memory_map(l, info);
	set_registers(l, MB1_BOOT_MAGIC, MACHINE_BOOT_INFO, entry);
	l->out->protocol = "multiboot 1";
	return 0;
}

/* ---- multiboot 2 ---- */

enum { /* header tags */
	MB2_TAG_END = 0,
	MB2_TAG_REQUEST = 1,
	MB2_TAG_ADDRESS = 2,
	MB2_TAG_ENTRY = 3,
	MB2_TAG_CONSOLE = 4,
	MB2_TAG_FRAMEBUFFER = 5,
	MB2_TAG_MODULE_ALIGN = 6,
	MB2_TAG_EFI_BOOT_SERVICES = 7,
	MB2_TAG_EFI_ENTRY32 = 8,
	MB2_TAG_EFI_ENTRY64 = 9,
	MB2_TAG_RELOCATABLE = 10,
	MB2_TAG_OPTIONAL = 1, /* flag */
};

enum { /* information tags */
	MB2_INFO_END = 0,
	MB2_INFO_CMDLINE = 1,
	MB2_INFO_LOADER_NAME = 2,
	MB2_INFO_MODULE = 3,
	MB2_INFO_MEMORY = 4,
	MB2_INFO_MMAP = 6,
	MB2_INFO_RSDP_OLD = 14,
	MB2_INFO_RSDP_NEW = 15,
	MB2_INFO_LAST = 21, /* of the specification */
	MB2_MMAP_BYTES = 24,
	RSDP_OLD_BYTES = 20,
	RSDP_NEW_BYTES = 36,
};

struct mb2_header {
	bool has_address, has_entry;
	struct address_fields address;
	uint32_t entry;
};

int load_multiboot2_probe(const struct load *l)
{
	for (uint32_t off = 0; off + 16 <= l->head_bytes; off += 8) {
		const uint8_t *h = l->head + off;
		if (get32(h) == MB2_MAGIC && get32(h) + get32(h + 4) + get32(h + 8) + get32(h + 12) == 0)
			return (int)off;
	}
	return -1;
}

static int mb2_too_short(struct load *l, uint32_t type, uint32_t size)
{
	return error_set(l->err, -ENOEXEC, "a damaged multiboot 2 header: tag %u has only %u bytes", type, size);
}

/* What is listed may be absent from this machine, but it must be something the specification knows. */
static int mb2_request(struct load *l, const uint8_t *tag, uint32_t size)
{
	for (uint32_t at = 8; size - at >= 4; at += 4) {
		uint32_t type = get32(tag + at);
		if (type > MB2_INFO_LAST)
			return error_set(l->err, -ENOEXEC,
			                 "a multiboot 2 kernel that demands information lull does not know (type %u)",
			                 type);
	}
	return 0;
}

static int mb2_tag(struct load *l, const uint8_t *tag, uint32_t size, struct mb2_header *out)
{
	uint32_t type = get16(tag);
	bool optional = (get16(tag + 2) & MB2_TAG_OPTIONAL) != 0;
	switch (type) {
	case MB2_TAG_REQUEST:
		return optional ? 0 : mb2_request(l, tag, size);
	case MB2_TAG_ADDRESS:
		if (size < 24)
			return mb2_too_short(l, type, size);
		out->has_address = true;
		out->address =
			(struct address_fields){get32(tag + 8), get32(tag + 12), get32(tag + 16), get32(tag + 20)};
		return 0;
	case MB2_TAG_ENTRY:
		if (size < 12)
			return mb2_too_short(l, type, size);
		out->has_entry = true;
		out->entry = get32(tag + 8);
		return 0;
	case MB2_TAG_CONSOLE: /* the serial port is one */
	case MB2_TAG_MODULE_ALIGN:
	case MB2_TAG_EFI_ENTRY32:
	case MB2_TAG_EFI_ENTRY64:
	case MB2_TAG_RELOCATABLE:
		return 0;
	case MB2_TAG_FRAMEBUFFER:
		if (optional)
			return 0;
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot 2 kernel that demands a framebuffer, lull has no display");
	case MB2_TAG_EFI_BOOT_SERVICES:
		if (optional)
			return 0;
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot 2 kernel that demands EFI boot services, lull has no EFI");
	default:
		if (optional)
			return 0;
		return error_set(l->err, -ENOEXEC,
		                 "a multiboot 2 kernel that demands a feature lull does not know (tag %u)", type);
	}
}

static int mb2_tags(struct load *l, uint32_t off, struct mb2_header *out)
{
	const uint8_t *h = l->head + off;
	uint32_t length = get32(h + 8);
	if (get32(h + 4) != 0)
		return error_set(l->err, -ENOEXEC, "a multiboot 2 kernel for another machine (architecture %u)",
		                 get32(h + 4));
	if (length < 16 || length > l->head_bytes - off)
		return error_set(
			l->err, -ENOEXEC,
			"a multiboot 2 header of %u bytes at offset %u, the file or the first 32 KiB end before",
			length, off);
	uint32_t at = 16;
	while (length - at >= 8) {
		uint32_t type = get16(h + at), size = get32(h + at + 4);
		if (size < 8 || size > length - at)
			return mb2_too_short(l, type, size);
		if (type == MB2_TAG_END)
			break;
		int ret = mb2_tag(l, h + at, size, out);
		if (ret != 0)
			return ret;
		size = (uint32_t)align_up(size, 8);
		if (size > length - at)
			break;
		at += size;
	}
	return 0;
}

int load_multiboot2_header(struct load *l, int off, bool *loaded, uint64_t *entry)
{
	struct mb2_header header = {0};
	int ret = mb2_tags(l, (uint32_t)off, &header);
	if (ret != 0)
		return ret;
	if (header.has_entry)
		*entry = header.entry;
	*loaded = header.has_address;
	if (!header.has_address)
		return 0;
	if (!header.has_entry)
		return error_set(l->err, -ENOEXEC, "a multiboot 2 header with load addresses but no entry point");
	ret = load_by_address(l, (uint32_t)off, &header.address);
	return ret != 0 ? ret : check_entry(l, *entry);
}

/* The information under construction. */
struct mb2_info {
	uint8_t *buf;
	uint32_t used, size;
};

/* Room for a tag with a body of this size, or NULL; its padding is zero. */
static uint8_t *mb2_add(struct mb2_info *info, uint32_t type, uint64_t body)
{
	uint64_t bytes = 8 + body;
	if (align_up(bytes, 8) > info->size - info->used)
		return NULL;
	uint8_t *tag = info->buf + info->used;
	memset(tag, 0, align_up(bytes, 8));
	put32(tag, type);
	put32(tag + 4, (uint32_t)bytes);
	info->used += (uint32_t)align_up(bytes, 8);
	return tag + 8;
}

static bool mb2_add_text(struct mb2_info *info, uint32_t type, const char *head, const char *tail)
{
	uint64_t head_len = strlen(head), tail_len = strlen(tail);
	bool both = tail_len != 0;
	uint8_t *body = mb2_add(info, type, head_len + both + tail_len + 1);
	if (body == NULL)
		return false;
	memcpy(body, head, head_len);
	if (both)
		body[head_len] = ' ';
	memcpy(body + head_len + both, tail, tail_len);
	return true;
}

static bool mb2_add_module(struct mb2_info *info, const struct load *l)
{
	if (l->req->initrd == NULL)
		return true;
	const char *name = load_basename(l->req->initrd->name);
	uint8_t *body = mb2_add(info, MB2_INFO_MODULE, 8 + strlen(name) + 1);
	if (body == NULL)
		return false;
	put32(body, (uint32_t)l->out->initrd_base);
	put32(body + 4, (uint32_t)(l->out->initrd_base + l->out->initrd_bytes));
	memcpy(body + 8, name, strlen(name));
	return true;
}

static bool mb2_add_memory(struct mb2_info *info, const struct load *l)
{
	struct e820_entry map[E820_MAX];
	unsigned count = machine_e820(l->req->machine, map);
	invariant(count <= E820_MAX);
	uint8_t *basic = mb2_add(info, MB2_INFO_MEMORY, 8);
	uint8_t *body = mb2_add(info, MB2_INFO_MMAP, 8 + (uint64_t)count * MB2_MMAP_BYTES);
	if (basic == NULL || body == NULL)
		return false;
	put32(basic, MACHINE_EBDA / 1024);
	put32(basic + 4, mem_upper(l));
	put32(body, MB2_MMAP_BYTES);
	for (unsigned i = 0; i < count; i++) {
		uint8_t *e = body + 8 + (size_t)i * MB2_MMAP_BYTES;
		put64(e, map[i].addr);
		put64(e + 8, map[i].size);
		put32(e + 16, map[i].type);
	}
	return true;
}

/* The tables reach guest memory after the kernel did, so they are built once more for the copies of the RSDP. */
static int mb2_add_rsdp(struct mb2_info *info, struct load *l)
{
	uint8_t *tables = calloc(1, MACHINE_ACPI_MAX);
	if (tables == NULL)
		return error_sys(l->err, -ENOMEM, "cannot build the multiboot 2 information");
	int ret = acpi_build(l->req->machine, tables, MACHINE_ACPI_MAX, l->err);
	uint8_t *before = ret < 0 ? NULL : mb2_add(info, MB2_INFO_RSDP_OLD, RSDP_OLD_BYTES);
	uint8_t *now = ret < 0 ? NULL : mb2_add(info, MB2_INFO_RSDP_NEW, RSDP_NEW_BYTES);
	if (before != NULL && now != NULL) {
		memcpy(before, tables, RSDP_OLD_BYTES);
		memcpy(now, tables, RSDP_NEW_BYTES);
	}
	free(tables);
	return ret < 0 ? ret : 0;
}

/* The information holds the command line, so it lives where the command line would. */
int load_multiboot2_finish(struct load *l, uint64_t entry)
{
	int ret = load_initrd(l, PLACE_LOW, LOAD_REACH);
	if (ret != 0)
		return ret;
	struct mb2_info info = {.used = 8, .size = LOAD_CMDLINE_MAX};
	info.buf = guest_mem_at(l->req->mem, gpa(MACHINE_CMDLINE), info.size);
	invariant(info.buf != NULL);
	ret = mb2_add_rsdp(&info, l);
	if (ret != 0)
		return ret;
	bool fits = mb2_add_text(&info, MB2_INFO_LOADER_NAME, loader_name, "") && mb2_add_module(&info, l) &&
	            mb2_add_memory(&info, l) &&
	            mb2_add_text(&info, MB2_INFO_CMDLINE, load_basename(l->req->kernel->name), l->req->cmdline) &&
	            mb2_add(&info, MB2_INFO_END, 0) != NULL;
	if (!fits)
		return error_set(l->err, -E2BIG,
		                 "the command line is too long: %zu bytes do not fit into 64 KiB: shorten it",
		                 strlen(l->req->cmdline));
	put32(info.buf, info.used);
	put32(info.buf + 4, 0);
	set_registers(l, MB2_BOOT_MAGIC, MACHINE_CMDLINE, entry);
	l->out->protocol = "multiboot 2";
	return 0;
}

/* ---- an image that is not ELF ---- */

int load_multiboot(struct load *l)
{
	int off = load_multiboot2_probe(l);
	bool second = off >= 0, loaded = false;
	uint64_t entry = 0;
	if (!second)
		off = load_multiboot1_probe(l);
	int ret = second ? load_multiboot2_header(l, off, &loaded, &entry)
	                 : load_multiboot1_header(l, off, &loaded, &entry);
	if (ret != 0)
		return ret;
	if (!loaded)
		return error_set(
			l->err, -ENOEXEC,
			"a multiboot %d header without load addresses in a file that is not ELF: link it as ELF",
			second ? 2 : 1);
	return second ? load_multiboot2_finish(l, entry) : load_multiboot1_finish(l, entry);
}
