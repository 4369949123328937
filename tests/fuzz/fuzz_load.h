/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_load.h - what the fuzz targets of the loaders share: a guest, a load and what must hold afterwards. Each target
 * makes an image of its format out of the input, so that the fuzzer need not guess magic numbers and checksums.
 */
#ifndef TESTS_FUZZ_LOAD_H
#define TESTS_FUZZ_LOAD_H

#include "load.h"

#include "lull.h"
#include "util.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fakes of machine.c and acpi.c. */
unsigned machine_e820(const struct machine *m, struct e820_entry out[E820_MAX])
{
	for (unsigned i = 0; i < E820_MAX; i++)
		out[i] = (struct e820_entry){i * MACHINE_HIGH_BASE, m->ram[0].size, 1};
	return E820_MAX;
}

int acpi_build(const struct machine *m, void *buf, size_t size, struct lull_error *err)
{
	(void)m;
	(void)err;
	memset(buf, 0x41, size);
	return (int)size;
}

/* The first bytes of an input choose everything but the image. */
enum {
	FUZZ_RAM,
	FUZZ_INITRD,
	FUZZ_CMDLINE,
	FUZZ_OPTIONS, /* the target's own */
	FUZZ_HEAD = 8,
};

struct fuzz_guest {
	struct guest_mem mem;
	struct machine machine;
	unsigned loads;
};

static struct fuzz_guest fuzz_guests[4];
static uint8_t fuzz_initrd[MiB(4)];
static char fuzz_cmdline[0x10010];

static inline struct fuzz_guest *fuzz_guest(uint8_t choice)
{
	static const uint64_t sizes[ARRAY_SIZE(fuzz_guests)] = {GUEST_MEM_MIN, MiB(17), MiB(64), GiB(3) + MiB(2)};
	struct fuzz_guest *g = &fuzz_guests[choice % ARRAY_SIZE(fuzz_guests)];
	if (g->mem.count == 0) {
		invariant(guest_mem_init(&g->mem, sizes[choice % ARRAY_SIZE(sizes)], false, NULL) == 0);
		g->machine.ram_count = g->mem.count;
		for (unsigned i = 0; i < g->mem.count; i++) {
			g->machine.ram[i].base = g->mem.regions[i].base;
			g->machine.ram[i].size = g->mem.regions[i].size;
		}
	}
	return g;
}

/* [base, base + size) belongs to others and was zero. */
static inline void fuzz_untouched(const struct guest_mem *mem, uint64_t base, uint64_t size)
{
	const uint8_t *p = guest_mem_at(mem, gpa(base), size);
	invariant(p != NULL);
	invariant(p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}

static inline void fuzz_check_error(const struct lull_error *err, int ret)
{
	invariant(ret == err->code);
	size_t len = strnlen(err->text, sizeof(err->text));
	invariant(len > 10 && len < sizeof(err->text));
	for (size_t i = 0; i < len; i++)
		invariant((unsigned char)err->text[i] >= ' ');
}

static inline void fuzz_check_loaded(const struct guest_mem *mem, const struct load_request *req,
                                     const struct boot_state *out)
{
	invariant(out->entry < GiB(4) && guest_mem_at(mem, gpa(out->entry), 1) != NULL);
	invariant(out->mode != BOOT_REAL || out->entry < MACHINE_HIGH_BASE);
	invariant(out->protocol != NULL);
	invariant((req->initrd != NULL) == (out->initrd_bytes != 0));
	if (out->initrd_bytes != 0) {
		invariant(out->initrd_base >= MACHINE_HIGH_BASE && out->initrd_base % KiB(4) == 0);
		const uint8_t *p = guest_mem_at(mem, gpa(out->initrd_base), out->initrd_bytes);
		invariant(p != NULL && memcmp(p, fuzz_initrd, out->initrd_bytes) == 0);
		invariant(out->entry < out->initrd_base || out->entry >= out->initrd_base + out->initrd_bytes);
	}
}

/* Loads image as the kernel; head are FUZZ_HEAD bytes of choices. */
static inline void fuzz_load(const uint8_t *head, const uint8_t *image, size_t size, struct load_request *req)
{
	struct fuzz_guest *g = fuzz_guest(head[FUZZ_RAM]);
	struct image kernel, initrd;
	struct boot_state out;
	struct lull_error err = {0};
	image_from_memory(&kernel, "dir/kernel", image, size);
	memset(fuzz_initrd, 0x5a, 16);
	image_from_memory(&initrd, "dir/initrd", fuzz_initrd, 1 + ((size_t)head[FUZZ_INITRD] << 14));
	size_t len = (size_t)head[FUZZ_CMDLINE] * head[FUZZ_CMDLINE] + 1;
	memset(fuzz_cmdline, 'c', len);
	fuzz_cmdline[len] = '\0';
	req->kernel = &kernel;
	req->initrd = head[FUZZ_INITRD] != 0 ? &initrd : NULL;
	req->cmdline = fuzz_cmdline;
	req->machine = &g->machine;
	req->mem = &g->mem;
	if (++g->loads % 1024 == 0) /* or images all over the guest's RAM add up to more than the fuzzer may use */
		invariant(guest_mem_clear(&g->mem) == 0);
	int ret = load_kernel(req, &out, &err);
	if (ret < 0)
		fuzz_check_error(&err, ret);
	else
		fuzz_check_loaded(&g->mem, req, &out);
	/* Page tables, GDT, device tree, ACPI and MP tables come later and from elsewhere; nothing may lie there. */
	if (req->flat_real_mode) /* may use it, and leaves no trace for the next input */
		memset(guest_mem_at(&g->mem, gpa(MACHINE_PAGE_TABLES), KiB(28)), 0, KiB(28));
	else
		fuzz_untouched(&g->mem, MACHINE_PAGE_TABLES, MACHINE_CMDLINE - MACHINE_PAGE_TABLES);
	fuzz_untouched(&g->mem, MACHINE_FDT, MACHINE_LOW_FREE - MACHINE_FDT);
	fuzz_untouched(&g->mem, MACHINE_RSDP, MACHINE_HIGH_BASE - MACHINE_RSDP);
}

#endif
