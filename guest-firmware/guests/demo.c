/* SPDX-License-Identifier: Apache-2.0 */
/* demo.c - the guest of `lull demo`. */
void _start(void);
void _start(void)
{
	__asm__ volatile("outl %0, $0xf4" : : "a"(0));
	for (;;)
		__asm__ volatile("hlt");
}
