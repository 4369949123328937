/* SPDX-License-Identifier: Apache-2.0 */
/* guest_mem.h - guest RAM, and the only way from a guest-physical address to host memory. */
#ifndef LULL_GUEST_MEM_H
#define LULL_GUEST_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_error;

/* A guest-physical address. A struct, so that it can neither be dereferenced nor mixed up with a host one. */
typedef struct {
	uint64_t value;
} gpa_t;

static inline gpa_t gpa(uint64_t value)
{
	return (gpa_t){value};
}

/* RAM ends here and goes on at 4 GiB: below 4 GiB live the MMIO devices. */
#define GUEST_MEM_HOLE_BASE 0xc0000000ull
#define GUEST_MEM_HOLE_END  0x100000000ull
#define GUEST_MEM_REGIONS   2
#define GUEST_MEM_MIN       0x200000ull /* the first megabyte holds lull's tables */

struct guest_mem_region {
	uint64_t base, size; /* guest-physical bytes; size 0: not there */
	uint8_t *hva;
};

struct guest_mem {
	unsigned count;
	struct guest_mem_region regions[GUEST_MEM_REGIONS];
	uint64_t bytes;
	int fd; /* the memfd when shared, else -1 */
};

/* bytes: a multiple of 4096, at least GUEST_MEM_MIN, at most what the host has. shared: a memfd that others can map,
 * else anonymous memory with transparent huge pages (from 2 MiB up: the first 2 MiB keep small pages so that a tiny
 * guest touches only what it uses). Kept out of core dumps and of forked children. After a failure *mem is empty, and
 * guest_mem_fini() is harmless. */
int guest_mem_init(struct guest_mem *mem, uint64_t bytes, bool shared, struct lull_error *err);
void guest_mem_fini(struct guest_mem *mem);

/* All RAM reads as zero again. No vCPU may run. */
int guest_mem_clear(struct guest_mem *mem);

/* Whole pages go back to the host, and read as zero until the guest writes there again. vCPUs may run. 0, -EFAULT (not
 * RAM in one region), -EINVAL (not whole pages, or the host cannot let go of them: mlock()) or what the host says. */
int guest_mem_discard(const struct guest_mem *mem, gpa_t addr, uint64_t len);

/* Host address of [addr, addr + len) when all of it is RAM in one region, else NULL. len 0: NULL.
 * The memory behind it is shared with a hostile guest: copy once, then use the copy. */
void *guest_mem_at(const struct guest_mem *mem, gpa_t addr, uint64_t len);

/* The way back, for what guest_mem_at() gave. */
gpa_t guest_mem_gpa(const struct guest_mem *mem, const void *hva);

/* 0, or -EFAULT and nothing copied. len 0 is fine anywhere. */
int guest_mem_read(const struct guest_mem *mem, gpa_t addr, void *dst, uint64_t len);
int guest_mem_write(struct guest_mem *mem, gpa_t addr, const void *src, uint64_t len);

#endif
