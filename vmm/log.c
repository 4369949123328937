/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - makes one safe line and hands it to the owner of the VM. No allocation, no lock, no sink of its own. */
#include "log.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	LINE_MAX_BYTES = 512,
	ESCAPE_BYTES = 4, /* "\xNN" */
};

/* The length of the printable UTF-8 character at s, or 0: control characters (C0, DEL, C1), bytes that are not UTF-8
 * and overlong forms could reprogram a terminal or forge a line. */
static size_t printable_length(const unsigned char *s)
{
	static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	size_t length = s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf8 ? 4 : 0;
	uint32_t code = length ? s[0] & (0x7fu >> length) : 0;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return length && code >= least[length] && code <= 0x10ffff ? length : 0;
}

/* Appends raw to the line at *used, escaped, and keeps `reserve` bytes for what follows. A line that is too long ends
 * in
 * "...". */
static void append_escaped(char line[LINE_MAX_BYTES], size_t *used, const char *raw, size_t reserve)
{
	static const char hex[] = "0123456789abcdef", more[] = "...";
	size_t end = LINE_MAX_BYTES - sizeof(more) - reserve;

	while (*raw) {
		size_t length = printable_length((const unsigned char *)raw);
		if (*used + (length ? length : ESCAPE_BYTES) > end) {
			memcpy(line + *used, more, sizeof(more));
			*used += sizeof(more) - 1;
			return;
		}
		if (length) {
			memcpy(line + *used, raw, length);
			*used += length;
			raw += length;
		} else {
			unsigned char byte = (unsigned char)*raw++;
			const char escape[ESCAPE_BYTES] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
			memcpy(line + *used, escape, ESCAPE_BYTES);
			*used += ESCAPE_BYTES;
		}
	}
	line[*used] = '\0';
}

static bool wanted(const struct log *log, enum lull_log_level level)
{
	return log && log->fn && level <= log->level;
}

static void emit(const struct log *log, enum lull_log_level level, const char *note, const char *fmt, va_list args)
{
	char raw[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
	size_t used = 0, note_bytes = strlen(note);

	vsnprintf(raw, sizeof(raw), fmt, args);
	append_escaped(line, &used, raw, note_bytes);
	memcpy(line + used, note, note_bytes + 1);
	log->fn(log->ctx, level, line);
}

void log_line(const struct log *log, enum lull_log_level level, const char *fmt, ...)
{
	va_list args;

	if (!wanted(log, level))
		return;
	va_start(args, fmt);
	emit(log, level, "", fmt, args);
	va_end(args);
}

void log_guest(const struct log *log, struct log_limit *limit, enum lull_log_level level, const char *fmt, ...)
{
	va_list args;

	/* A counter that wrapped would start to talk again. */
	if (atomic_load_explicit(&limit->count, memory_order_relaxed) >= INT_MAX)
		return;
	unsigned nth = atomic_fetch_add_explicit(&limit->count, 1, memory_order_relaxed) + 1;
	if (nth > LOG_GUEST_MAX || !wanted(log, level))
		return;
	va_start(args, fmt);
	emit(log, level, nth == LOG_GUEST_MAX ? " (more of these are only counted)" : "", fmt, args);
	va_end(args);
}
