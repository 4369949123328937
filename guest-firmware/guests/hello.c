/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - says so on COM1 and passes. */
#include "guest.h"

int main(void)
{
	serial_print("Hello from the guest.\n");
	return 0;
}
