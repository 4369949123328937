/* SPDX-License-Identifier: Apache-2.0 */
/* mkimage.c - writes the broken images of the hostile tests: mkimage DIR. Names are those that run.sh uses. */
#include "images.h"

#include <stdio.h>

static struct test_image img;
static const char *dir;
static int failed;

static void write_image(const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "wb");
	if (f == NULL || fwrite(img.bytes, 1, img.size, f) != img.size || fclose(f) != 0) {
		perror(path);
		failed = 1;
	}
}

static void bytes_at(const char *name, size_t off, const char *bytes, size_t len, size_t size)
{
	memset(&img, 0, sizeof(img));
	memcpy(img.bytes + off, bytes, len);
	img.size = size;
	write_image(name);
}

static void foreign(void)
{
	bytes_at("gzip", 0, "\x1f\x8b\x08", 3, 4096);
	bytes_at("xz", 0, "\3757zXZ", 6, 4096);
	bytes_at("zstd", 0, "\x28\xb5\x2f\xfd", 4, 4096);
	bytes_at("arm64", 56, "ARM\x64", 4, 4096);
	bytes_at("riscv", 48, "RISCV", 5, 4096);
	bytes_at("zboot", 0, "MZ\0\0zimg", 8, 4096);
	bytes_at("qcow2", 0, "QFI\xfb", 4, 4096);
	bytes_at("iso", 0x8001, "CD001", 5, 0x9000);
	bytes_at("ext4", 1080, "\x53\xef", 2, 4096);
	bytes_at("bootsector", 510, "\x55\xaa", 2, 512);
	bytes_at("cpio", 0, "070701", 6, 4096);
	bytes_at("zeros", 0, "", 0, 4096);
	bytes_at("one-byte", 0, "\x7f", 1, 1);
	bytes_at("script", 0, "#!/bin/sh\n", 10, 10);
	bytes_at("html", 0, "<!DOCTYPE html>\n", 16, 16);
	bytes_at("text", 0, "just words\n", 11, 11);
	bytes_at("flat", 0, "\xf4", 1, 512);
}

static void bzimages(void)
{
	image_bzimage(&img);
	write_image("bz-good");
	img.size = 0x206;
	write_image("bz-cut-magic");
	image_bzimage(&img);
	img.size = 0x240;
	write_image("bz-cut-header");
	image_bzimage(&img);
	img.size = BZ_KERNEL;
	write_image("bz-cut-kernel");
	image_bzimage(&img);
	set16(&img, 0x206, 0x0208);
	write_image("bz-old");
	image_bzimage(&img);
	set16(&img, 0x236, 0);
	write_image("bz-32bit");
	image_bzimage(&img);
	set32(&img, 0x230, 0xfff);
	write_image("bz-alignment");
	image_bzimage(&img);
	set32(&img, 0x260, 0xf0000000);
	write_image("bz-init-size");
	image_bzimage(&img);
	set64(&img, 0x258, UINT64_MAX - 0xfff);
	write_image("bz-wraps");
}

static void elf_with(const char *name, uint64_t entry, const struct test_segment *s, unsigned n)
{
	image_elf(&img, true, entry, s, n);
	write_image(name);
}

static void elf_patched(const char *name, size_t off, uint16_t value)
{
	image_elf_simple(&img, true);
	set16(&img, off, value);
	write_image(name);
}

static void elf_cut(const char *name, size_t size)
{
	image_elf_simple(&img, true);
	img.size = size;
	write_image(name);
}

#define ONE(...)                                                                                                       \
	(const struct test_segment[])                                                                                  \
	{                                                                                                              \
		{                                                                                                      \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}

static void elf_segments(void)
{
	static const struct test_segment overlap[] = {{PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, 0x2000},
	                                              {PT_LOAD, ELF_DATA, 0, 0x101000, 0x1000, 0x2000}};
	elf_with("elf-overlap", 0x100000, overlap, 2);
	elf_with("elf-wrap", 0x100000, ONE(PT_LOAD, ELF_DATA, 0, UINT64_MAX - 0xfff, 0x1000, 0x2000), 1);
	elf_with("elf-wrap-file", 0x100000, ONE(PT_LOAD, UINT64_MAX - 0xff, 0, 0x100000, 0x1000, 0x2000), 1);
	elf_with("elf-bss-3g", 0x100000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, 3ull << 30), 1);
	elf_with("elf-bss-all", 0x100000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, UINT64_MAX - 0x100000), 1);
	elf_with("elf-filesz", 0x100000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000, 0x2000, 0x1000), 1);
	elf_with("elf-entry", 0x900000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000, 0x1000, 0x1000), 1);
	elf_with("elf-tables", 0x8000, ONE(PT_LOAD, ELF_DATA, 0, 0x8000, 0x1000, 0x1000), 1);
	elf_with("elf-acpi", 0xe0000, ONE(PT_LOAD, ELF_DATA, 0, 0xe0000, 0x1000, 0x1000), 1);
	elf_with("elf-devices", 0xfee00000, ONE(PT_LOAD, ELF_DATA, 0, 0xfee00000, 0x1000, 0x1000), 1);
	elf_with("elf-high", 0x100000000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000000, 0x1000, 0x1000), 1);
	elf_with("elf-nothing", 0x100000, ONE(PT_NULL, 0, 0, 0, 0, 0), 1);
	elf_with("elf-dynamic", 0x100000, ONE(PT_INTERP, ELF_DATA, 0, 0, 0, 0), 1);
	image_elf(&img, true, 0x100000, ONE(PT_LOAD, ELF_DATA, 0, 0x100000, 0x10000, 0x10000), 1);
	img.size = ELF_DATA + 0x800;
	write_image("elf-cut-segment");
}

static void elf_headers(void)
{
	image_elf_simple(&img, true);
	write_image("elf-good");
	elf_cut("elf-cut-magic", 4);
	elf_cut("elf-cut-ident", 16);
	elf_cut("elf-cut-header", 63);
	elf_cut("elf-cut-table", 0x50);
	elf_patched("elf-arm64", offsetof(Elf64_Ehdr, e_machine), EM_AARCH64);
	elf_patched("elf-object", offsetof(Elf64_Ehdr, e_type), ET_REL);
	elf_patched("elf-pie", offsetof(Elf64_Ehdr, e_type), ET_DYN);
	elf_patched("elf-core", offsetof(Elf64_Ehdr, e_type), ET_CORE);
	elf_patched("elf-phnum", offsetof(Elf64_Ehdr, e_phnum), 0xffff);
	elf_patched("elf-phoff", offsetof(Elf64_Ehdr, e_phoff) + 6, 0xffff);
	elf_patched("elf-phentsize", offsetof(Elf64_Ehdr, e_phentsize), 1);
	elf_patched("elf-class", EI_CLASS, 0x0109);
	elf_patched("elf-big-endian", EI_CLASS, 0x0202);
	image_pvh(&img, 4);
	set32(&img, img.size - 4, 0x10);
	write_image("pvh-entry");
	image_pvh(&img, 4);
	set64(&img, phdr64(1, offsetof(Elf64_Phdr, p_filesz)), UINT64_MAX);
	write_image("pvh-notes");
}

static void multiboot(void)
{
	static const uint32_t outside[5] = {0x200040, 0x200000, 0, 0, 0x300000},
			      wrong[5] = {0x200040, 0x200041, 0, 0, 0x200060},
			      huge[5] = {0x200040, 0x200000, 0, 0xffffffff, 0x200060};
	image_multiboot1(&img);
	put_multiboot1(&img, ELF_DATA, 0x80);
	write_image("mb1-flags");
	image_multiboot1_kludge(&img);
	put_multiboot1(&img, 0x40, 0);
	write_image("mb1-no-address");
	image_multiboot1_kludge(&img);
	set32(&img, 0x48, 7);
	write_image("mb1-checksum");
	image_multiboot1_kludge(&img);
	put_multiboot1_address(&img, 0x40, outside);
	write_image("mb1-entry");
	put_multiboot1_address(&img, 0x40, wrong);
	write_image("mb1-address");
	put_multiboot1_address(&img, 0x40, huge);
	write_image("mb1-bss");
	image_multiboot2(&img);
	put_tag(&img, ELF_DATA + 16, 5, 0, 24);
	write_image("mb2-framebuffer");
	image_multiboot2(&img);
	put_tag(&img, ELF_DATA + 16, 4, 0, 3);
	write_image("mb2-tag-size");
	image_multiboot2(&img);
	put_multiboot2(&img, ELF_DATA, 0xfffffff0);
	write_image("mb2-length");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 1;
	dir = argv[1];
	foreign();
	bzimages();
	elf_headers();
	elf_segments();
	multiboot();
	return failed;
}
