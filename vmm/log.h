/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - log lines go to the owner of the VM through a callback; there is no global sink. */
#ifndef LULL_LOG_H
#define LULL_LOG_H

#include "lull.h"

#include <stdatomic.h>

struct log {
	void (*fn)(void *ctx, enum lull_log_level level, const char *line); /* may be NULL */
	void *ctx;
	enum lull_log_level level;
};

/* A line is "thing: text (value)": lower case, no full stop, no newline. log may be NULL. Any thread. */
void log_line(const struct log *log, enum lull_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(log, ...) log_line(log, LULL_LOG_ERROR, __VA_ARGS__)
#define log_warn(log, ...)  log_line(log, LULL_LOG_WARN, __VA_ARGS__)
#define log_info(log, ...)  log_line(log, LULL_LOG_INFO, __VA_ARGS__)
#define log_debug(log, ...) log_line(log, LULL_LOG_DEBUG, __VA_ARGS__)

/* For every line that a guest can cause: each site owns a zeroed limit and says at most LOG_GUEST_MAX lines
 * in its life, the last one with a note that the rest is counted only. */
#define LOG_GUEST_MAX 8

struct log_limit {
	atomic_uint count;
};

void log_guest(const struct log *log, struct log_limit *limit, enum lull_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
