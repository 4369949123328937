/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_random.h - random numbers that are the same on every host and with every C library: xoshiro256** and our own ln
 * and exp, made of + - * / on doubles.
 */
#ifndef LULL_SIM_RANDOM_H
#define LULL_SIM_RANDOM_H

#include <stdint.h>

struct sim_random {
	uint64_t s[4];
};

void sim_seed(struct sim_random *r, uint64_t seed);
uint64_t sim_bits(struct sim_random *r);
double sim_uniform(struct sim_random *r, double low, double high); /* low included, high not */
double sim_normal(struct sim_random *r, double mean, double deviation);
double sim_exponential(struct sim_random *r, double mean);

/* Relative error below 1e-14. x > 0 for ln, |x| < 700 for exp. */
double sim_ln(double x);
double sim_exp(double x);

#endif
