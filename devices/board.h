/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - what a device may ask of the board it sits on: an end, in one of four ways. */
#ifndef LULL_BOARD_H
#define LULL_BOARD_H

#include <stdint.h>

enum board_request {
	BOARD_POWEROFF,
	BOARD_RESET,
	BOARD_DEBUG_EXIT, /* code: the value as written, before any mapping */
	BOARD_PANIC,      /* code: the byte written */
};

/* On the vCPU thread whose access asked for it, without any device's lock; may not block. The device goes on as if
 * nothing had happened: whether and when the guest stops is the board's business. */
struct board_sink {
	void (*request)(void *ctx, enum board_request kind, uint32_t code); /* NULL: nobody cares */
	void *ctx;
};

static inline void board_request(const struct board_sink *board, enum board_request kind, uint32_t code)
{
	if (board->request)
		board->request(board->ctx, kind, code);
}

#endif
