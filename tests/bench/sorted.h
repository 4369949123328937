/* SPDX-License-Identifier: Apache-2.0 */
/* sorted.h - figures in order, and the one in the middle. */
#ifndef BENCH_SORTED_H
#define BENCH_SORTED_H

#include <stdlib.h>

static inline int compare_figures(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static inline void sort_figures(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare_figures);
}

/* Sorts them. count is not 0. */
static inline double median(double *values, unsigned count)
{
	sort_figures(values, count);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

#endif
