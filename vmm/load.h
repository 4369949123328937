/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - a kernel image into guest memory, and how its first instruction finds the machine. */
#ifndef LULL_LOAD_H
#define LULL_LOAD_H

#include "guest_mem.h"
#include "image.h"
#include "machine.h"

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

enum boot_mode {
	BOOT_REAL,      /* CS:IP = 0 : entry below 64 KiB, else entry >> 4 : entry & 15; SS = 0; entry < 1 MiB */
	BOOT_PROTECTED, /* 32 bits, flat segments, paging off: multiboot, PVH */
	BOOT_LONG,      /* 64 bits, identity map of 4 GiB at MACHINE_PAGE_TABLES, GDT at MACHINE_GDT */
};

struct boot_state {
	enum boot_mode mode;
	uint64_t entry;
	uint64_t stack;                   /* RSP; 0: leave it 0 */
	uint64_t rax, rbx, rdx, rdi, rsi; /* others are 0 */
	const char *protocol;             /* "Linux bzImage", "PVH", "multiboot 1"... for the log */
	uint64_t initrd_base, initrd_bytes;
};

struct load_request {
	const struct image *kernel;
	const struct image *initrd; /* NULL: none; the first module for multiboot kernels */
	const char *cmdline;        /* never NULL */
	const struct machine *machine;
	struct guest_mem *mem;
	bool flat, flat_real_mode; /* do not sniff: a flat binary */
	uint64_t flat_addr;        /* 0: default of the mode */
};

/* Sniffs the image by its magic, loads it and the initrd, and writes the boot information (zero page, start_info,
 * multiboot information, command line) that points at MACHINE_RSDP and MACHINE_FDT. Does not write the page tables, GDT
 * or tables themselves. Unknown formats: the error says what the file looks like. */
int load_kernel(const struct load_request *req, struct boot_state *out, struct lull_error *err);

#endif
