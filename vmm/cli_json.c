/* SPDX-License-Identifier: Apache-2.0 */
/* cli_json.c - writes JSON (RFC 8259) to a stream. */
#include "cli_json.h"

#include <string.h>

/* Length of the UTF-8 sequence at s, 0: it is none (RFC 3629: no surrogates, no longer form than needed). */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80) /* also the NUL */
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
		return 0;
	return (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) ? 0 : n;
}

static void put_string(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s) {
		size_t n = utf8_length(s);

		if (n == 0)
			fputs("\\ufffd", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else
			fwrite(s, 1, n, out);
		s += n ? n : 1;
	}
	fputc('"', out);
}

static void begin(struct json *j, const char *key)
{
	if (j->comma)
		fputc(',', j->out);
	j->comma = true;
	if (key) {
		put_string(j->out, key);
		fputc(':', j->out);
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin(j, key);
	fputc(bracket, j->out);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->out);
	j->comma = true;
}

void json_number(struct json *j, const char *key, uint64_t value)
{
	begin(j, key);
	fprintf(j->out, "%llu", (unsigned long long)value);
}

void json_numbers(struct json *j, const char *key, const uint64_t *values, size_t count)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < count; i++)
		json_number(j, NULL, values[i]);
	json_close(j, ']');
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin(j, key);
	fputs(value ? "true" : "false", j->out);
}

void json_text(struct json *j, const char *key, const char *value)
{
	begin(j, key);
	if (value)
		put_string(j->out, value);
	else
		fputs("null", j->out);
}
