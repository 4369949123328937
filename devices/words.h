/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - the texts that describe a device, such as "tap=vm0,mtu=9000": words between commas, each "key" or
 * "key=value". */
#ifndef LULL_WORDS_H
#define LULL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

/* Cuts the first word off in place and returns the rest, NULL when there is none. ",," is a comma in a word. */
char *words_cut(char *words);

/* Calls fn for the words of spec in turn until one fails; what fn returned last, or -ENOMEM with a text that begins
 * with what. A text without any words is one empty word. */
int words_each(const char *what, const char *spec,
               int (*fn)(void *ctx, const char *word, bool is_first, struct lull_error *err), void *ctx,
               struct lull_error *err);

/* Digits, maybe with K, M or G behind them. */
bool words_size(const char *text, uint64_t *size);

#endif
