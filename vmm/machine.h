/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - the one description of the board: every address, interrupt and device. ACPI, the flattened device tree,
 * the MP table, e820 and `lull dump machine` are written from it and from nothing else.
 */
#ifndef LULL_MACHINE_H
#define LULL_MACHINE_H

#include "guest_mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_error;

/* ---- where things live in the first megabyte and below 4 GiB ---- */
enum {
	MACHINE_BOOT_INFO = 0x6000,   /* PVH start_info, multiboot information: 4 KiB */
	MACHINE_ZERO_PAGE = 0x7000,   /* Linux boot_params: 4 KiB */
	MACHINE_BOOT_STACK = 0x8ff0,  /* stack pointer at entry, 4 KiB below it */
	MACHINE_PAGE_TABLES = 0x9000, /* identity map of 4 GiB: 6 pages */
	MACHINE_GDT = 0xf000,         /* boot GDT: one page */
	MACHINE_CMDLINE = 0x10000,    /* 64 KiB at most, NUL included */
	MACHINE_CMDLINE_MAX = 0x10000,
	MACHINE_FDT = 0x20000, /* 128 KiB at most */
	MACHINE_FDT_MAX = 0x20000,
	MACHINE_LOW_FREE = 0x40000, /* flat images and low segments may use from here to MACHINE_EBDA */
	MACHINE_EBDA = 0x9fc00,     /* end of usable low memory */
	MACHINE_RSDP = 0xe0000,     /* ACPI tables follow it: 64 KiB */
	MACHINE_ACPI_MAX = 0x10000,
	MACHINE_MPTABLE = 0xf0000, /* MP floating pointer, then the table: 60 KiB at most */
	MACHINE_MPTABLE_MAX = 0xf000,
	MACHINE_RESET_STUB = 0xffff0, /* real-mode code that resets: what a jump to FFFF:0000 meets */
	MACHINE_HIGH_BASE = 0x100000,
};

#define MACHINE_VIRTIO_BASE  0xd0000000ull /* slot n: + n * 0x1000 */
#define MACHINE_VIRTIO_SIZE  0x1000ull
#define MACHINE_VIRTIO_GSI   16 /* slot n: pin 16 + n */
#define MACHINE_VIRTIO_SLOTS 8

/* ---- I/O ports ---- */
enum {
	PORT_I8042_DATA = 0x60,    /* 1 byte */
	PORT_SYSTEM_B = 0x61,      /* 1 byte */
	PORT_I8042_COMMAND = 0x64, /* 1 byte */
	PORT_DEBUG_CONSOLE = 0xe9,
	PORT_DEBUG_EXIT = 0xf4,   /* isa-debug-exit, 4 bytes */
	PORT_COM1 = 0x3f8,        /* 8 bytes, GSI 4 */
	PORT_DEBUG_EXIT2 = 0x501, /* isa-debug-exit at QEMU's default, 2 bytes */
	PORT_PVPANIC = 0x505,
	PORT_FW_CFG = 0x510, /* selector, data at + 1 */
	PORT_PM = 0x600,     /* PM1a event 0x600 (4), PM1a control 0x604 (2), PM timer 0x608 (4) */
	PORT_PM1_EVT = 0x600,
	PORT_PM1_CNT = 0x604,
	PORT_PM_TMR = 0x608,
	PORT_RESET = 0xcf9, /* also FADT RESET_REG, value 6 */
	PORT_SHUTDOWN = 0x8900,
};

enum {
	GSI_COM1 = 4,
	GSI_SCI = 9,
};

enum {
	ACPI_S5_TYPE = 5, /* SLP_TYP value for \_S5 */
	ACPI_RESET_VALUE = 6,
};

enum machine_kind {
	MACHINE_SERIAL,
	MACHINE_VIRTIO_MMIO,
	MACHINE_PVPANIC,
	MACHINE_FW_CFG,
	MACHINE_I8042,
	MACHINE_PORT_B,
	MACHINE_PM,
	MACHINE_RESET,
	MACHINE_DEBUG_EXIT,
	MACHINE_DEBUG_CONSOLE,
	MACHINE_SHUTDOWN,
	MACHINE_LAPIC,
	MACHINE_IOAPIC,
	MACHINE_CUSTOM, /* an embedder's device: shown, not described to the guest */
	MACHINE_KINDS
};

struct machine_entry {
	enum machine_kind kind;
	const char *name; /* must outlive the machine */
	bool is_mmio;
	uint64_t base, size;
	int gsi; /* IOAPIC pin, -1: none */
	bool level;
};

#define MACHINE_ENTRIES_MAX 64

/* Written while a VM is set up, constant after. */
struct machine {
	unsigned vcpus;   /* APIC ID of vCPU n is n */
	uint64_t tsc_khz; /* 0: unknown */
	unsigned ram_count;
	struct {
		uint64_t base, size;
	} ram[GUEST_MEM_REGIONS];
	uint64_t initrd_base, initrd_bytes; /* 0: none */
	const char *cmdline;                /* NULL: empty; must outlive the machine */
	unsigned count;
	struct machine_entry entries[MACHINE_ENTRIES_MAX]; /* in the order they were added */
};

/* Takes the RAM layout that guest_mem_init() makes for ram_bytes; no entries yet. */
void machine_init(struct machine *m, unsigned vcpus, uint64_t ram_bytes);
/* -EEXIST when ports, memory or the GSI of another entry are taken (a pin has one owner: levels are not ORed), naming
 * both; -EINVAL for an empty or wrapping range, one beyond the I/O ports, or a GSI that no pin has; -ENOSPC when full.
 */
int machine_add(struct machine *m, const struct machine_entry *entry, struct lull_error *err);
/* The nth entry of that kind, from 0, or NULL. */
const struct machine_entry *machine_find(const struct machine *m, enum machine_kind kind, unsigned nth);
const char *machine_kind_name(enum machine_kind kind);

/* ---- the writers; all pure ---- */

enum {
	E820_RAM = 1,
	E820_RESERVED = 2, /* the tables too: the FACS must outlive what an OS may reclaim */
};

struct e820_entry {
	uint64_t addr, size;
	uint32_t type;
};
#define E820_MAX 16
/* Sorted, without overlap; number of entries. */
unsigned machine_e820(const struct machine *m, struct e820_entry out[E820_MAX]);

/* Tables as they go to MACHINE_RSDP: RSDP first, addresses inside are guest-physical, only the bytes used are written.
 * Bytes used; -E2BIG; -EINVAL when the machine lacks a PM block, a local APIC or an IOAPIC, or a device lies where AML
 * cannot say it. */
int acpi_build(const struct machine *m, void *buf, size_t size, struct lull_error *err);
/* One table out of such an image by signature ("FACP", "DSDT", "APIC", "XSDT", "FACS", "RSD "); NULL: not there. */
const void *acpi_find(const void *image, size_t size, const char *signature, size_t *bytes);

/* A flattened device tree, at most size bytes: bytes used, or -E2BIG. fdt_room() bytes are always enough, and little
 * more than that is used. */
size_t fdt_room(const struct machine *m);
int fdt_build(const struct machine *m, void *buf, size_t size, struct lull_error *err);

/* MP floating pointer structure and configuration table as they go to MACHINE_MPTABLE (MP specification 1.4, chapter
 * 4). CPUs with an APIC ID above 254 cannot be described there and are left out. */
int mptable_build(const struct machine *m, void *buf, size_t size, struct lull_error *err);

/* Writes ACPI tables, device tree, MP table and the reset stub to their places in guest memory. No vCPU runs. -EFAULT:
 * RAM ends below 1 MiB. */
int boot_tables_write(const struct machine *m, struct guest_mem *mem, struct lull_error *err);

/* Text for people: lull dump machine / e820. malloc()ed, NULL when out of memory. */
char *machine_text(const struct machine *m);
char *e820_text(const struct machine *m);

#endif
