/* SPDX-License-Identifier: Apache-2.0 */
/* boot.c - from the entry stub to main(): who loaded us, command line, memory map, modules. */
#include "internal.h"

struct boot boot;

struct pvh_start_info {
	uint32_t magic, version, flags, modules;
	uint64_t modlist, cmdline, rsdp, memmap;
	uint32_t memmap_entries, reserved;
};
struct pvh_module {
	uint64_t base, size, cmdline, reserved;
};
struct pvh_memory {
	uint64_t base, size;
	uint32_t type, reserved;
};
struct multiboot_info {
	uint32_t flags, mem_lower, mem_upper, boot_device, cmdline, mods_count, mods_addr, syms[4], mmap_length,
		mmap_addr;
};
struct multiboot_mmap {
	uint32_t size;
	uint64_t base, length;
	uint32_t type;
} __attribute__((packed));
struct e820_entry {
	uint64_t base, size;
	uint32_t type;
} __attribute__((packed));

enum {
	PVH_MAGIC = 0x336ec578,
	MULTIBOOT_MAGIC = 0x2badb002,
	HDRS = 0x53726448,
	BP_RSDP = 0x70,
	BP_E820_COUNT = 0x1e8,
	BP_HEADER = 0x202,
	BP_RAMDISK = 0x218,
	BP_CMDLINE = 0x228,
	BP_E820 = 0x2d0,
};

static uint32_t get32(uint64_t addr)
{
	return *(const uint32_t *)addr;
}

static bool is_ram(uint64_t addr)
{
	return addr != 0 && addr < 0x40000000;
}

static void read_start_info(uint64_t addr)
{
	const struct pvh_start_info *si = (const struct pvh_start_info *)addr;

	boot.protocol = BOOT_PVH;
	boot.info = addr;
	check_eq(si->magic, PVH_MAGIC);
	boot.rsdp = si->rsdp;
	if (si->cmdline != 0)
		boot.cmdline = (const char *)si->cmdline;
}

static void read_multiboot(uint64_t addr)
{
	const struct multiboot_info *mb = (const struct multiboot_info *)addr;

	boot.protocol = BOOT_MULTIBOOT;
	boot.info = addr;
	if (mb->flags & 4)
		boot.cmdline = (const char *)(uint64_t)mb->cmdline;
}

static void read_boot_params(uint64_t addr)
{
	boot.protocol = BOOT_LINUX;
	boot.info = addr;
	boot.rsdp = *(const uint64_t *)(addr + BP_RSDP);
	if (get32(addr + BP_CMDLINE) != 0)
		boot.cmdline = (const char *)(uint64_t)get32(addr + BP_CMDLINE);
}

static void boot_read(void)
{
	boot.cmdline = "";
	boot.long_mode = boot_entry_is_long;
	if (!boot.long_mode) {
		if ((uint32_t)boot_entry[0] == MULTIBOOT_MAGIC)
			read_multiboot((uint32_t)boot_entry[1]);
		else
			read_start_info((uint32_t)boot_entry[1]);
		return;
	}
	boot.protocol = BOOT_BARE;
	boot.rsi = boot_entry[2];
	boot.rdi = boot_entry[3];
	boot.rdx = boot_entry[4];
	if (is_ram(boot.rdi) && get32(boot.rdi) == PVH_MAGIC)
		read_start_info(boot.rdi);
	else if (is_ram(boot.rsi) && get32(boot.rsi + BP_HEADER) == HDRS)
		read_boot_params(boot.rsi);
}

bool boot_memory(unsigned n, struct memory_range *out)
{
	const struct multiboot_info *mb = (const struct multiboot_info *)boot.info;
	const struct pvh_start_info *si = (const struct pvh_start_info *)boot.info;
	const struct pvh_memory *pm;
	const struct e820_entry *e;
	const struct multiboot_mmap *mm;
	uint64_t at;

	switch (boot.protocol) {
	case BOOT_PVH:
		if (si->version < 1 || n >= si->memmap_entries)
			return false;
		pm = (const struct pvh_memory *)si->memmap + n;
		*out = (struct memory_range){pm->base, pm->size, pm->type};
		return true;
	case BOOT_LINUX:
		if (n >= *(const uint8_t *)(boot.info + BP_E820_COUNT))
			return false;
		e = (const struct e820_entry *)(boot.info + BP_E820) + n;
		*out = (struct memory_range){e->base, e->size, e->type};
		return true;
	case BOOT_MULTIBOOT:
		if (!(mb->flags & 1 << 6))
			return false;
		for (at = mb->mmap_addr; at < (uint64_t)mb->mmap_addr + mb->mmap_length; at += mm->size + 4) {
			mm = (const struct multiboot_mmap *)at;
			if (n-- == 0) {
				*out = (struct memory_range){mm->base, mm->length, mm->type};
				return true;
			}
		}
		return false;
	case BOOT_BARE:
		break;
	}
	return false;
}

bool boot_module(uint64_t *base, uint64_t *bytes)
{
	const struct multiboot_info *mb = (const struct multiboot_info *)boot.info;
	const struct pvh_start_info *si = (const struct pvh_start_info *)boot.info;

	*bytes = 0;
	if (boot.protocol == BOOT_PVH && si->modules > 0) {
		*base = ((const struct pvh_module *)si->modlist)->base;
		*bytes = ((const struct pvh_module *)si->modlist)->size;
	} else if (boot.protocol == BOOT_MULTIBOOT && mb->flags & 8 && mb->mods_count > 0) {
		*base = get32(mb->mods_addr);
		*bytes = get32(mb->mods_addr + 4) - *base;
	} else if (boot.protocol == BOOT_LINUX) {
		*base = get32(boot.info + BP_RAMDISK);
		*bytes = get32(boot.info + BP_RAMDISK + 4);
	}
	return *bytes != 0;
}

const char *param(const char *name)
{
	const char *p = boot.cmdline, *n;

	while (*p != '\0') {
		n = name;
		while (*n != '\0' && *p == *n) {
			n++;
			p++;
		}
		if (*n == '\0' && *p == '=')
			return p + 1;
		while (*p != '\0' && *p != ' ')
			p++;
		while (*p == ' ')
			p++;
	}
	return "";
}

bool param_is(const char *name, const char *value)
{
	const char *p = param(name);

	while (*value != '\0' && *p == *value) {
		p++;
		value++;
	}
	return *value == '\0' && (*p == '\0' || *p == ' ');
}

static unsigned digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

uint64_t param_u64(const char *name, uint64_t otherwise)
{
	const char *p = param(name);
	uint64_t v = 0;
	unsigned base = 10, digit;

	if (*p < '0' || *p > '9')
		return otherwise;
	if (p[0] == '0' && p[1] == 'x') {
		base = 16;
		p += 2;
	}
	for (;; p++) {
		digit = digit_of(*p);
		if (digit >= base)
			return v;
		v = v * base + digit;
	}
}

void guest_start(void)
{
	struct cpu *cpu = this_cpu();

	cpu->id = 0;
	cpu->resume = 0;
	cpu_load_tss();
	boot_read();
	guest_exit((unsigned)main());
}
