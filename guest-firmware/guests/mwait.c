/* SPDX-License-Identifier: Apache-2.0 */
/* mwait.c - CPUID shows MONITOR and MWAIT only when the host was asked for it: want=1. That they work: idle_loops. */
#include "guest.h"

int main(void)
{
	bool want = param_u64("want", 0), there = cpuid(1, 0).ecx & 1 << 3;
	struct cpuid leaf = cpuid(5, 0);

	check_eq(there, want);
	if (want) {
		check((leaf.ebx & 0xffff) >= (leaf.eax & 0xffff)); /* line sizes; some emulated hosts have none */
		check_eq(leaf.ecx & ~3u, 0);
	}
	return 0;
}
