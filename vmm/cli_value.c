/* SPDX-License-Identifier: Apache-2.0 */
/* cli_value.c - strict readers for the values of options. Pure: no messages, no state. */
#include "cli_value.h"

#include <string.h>

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

/* Reads digits of `base` from *text on and moves *text behind them. */
static bool read_digits(const char **text, int base, uint64_t *out)
{
	const char *p = *text;
	uint64_t n = 0;

	if (digit(*p) >= base)
		return false;
	for (; digit(*p) < base; p++)
		if (__builtin_mul_overflow(n, (uint64_t)base, &n) || __builtin_add_overflow(n, (uint64_t)digit(*p), &n))
			return false;
	*text = p;
	*out = n;
	return true;
}

static bool read_number(const char **text, uint64_t *out)
{
	if ((*text)[0] == '0' && ((*text)[1] == 'x' || (*text)[1] == 'X')) {
		*text += 2;
		return read_digits(text, 16, out);
	}
	return read_digits(text, 10, out);
}

bool cli_value_number(const char *text, uint64_t *out)
{
	uint64_t n;

	if (!read_number(&text, &n) || *text != '\0')
		return false;
	*out = n;
	return true;
}

bool cli_value_size(const char *text, uint64_t unit, uint64_t *out)
{
	uint64_t n;

	if (!read_number(&text, &n))
		return false;
	if (*text != '\0') {
		static const char suffixes[] = "KkMmGg";
		const char *at = strchr(suffixes, *text);
		if (!at || text[1] != '\0')
			return false;
		unit = (uint64_t)1 << (10 * ((at - suffixes) / 2 + 1));
	}
	if (__builtin_mul_overflow(n, unit, &n))
		return false;
	*out = n;
	return true;
}

bool cli_value_seconds(const char *text, uint64_t *out_ns)
{
	uint64_t seconds = 0, ns = 0;
	bool some = false;

	if (*text != '.') {
		if (!read_digits(&text, 10, &seconds))
			return false;
		some = true;
	}
	if (*text == '.') {
		uint64_t weight = 100000000;
		for (text++; digit(*text) < 10; text++, weight /= 10) {
			ns += (uint64_t)digit(*text) * weight;
			some = true;
		}
	}
	if (*text != '\0' || !some)
		return false;
	if (__builtin_mul_overflow(seconds, (uint64_t)1000000000, &seconds) || __builtin_add_overflow(seconds, ns, &ns))
		return false;
	*out_ns = ns;
	return true;
}

enum {
	WORD = 24
};

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned cli_value_distance(const char *a, const char *b)
{
	unsigned cost[WORD + 1][WORD + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD || lb > WORD)
		return 99;
	for (unsigned i = 0; i <= la; i++)
		for (unsigned j = 0; j <= lb; j++) {
			if (i == 0 || j == 0) {
				cost[i][j] = i + j;
				continue;
			}
			unsigned same = a[i - 1] == b[j - 1] ? 0 : 1;
			unsigned best = least(cost[i - 1][j], cost[i][j - 1]) + 1;
			best = least(best, cost[i - 1][j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = least(best, cost[i - 2][j - 2] + 1);
			cost[i][j] = best;
		}
	return cost[la][lb];
}
