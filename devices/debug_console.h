/* SPDX-License-Identifier: Apache-2.0 */
/* debug_console.h - port 0xe9 as Bochs and QEMU have it: a byte written is a character, a byte read is 0xe9. */
#ifndef LULL_DEBUG_CONSOLE_H
#define LULL_DEBUG_CONSOLE_H

#include "bus.h"

/* Plain: owned by whoever embeds it, no state, nothing to reset. */
struct debug_console {
	void (*put)(void *ctx, uint8_t byte); /* on any vCPU thread; may not block; NULL: dropped */
	void *ctx;
};

extern const struct bus_ops debug_console_ops; /* 1 byte */

#endif
