/* SPDX-License-Identifier: Apache-2.0 */
/* table_buf.h - a bounded buffer that firmware tables are appended to. Overflow is remembered, not reported at each
 * step: once it has happened nothing more is written. */
#ifndef LULL_TABLE_BUF_H
#define LULL_TABLE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_buf {
	uint8_t *data;
	size_t size, used;
	bool overflow;
};

void table_buf_init(struct table_buf *buf, void *data, size_t size);
void table_buf_add(struct table_buf *buf, const void *bytes, size_t len);
void table_buf_u8(struct table_buf *buf, uint8_t value);
void table_buf_u16(struct table_buf *buf, uint16_t value);
void table_buf_u32(struct table_buf *buf, uint32_t value);
void table_buf_u64(struct table_buf *buf, uint64_t value);
/* Puts bytes in front of what lies from offset at on. */
void table_buf_insert(struct table_buf *buf, size_t at, const void *bytes, size_t len);
/* Zeros up to a multiple of align. */
void table_buf_align(struct table_buf *buf, size_t align);

/* The byte that makes the sum of all len bytes 0, given that its own place holds 0 now. */
uint8_t table_checksum(const void *data, size_t len);

#endif
