// SPDX-License-Identifier: Apache-2.0
/* aml.c - a very small AML encoder. */
#include "aml.h"

#include "util.h"

#include <stdlib.h>
#include <string.h>

enum {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a,
	AML_WORD = 0x0b,
	AML_DWORD = 0x0c,
	AML_STRING = 0x0d,
	AML_QWORD = 0x0e,
	AML_SCOPE = 0x10,
	AML_BUFFER = 0x11,
	AML_PACKAGE = 0x12,
	AML_EXTENDED = 0x5b,
	AML_DEVICE = 0x82, /* after AML_EXTENDED */
};

/* Resource descriptors: 6.4.2 small, 6.4.3 large. */
enum {
	RES_IRQ = 0x22, /* two bytes: edge, active high, exclusive */
	RES_IO = 0x47,
	RES_END = 0x79,
	RES_MEMORY32 = 0x86,
	RES_INTERRUPT = 0x89,
	RES_IO_DECODE16 = 1,
	RES_MEMORY_WRITABLE = 1,
	RES_INTERRUPT_CONSUMER = 1u << 0,
	RES_INTERRUPT_EDGE = 1u << 1,
};

/* ---- data ---- */

void aml_integer(struct table_buf *buf, uint64_t value)
{
	if (value <= 1) {
		table_buf_u8(buf, value ? AML_ONE : AML_ZERO);
	} else if (value <= UINT8_MAX) {
		table_buf_u8(buf, AML_BYTE);
		table_buf_u8(buf, (uint8_t)value);
	} else if (value <= UINT16_MAX) {
		table_buf_u8(buf, AML_WORD);
		table_buf_u16(buf, (uint16_t)value);
	} else if (value <= UINT32_MAX) {
		table_buf_u8(buf, AML_DWORD);
		table_buf_u32(buf, (uint32_t)value);
	} else {
		table_buf_u8(buf, AML_QWORD);
		table_buf_u64(buf, value);
	}
}

static void aml_name_string_term(struct table_buf *buf, const char *name)
{
	char segment[4] = {'_', '_', '_', '_'};
	size_t len;

	if (*name == '\\')
		table_buf_u8(buf, (uint8_t)*name++);
	len = strlen(name);
	invariant(len >= 1 && len <= sizeof(segment));
	memcpy(segment, name, len);
	table_buf_add(buf, segment, sizeof(segment));
}

void aml_name(struct table_buf *buf, const char *name)
{
	table_buf_u8(buf, AML_NAME);
	aml_name_string_term(buf, name);
}

void aml_name_integer(struct table_buf *buf, const char *name, uint64_t value)
{
	aml_name(buf, name);
	aml_integer(buf, value);
}

void aml_name_string(struct table_buf *buf, const char *name, const char *value)
{
	aml_name(buf, name);
	table_buf_u8(buf, AML_STRING);
	table_buf_add(buf, value, strlen(value) + 1);
}

/* Three letters of 5 bits, then four hex digits, most significant byte first: 19.3.4. */
void aml_name_eisa_id(struct table_buf *buf, const char *name, const char *id)
{
	uint16_t letters = 0;
	unsigned long product;

	invariant(strlen(id) == 7);
	for (int i = 0; i < 3; i++)
		letters = (uint16_t)(letters << 5 | (id[i] & 0x1f));
	product = strtoul(id + 3, NULL, 16);

	aml_name(buf, name);
	table_buf_u8(buf, AML_DWORD);
	table_buf_u8(buf, (uint8_t)(letters >> 8));
	table_buf_u8(buf, (uint8_t)letters);
	table_buf_u8(buf, (uint8_t)(product >> 8));
	table_buf_u8(buf, (uint8_t)product);
}

/* ---- things with a length ---- */

/* PkgLength counts itself: 20.2.4. */
void aml_end(struct table_buf *buf, size_t mark)
{
	size_t len = buf->used - mark;
	uint8_t bytes[4];
	unsigned extra; /* bytes after the first */

	if (buf->overflow)
		return;
	if (len + 1 < 1u << 6) {
		bytes[0] = (uint8_t)(len + 1);
		table_buf_insert(buf, mark, bytes, 1);
		return;
	}
	for (extra = 1; len + 1 + extra >= 1ull << (4 + 8 * extra); extra++)
		invariant(extra < 3);
	len += 1 + extra;
	bytes[0] = (uint8_t)(extra << 6 | (len & 0xf));
	for (unsigned i = 1; i <= extra; i++)
		bytes[i] = (uint8_t)(len >> (8 * i - 4));
	table_buf_insert(buf, mark, bytes, 1 + extra);
}

void aml_package(struct table_buf *buf, const uint8_t *values, size_t count)
{
	size_t mark;

	invariant(count <= UINT8_MAX);
	table_buf_u8(buf, AML_PACKAGE);
	mark = buf->used;
	table_buf_u8(buf, (uint8_t)count);
	for (size_t i = 0; i < count; i++)
		aml_integer(buf, values[i]);
	aml_end(buf, mark);
}

size_t aml_begin_scope(struct table_buf *buf, const char *name)
{
	size_t mark;

	table_buf_u8(buf, AML_SCOPE);
	mark = buf->used;
	aml_name_string_term(buf, name);
	return mark;
}

size_t aml_begin_device(struct table_buf *buf, const char *name)
{
	size_t mark;

	table_buf_u8(buf, AML_EXTENDED);
	table_buf_u8(buf, AML_DEVICE);
	mark = buf->used;
	aml_name_string_term(buf, name);
	return mark;
}

/* ---- resources ---- */

size_t aml_begin_resources(struct table_buf *buf)
{
	aml_name(buf, "_CRS");
	table_buf_u8(buf, AML_BUFFER);
	return buf->used;
}

void aml_end_resources(struct table_buf *buf, size_t mark)
{
	uint8_t data[8];
	struct table_buf length;

	table_buf_u8(buf, RES_END);
	table_buf_u8(buf, 0); /* checksum 0: not used, 6.4.2.9 */
	if (buf->overflow)
		return;
	table_buf_init(&length, data, sizeof(data));
	aml_integer(&length, buf->used - mark);
	table_buf_insert(buf, mark, data, length.used);
	aml_end(buf, mark);
}

void aml_io(struct table_buf *buf, uint16_t base, uint8_t length)
{
	table_buf_u8(buf, RES_IO);
	table_buf_u8(buf, RES_IO_DECODE16);
	table_buf_u16(buf, base);
	table_buf_u16(buf, base);
	table_buf_u8(buf, 1);
	table_buf_u8(buf, length);
}

void aml_memory32(struct table_buf *buf, uint32_t base, uint32_t length)
{
	table_buf_u8(buf, RES_MEMORY32);
	table_buf_u16(buf, 9);
	table_buf_u8(buf, RES_MEMORY_WRITABLE);
	table_buf_u32(buf, base);
	table_buf_u32(buf, length);
}

void aml_irq(struct table_buf *buf, unsigned irq)
{
	invariant(irq < 16);
	table_buf_u8(buf, RES_IRQ);
	table_buf_u16(buf, (uint16_t)(1u << irq));
}

void aml_interrupt(struct table_buf *buf, uint32_t gsi, bool level)
{
	table_buf_u8(buf, RES_INTERRUPT);
	table_buf_u16(buf, 6);
	table_buf_u8(buf, (uint8_t)(RES_INTERRUPT_CONSUMER | (level ? 0 : RES_INTERRUPT_EDGE)));
	table_buf_u8(buf, 1);
	table_buf_u32(buf, gsi);
}
