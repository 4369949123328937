/* SPDX-License-Identifier: Apache-2.0 */
/* absent.c - ports and addresses where nothing is read all ones in every width, and writes are lost. */
#include "guest.h"

static void ports(void)
{
	static const uint16_t absent[] = {0x2e8, 0x3e8, 0x170, 0x1f0, 0x378, 0x9000, 0xfff0};
	unsigned i;

	for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		out8(absent[i], 0x12);
		out16(absent[i], 0x1234);
		out32(absent[i], 0x12345678);
		check_eq(in8(absent[i]), 0xff);
		check_eq(in16(absent[i]), 0xffff);
		check_eq(in32(absent[i]), 0xffffffff);
	}
}

static void memory(void)
{
	static const uint32_t absent[] = {0xc8000000, 0xcffff000, 0xf0000000};
	unsigned i;

	for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		volatile uint64_t *p = (volatile uint64_t *)(uint64_t)absent[i];

		*p = 0x123456789abcdef0;
		check_eq(*p, ~0ull);
		check_eq(*(volatile uint32_t *)p, 0xffffffff);
		check_eq(*((volatile uint16_t *)p + 1), 0xffff);
		check_eq(*((volatile uint8_t *)p + 3), 0xff);
	}
}

int main(void)
{
	ports();
	memory();
	return 0;
}
