/* SPDX-License-Identifier: Apache-2.0 */
/* load_internal.h - what the loaders share among themselves. Only load*.c include it. */
#ifndef LULL_LOAD_INTERNAL_H
#define LULL_LOAD_INTERNAL_H

#include "load.h"

#include <string.h>

#define LOAD_HEAD_MAX     32768 /* a multiboot 2 header lies within */
#define LOAD_CLAIMS_MAX   72
#define LOAD_SEGMENTS_MAX 64
/* 64-bit kernels run on an identity map of 4 GiB, the others have 32 bits. */
#define LOAD_REACH 0x100000000ull
/* The setup_data header that announces the device tree to Linux must lie right before it. */
#define LOAD_CMDLINE_MAX (MACHINE_CMDLINE_MAX - 16)

#define LOAD_ONLY (-1)

/* A piece of guest memory that is taken. */
struct load_claim {
	uint64_t base, end;
	const char *what; /* "segment" */
	int nr;           /* as in readelf -l; LOAD_ONLY: there is just one */
};

/* One load_kernel() call. */
struct load {
	const struct load_request *req;
	struct boot_state *out;
	struct lull_error *err;
	bool real_mode; /* no long mode structures below 64 KiB */
	bool named;     /* the text in *err already says which file */
	unsigned claim_count;
	struct load_claim claims[LOAD_CLAIMS_MAX];
	uint32_t head_bytes;
	uint8_t head[LOAD_HEAD_MAX + 8]; /* the first head_bytes of the kernel, then zeros */
};

/* Little-endian fields in byte buffers; the host is x86. */
static inline uint16_t get16(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t get64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void put16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* ---- load.c ---- */

/* Takes [base, base + size) for "what nr": an error when it is empty, wraps, is not RAM, or meets an earlier claim or
 * one of lull's own tables. The text says which. */
int load_claim(struct load *l, uint64_t base, uint64_t size, const char *what, int nr);
bool load_claimed(const struct load *l, uint64_t addr);
/* len bytes of the kernel at off to addr, which was claimed. */
int load_copy(struct load *l, uint64_t off, uint64_t len, uint64_t addr, const char *what, int nr);

/* "prefix cmdline" (or just cmdline when prefix is NULL) to MACHINE_CMDLINE; max counts its bytes without the NUL. */
int load_cmdline(struct load *l, const char *prefix, uint64_t max);
/* The last part of a path. */
const char *load_basename(const char *path);

enum load_place {
	PLACE_HIGH, /* as far up as possible below limit */
	PLACE_LOW,  /* on the next page after everything claimed below limit */
};
/* The initrd, if there is one, into free RAM below limit; fills out->initrd_*. -ENOSPC: no room, and nothing was read.
 */
int load_initrd(struct load *l, enum load_place place, uint64_t limit);

/* ---- load_info.c ---- */

/* The PVH start_info at MACHINE_BOOT_INFO. */
int load_start_info(struct load *l);
/* boot_params at MACHINE_ZERO_PAGE. setup_header: what the kernel file has from offset 0x1f1 on, header_bytes long;
 * NULL: a minimal one is made. load_addr goes into code32_start. */
int load_zero_page(struct load *l, const uint8_t *setup_header, size_t header_bytes, uint64_t load_addr);

/* ---- the formats; *_probe look at the head only ---- */

bool load_bzimage_probe(const struct load *l);
int load_bzimage(struct load *l);

bool load_elf_probe(const struct load *l);
int load_elf(struct load *l);

/* Offset of a multiboot header in the head, or -1. */
int load_multiboot1_probe(const struct load *l);
int load_multiboot2_probe(const struct load *l);
/* The header's own address fields, if it has any: then the image is loaded and *entry set, and *loaded is true. Without
 * them it is the ELF loader's turn. */
int load_multiboot1_header(struct load *l, int off, bool *loaded, uint64_t *entry);
int load_multiboot2_header(struct load *l, int off, bool *loaded, uint64_t *entry);
/* Once the kernel is in place: modules, boot information, registers. entry comes from the ELF file or the header. */
int load_multiboot1_finish(struct load *l, uint64_t entry);
int load_multiboot2_finish(struct load *l, uint64_t entry);
int load_multiboot(struct load *l); /* an image that is no ELF file */

int load_flat(struct load *l);

/* ---- load_describe.c ---- */

/* Fills the error for a file that no loader knows: what it looks like, and what to do. */
int load_describe(struct load *l);

#endif
