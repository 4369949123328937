/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acpi_pm.h - the fixed hardware of a non-reduced ACPI machine: PM1a event and control block, 32-bit PM timer, power
 * button. ACPI 6.4, 4.8.3. Always in ACPI mode: SCI_EN reads 1.
 */
#ifndef LULL_ACPI_PM_H
#define LULL_ACPI_PM_H

#include "bus.h"
#include "irq.h"

#include <stdbool.h>
#include <stdint.h>

#define ACPI_PM_PORTS    12
#define ACPI_PM_TIMER_HZ 3579545

/* Offsets in the window. */
enum {
	ACPI_PM1_STS = 0, /* 2 bytes, write 1 to clear */
	ACPI_PM1_EN = 2,  /* 2 bytes */
	ACPI_PM1_CNT = 4, /* 2 bytes */
	ACPI_PM_TMR = 8,  /* 4 bytes, read only */
};

/* PM1 status and enable bits. */
enum {
	ACPI_PM1_TMR = 1u << 0,
	ACPI_PM1_BM = 1u << 4, /* status only; never set here */
	ACPI_PM1_GBL = 1u << 5,
	ACPI_PM1_PWRBTN = 1u << 8,
	ACPI_PM1_SLPBTN = 1u << 9,
	ACPI_PM1_RTC = 1u << 10,
	ACPI_PM1_WAK = 1u << 15, /* status only; never set here */
};

/* PM1 control bits. */
enum {
	ACPI_PM1_SCI_EN = 1u << 0,
	ACPI_PM1_BM_RLD = 1u << 1,
	ACPI_PM1_GBL_RLS = 1u << 2,
	ACPI_PM1_SLP_TYP_SHIFT = 10, /* 3 bits */
	ACPI_PM1_SLP_EN = 1u << 13,
};

struct acpi_pm;

struct acpi_pm_config {
	struct irq_line sci;           /* level = some status bit is set and enabled */
	unsigned s5_type;              /* the SLP_TYP value that \_S5 names; others are ignored */
	void (*power_off)(void *ctx);  /* on the vCPU thread that wrote SLP_EN, no lock held; may not block */
	uint64_t (*now_ns)(void *ctx); /* a monotonic clock; called with the lock held, on any thread */
	void *ctx;
};

struct acpi_pm *acpi_pm_create(const struct acpi_pm_config *config); /* NULL: out of memory */
void acpi_pm_destroy(struct acpi_pm *pm);                            /* NULL is fine */
void acpi_pm_reset(struct acpi_pm *pm); /* status, enable, control and the SCI fall; the timer runs on */

/* Presses the button. Any thread. True when the guest has it enabled, so that there is hope for a reaction. */
bool acpi_pm_power_button(struct acpi_pm *pm);

/* For a region of ACPI_PM_PORTS bytes; widths 1, 2 and 4, also across registers. The timer's status bit (bit 31 has
 * toggled) is brought up to date when the guest looks, so TMR_EN alone raises no SCI on time. */
extern const struct bus_ops acpi_pm_ops;

#endif
