/* SPDX-License-Identifier: Apache-2.0 */
/* acpi_dsdt.h - the body of the DSDT: what of the machine is said in AML. For acpi.c only. */
#ifndef LULL_ACPI_DSDT_H
#define LULL_ACPI_DSDT_H

#include "machine.h"
#include "table_buf.h"

/* -EINVAL: a device lies where its descriptor cannot say it. */
int acpi_dsdt_check(const struct machine *m, struct lull_error *err);
void acpi_dsdt_write(const struct machine *m, struct table_buf *buf);

#endif
