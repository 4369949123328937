/* SPDX-License-Identifier: Apache-2.0 */
/* cli_value.h - strict readers for the values of options. Pure: no messages, no state. */
#ifndef LULL_CLI_VALUE_H
#define LULL_CLI_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each reads the whole of text or says false and leaves *out alone. No sign, no blanks, no overflow. */
bool cli_value_number(const char *text, uint64_t *out);              /* decimal or 0x... */
bool cli_value_size(const char *text, uint64_t unit, uint64_t *out); /* number with K, M or G; without: times unit */
bool cli_value_seconds(const char *text, uint64_t *out_ns);          /* "5", "0.25"; at most 9 decimals count */

/* How many single-letter edits (insert, delete, replace, swap neighbours) lead from a to b; 99 for long words. */
unsigned cli_value_distance(const char *a, const char *b);

#endif
