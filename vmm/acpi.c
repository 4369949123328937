// SPDX-License-Identifier: Apache-2.0
/*
 * acpi.c - ACPI tables of the machine: RSDP, XSDT, FADT, FACS, MADT, DSDT. ACPI 6.4, chapter 5.
 *
 * Not hardware-reduced: with a PM block Linux reboots by the reset register, has a PM timer to check the APIC timer
 * with and a power button, and keeps legacy IRQ numbers. The machine is always in ACPI mode (SMI_CMD 0).
 */
#include "machine.h"

#include "acpi_dsdt.h"
#include "error.h"
#include "table_buf.h"
#include "util.h"

#include <errno.h>
#include <string.h>

#define PACKED __attribute__((packed))

struct PACKED acpi_rsdp {
	char signature[8];
	uint8_t checksum; /* of the first 20 bytes */
	char oem_id[6];
	uint8_t revision;
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t extended_checksum;
	uint8_t reserved[3];
};
#define RSDP_V1_BYTES 20

struct PACKED acpi_header {
	char signature[4];
	uint32_t length;
	uint8_t revision, checksum;
	char oem_id[6], oem_table_id[8];
	uint32_t oem_revision;
	char creator_id[4];
	uint32_t creator_revision;
};

/* Generic address structure: 5.2.3.2. */
struct PACKED acpi_gas {
	uint8_t space, bit_width, bit_offset, access; /* space 1: I/O; access 1: byte, 2: word, 3: dword */
	uint64_t address;
};

struct PACKED acpi_fadt {
	struct acpi_header header;
	uint32_t facs, dsdt;
	uint8_t int_model, profile;
	uint16_t sci;
	uint32_t smi_cmd;
	uint8_t acpi_enable, acpi_disable, s4bios_req, pstate_cnt;
	uint32_t pm1a_evt, pm1b_evt, pm1a_cnt, pm1b_cnt, pm2_cnt, pm_tmr, gpe0, gpe1;
	uint8_t pm1_evt_len, pm1_cnt_len, pm2_cnt_len, pm_tmr_len, gpe0_len, gpe1_len, gpe1_base, cst_cnt;
	uint16_t c2_latency, c3_latency, flush_size, flush_stride;
	uint8_t duty_offset, duty_width, day_alarm, month_alarm, century;
	uint16_t boot_flags;
	uint8_t reserved;
	uint32_t flags;
	struct acpi_gas reset_reg;
	uint8_t reset_value;
	uint16_t arm_boot_flags;
	uint8_t minor_version;
	uint64_t x_facs, x_dsdt;
	struct acpi_gas x_pm1a_evt, x_pm1b_evt, x_pm1a_cnt, x_pm1b_cnt, x_pm2_cnt, x_pm_tmr, x_gpe0, x_gpe1;
	struct acpi_gas sleep_control, sleep_status;
	uint64_t hypervisor;
};

struct PACKED acpi_facs {
	char signature[4];
	uint32_t length, hardware_signature, waking_vector, global_lock, flags;
	uint64_t x_waking_vector;
	uint8_t version, reserved[31];
};

_Static_assert(sizeof(struct acpi_rsdp) == 36, "5.2.5.3");
_Static_assert(sizeof(struct acpi_header) == 36, "5.2.6");
_Static_assert(sizeof(struct acpi_fadt) == 276, "5.2.9, revision 6");
_Static_assert(sizeof(struct acpi_facs) == 64, "5.2.10");

/* FADT flags: table 5-10. */
enum {
	FADT_WBINVD = 1u << 0,
	FADT_PROC_C1 = 1u << 2,
	FADT_SLP_BUTTON = 1u << 5, /* there is no fixed sleep button; PWR_BUTTON clear: there is a fixed power button */
	FADT_FIX_RTC = 1u << 6,    /* no RTC wake status in the PM block */
	FADT_TMR_VAL_EXT = 1u << 8,
	FADT_RESET_REG_SUP = 1u << 10,
	FADT_HEADLESS = 1u << 12,
};

/* IA-PC boot architecture flags: table 5-11. 8042 clear: Linux does not look for a keyboard, which takes it 0.5 s. */
enum {
	FADT_NO_VGA = 1u << 2,
	FADT_NO_ASPM = 1u << 4,
	FADT_NO_CMOS_RTC = 1u << 5,
};

enum {
	FADT_NO_C2 = 0xfff, /* above 100 us and 1000 us: not there */
	GAS_IO = 1,
};

/* MADT entries: 5.2.12. */
enum {
	MADT_LAPIC = 0,
	MADT_IOAPIC = 1,
	MADT_OVERRIDE = 2,
	MADT_LAPIC_NMI = 4,
	MADT_X2APIC = 9,
	MADT_X2APIC_NMI = 10,
	MADT_ENABLED = 1,
	MADT_ACTIVE_HIGH = 1,
	MADT_LEVEL = 3 << 2,
	MADT_ALL_XAPIC = 0xff,
	MADT_NMI_LINT = 1,
	XAPIC_IDS = 255, /* 255 is the broadcast address: that vCPU and the ones after it are x2APIC entries */
};

/* The devices that the tables cannot do without. */
struct acpi_board {
	const struct machine *machine;
	const struct machine_entry *pm, *lapic, *ioapic, *reset;
};

/* Starts a table; its address. */
static uint32_t table_begin(struct table_buf *buf, const char *signature, uint8_t revision)
{
	struct acpi_header header = {
		.revision = revision,
		.oem_id = {'L', 'U', 'L', 'L', ' ', ' '},
		.oem_table_id = {'M', 'I', 'C', 'R', 'O', 'V', 'M', ' '},
		.oem_revision = 1,
		.creator_id = {'L', 'U', 'L', 'L'},
		.creator_revision = 1,
	};
	size_t at;

	memcpy(header.signature, signature, sizeof(header.signature));
	table_buf_align(buf, 16);
	at = buf->used;
	table_buf_add(buf, &header, sizeof(header));
	return MACHINE_RSDP + (uint32_t)at;
}

/* Fills in length and checksum of the table at address, which ends here. */
static void table_end(struct table_buf *buf, uint32_t address)
{
	struct acpi_header *header;
	size_t at = address - MACHINE_RSDP;

	if (buf->overflow)
		return;
	header = (struct acpi_header *)(void *)(buf->data + at);
	header->length = (uint32_t)(buf->used - at);
	header->checksum = 0;
	header->checksum = table_checksum(header, header->length);
}

static uint32_t build_facs(struct table_buf *buf)
{
	struct acpi_facs facs = {.signature = {'F', 'A', 'C', 'S'}, .length = sizeof(facs), .version = 2};
	size_t at;

	table_buf_align(buf, 64);
	at = buf->used;
	table_buf_add(buf, &facs, sizeof(facs));
	return MACHINE_RSDP + (uint32_t)at;
}

static uint32_t build_dsdt(struct table_buf *buf, const struct machine *m)
{
	uint32_t address = table_begin(buf, "DSDT", 2);

	acpi_dsdt_write(m, buf);
	table_end(buf, address);
	return address;
}

static struct acpi_gas gas_io(uint64_t port, unsigned bytes, uint8_t access)
{
	return (struct acpi_gas){.space = GAS_IO, .bit_width = (uint8_t)(bytes * 8), .access = access, .address = port};
}

static uint32_t build_fadt(struct table_buf *buf, const struct acpi_board *board, uint32_t facs, uint32_t dsdt)
{
	uint64_t pm = board->pm->base;
	uint64_t evt = pm + (PORT_PM1_EVT - PORT_PM), cnt = pm + (PORT_PM1_CNT - PORT_PM),
		 tmr = pm + (PORT_PM_TMR - PORT_PM);
	uint32_t address = table_begin(buf, "FACP", 6);
	struct acpi_fadt fadt = {
		.facs = facs,
		.dsdt = dsdt,
		.sci = (uint16_t)board->pm->gsi,
		.pm1a_evt = (uint32_t)evt,
		.pm1a_cnt = (uint32_t)cnt,
		.pm_tmr = (uint32_t)tmr,
		.pm1_evt_len = 4,
		.pm1_cnt_len = 2,
		.pm_tmr_len = 4,
		.c2_latency = FADT_NO_C2,
		.c3_latency = FADT_NO_C2,
		.boot_flags = FADT_NO_VGA | FADT_NO_ASPM | FADT_NO_CMOS_RTC,
		.flags = FADT_WBINVD | FADT_PROC_C1 | FADT_SLP_BUTTON | FADT_FIX_RTC | FADT_TMR_VAL_EXT | FADT_HEADLESS,
		.x_dsdt = dsdt, /* x_facs stays 0: with both given, an OS may ignore either */
		.x_pm1a_evt = gas_io(evt, 4, 2),
		.x_pm1a_cnt = gas_io(cnt, 2, 2),
		.x_pm_tmr = gas_io(tmr, 4, 3),
	};

	if (board->reset) {
		fadt.flags |= FADT_RESET_REG_SUP;
		fadt.reset_reg = gas_io(board->reset->base, 1, 1);
		fadt.reset_value = ACPI_RESET_VALUE;
	}
	table_buf_add(buf, &fadt.facs, sizeof(fadt) - sizeof(fadt.header));
	table_end(buf, address);
	return address;
}

static void madt_cpu(struct table_buf *buf, uint32_t id)
{
	if (id < XAPIC_IDS) {
		table_buf_u8(buf, MADT_LAPIC);
		table_buf_u8(buf, 8);
		table_buf_u8(buf, (uint8_t)id); /* ACPI processor UID */
		table_buf_u8(buf, (uint8_t)id);
		table_buf_u32(buf, MADT_ENABLED);
		return;
	}
	table_buf_u8(buf, MADT_X2APIC);
	table_buf_u8(buf, 16);
	table_buf_u16(buf, 0);
	table_buf_u32(buf, id);
	table_buf_u32(buf, MADT_ENABLED);
	table_buf_u32(buf, id); /* ACPI processor UID */
}

static void madt_nmi(struct table_buf *buf, bool x2apic)
{
	table_buf_u8(buf, x2apic ? MADT_X2APIC_NMI : MADT_LAPIC_NMI);
	table_buf_u8(buf, x2apic ? 12 : 6);
	if (!x2apic)
		table_buf_u8(buf, MADT_ALL_XAPIC);
	table_buf_u16(buf, 0); /* trigger and polarity of the bus */
	if (x2apic)
		table_buf_u32(buf, UINT32_MAX);
	table_buf_u8(buf, MADT_NMI_LINT);
	if (x2apic)
		table_buf_add(buf, "\0\0\0", 3);
}

static uint32_t build_madt(struct table_buf *buf, const struct acpi_board *board)
{
	uint32_t address = table_begin(buf, "APIC", 5);
	unsigned vcpus = board->machine->vcpus;

	table_buf_u32(buf, (uint32_t)board->lapic->base);
	table_buf_u32(buf, 0); /* PCAT_COMPAT clear: there is no 8259 */
	for (uint32_t id = 0; id < vcpus; id++)
		madt_cpu(buf, id);

	table_buf_u8(buf, MADT_IOAPIC);
	table_buf_u8(buf, 12);
	table_buf_u8(buf, 0); /* ID: what the chip's register says after reset */
	table_buf_u8(buf, 0);
	table_buf_u32(buf, (uint32_t)board->ioapic->base);
	table_buf_u32(buf, 0); /* first GSI */

	table_buf_u8(buf, MADT_OVERRIDE); /* the SCI: ISA interrupts are edges unless told otherwise */
	table_buf_u8(buf, 10);
	table_buf_u8(buf, 0);
	table_buf_u8(buf, (uint8_t)board->pm->gsi);
	table_buf_u32(buf, (uint32_t)board->pm->gsi);
	table_buf_u16(buf, MADT_ACTIVE_HIGH | MADT_LEVEL);

	madt_nmi(buf, false);
	if (vcpus > XAPIC_IDS)
		madt_nmi(buf, true);
	table_end(buf, address);
	return address;
}

static void build_rsdp(struct table_buf *buf, uint32_t xsdt)
{
	struct acpi_rsdp rsdp = {
		.signature = {'R', 'S', 'D', ' ', 'P', 'T', 'R', ' '},
		.oem_id = {'L', 'U', 'L', 'L', ' ', ' '},
		.revision = 2,
		.length = sizeof(rsdp),
		.xsdt = xsdt,
	};

	if (buf->overflow)
		return;
	rsdp.checksum = table_checksum(&rsdp, RSDP_V1_BYTES);
	rsdp.extended_checksum = table_checksum(&rsdp, sizeof(rsdp));
	memcpy(buf->data, &rsdp, sizeof(rsdp));
}

/* What the tables need is there and fits their fields. */
static int acpi_board(struct acpi_board *board, const struct machine *m, struct lull_error *err)
{
	*board = (struct acpi_board){
		.machine = m,
		.pm = machine_find(m, MACHINE_PM, 0),
		.lapic = machine_find(m, MACHINE_LAPIC, 0),
		.ioapic = machine_find(m, MACHINE_IOAPIC, 0),
		.reset = machine_find(m, MACHINE_RESET, 0),
	};
	if (!board->pm || !board->lapic || !board->ioapic)
		return error_set(err, -EINVAL, "ACPI: a machine needs a PM block, a local APIC and an IOAPIC");
	if (board->pm->is_mmio || board->pm->gsi < 0)
		return error_set(err, -EINVAL, "ACPI: the PM block needs I/O ports and a GSI");
	return acpi_dsdt_check(m, err);
}

int acpi_build(const struct machine *m, void *buf, size_t size, struct lull_error *err)
{
	static const struct acpi_rsdp room;
	struct acpi_board board;
	struct table_buf tables;
	uint32_t facs, dsdt, fadt, madt, xsdt;
	int ret = acpi_board(&board, m, err);

	if (ret)
		return ret;
	table_buf_init(&tables, buf, size);
	table_buf_add(&tables, &room, sizeof(room));
	facs = build_facs(&tables);
	dsdt = build_dsdt(&tables, m);
	fadt = build_fadt(&tables, &board, facs, dsdt);
	madt = build_madt(&tables, &board);
	xsdt = table_begin(&tables, "XSDT", 1);
	table_buf_u64(&tables, fadt);
	table_buf_u64(&tables, madt);
	table_end(&tables, xsdt);
	build_rsdp(&tables, xsdt);
	if (tables.overflow)
		return error_set(err, -E2BIG, "ACPI: tables for %u vCPUs need more than %zu bytes", m->vcpus, size);
	return (int)tables.used;
}

/* A table of at least min bytes at a guest-physical address inside the image. */
static const void *image_at(const void *image, size_t size, uint64_t address, size_t min)
{
	uint64_t at = address - MACHINE_RSDP;

	if (at > size || size - at < min)
		return NULL;
	return (const uint8_t *)image + at;
}

/* FACS and the others have signature and length alike: 8 bytes are enough to tell. */
static const void *image_table(const void *image, size_t size, uint64_t address, const char *signature, size_t *bytes)
{
	const struct acpi_header *table = image_at(image, size, address, 8);

	if (!table || memcmp(table->signature, signature, sizeof(table->signature)) != 0 ||
	    !image_at(image, size, address, table->length))
		return NULL;
	*bytes = table->length;
	return table;
}

const void *acpi_find(const void *image, size_t size, const char *signature, size_t *bytes)
{
	const struct acpi_rsdp *rsdp = image;
	const struct acpi_fadt *fadt;
	const struct acpi_header *xsdt;
	const void *found;
	size_t len;

	if (size < sizeof(*rsdp) || strlen(signature) != 4)
		return NULL;
	if (memcmp(signature, rsdp->signature, 4) == 0) {
		*bytes = rsdp->length;
		return rsdp;
	}
	xsdt = image_table(image, size, rsdp->xsdt, "XSDT", &len);
	if (!xsdt || memcmp(signature, "XSDT", 4) == 0) {
		*bytes = xsdt ? len : 0;
		return xsdt;
	}
	for (size_t i = sizeof(*xsdt); i + 8 <= len; i += 8) {
		uint64_t address;

		memcpy(&address, (const uint8_t *)xsdt + i, sizeof(address));
		found = image_table(image, size, address, signature, bytes);
		if (found)
			return found;
		fadt = image_table(image, size, address, "FACP", bytes);
		if (!fadt)
			continue;
		found = image_table(image, size, fadt->x_dsdt, signature, bytes);
		if (!found)
			found = image_table(image, size, fadt->facs, signature, bytes);
		if (found)
			return found;
	}
	return NULL;
}
