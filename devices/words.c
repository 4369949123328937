// SPDX-License-Identifier: Apache-2.0
/* words.c - cutting the texts that describe devices. Knows no device. */
#include "words.h"

#include "error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *words_cut(char *words)
{
	char *to = words;

	for (const char *from = words; *from; from++, to++) {
		if (*from == ',' && from[1] != ',') {
			char *rest = words + (from + 1 - words);
			*to = '\0';
			return rest;
		}
		from += *from == ',';
		*to = *from;
	}
	*to = '\0';
	return NULL;
}

int words_each(const char *what, const char *spec,
               int (*fn)(void *ctx, const char *word, bool is_first, struct lull_error *err), void *ctx,
               struct lull_error *err)
{
	char *words = strdup(spec), *word = words;
	int ret = words ? 0 : error_set(err, -ENOMEM, "%s: out of memory", what);

	while (word && ret == 0) {
		char *next = words_cut(word);
		ret = fn(ctx, word, word == words, err);
		word = next;
	}
	free(words);
	return ret;
}

bool words_size(const char *text, uint64_t *size)
{
	char *end;

	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (shift)
		end++;
	*size = (uint64_t)n << shift;
	return !*end && *size >> shift == n;
}
