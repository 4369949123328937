/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_bzimage.c - a Linux bzImage by the 64-bit boot protocol (Documentation/arch/x86/boot.rst). The kernel unpacks
 * itself; lull puts the packed one where it wants to be and keeps init_size bytes there free.
 */
#include "load_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>

/* Offsets in the file; the setup header starts at 0x1f1. */
enum {
	HDR_SETUP_SECTS = 0x1f1,
	HDR_SYSSIZE = 0x1f4,
	HDR_BOOT_FLAG = 0x1fe,
	HDR_JUMP_LENGTH = 0x201, /* the header ends this many bytes after 0x202 */
	HDR_MAGIC = 0x202,
	HDR_VERSION = 0x206,
	HDR_LOADFLAGS = 0x211,
	HDR_INITRD_ADDR_MAX = 0x22c,
	HDR_KERNEL_ALIGNMENT = 0x230,
	HDR_RELOCATABLE = 0x234,
	HDR_XLOADFLAGS = 0x236,
	HDR_CMDLINE_SIZE = 0x238,
	HDR_PREF_ADDRESS = 0x258,
	HDR_INIT_SIZE = 0x260,
	HDR_END = 0x264,     /* of the part that protocol 2.12 has */
	HDR_END_MAX = 0x290, /* of the room for it in boot_params */
	SECTOR = 512,
	ENTRY64 = 0x200,
};
#define HDRS_MAGIC    0x53726448u
#define PROTOCOL_MIN  0x020c /* xloadflags, Linux 3.8 */
#define XLF_KERNEL_64 (1u << 0)
#define XLF_ABOVE_4G  (1u << 1)
#define ALIGNMENT_MAX GiB(1)

struct bzimage {
	uint64_t file_off, file_bytes; /* the protected-mode part */
	uint64_t base, init_size;
};

bool load_bzimage_probe(const struct load *l)
{
	return l->head_bytes >= HDR_MAGIC + 4 && get16(l->head + HDR_BOOT_FLAG) == 0xaa55 &&
	       get32(l->head + HDR_MAGIC) == HDRS_MAGIC;
}

static int check_header(struct load *l)
{
	if (l->head_bytes < HDR_END)
		return error_set(
			l->err, -ENOEXEC,
			"truncated: a Linux bzImage with only %u bytes, its header alone takes %u: copy it again",
			l->head_bytes, HDR_END);
	unsigned version = get16(l->head + HDR_VERSION);
	if (version < PROTOCOL_MIN)
		return error_set(l->err, -ENOEXEC,
		                 "a Linux bzImage with boot protocol %u.%02u, lull needs 2.12 (Linux 3.8) or newer",
		                 version >> 8, version & 0xff);
	if ((get16(l->head + HDR_XLOADFLAGS) & XLF_KERNEL_64) == 0)
		return error_set(l->err, -ENOEXEC,
		                 "a 32-bit Linux bzImage (no 64-bit entry point): use an x86-64 kernel");
	if ((l->head[HDR_LOADFLAGS] & 1) == 0)
		return error_set(l->err, -ENOEXEC, "a Linux zImage that loads below 1 MiB: use a bzImage");
	return 0;
}

static int find_payload(struct load *l, struct bzimage *bz)
{
	uint64_t sectors = l->head[HDR_SETUP_SECTS] != 0 ? l->head[HDR_SETUP_SECTS] : 4;
	uint64_t size = l->req->kernel->size;
	bz->file_off = (sectors + 1) * SECTOR;
	bz->file_bytes = (uint64_t)get32(l->head + HDR_SYSSIZE) * 16;
	if (bz->file_bytes <= ENTRY64)
		return error_set(l->err, -ENOEXEC,
		                 "a damaged Linux bzImage: its header says that the kernel has %" PRIu64 " bytes",
		                 bz->file_bytes);
	/* syssize counts in units of 16 bytes and may be rounded up. */
	if (size < bz->file_off + bz->file_bytes - 15)
		return error_set(l->err, -ENOEXEC,
		                 "truncated: a Linux bzImage that needs %" PRIu64 " bytes, has %" PRIu64
		                 ": copy it again",
		                 bz->file_off + bz->file_bytes, size);
	if (bz->file_bytes > size - bz->file_off)
		bz->file_bytes = size - bz->file_off;
	return 0;
}

/*
 * A relocatable kernel would start anywhere, but it moves itself up to pref_address when it was loaded below it; so
 * this is where it goes, and where init_size bytes must be RAM.
 */
static int find_base(struct load *l, struct bzimage *bz)
{
	uint64_t align = get32(l->head + HDR_KERNEL_ALIGNMENT);
	uint64_t base = get64(l->head + HDR_PREF_ADDRESS);
	if (align == 0 || (align & (align - 1)) != 0 || align > ALIGNMENT_MAX)
		return error_set(l->err, -ENOEXEC, "a damaged Linux bzImage: kernel_alignment is 0x%" PRIx64, align);
	/* Not beyond 4 GiB first, so that rounding up cannot wrap; and not beyond after it. */
	if (l->head[HDR_RELOCATABLE] != 0 && base < LOAD_REACH)
		base = align_up(base, align);
	if (base < MACHINE_HIGH_BASE || base >= LOAD_REACH)
		return error_set(l->err, -ENOEXEC,
		                 "a Linux bzImage that wants to be at 0x%" PRIx64
		                 ", lull loads it between 1 MiB and 4 GiB",
		                 base);
	bz->base = base;
	bz->init_size = get32(l->head + HDR_INIT_SIZE);
	if (bz->init_size < bz->file_bytes)
		bz->init_size = bz->file_bytes;
	return load_claim(l, base, bz->init_size, "the kernel", LOAD_ONLY);
}

/* As high as the kernel allows; a kernel that can do so takes one from above the usual 2 GiB too. */
static int place_initrd(struct load *l)
{
	uint64_t limit = (uint64_t)get32(l->head + HDR_INITRD_ADDR_MAX) + 1;
	int ret = load_initrd(l, PLACE_HIGH, limit);
	if (ret == -ENOSPC && (get16(l->head + HDR_XLOADFLAGS) & XLF_ABOVE_4G) != 0) {
		l->named = false;
		ret = load_initrd(l, PLACE_HIGH, UINT64_MAX);
	}
	return ret;
}

int load_bzimage(struct load *l)
{
	struct bzimage bz = {0};
	int ret = check_header(l);
	if (ret == 0)
		ret = find_payload(l, &bz);
	if (ret == 0)
		ret = find_base(l, &bz);
	if (ret == 0)
		ret = load_copy(l, bz.file_off, bz.file_bytes, bz.base, "the kernel", LOAD_ONLY);
	if (ret == 0)
		ret = load_cmdline(l, NULL, get32(l->head + HDR_CMDLINE_SIZE));
	if (ret == 0)
		ret = place_initrd(l);
	if (ret != 0)
		return ret;
	uint32_t end = HDR_MAGIC + l->head[HDR_JUMP_LENGTH];
	end = end < HDR_END ? HDR_END : end > HDR_END_MAX ? HDR_END_MAX : end;
	ret = load_zero_page(l, l->head + HDR_SETUP_SECTS, end - HDR_SETUP_SECTS, bz.base);
	l->out->mode = BOOT_LONG;
	l->out->entry = bz.base + ENTRY64;
	l->out->stack = MACHINE_BOOT_STACK;
	l->out->rsi = MACHINE_ZERO_PAGE;
	l->out->protocol = "Linux bzImage";
	return ret;
}
