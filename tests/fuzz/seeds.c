/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c - writes first inputs for the loader fuzz targets: seeds DIR makes DIR/<target>/<name>. */
#include "hostile/images.h"

#include <stdio.h>
#include <sys/stat.h>

static struct test_image img;
static const char *dir;

/* Bytes before the image: RAM, initrd, command line, options; fuzz_load.h. */
static void seed(const char *target, const char *name, const uint8_t head[8])
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, target);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/%s", dir, target, name);
	FILE *f = fopen(path, "wb");
	if (f == NULL || fwrite(head, 8, 1, f) != 1 || fwrite(img.bytes, img.size, 1, f) != 1 || fclose(f) != 0)
		perror(path);
}

int main(int argc, char **argv)
{
	static const uint8_t plain[8] = {2}, with_initrd[8] = {2, 1, 3}, is64[8] = {2, 1, 2, 1},
			     at_data[8] = {2, 1, 2, 128}, at_40[8] = {1, 1, 2, 2}, mb2_data[8] = {1, 1, 2, 32},
			     flat_long[8] = {0, 0, 5, 0, 0, 0, 0x10, 0}, flat_real[8] = {0, 1, 7, 0, 0, 0x7c, 0, 0};
	if (argc != 2)
		return 1;
	dir = argv[1];
	mkdir(dir, 0777);
	image_bzimage(&img);
	seed("fuzz_load_bzimage", "plain", plain);
	seed("fuzz_load_bzimage", "initrd", with_initrd);
	seed("fuzz_load_flat", "bzimage", plain);
	image_elf_simple(&img, false);
	seed("fuzz_load_elf", "elf32", with_initrd);
	image_elf_simple(&img, true);
	seed("fuzz_load_elf", "elf64", is64);
	image_pvh(&img, 4);
	seed("fuzz_load_elf", "pvh4", is64);
	image_pvh(&img, 8);
	seed("fuzz_load_elf", "pvh8", is64);
	image_multiboot1(&img);
	seed("fuzz_load_elf", "multiboot1", plain);
	seed("fuzz_load_multiboot1", "elf", at_data);
	image_multiboot1_kludge(&img);
	set32(&img, 0x44, 8); /* the target makes the address flag of it */
	seed("fuzz_load_multiboot1", "address", at_40);
	image_multiboot2(&img);
	seed("fuzz_load_elf", "multiboot2", is64);
	seed("fuzz_load_multiboot2", "elf", mb2_data);
	image_multiboot2_kludge(&img);
	memmove(img.bytes + 256, img.bytes + 0x40, 0x100); /* the target looks at multiples of 128 */
	set32(&img, 256 + 0x18, 0x300100);
	seed("fuzz_load_multiboot2", "address", at_40);
	img.size = 512;
	seed("fuzz_load_flat", "long", flat_long);
	seed("fuzz_load_flat", "real", flat_real);
	memcpy(img.bytes, "#!/bin/sh\nexit 0\n", img.size = 17);
	seed("fuzz_load_flat", "script", plain);
	return 0;
}
