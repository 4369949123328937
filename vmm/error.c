/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - formats into the caller's buffer. One line whatever the arguments hold: a path may contain a newline. */
#include "error.h"

#include "lull.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX    sizeof(((struct lull_error *)NULL)->text)
#define CONTEXT_MAX 240 /* of a wrapped text: a path of 4 KiB must not push the reason out */

static void one_line(char *text)
{
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
}

/* A text that did not fit ends in "...". */
static void mark_cut(char *text, size_t size, int wanted)
{
	if (wanted >= 0 && (size_t)wanted >= size)
		memcpy(text + size - 4, "...", 4);
}

/* Success would hide the failure: a zero errno becomes EIO. */
static int negative(int code)
{
	return code < 0 ? code : -EIO;
}

int error_set(struct lull_error *err, int code, const char *fmt, ...)
{
	code = negative(code);
	if (err == NULL)
		return code;
	va_list args;
	va_start(args, fmt);
	int wanted = vsnprintf(err->text, TEXT_MAX, fmt, args);
	va_end(args);
	mark_cut(err->text, TEXT_MAX, wanted);
	one_line(err->text);
	err->code = code;
	return code;
}

int error_sys(struct lull_error *err, int code, const char *fmt, ...)
{
	code = negative(code);
	if (err == NULL)
		return code;
	char reason[96];
	errno = -code;
	snprintf(reason, sizeof(reason), ": %m");
	size_t room = TEXT_MAX - strlen(reason);
	va_list args;
	va_start(args, fmt);
	int wanted = vsnprintf(err->text, room, fmt, args);
	va_end(args);
	mark_cut(err->text, room, wanted);
	strcat(err->text, reason); /* room was made for it */
	one_line(err->text);
	err->code = code;
	return code;
}

int error_wrap(struct lull_error *err, int code, const char *fmt, ...)
{
	code = negative(code);
	if (err == NULL)
		return code;
	char context[CONTEXT_MAX], text[TEXT_MAX];
	memcpy(text, err->text, TEXT_MAX);
	text[TEXT_MAX - 1] = '\0';
	va_list args;
	va_start(args, fmt);
	int wanted = vsnprintf(context, sizeof(context), fmt, args);
	va_end(args);
	mark_cut(context, sizeof(context), wanted);
	wanted = snprintf(err->text, TEXT_MAX, "%s: %s", context, text);
	mark_cut(err->text, TEXT_MAX, wanted);
	one_line(err->text);
	err->code = code;
	return code;
}
