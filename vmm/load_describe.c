/* SPDX-License-Identifier: Apache-2.0 */
/* load_describe.c - says what a file is that lull cannot start, and what to do about it. Looks, never loads. */
#include "load_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>

#define COMPRESSED "unpack it first"
#define DISK       "a disk image is no kernel: give the kernel inside it"
#define ARCHIVE    "unpack it and give the kernel inside it"
#define FOREIGN    "lull runs x86-64 kernels"

struct magic {
	uint32_t off;
	const char *bytes;
	uint32_t len;
	const char *what, *advice;
};

#define MAGIC(off, bytes, what, advice)                                                                                \
	{                                                                                                              \
		off, bytes, sizeof(bytes) - 1, what, advice                                                            \
	}

/* First match wins: the special before the general. */
static const struct magic magics[] = {
	MAGIC(0, "\x1f\x8b", "a gzip file", COMPRESSED " (gunzip)"),
	MAGIC(0, "\3757zXZ", "an xz file", COMPRESSED " (unxz)"),
	MAGIC(0, "\x28\xb5\x2f\xfd", "a zstd file", COMPRESSED " (unzstd)"),
	MAGIC(0, "BZh", "a bzip2 file", COMPRESSED " (bunzip2)"),
	MAGIC(0, "\x04\x22\x4d\x18", "an lz4 file", COMPRESSED " (unlz4)"),
	MAGIC(0, "\x02\x21\x4c\x18", "an lz4 file", COMPRESSED " (unlz4)"),
	MAGIC(0, "\x5d\0\0", "an lzma file", COMPRESSED " (unlzma)"),
	MAGIC(0, "\x89LZO", "an lzop file", COMPRESSED " (lzop -d)"),
	MAGIC(0, "PK\x03\x04", "a zip file", ARCHIVE),
	MAGIC(0, "7z\xbc\xaf\x27\x1c", "a 7-zip file", ARCHIVE),
	MAGIC(4, "zimg", "a compressed EFI kernel (zboot)", "give the bzImage or vmlinux from the same build"),
	MAGIC(56, "ARM\x64", "an ARM64 kernel image", FOREIGN),
	MAGIC(56, "RSC\x05", "a RISC-V kernel image", FOREIGN),
	MAGIC(48, "RISCV", "a RISC-V kernel image", FOREIGN),
	MAGIC(36, "\x18\x28\x6f\x01", "a 32-bit ARM zImage", FOREIGN),
	MAGIC(0, "\x27\x05\x19\x56", "a U-Boot image", FOREIGN),
	MAGIC(0, "\xd0\x0d\xfe\xed", "a device tree blob or FIT image",
              "lull makes its own device tree: give the kernel"),
	MAGIC(0, "070701", "a cpio archive (an initramfs)", "give the kernel, and this file as --initrd"),
	MAGIC(0, "070702", "a cpio archive (an initramfs)", "give the kernel, and this file as --initrd"),
	MAGIC(257, "ustar", "a tar archive", ARCHIVE),
	MAGIC(0, "!<arch>\ndebian", "a Debian package", ARCHIVE),
	MAGIC(0, "!<arch>", "an ar archive or static library", "link it first"),
	MAGIC(0, "\xed\xab\xee\xdb", "an RPM package", ARCHIVE),
	MAGIC(0, "QFI\xfb", "a qcow2 disk image", DISK),
	MAGIC(0, "KDMV", "a VMDK disk image", DISK),
	MAGIC(0, "vhdxfile", "a VHDX disk image", DISK),
	MAGIC(0, "conectix", "a VHD disk image", DISK),
	MAGIC(512, "EFI PART", "a GPT disk image", DISK),
	MAGIC(1080, "\x53\xef", "an ext2/3/4 file system", DISK),
	MAGIC(0, "XFSB", "an XFS file system", DISK),
	MAGIC(0, "hsqs", "a squashfs file system", DISK),
	MAGIC(1024, "\xe2\xe1\xf5\xe0", "an EROFS file system", DISK),
	MAGIC(0, "\xcf\xfa\xed\xfe", "a Mach-O file (macOS)", FOREIGN " as ELF or bzImage"),
	MAGIC(0, "\xca\xfe\xba\xbe", "a Java class or universal Mach-O file", FOREIGN " as ELF or bzImage"),
	MAGIC(0, "\0asm", "a WebAssembly file", FOREIGN " as ELF or bzImage"),
	MAGIC(0, "BC\xc0\xde", "LLVM bitcode", "compile and link it first"),
	MAGIC(0, "%PDF", "a PDF file", "give a kernel"),
	MAGIC(0, "\x89PNG", "a PNG picture", "give a kernel"),
	MAGIC(0, "SQLite format", "an SQLite database", "give a kernel"),
	MAGIC(0, "#!", "a script", "give a kernel"),
	MAGIC(0, "version https://git-lfs", "a Git LFS pointer", "fetch the real file (git lfs pull)"),
	MAGIC(0, "<!DOCTYPE", "an HTML page", "probably an error page instead of a download: fetch the kernel again"),
	MAGIC(0, "<!doctype", "an HTML page", "probably an error page instead of a download: fetch the kernel again"),
	MAGIC(0, "<html", "an HTML page", "probably an error page instead of a download: fetch the kernel again"),
	MAGIC(0, "<HTML", "an HTML page", "probably an error page instead of a download: fetch the kernel again"),
	MAGIC(0, "<?xml", "an XML file", "probably an error page instead of a download: fetch the kernel again"),
};

static bool has(const struct load *l, uint32_t off, const char *bytes, uint32_t len)
{
	return off + len <= l->head_bytes && memcmp(l->head + off, bytes, len) == 0;
}

static int found(struct load *l, const char *what, const char *advice)
{
	return error_set(l->err, -ENOEXEC, "this is %s: %s", what, advice);
}

static bool is_pe(const struct load *l)
{
	if (!has(l, 0, "MZ", 2) || l->head_bytes < 64)
		return false;
	uint32_t off = get32(l->head + 60);
	return off < l->head_bytes && has(l, off, "PE\0\0", 4);
}

static int describe_pe(struct load *l)
{
	uint32_t machine = get16(l->head + get32(l->head + 60) + 4);
	if (machine == 0xaa64)
		return found(l, "an EFI or Windows program for 64-bit ARM", FOREIGN);
	if (machine == 0x8664)
		return found(
			l, "an EFI or Windows program",
			"a unified kernel image holds the kernel in its section .linux (objcopy -O binary -j .linux)");
	return found(l, "an EFI or Windows program", FOREIGN " as ELF or bzImage");
}

/* An ISO image says so in its 17th sector only. */
static bool is_iso(const struct load *l)
{
	char id[5];
	return image_read(l->req->kernel, 0x8001, id, sizeof(id)) == 0 && memcmp(id, "CD001", sizeof(id)) == 0;
}

static bool all(const struct load *l, bool (*is)(uint8_t c))
{
	for (uint32_t i = 0; i < l->head_bytes; i++) {
		if (!is(l->head[i]))
			return false;
	}
	return true;
}

static bool is_zero(uint8_t c)
{
	return c == 0;
}

static bool is_text(uint8_t c)
{
	return c >= ' ' ? c != 0x7f : c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0x1b;
}

/* A magic number whose checksum does not match: a typing error of a kernel's author. */
static int bad_multiboot(const struct load *l)
{
	for (uint32_t off = 0; off + 12 <= l->head_bytes; off += 4) {
		uint32_t magic = get32(l->head + off);
		if (off < 8192 && magic == 0x1badb002)
			return 1;
		if (off % 8 == 0 && magic == 0xe85250d6)
			return 2;
	}
	return 0;
}

int load_describe(struct load *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
		if (has(l, magics[i].off, magics[i].bytes, magics[i].len))
			return found(l, magics[i].what, magics[i].advice);
	}
	if (is_pe(l))
		return describe_pe(l);
	if (is_iso(l))
		return found(l, "an ISO image", DISK);
	int multiboot = bad_multiboot(l);
	if (multiboot != 0)
		return error_set(l->err, -ENOEXEC, "a multiboot %d header with a wrong checksum or length", multiboot);
	if (all(l, is_zero))
		return found(l, "only zeros", "copy the kernel again");
	if (all(l, is_text))
		return found(l, "a text file", "give a kernel");
	if (l->head_bytes >= 512 && get16(l->head + 510) == 0xaa55)
		return found(l, "a boot sector or disk image", "a boot sector starts with --flat-mode real");
	if (l->head_bytes < 16)
		return error_set(l->err, -ENOEXEC, "a file of %u bytes is too short for a kernel", l->head_bytes);
	return error_set(
		l->err, -ENOEXEC,
		"no format that lull knows (starts with %02x %02x %02x %02x): give a bzImage, an ELF or multiboot "
		"kernel, or use --flat-addr for a flat binary",
		l->head[0], l->head[1], l->head[2], l->head[3]);
}
