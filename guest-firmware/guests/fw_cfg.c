/* SPDX-License-Identifier: Apache-2.0 */
/* fw_cfg.c - QEMU's configuration device: signature, RAM size, CPU counts, unknown keys. */
#include "guest.h"

static uint64_t key(uint16_t selector, unsigned bytes)
{
	uint64_t v = 0;
	unsigned i;

	out16(0x510, selector);
	for (i = 0; i < bytes; i++)
		v |= (uint64_t)in8(0x511) << (8 * i);
	return v;
}

int main(void)
{
	uint64_t cpus = param_u64("cpus", 1);

	check_eq(key(0, 4), 0x554d4551); /* QEMU */
	check_eq(key(3, 8), param_u64("mem", 128) << 20);
	check_eq(key(5, 2), cpus);
	check_eq(key(0x0f, 2), cpus);
	check_eq(key(0x11, 4), 0); /* no kernel data */
	check_eq(key(0x7fff, 4), 0);
	check_eq(key(5, 2), cpus); /* from the start again */
	return 0;
}
