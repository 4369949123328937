// SPDX-License-Identifier: Apache-2.0
/* boot_tables.c - puts the descriptions of the machine where guests look for them. */
#include "machine.h"

#include "error.h"
#include "util.h"

#include <errno.h>

/* Non-EFI Linux without a usable ACPI reset jumps to FFFF:0000 in real mode, and so do old kernels. */
static const uint8_t reset_stub[] = {
	0xba,
	PORT_RESET & 0xff,
	PORT_RESET >> 8, /* mov dx, 0xcf9 */
	0xb0,
	ACPI_RESET_VALUE, /* mov al, 6 */
	0xee,             /* out dx, al */
	0xfa,             /* cli */
	0xf4,             /* hlt */
	0xeb,
	0xfd, /* jmp to the hlt */
};
_Static_assert(MACHINE_RESET_STUB + sizeof(reset_stub) <= MACHINE_HIGH_BASE, "16 bytes");
_Static_assert(MACHINE_RSDP + MACHINE_ACPI_MAX <= MACHINE_MPTABLE, "areas do not overlap");
_Static_assert(MACHINE_MPTABLE + MACHINE_MPTABLE_MAX <= MACHINE_RESET_STUB, "areas do not overlap");
_Static_assert(MACHINE_FDT + MACHINE_FDT_MAX <= MACHINE_LOW_FREE, "areas do not overlap");

static void *area(const struct guest_mem *mem, uint64_t base, size_t size, struct lull_error *err)
{
	void *hva = guest_mem_at(mem, gpa(base), size);

	if (!hva)
		error_set(err, -EFAULT, "RAM: %llu bytes are too few, the machine's tables need 1 MiB",
		          (unsigned long long)mem->bytes);
	return hva;
}

int boot_tables_write(const struct machine *m, struct guest_mem *mem, struct lull_error *err)
{
	size_t fdt_size = fdt_room(m);
	void *acpi, *fdt, *mptable, *stub;
	int ret;

	if (fdt_size > MACHINE_FDT_MAX)
		fdt_size = MACHINE_FDT_MAX;
	acpi = area(mem, MACHINE_RSDP, MACHINE_ACPI_MAX, err);
	fdt = area(mem, MACHINE_FDT, fdt_size, err);
	mptable = area(mem, MACHINE_MPTABLE, MACHINE_MPTABLE_MAX, err);
	stub = area(mem, MACHINE_RESET_STUB, sizeof(reset_stub), err);
	if (!acpi || !fdt || !mptable || !stub)
		return -EFAULT;

	ret = acpi_build(m, acpi, MACHINE_ACPI_MAX, err);
	if (ret < 0)
		return ret;
	ret = fdt_build(m, fdt, fdt_size, err);
	if (ret < 0)
		return ret;
	ret = mptable_build(m, mptable, MACHINE_MPTABLE_MAX, err);
	if (ret < 0)
		return ret;
	return guest_mem_write(mem, gpa(MACHINE_RESET_STUB), reset_stub, sizeof(reset_stub));
}
