// SPDX-License-Identifier: Apache-2.0
/* table_buf.c - appending to a bounded buffer. Knows nothing of tables. */
#include "table_buf.h"

#include <string.h>

void table_buf_init(struct table_buf *buf, void *data, size_t size)
{
	*buf = (struct table_buf){.data = data, .size = size};
}

static bool table_buf_room(struct table_buf *buf, size_t len)
{
	if (buf->overflow || len > buf->size - buf->used)
		buf->overflow = true;
	return !buf->overflow;
}

void table_buf_add(struct table_buf *buf, const void *bytes, size_t len)
{
	if (!table_buf_room(buf, len))
		return;
	memcpy(buf->data + buf->used, bytes, len);
	buf->used += len;
}

void table_buf_u8(struct table_buf *buf, uint8_t value)
{
	table_buf_add(buf, &value, sizeof(value));
}

void table_buf_u16(struct table_buf *buf, uint16_t value)
{
	table_buf_add(buf, &value, sizeof(value));
}

void table_buf_u32(struct table_buf *buf, uint32_t value)
{
	table_buf_add(buf, &value, sizeof(value));
}

void table_buf_u64(struct table_buf *buf, uint64_t value)
{
	table_buf_add(buf, &value, sizeof(value));
}

void table_buf_insert(struct table_buf *buf, size_t at, const void *bytes, size_t len)
{
	if (!table_buf_room(buf, len))
		return;
	memmove(buf->data + at + len, buf->data + at, buf->used - at);
	memcpy(buf->data + at, bytes, len);
	buf->used += len;
}

void table_buf_align(struct table_buf *buf, size_t align)
{
	while (buf->used % align && !buf->overflow)
		table_buf_u8(buf, 0);
}

uint8_t table_checksum(const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint8_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + bytes[i]);
	return (uint8_t)-sum;
}
