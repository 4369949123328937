/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - text to the debug console and COM1, and the ways a test ends. */
#include "internal.h"

#include <stdarg.h>

enum {
	DEBUG_CONSOLE = 0xe9,
	DEBUG_EXIT = 0xf4,
};

static void outs(uint16_t port, const char *text, size_t length)
{
	__asm__ volatile("rep outsb" : "+S"(text), "+c"(length) : "d"(port) : "memory");
}

static char *number(char *end, uint64_t v, unsigned base)
{
	do {
		*--end = "0123456789abcdef"[v % base];
		v /= base;
	} while (v != 0);
	return end;
}

static size_t format(char *out, size_t size, const char *fmt, va_list ap)
{
	char digits[24], *end = digits + sizeof(digits) - 1, *text;
	size_t n = 0;
	bool is_long;
	uint64_t v;

	*end = '\0';
	for (; *fmt != '\0'; fmt++) {
		if (*fmt != '%') {
			if (n < size)
				out[n++] = *fmt;
			continue;
		}
		for (is_long = false; *++fmt == 'l';)
			is_long = true;
		if (*fmt == 's') {
			text = va_arg(ap, char *);
		} else if (*fmt == 'c') {
			text = end - 1;
			*text = (char)va_arg(ap, int);
		} else {
			v = is_long ? va_arg(ap, uint64_t) : va_arg(ap, unsigned);
			if (*fmt == 'd' && !is_long)
				v = (uint64_t)(int)v;
			if (*fmt == 'd' && (int64_t)v < 0) {
				text = number(end, -v, 10);
				*--text = '-';
			} else {
				text = number(end, v, *fmt == 'x' ? 16 : 10);
			}
		}
		while (*text != '\0' && n < size)
			out[n++] = *text++;
	}
	return n;
}

void print(const char *fmt, ...)
{
	char line[200];
	va_list ap;

	va_start(ap, fmt);
	outs(DEBUG_CONSOLE, line, format(line, sizeof(line), fmt, ap));
	va_end(ap);
}

void serial_print(const char *fmt, ...)
{
	char line[200];
	va_list ap;

	va_start(ap, fmt);
	serial_write(line, format(line, sizeof(line), fmt, ap));
	va_end(ap);
}

void serial_write(const char *text, size_t length)
{
	size_t n;

	out8(COM_FCR, 1);
	while (length > 0) {
		n = length < 16 ? length : 16;
		while (!(in8(COM_LSR) & 0x20))
			;
		outs(COM_DATA, text, n);
		text += n;
		length -= n;
	}
}

void stop_cpu(void)
{
	for (;;)
		__asm__ volatile("cli; hlt");
}

void guest_exit(unsigned code)
{
	out32(DEBUG_EXIT, code);
	stop_cpu();
}

void fail(const char *file, int line, const char *what)
{
	print("FAIL cpu %u %s:%d: %s\n", this_cpu()->id, file, line, what);
	guest_exit(1);
}

void fail_eq(const char *file, int line, const char *what, uint64_t got, uint64_t want)
{
	print("FAIL cpu %u %s:%d: %s: got 0x%lx, want 0x%lx\n", this_cpu()->id, file, line, what, got, want);
	guest_exit(1);
}

void skip(const char *why)
{
	print("SKIP %s\n", why);
	guest_exit(SKIP);
}
