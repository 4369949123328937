/* SPDX-License-Identifier: Apache-2.0 */
/* text_file.h - small files in which the kernel says something, under /sys and /proc. */
#ifndef LULL_TEXT_FILE_H
#define LULL_TEXT_FILE_H

#include <stddef.h>

/* The beginning of the file that fmt names, NUL-terminated, at most size - 1 bytes. Their number; 0 and "" when there
 * is none, or its path is longer than 255 bytes. */
size_t text_file_head(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
