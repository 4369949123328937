// SPDX-License-Identifier: Apache-2.0
/* debug_console.c - port 0xe9. */
#include "debug_console.h"

static uint64_t debug_console_read(void *dev, uint64_t offset, unsigned size)
{
	(void)dev;
	(void)offset;
	(void)size;
	return 0xe9; /* how a guest finds it */
}

static void debug_console_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	const struct debug_console *console = dev;

	(void)offset;
	(void)size;
	if (console->put)
		console->put(console->ctx, (uint8_t)value);
}

const struct bus_ops debug_console_ops = {debug_console_read, debug_console_write};
