/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aml.h - the few ACPI machine language terms a microVM needs, written into a table_buf. ACPI 6.4, 20.2 (terms) and 6.4
 * (resource descriptors). Pure.
 *
 * What has a length is begun and ended: begin returns a mark for its end. Names have up to 4 characters and are padded
 * with '_'; a leading '\' means the root.
 */
#ifndef LULL_AML_H
#define LULL_AML_H

#include "table_buf.h"

void aml_integer(struct table_buf *buf, uint64_t value);
void aml_name(struct table_buf *buf, const char *name); /* Name (name, ...): one term follows */
void aml_name_integer(struct table_buf *buf, const char *name, uint64_t value);
void aml_name_string(struct table_buf *buf, const char *name, const char *value); /* ASCII */
void aml_name_eisa_id(struct table_buf *buf, const char *name, const char *id);   /* "PNP0501" */
void aml_package(struct table_buf *buf, const uint8_t *values, size_t count);     /* of small integers */

size_t aml_begin_scope(struct table_buf *buf, const char *name);
size_t aml_begin_device(struct table_buf *buf, const char *name);
void aml_end(struct table_buf *buf, size_t mark);

/* Name (_CRS, ResourceTemplate () { ... }) */
size_t aml_begin_resources(struct table_buf *buf);
void aml_io(struct table_buf *buf, uint16_t base, uint8_t length);
void aml_memory32(struct table_buf *buf, uint32_t base, uint32_t length);
void aml_irq(struct table_buf *buf, unsigned irq);                   /* 0-15: edge, active high, exclusive */
void aml_interrupt(struct table_buf *buf, uint32_t gsi, bool level); /* active high, exclusive */
void aml_end_resources(struct table_buf *buf, size_t mark);

#endif
