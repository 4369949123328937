/* SPDX-License-Identifier: Apache-2.0 */
/* sim_random.c - generator, distributions, ln and exp. Knows nothing of halts. */
#include "sim_random.h"

#include <string.h>

#define LN2 0.693147180559945309417

static uint64_t rotate(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

void sim_seed(struct sim_random *r, uint64_t seed)
{
	/* splitmix64, as the authors of xoshiro ask for */
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		r->s[i] = z ^ z >> 31;
	}
}

uint64_t sim_bits(struct sim_random *r)
{
	uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

/* In (0, 1]. */
static double unit(struct sim_random *r)
{
	return (double)((sim_bits(r) >> 11) + 1) * 0x1p-53;
}

double sim_uniform(struct sim_random *r, double low, double high)
{
	return low + (high - low) * ((double)(sim_bits(r) >> 11) * 0x1p-53);
}

double sim_normal(struct sim_random *r, double mean, double deviation)
{
	/* Marsaglia's polar method; the second number is not kept, so that a draw has no hidden state. */
	double x, y, s;

	do {
		x = sim_uniform(r, -1, 1);
		y = sim_uniform(r, -1, 1);
		s = x * x + y * y;
	} while (s >= 1 || s == 0);
	return mean + deviation * x * sim_exp(0.5 * sim_ln(-2 * sim_ln(s) / s));
}

double sim_exponential(struct sim_random *r, double mean)
{
	return -mean * sim_ln(unit(r));
}

double sim_ln(double x)
{
	uint64_t bits;
	int exponent;
	double m, s, s2, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	exponent = (int)(bits >> 52 & 0x7ff) - 1023;
	bits = (bits & 0xfffffffffffffu) | 1023ull << 52;
	memcpy(&m, &bits, sizeof(m));
	if (m > 1.41421356237309515) {
		m /= 2;
		exponent++;
	}
	s = (m - 1) / (m + 1);
	s2 = s * s;
	for (int k = 21; k >= 1; k -= 2)
		sum = sum * s2 + 1.0 / k;
	return 2 * s * sum + exponent * LN2;
}

double sim_exp(double x)
{
	int k = (int)(x / LN2 + (x < 0 ? -0.5 : 0.5));
	double r = x - k * LN2, sum = 1, scale;
	uint64_t bits = (uint64_t)(k + 1023) << 52;

	for (int i = 14; i >= 1; i--)
		sum = 1 + sum * r / i;
	memcpy(&scale, &bits, sizeof(scale));
	return sum * scale;
}
