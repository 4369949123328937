/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endings.h - the small ports by which a guest ends or resets the machine, one struct and one bus_ops each: keyboard
 * controller, reset control register, isa-debug-exit, pvpanic and the "Shutdown" port.
 *
 * Plain structs, owned by whoever embeds them; *_init() fills one, *_reset() is a machine reset (no vCPU runs).
 * Accesses come from any vCPU thread; what they change is atomic.
 */
#ifndef LULL_ENDINGS_H
#define LULL_ENDINGS_H

#include "board.h"
#include "bus.h"
#include "log.h"

#include <stdatomic.h>

/* ---- 8042 keyboard controller: only its reset line. No keyboard, no replies: both buffers are always empty ---- */
struct i8042 {
	struct board_sink board;
	atomic_uint write_output_port; /* the next data byte goes to the output port (command 0xd1) */
};
void i8042_init(struct i8042 *kbd, const struct board_sink *board);
void i8042_reset(struct i8042 *kbd);
extern const struct bus_ops i8042_data_ops;    /* 1 byte at port 0x60 */
extern const struct bus_ops i8042_command_ops; /* 1 byte at port 0x64 */

/* ---- System control port B (0x61): timer 2 output high, no NMI source, so that an NMI is not taken for a parity
 * error and a guest that waits for the absent timer ends its wait at once ---- */
struct port_b {
	atomic_uint value;
};
void port_b_init(struct port_b *port);
void port_b_reset(struct port_b *port);
extern const struct bus_ops port_b_ops; /* 1 byte */

/* ---- Reset control register (0xcf9): bit 2 set resets, bits 1 and 3 read back ---- */
struct reset_port {
	struct board_sink board;
	atomic_uint value;
};
void reset_port_init(struct reset_port *port, const struct board_sink *board);
void reset_port_reset(struct reset_port *port);
extern const struct bus_ops reset_port_ops; /* 1 byte */

/* ---- isa-debug-exit: any write, 1, 2 or 4 bytes wide ---- */
struct debug_exit {
	struct board_sink board;
};
void debug_exit_init(struct debug_exit *port, const struct board_sink *board);
extern const struct bus_ops debug_exit_ops;

/* ---- pvpanic: reads tell the events it knows (3), bit 0 written: panicked, bit 1: a crash kernel takes over ---- */
enum {
	PVPANIC_PANICKED = 1u << 0,
	PVPANIC_CRASHLOADED = 1u << 1,
};

struct pvpanic {
	struct board_sink board;
	const struct log *log;
	struct log_limit limit;
};
void pvpanic_init(struct pvpanic *port, const struct board_sink *board, const struct log *log);
extern const struct bus_ops pvpanic_ops; /* 1 byte */

/* ---- Port 0x8900: the letters "Shutdown", one by one, power off ---- */
struct shutdown_port {
	struct board_sink board;
	atomic_uint matched; /* letters seen in order */
};
void shutdown_port_init(struct shutdown_port *port, const struct board_sink *board);
void shutdown_port_reset(struct shutdown_port *port);
extern const struct bus_ops shutdown_port_ops; /* 1 byte */

#endif
