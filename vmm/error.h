/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - one-statement failures with a text for people. Never allocates. */
#ifndef LULL_ERROR_H
#define LULL_ERROR_H

struct lull_error;

/* Fills *err (may be NULL) and returns code, so that a failure is one statement:
 *     return error_set(err, -EINVAL, "kernel %s: no boot sector", path);
 * code is negative. */
int error_set(struct lull_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the message of errno value -code appended. */
int error_sys(struct lull_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the text already in *err. Returns code. */
int error_wrap(struct lull_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
