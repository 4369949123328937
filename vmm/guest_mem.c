/* SPDX-License-Identifier: Apache-2.0 */
/* guest_mem.c - maps guest RAM and translates addresses. Knows nothing of KVM or of what the memory holds. */
#include "guest_mem.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PAGE_BYTES KiB(4)
#define HUGE_BYTES MiB(2)

static int check_size(uint64_t bytes, struct lull_error *err)
{
	if (bytes < GUEST_MEM_MIN)
		return error_set(err, -EINVAL, "guest memory of %" PRIu64 " bytes is too little: use at least 2M",
		                 bytes);
	if (bytes % PAGE_BYTES != 0)
		return error_set(err, -EINVAL,
		                 "guest memory of %" PRIu64 " bytes is not a multiple of 4096: use for example %" PRIu64
		                 "K",
		                 bytes, bytes / PAGE_BYTES * 4);
	struct sysinfo host;
	if (sysinfo(&host) != 0)
		return error_sys(err, -errno, "cannot read the size of the host's memory");
	uint64_t unit = host.mem_unit != 0 ? host.mem_unit : 1;
	uint64_t total = ((uint64_t)host.totalram + host.totalswap) * unit;
	if (bytes > total)
		return error_set(err, -ENOMEM,
		                 "guest memory of %" PRIu64 " MiB is more than this host has (%" PRIu64
		                 " MiB with swap): use less",
		                 bytes / MiB(1), total / MiB(1));
	return 0;
}

static int map_failed(struct lull_error *err, int code, uint64_t bytes)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		return error_sys(err, code,
		                 "cannot map %" PRIu64 " MiB of guest memory (ulimit -v allows this process %" PRIu64
		                 " MiB of address space)",
		                 bytes / MiB(1), (uint64_t)limit.rlim_cur / MiB(1));
	return error_sys(err, code, "cannot map %" PRIu64 " MiB of guest memory (see vm.overcommit_memory)",
	                 bytes / MiB(1));
}

static int open_memfd(struct guest_mem *mem, uint64_t bytes, struct lull_error *err)
{
	mem->fd = memfd_create("lull-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (mem->fd < 0) {
		int code = -errno;
		mem->fd = -1;
		return error_sys(err, code, "cannot make a memfd for guest memory");
	}
	if (ftruncate(mem->fd, (off_t)bytes) != 0)
		return error_sys(err, -errno, "cannot size the memfd to %" PRIu64 " MiB", bytes / MiB(1));
	/* Whoever gets the descriptor can neither shrink it under us (SIGBUS) nor grow it. */
	if (fcntl(mem->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return error_sys(err, -errno, "cannot seal the memfd");
	return 0;
}

/* Hints only: a kernel without huge pages refuses the advice and that is fine. */
static void advise(const struct guest_mem_region *r)
{
	uint64_t small = r->base < HUGE_BYTES ? HUGE_BYTES - r->base : 0;
	if (small > r->size)
		small = r->size;
	if (small != 0)
		(void)madvise(r->hva, small, MADV_NOHUGEPAGE);
	if (r->size > small)
		(void)madvise(r->hva + small, r->size - small, MADV_HUGEPAGE);
	(void)madvise(r->hva, r->size, MADV_DONTDUMP);
	(void)madvise(r->hva, r->size, MADV_DONTFORK);
}

/* Host and guest addresses agree modulo 2 MiB, else KVM could not map huge pages. */
static int map_region(struct guest_mem_region *r, int fd, uint64_t fd_off, struct lull_error *err)
{
	uint64_t span = r->size + HUGE_BYTES;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	int prot = fd < 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
	uint8_t *start = mmap(NULL, span, prot, flags, -1, 0);
	if (start == MAP_FAILED)
		return map_failed(err, -errno, r->size);
	uint64_t head = align_up((uintptr_t)start, HUGE_BYTES) - (uintptr_t)start;
	uint64_t tail = HUGE_BYTES - head;
	if (head != 0)
		munmap(start, head);
	if (tail != 0)
		munmap(start + head + r->size, tail);
	r->hva = start + head;
	if (fd >= 0 && mmap(r->hva, r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
	                    (off_t)fd_off) == MAP_FAILED) {
		int code = -errno;
		munmap(r->hva, r->size);
		return map_failed(err, code, r->size);
	}
	advise(r);
	return 0;
}

int guest_mem_init(struct guest_mem *mem, uint64_t bytes, bool shared, struct lull_error *err)
{
	*mem = (struct guest_mem){.fd = -1};
	int ret = check_size(bytes, err);
	if (ret == 0 && shared)
		ret = open_memfd(mem, bytes, err);
	uint64_t done = 0;
	while (ret == 0 && done < bytes) {
		struct guest_mem_region *r = &mem->regions[mem->count];
		uint64_t left = bytes - done;
		*r = (struct guest_mem_region){.base = done == 0 ? 0 : GUEST_MEM_HOLE_END, .size = left};
		if (done == 0 && left > GUEST_MEM_HOLE_BASE)
			r->size = GUEST_MEM_HOLE_BASE;
		ret = map_region(r, mem->fd, done, err);
		if (ret == 0) {
			mem->count++;
			done += r->size;
		}
	}
	if (ret != 0) {
		guest_mem_fini(mem);
		return ret;
	}
	mem->bytes = bytes;
	return 0;
}

void guest_mem_fini(struct guest_mem *mem)
{
	for (unsigned i = 0; i < mem->count; i++)
		munmap(mem->regions[i].hva, mem->regions[i].size);
	if (mem->fd >= 0)
		close(mem->fd);
	*mem = (struct guest_mem){.fd = -1};
}

/* Dropped pages read as zero; those of a memfd must go from the file and not only from this mapping. */
static int drop(const struct guest_mem *mem, void *hva, uint64_t bytes)
{
	return madvise(hva, bytes, mem->fd < 0 ? MADV_DONTNEED : MADV_REMOVE) == 0 ? 0 : -errno;
}

int guest_mem_clear(struct guest_mem *mem)
{
	int ret = 0;
	for (unsigned i = 0; i < mem->count && ret == 0; i++)
		ret = drop(mem, mem->regions[i].hva, mem->regions[i].size);
	return ret;
}

int guest_mem_discard(const struct guest_mem *mem, gpa_t addr, uint64_t len)
{
	if (addr.value % PAGE_BYTES != 0 || len % PAGE_BYTES != 0)
		return -EINVAL;
	void *hva = guest_mem_at(mem, addr, len);
	return hva != NULL ? drop(mem, hva, len) : -EFAULT;
}

gpa_t guest_mem_gpa(const struct guest_mem *mem, const void *hva)
{
	const uint8_t *at = hva;
	unsigned i = 0;
	while (i + 1 < mem->count && (at < mem->regions[i].hva || at >= mem->regions[i].hva + mem->regions[i].size))
		i++;
	return gpa(mem->regions[i].base + (uint64_t)(at - mem->regions[i].hva));
}

void *guest_mem_at(const struct guest_mem *mem, gpa_t addr, uint64_t len)
{
	for (unsigned i = 0; i < mem->count && len != 0; i++) {
		const struct guest_mem_region *r = &mem->regions[i];
		uint64_t off = addr.value - r->base; /* wraps below base: then it is above size */
		if (off < r->size && len <= r->size - off)
			return r->hva + off;
	}
	return NULL;
}

int guest_mem_read(const struct guest_mem *mem, gpa_t addr, void *dst, uint64_t len)
{
	if (len == 0)
		return 0;
	const void *src = guest_mem_at(mem, addr, len);
	if (src == NULL)
		return -EFAULT;
	memcpy(dst, src, len);
	return 0;
}

int guest_mem_write(struct guest_mem *mem, gpa_t addr, const void *src, uint64_t len)
{
	if (len == 0)
		return 0;
	void *dst = guest_mem_at(mem, addr, len);
	if (dst == NULL)
		return -EFAULT;
	memcpy(dst, src, len);
	return 0;
}
