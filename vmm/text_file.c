/* SPDX-License-Identifier: Apache-2.0 */
/* text_file.c - opens, reads once, closes. */
#include "text_file.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

size_t text_file_head(char *buf, size_t size, const char *fmt, ...)
{
	char path[256];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	buf[0] = 0;
	int fd = n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return 0;
	ssize_t got = read(fd, buf, size - 1);
	close(fd);
	size_t bytes = got > 0 ? (size_t)got : 0;
	buf[bytes] = 0;
	return bytes;
}
