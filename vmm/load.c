/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - finds the loader for an image and keeps the account of guest memory that the loaders share. Order: bzImage,
 * ELF (which may carry a PVH note or a multiboot header, see load_elf.c), multiboot by address fields. Flat only on
 * request.
 */
#include "load.h"

#include "error.h"
#include "load_internal.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>

/* lull's own structures below 1 MiB, where no image may go. */
static const struct {
	uint64_t base, end;
	const char *name;
	bool real_mode; /* there too when the guest starts in real mode */
} low_tables[] = {
	{MACHINE_BOOT_INFO, MACHINE_ZERO_PAGE, "the boot information", true}, /* or the real-mode stack */
	{MACHINE_ZERO_PAGE, 0x8000, "the Linux zero page", false},
	{0x8000, MACHINE_PAGE_TABLES, "the boot stack", false},
	{MACHINE_PAGE_TABLES, MACHINE_GDT, "the boot page tables", false},
	{MACHINE_GDT, MACHINE_CMDLINE, "the boot GDT", false},
	{MACHINE_CMDLINE, MACHINE_FDT, "the command line", true},
	{MACHINE_FDT, MACHINE_LOW_FREE, "the device tree", true},
	{MACHINE_RSDP, MACHINE_MPTABLE, "the ACPI tables", true},
	{MACHINE_MPTABLE, MACHINE_HIGH_BASE, "the MP table and the reset code", true},
};

struct claim_name {
	char text[40];
};

static struct claim_name claim_name(const char *what, int nr)
{
	struct claim_name name;
	if (nr == LOAD_ONLY)
		snprintf(name.text, sizeof(name.text), "%s", what);
	else
		snprintf(name.text, sizeof(name.text), "%s %d", what, nr);
	return name;
}

static int no_ram(struct load *l, uint64_t base, uint64_t end, const char *name)
{
	const struct guest_mem *mem = l->req->mem;
	if (base >= GUEST_MEM_HOLE_BASE && base < GUEST_MEM_HOLE_END)
		return error_set(l->err, -ENOSPC,
		                 "%s at 0x%" PRIx64 " is where the devices live (0x%llx-0x%llx): link it lower", name,
		                 base, GUEST_MEM_HOLE_BASE, GUEST_MEM_HOLE_END - 1);
	if (base < GUEST_MEM_HOLE_BASE && end > GUEST_MEM_HOLE_BASE)
		return error_set(l->err, -ENOSPC,
		                 "%s (0x%" PRIx64 "-0x%" PRIx64 ", %" PRIu64
		                 " MiB) reaches beyond 3 GiB, where the devices live",
		                 name, base, end - 1, (end - base) / MiB(1));
	uint64_t need = end > GUEST_MEM_HOLE_END ? end - (GUEST_MEM_HOLE_END - GUEST_MEM_HOLE_BASE) : end;
	return error_set(l->err, -ENOSPC,
	                 "%s (0x%" PRIx64 "-0x%" PRIx64 ") does not fit into %" PRIu64
	                 " MiB of guest memory: it takes at least %" PRIu64 " MiB (--mem)",
	                 name, base, end - 1, mem->bytes / MiB(1), (need - 1) / MiB(1) + 1);
}

int load_claim(struct load *l, uint64_t base, uint64_t size, const char *what, int nr)
{
	struct claim_name name = claim_name(what, nr);
	uint64_t end;
	if (size == 0)
		return error_set(l->err, -ENOEXEC, "%s is empty", name.text);
	if (add_overflow(base, size, &end))
		return error_set(l->err, -ENOEXEC,
		                 "%s at 0x%" PRIx64 " with %" PRIu64 " bytes wraps around the end of memory", name.text,
		                 base, size);
	for (size_t i = 0; i < ARRAY_SIZE(low_tables); i++) {
		if (l->real_mode && !low_tables[i].real_mode)
			continue;
		if (base < low_tables[i].end && end > low_tables[i].base)
			return error_set(l->err, -ENOEXEC,
			                 "%s (0x%" PRIx64 "-0x%" PRIx64 ") lies on %s (0x%" PRIx64 "-0x%" PRIx64
			                 "): place it elsewhere, for example at 1 MiB",
			                 name.text, base, end - 1, low_tables[i].name, low_tables[i].base,
			                 low_tables[i].end - 1);
	}
	for (unsigned i = 0; i < l->claim_count; i++) {
		const struct load_claim *c = &l->claims[i];
		if (base < c->end && end > c->base)
			return error_set(l->err, -ENOEXEC,
			                 "%s (0x%" PRIx64 "-0x%" PRIx64 ") overlaps %s (0x%" PRIx64 "-0x%" PRIx64 ")",
			                 name.text, base, end - 1, claim_name(c->what, c->nr).text, c->base,
			                 c->end - 1);
	}
	if (guest_mem_at(l->req->mem, gpa(base), size) == NULL)
		return no_ram(l, base, end, name.text);
	invariant(l->claim_count < LOAD_CLAIMS_MAX);
	l->claims[l->claim_count++] = (struct load_claim){base, end, what, nr};
	return 0;
}

bool load_claimed(const struct load *l, uint64_t addr)
{
	for (unsigned i = 0; i < l->claim_count; i++) {
		if (addr >= l->claims[i].base && addr < l->claims[i].end)
			return true;
	}
	return false;
}

int load_copy(struct load *l, uint64_t off, uint64_t len, uint64_t addr, const char *what, int nr)
{
	int ret = image_read_guest(l->req->kernel, off, len, l->req->mem, gpa(addr));
	if (ret == 0)
		return 0;
	struct claim_name name = claim_name(what, nr);
	uint64_t end;
	if (ret != -ENODATA)
		return error_sys(l->err, ret, "cannot read %s", name.text);
	if (add_overflow(off, len, &end))
		return error_set(l->err, -ENOEXEC, "%s has an impossible file offset (0x%" PRIx64 ")", name.text, off);
	return error_set(l->err, -ENOEXEC,
	                 "truncated: %s ends beyond the file: needs %" PRIu64 " bytes, has %" PRIu64 ": copy it again",
	                 name.text, end, l->req->kernel->size);
}

const char *load_basename(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

int load_cmdline(struct load *l, const char *prefix, uint64_t max)
{
	const char *args = l->req->cmdline;
	uint64_t head = prefix != NULL ? strlen(prefix) + 1 : 0;
	uint64_t len = strlen(args);
	if (max > LOAD_CMDLINE_MAX - 1)
		max = LOAD_CMDLINE_MAX - 1;
	if (head + len > max)
		return error_set(l->err, -E2BIG,
		                 "the command line is too long: %" PRIu64 " bytes, this kernel takes %" PRIu64
		                 ": shorten it",
		                 len, max > head ? max - head : 0);
	char *to = guest_mem_at(l->req->mem, gpa(MACHINE_CMDLINE), LOAD_CMDLINE_MAX);
	invariant(to != NULL);
	if (prefix != NULL) {
		memcpy(to, prefix, head - 1);
		to[head - 1] = ' ';
	}
	memcpy(to + head, args, len + 1);
	return 0;
}

/* The highest free page-aligned place in region r below limit, or 0. */
static uint64_t place_high(const struct load *l, const struct guest_mem_region *r, uint64_t size, uint64_t limit)
{
	uint64_t top = r->base + r->size < limit ? r->base + r->size : limit;
	uint64_t bottom = r->base > MACHINE_HIGH_BASE ? r->base : MACHINE_HIGH_BASE;
	while (top > bottom && top - bottom >= size) {
		uint64_t base = align_down(top - size, KiB(4));
		if (base < bottom)
			return 0;
		uint64_t blocked = 0;
		for (unsigned i = 0; i < l->claim_count; i++) {
			if (base < l->claims[i].end && base + size > l->claims[i].base)
				blocked = l->claims[i].base;
		}
		if (blocked == 0)
			return base;
		top = blocked; /* below the old top: each claim is met at most once */
	}
	return 0;
}

static uint64_t place_low(const struct load *l, const struct guest_mem_region *r, uint64_t size, uint64_t limit)
{
	uint64_t top = r->base + r->size < limit ? r->base + r->size : limit;
	uint64_t base = r->base > MACHINE_HIGH_BASE ? r->base : MACHINE_HIGH_BASE;
	for (unsigned i = 0; i < l->claim_count; i++) {
		if (l->claims[i].base < top && l->claims[i].end > base)
			base = align_up(l->claims[i].end, KiB(4));
	}
	return base < top && top - base >= size ? base : 0;
}

static int initrd_no_room(struct load *l, uint64_t size, uint64_t limit)
{
	const struct guest_mem *mem = l->req->mem;
	if (size >= mem->bytes)
		return error_set(l->err, -ENOSPC,
		                 "%" PRIu64 " MiB do not fit into %" PRIu64 " MiB of guest memory (--mem)",
		                 size / MiB(1), mem->bytes / MiB(1));
	return error_set(l->err, -ENOSPC,
	                 "%" PRIu64 " KiB find no room beside the kernel in %" PRIu64
	                 " MiB of guest memory (below 0x%" PRIx64 "): give it more (--mem)",
	                 size / KiB(1), mem->bytes / MiB(1), limit);
}

static int initrd_failed(struct load *l, int code)
{
	l->named = true;
	return error_wrap(l->err, code, "initrd %s", l->req->initrd->name);
}

int load_initrd(struct load *l, enum load_place place, uint64_t limit)
{
	const struct image *initrd = l->req->initrd;
	if (initrd == NULL)
		return 0;
	const struct guest_mem *mem = l->req->mem;
	uint64_t base = 0, size = initrd->size;
	for (unsigned i = mem->count; i-- > 0 && base == 0;) {
		const struct guest_mem_region *r = &mem->regions[i];
		if (r->base < limit)
			base = place == PLACE_HIGH ? place_high(l, r, size, limit) : place_low(l, r, size, limit);
	}
	if (base == 0)
		return initrd_failed(l, initrd_no_room(l, size, limit));
	int ret = load_claim(l, base, size, "the initrd", LOAD_ONLY);
	if (ret != 0)
		return initrd_failed(l, ret);
	ret = image_read_guest(initrd, 0, size, l->req->mem, gpa(base));
	if (ret == -ENODATA)
		return initrd_failed(l, error_set(l->err, ret, "the file became shorter while it was read"));
	if (ret != 0)
		return initrd_failed(l, error_sys(l->err, ret, "cannot read it"));
	l->out->initrd_base = base;
	l->out->initrd_bytes = size;
	return 0;
}

static int read_head(struct load *l)
{
	const struct image *img = l->req->kernel;
	l->head_bytes = img->size < LOAD_HEAD_MAX ? (uint32_t)img->size : LOAD_HEAD_MAX;
	if (l->head_bytes == 0)
		return error_set(l->err, -ENOEXEC, "is empty");
	int ret = image_read(img, 0, l->head, l->head_bytes);
	if (ret != 0)
		return error_sys(l->err, ret, "cannot read it");
	return 0;
}

static int dispatch(struct load *l)
{
	if (l->req->flat)
		return load_flat(l);
	int ret = read_head(l);
	if (ret != 0)
		return ret;
	if (load_bzimage_probe(l))
		return load_bzimage(l);
	if (load_elf_probe(l))
		return load_elf(l);
	if (load_multiboot2_probe(l) >= 0 || load_multiboot1_probe(l) >= 0)
		return load_multiboot(l);
	return load_describe(l);
}

int load_kernel(const struct load_request *req, struct boot_state *out, struct lull_error *err)
{
	*out = (struct boot_state){.mode = BOOT_PROTECTED};
	struct load *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return error_sys(err, -ENOMEM, "cannot load the kernel");
	l->req = req;
	l->out = out;
	l->err = err;
	int ret = dispatch(l);
	if (ret != 0 && !l->named)
		error_wrap(err, ret, "kernel %s", req->kernel->name);
	free(l);
	return ret;
}
