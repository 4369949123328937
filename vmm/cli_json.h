/* SPDX-License-Identifier: Apache-2.0 */
/* cli_json.h - writes JSON, one value after the other, to a stream. Knows nothing of what it writes. */
#ifndef LULL_CLI_JSON_H
#define LULL_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool comma; /* something stands before the next value */
};

/* key is NULL for an element of an array and for the outermost value. */
void json_open(struct json *j, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *j, char bracket);                 /* '}' or ']' */
void json_number(struct json *j, const char *key, uint64_t value);
void json_numbers(struct json *j, const char *key, const uint64_t *values, size_t count);
void json_bool(struct json *j, const char *key, bool value);
/* Any bytes: what is not UTF-8 becomes U+FFFD. NULL becomes null. */
void json_text(struct json *j, const char *key, const char *value);

#endif
