/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_elf.c - ELF files for x86. Which protocol starts them, best first:
 *   ELF64: PVH note, multiboot 2, multiboot 1, none (64 bits; this is also how a Linux vmlinux without a note starts)
 *   ELF32: multiboot 2, multiboot 1, PVH note, none (32 bits)
 * Without a protocol: RDI (EBX in 32 bits) = start_info, RSI = Linux zero page, RDX = device tree.
 * Segments go to their physical addresses. RAM is zero already, so .bss costs nothing.
 */
#include "load_internal.h"

#include "error.h"
#include "util.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>

#define PHNUM_MAX         512
#define NOTES_MAX         KiB(64) /* of one segment; more is not looked at */
#define NOTE_PHYS32_ENTRY 18      /* Xen's elfnote.h */
#define NO_ENTRY          UINT64_MAX

struct segment {
	uint64_t off, filesz, vaddr, paddr, memsz;
	int nr; /* in the program header table */
};

struct elf {
	bool is64;
	unsigned phnum, phentsize;
	uint64_t entry, phoff;
	uint64_t pvh_entry; /* or NO_ENTRY */
	unsigned count;
	struct segment segments[LOAD_SEGMENTS_MAX];
};

bool load_elf_probe(const struct load *l)
{
	return l->head_bytes >= SELFMAG && memcmp(l->head, ELFMAG, SELFMAG) == 0;
}

static const char *machine_name(unsigned machine)
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{EM_SPARC, "SPARC"},   {EM_386, "32-bit x86"}, {EM_68K, "m68k"},
		{EM_MIPS, "MIPS"},     {EM_PPC, "PowerPC"},    {EM_PPC64, "64-bit PowerPC"},
		{EM_S390, "s390"},     {EM_ARM, "32-bit ARM"}, {EM_SPARCV9, "64-bit SPARC"},
		{EM_IA_64, "Itanium"}, {EM_X86_64, "x86-64"},  {EM_AARCH64, "64-bit ARM"},
		{EM_RISCV, "RISC-V"},  {EM_BPF, "BPF"},        {258, "LoongArch"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i].machine == machine)
			return names[i].name;
	}
	return "unknown machine";
}

static int check_type(struct load *l, unsigned type)
{
	switch (type) {
	case ET_EXEC:
		return 0;
	case ET_REL:
		return error_set(l->err, -ENOEXEC, "an ELF object file or kernel module, not linked: link it first");
	case ET_DYN:
		return error_set(l->err, -ENOEXEC,
		                 "an ELF shared object or position-independent program: link it with -no-pie at a "
		                 "fixed address");
	case ET_CORE:
		return error_set(l->err, -ENOEXEC, "an ELF core dump, not a kernel");
	default:
		return error_set(l->err, -ENOEXEC, "an ELF file of unknown type %u, not a kernel", type);
	}
}

static int read_header(struct load *l, struct elf *elf)
{
	const uint8_t *h = l->head;
	if (l->head_bytes < sizeof(Elf32_Ehdr) || (h[EI_CLASS] == ELFCLASS64 && l->head_bytes < sizeof(Elf64_Ehdr)))
		return error_set(l->err, -ENOEXEC, "truncated: an ELF file with only %u bytes: copy it again",
		                 l->head_bytes);
	if (h[EI_CLASS] != ELFCLASS32 && h[EI_CLASS] != ELFCLASS64)
		return error_set(l->err, -ENOEXEC, "a damaged ELF file: its class is %u", h[EI_CLASS]);
	if (h[EI_DATA] != ELFDATA2LSB)
		return error_set(l->err, -ENOEXEC, "an ELF file for a big-endian machine: lull runs x86 kernels");
	elf->is64 = h[EI_CLASS] == ELFCLASS64;
	Elf64_Ehdr e64;
	Elf32_Ehdr e32;
	memcpy(&e64, h, sizeof(e64));
	memcpy(&e32, h, sizeof(e32));
	unsigned machine = elf->is64 ? e64.e_machine : e32.e_machine;
	if (machine != EM_X86_64 && (elf->is64 || machine != EM_386))
		return error_set(l->err, -ENOEXEC, "a %u-bit ELF file for %s (machine %u): lull runs x86 kernels",
		                 elf->is64 ? 64 : 32, machine_name(machine), machine);
	elf->entry = elf->is64 ? e64.e_entry : e32.e_entry;
	elf->phoff = elf->is64 ? e64.e_phoff : e32.e_phoff;
	elf->phnum = elf->is64 ? e64.e_phnum : e32.e_phnum;
	elf->phentsize = elf->is64 ? e64.e_phentsize : e32.e_phentsize;
	return check_type(l, elf->is64 ? e64.e_type : e32.e_type);
}

static int check_table(struct load *l, const struct elf *elf)
{
	size_t want = elf->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	if (elf->phnum == 0)
		return error_set(l->err, -ENOEXEC, "an ELF file without program headers: link it first");
	if (elf->phnum > PHNUM_MAX)
		return error_set(l->err, -ENOEXEC, "an ELF file with %u program headers, lull takes %u", elf->phnum,
		                 PHNUM_MAX);
	if (elf->phentsize != want)
		return error_set(l->err, -ENOEXEC, "a damaged ELF file: program headers of %u bytes, expected %zu",
		                 elf->phentsize, want);
	uint64_t end, bytes = elf->phnum * want;
	if (add_overflow(elf->phoff, bytes, &end) || end > l->req->kernel->size)
		return error_set(l->err, -ENOEXEC,
		                 "truncated: the program headers (%" PRIu64 " bytes at 0x%" PRIx64
		                 ") end beyond the file, which has %" PRIu64 " bytes: copy it again",
		                 bytes, elf->phoff, l->req->kernel->size);
	return 0;
}

/* The Xen note with the 32-bit entry point, in len bytes of notes whose parts are padded to align. */
static void scan_notes(struct elf *elf, const uint8_t *notes, uint64_t len, uint64_t align)
{
	uint64_t at = 0;
	while (len - at >= sizeof(Elf64_Nhdr)) {
		uint64_t name_bytes = get32(notes + at), desc_bytes = get32(notes + at + 4);
		uint32_t type = get32(notes + at + 8);
		uint64_t name = at + sizeof(Elf64_Nhdr);
		uint64_t desc = align_up(name + name_bytes, align); /* sums of 32-bit values: no overflow */
		if (desc > len || desc_bytes > len - desc)
			return;
		bool xen = name_bytes == 4 && memcmp(notes + name, "Xen", 4) == 0;
		if (xen && type == NOTE_PHYS32_ENTRY && (desc_bytes == 4 || desc_bytes == 8)) {
			elf->pvh_entry = desc_bytes == 4 ? get32(notes + desc) : get64(notes + desc);
			return;
		}
		at = align_up(desc + desc_bytes, align);
		if (at > len)
			return;
	}
}

static int read_notes(struct load *l, struct elf *elf, const struct segment *s)
{
	uint64_t len = s->filesz < NOTES_MAX ? s->filesz : NOTES_MAX;
	uint8_t *notes = malloc(len + 1);
	if (notes == NULL)
		return error_sys(l->err, -ENOMEM, "cannot read its notes");
	int ret = image_read(l->req->kernel, s->off, notes, len);
	if (ret == 0) {
		/* A segment aligned to 8 may hold notes padded to 4 or to 8. */
		scan_notes(elf, notes, len, 4);
		if (elf->pvh_entry == NO_ENTRY)
			scan_notes(elf, notes, len, 8);
	} else {
		ret = error_set(l->err, -ENOEXEC, "truncated: segment %d (notes) ends beyond the file: copy it again",
		                s->nr);
	}
	free(notes);
	return ret;
}

static int read_segment(struct load *l, const struct elf *elf, unsigned i, struct segment *s, uint32_t *type)
{
	Elf64_Phdr p64;
	Elf32_Phdr p32;
	uint64_t off = elf->phoff + (uint64_t)i * elf->phentsize;
	void *to = elf->is64 ? (void *)&p64 : (void *)&p32;
	int ret = image_read(l->req->kernel, off, to, elf->phentsize);
	if (ret != 0)
		return error_sys(l->err, ret, "cannot read its program headers");
	if (elf->is64) {
		*s = (struct segment){p64.p_offset, p64.p_filesz, p64.p_vaddr, p64.p_paddr, p64.p_memsz, (int)i};
		*type = p64.p_type;
	} else {
		*s = (struct segment){p32.p_offset, p32.p_filesz, p32.p_vaddr, p32.p_paddr, p32.p_memsz, (int)i};
		*type = p32.p_type;
	}
	return 0;
}

static int add_segment(struct load *l, struct elf *elf, const struct segment *s)
{
	if (s->filesz > s->memsz)
		return error_set(l->err, -ENOEXEC,
		                 "a damaged ELF file: segment %d has %" PRIu64 " bytes in the file but %" PRIu64
		                 " in memory",
		                 s->nr, s->filesz, s->memsz);
	if (s->memsz == 0)
		return 0;
	if (elf->count == LOAD_SEGMENTS_MAX)
		return error_set(l->err, -ENOEXEC, "an ELF file with more than %u segments to load", LOAD_SEGMENTS_MAX);
	elf->segments[elf->count++] = *s;
	return 0;
}

static int read_segments(struct load *l, struct elf *elf)
{
	for (unsigned i = 0; i < elf->phnum; i++) {
		struct segment s;
		uint32_t type = PT_NULL;
		int ret = read_segment(l, elf, i, &s, &type);
		if (ret == 0 && type == PT_INTERP)
			ret = error_set(l->err, -ENOEXEC, "a dynamically linked ELF program, not a kernel");
		else if (ret == 0 && type == PT_LOAD)
			ret = add_segment(l, elf, &s);
		else if (ret == 0 && type == PT_NOTE && elf->pvh_entry == NO_ENTRY)
			ret = read_notes(l, elf, &s);
		if (ret != 0)
			return ret;
	}
	if (elf->count == 0)
		return error_set(l->err, -ENOEXEC, "an ELF file with nothing to load: link it first");
	/* Some linkers leave the physical addresses out. */
	bool physical = false;
	for (unsigned i = 0; i < elf->count; i++)
		physical |= elf->segments[i].paddr != 0;
	for (unsigned i = 0; i < elf->count && !physical; i++)
		elf->segments[i].paddr = elf->segments[i].vaddr;
	return 0;
}

/* All claims first: a segment that does not fit is reported before anything big is read. */
static int load_segments(struct load *l, const struct elf *elf)
{
	int ret = 0;
	for (unsigned i = 0; ret == 0 && i < elf->count; i++) {
		const struct segment *s = &elf->segments[i];
		ret = load_claim(l, s->paddr, s->memsz, "segment", s->nr);
	}
	for (unsigned i = 0; ret == 0 && i < elf->count; i++) {
		const struct segment *s = &elf->segments[i];
		ret = load_copy(l, s->off, s->filesz, s->paddr, "segment", s->nr);
	}
	return ret;
}

/* An entry point is a physical address, or a virtual one inside a segment. */
static int resolve_entry(struct load *l, const struct elf *elf, const char *what, uint64_t *entry)
{
	bool found = load_claimed(l, *entry);
	for (unsigned i = 0; i < elf->count && !found; i++) {
		const struct segment *s = &elf->segments[i];
		if (*entry >= s->vaddr && *entry - s->vaddr < s->memsz) {
			*entry = *entry - s->vaddr + s->paddr;
			found = true;
		}
	}
	if (!found)
		return error_set(l->err, -ENOEXEC,
		                 "%s 0x%" PRIx64 " lies in no segment: link it with an entry point (ENTRY, -e)", what,
		                 *entry);
	if (*entry >= LOAD_REACH)
		return error_set(l->err, -ENOEXEC, "%s 0x%" PRIx64 " is above 4 GiB, lull starts kernels below", what,
		                 *entry);
	return 0;
}

/* No multiboot: PVH, or by lull's own rules. The registers suit all of them. */
static int start_plain(struct load *l, const struct elf *elf)
{
	bool pvh = elf->pvh_entry != NO_ENTRY;
	uint64_t entry = pvh ? elf->pvh_entry : elf->entry;
	int ret = load_segments(l, elf);
	if (ret == 0)
		ret = resolve_entry(l, elf, pvh ? "the PVH entry point" : "the entry point", &entry);
	if (ret == 0)
		ret = load_cmdline(l, NULL, UINT64_MAX);
	if (ret == 0)
		ret = load_initrd(l, PLACE_HIGH, LOAD_REACH);
	if (ret == 0)
		ret = load_start_info(l);
	if (ret == 0)
		ret = load_zero_page(l, NULL, 0, elf->segments[0].paddr);
	if (ret != 0)
		return ret;
	struct boot_state *out = l->out;
	bool long_mode = elf->is64 && !pvh;
	out->mode = long_mode ? BOOT_LONG : BOOT_PROTECTED;
	out->entry = entry;
	out->stack = MACHINE_BOOT_STACK;
	if (long_mode)
		out->rdi = MACHINE_BOOT_INFO;
	else
		out->rbx = MACHINE_BOOT_INFO;
	out->rsi = MACHINE_ZERO_PAGE;
	out->rdx = MACHINE_FDT;
	out->protocol = pvh ? "PVH" : elf->is64 ? "ELF64" : "ELF32";
	return 0;
}

static int start_multiboot(struct load *l, const struct elf *elf, int off, bool second)
{
	bool loaded = false;
	uint64_t entry = NO_ENTRY;
	int ret = second ? load_multiboot2_header(l, off, &loaded, &entry)
	                 : load_multiboot1_header(l, off, &loaded, &entry);
	if (ret == 0 && !loaded)
		ret = load_segments(l, elf);
	if (ret == 0 && !loaded) {
		entry = entry == NO_ENTRY ? elf->entry : entry;
		ret = resolve_entry(l, elf, "the entry point", &entry);
	}
	if (ret != 0)
		return ret;
	return second ? load_multiboot2_finish(l, entry) : load_multiboot1_finish(l, entry);
}

int load_elf(struct load *l)
{
	struct elf elf = {.pvh_entry = NO_ENTRY};
	int ret = read_header(l, &elf);
	if (ret == 0)
		ret = check_table(l, &elf);
	if (ret == 0)
		ret = read_segments(l, &elf);
	if (ret != 0)
		return ret;
	if (elf.is64 && elf.pvh_entry != NO_ENTRY)
		return start_plain(l, &elf);
	int off = load_multiboot2_probe(l);
	if (off >= 0)
		return start_multiboot(l, &elf, off, true);
	off = load_multiboot1_probe(l);
	if (off >= 0)
		return start_multiboot(l, &elf, off, false);
	return start_plain(l, &elf);
}
