// SPDX-License-Identifier: Apache-2.0
/* write_tables.c - writes the tables of one machine into a directory, for tables.sh.
 * write_tables DIRECTORY VCPUS RAM_MIB VIRTIO */
#include "fakes/machine_board.h"
#include "lull.h"

#include <string.h>

static int save(const char *dir, const char *name, const void *data, size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const signatures[] = {"RSD ", "XSDT", "FACP", "FACS", "APIC", "DSDT"};
	static uint8_t buf[MACHINE_FDT_MAX];
	struct lull_error err = {0};
	struct machine m;
	int len, ret = 0;

	if (argc != 5)
		return 2;
	if (machine_board(&m, (unsigned)atoi(argv[2]), MiB(atoi(argv[3])), (unsigned)atoi(argv[4])))
		return 2;
	m.cmdline = "console=ttyS0 \"quoted\"";
	m.tsc_khz = 2445123;
	m.initrd_base = 0x1000000;
	m.initrd_bytes = 0x123456;

	len = acpi_build(&m, buf, MACHINE_ACPI_MAX, &err);
	if (len < 0)
		goto fail;
	for (size_t i = 0; i < ARRAY_SIZE(signatures); i++) {
		size_t bytes = 0;
		const void *table = acpi_find(buf, (size_t)len, signatures[i], &bytes);
		char name[16];

		snprintf(name, sizeof(name), "%s.dat", signatures[i][3] == ' ' ? "RSDP" : signatures[i]);
		ret |= table ? save(argv[1], name, table, bytes) : 1;
	}
	len = mptable_build(&m, buf, MACHINE_MPTABLE_MAX, &err);
	if (len < 0)
		goto fail;
	ret |= save(argv[1], "mp.dat", buf, (size_t)len);
	len = fdt_build(&m, buf, fdt_room(&m), &err);
	if (len < 0)
		goto fail;
	return ret | save(argv[1], "tree.dtb", buf, (size_t)len);
fail:
	fprintf(stderr, "%s\n", err.text);
	return 1;
}
