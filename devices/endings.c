// SPDX-License-Identifier: Apache-2.0
/* endings.c - the small ports by which a guest ends or resets the machine. What an end means is the board's business.
 */
#include "endings.h"

#include "util.h"

/* ---- i8042 ---- */

enum {
	I8042_WRITE_OUTPUT_PORT = 0xd1,
	I8042_PULSE = 0xf0, /* pulses the output lines whose bit in 3:0 is clear; line 0 is RESET# */
	I8042_LINE_RESET = 1u << 0,
};

void i8042_init(struct i8042 *kbd, const struct board_sink *board)
{
	kbd->board = *board;
	i8042_reset(kbd);
}

void i8042_reset(struct i8042 *kbd)
{
	atomic_store(&kbd->write_output_port, 0);
}

/* Status 0 as well: a guest may write, and there is nothing to read. */
static uint64_t i8042_read(void *dev, uint64_t offset, unsigned size)
{
	(void)dev;
	(void)offset;
	(void)size;
	return 0;
}

static void i8042_data_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct i8042 *kbd = dev;

	(void)offset;
	(void)size;
	if (atomic_exchange(&kbd->write_output_port, 0) && !(value & I8042_LINE_RESET))
		board_request(&kbd->board, BOARD_RESET, 0);
}

static void i8042_command_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct i8042 *kbd = dev;

	(void)offset;
	(void)size;
	value &= 0xff;
	atomic_store(&kbd->write_output_port, value == I8042_WRITE_OUTPUT_PORT);
	if ((value & I8042_PULSE) == I8042_PULSE && !(value & I8042_LINE_RESET))
		board_request(&kbd->board, BOARD_RESET, 0);
}

const struct bus_ops i8042_data_ops = {i8042_read, i8042_data_write};
const struct bus_ops i8042_command_ops = {i8042_read, i8042_command_write};

/* ---- system control port B ---- */

enum {
	PORT_B_WRITABLE = 0x0f,
	PORT_B_REFRESH = 1u << 4, /* toggles with the memory refresh: old delay loops count it */
	PORT_B_TIMER2_OUT = 1u << 5,
};

void port_b_init(struct port_b *port)
{
	port_b_reset(port);
}

void port_b_reset(struct port_b *port)
{
	atomic_store(&port->value, 0);
}

static uint64_t port_b_read(void *dev, uint64_t offset, unsigned size)
{
	struct port_b *port = dev;

	(void)offset;
	(void)size;
	return (atomic_fetch_xor(&port->value, PORT_B_REFRESH) & (PORT_B_WRITABLE | PORT_B_REFRESH)) |
	       PORT_B_TIMER2_OUT;
}

static void port_b_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct port_b *port = dev;

	(void)offset;
	(void)size;
	atomic_store(&port->value, (unsigned)value & PORT_B_WRITABLE);
}

const struct bus_ops port_b_ops = {port_b_read, port_b_write};

/* ---- reset control register ---- */

enum {
	RESET_PORT_CPU = 1u << 2,
	RESET_PORT_WRITABLE = 0x0a, /* full reset, system reset */
};

void reset_port_init(struct reset_port *port, const struct board_sink *board)
{
	port->board = *board;
	reset_port_reset(port);
}

void reset_port_reset(struct reset_port *port)
{
	atomic_store(&port->value, 0);
}

static uint64_t reset_port_read(void *dev, uint64_t offset, unsigned size)
{
	struct reset_port *port = dev;

	(void)offset;
	(void)size;
	return atomic_load(&port->value);
}

static void reset_port_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct reset_port *port = dev;

	(void)offset;
	(void)size;
	atomic_store(&port->value, (unsigned)value & RESET_PORT_WRITABLE);
	if (value & RESET_PORT_CPU)
		board_request(&port->board, BOARD_RESET, 0);
}

const struct bus_ops reset_port_ops = {reset_port_read, reset_port_write};

/* ---- isa-debug-exit ---- */

void debug_exit_init(struct debug_exit *port, const struct board_sink *board)
{
	port->board = *board;
}

static uint64_t debug_exit_read(void *dev, uint64_t offset, unsigned size)
{
	(void)dev;
	(void)offset;
	(void)size;
	return 0;
}

static void debug_exit_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct debug_exit *port = dev;

	(void)offset;
	if (size < 4)
		value &= (1u << (8 * size)) - 1;
	board_request(&port->board, BOARD_DEBUG_EXIT, (uint32_t)value);
}

const struct bus_ops debug_exit_ops = {debug_exit_read, debug_exit_write};

/* ---- pvpanic ---- */

void pvpanic_init(struct pvpanic *port, const struct board_sink *board, const struct log *log)
{
	port->board = *board;
	port->log = log;
	atomic_store(&port->limit.count, 0);
}

static uint64_t pvpanic_read(void *dev, uint64_t offset, unsigned size)
{
	(void)dev;
	(void)offset;
	(void)size;
	return PVPANIC_PANICKED | PVPANIC_CRASHLOADED;
}

static void pvpanic_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct pvpanic *port = dev;

	(void)offset;
	(void)size;
	value &= 0xff;
	if (value & PVPANIC_CRASHLOADED)
		log_guest(port->log, &port->limit, LULL_LOG_WARN,
		          "pvpanic: guest crashed, its crash kernel takes over");
	if (value & PVPANIC_PANICKED)
		board_request(&port->board, BOARD_PANIC, (uint32_t)value);
}

const struct bus_ops pvpanic_ops = {pvpanic_read, pvpanic_write};

/* ---- "Shutdown" ---- */

static const char shutdown_word[] = "Shutdown";

void shutdown_port_init(struct shutdown_port *port, const struct board_sink *board)
{
	port->board = *board;
	shutdown_port_reset(port);
}

void shutdown_port_reset(struct shutdown_port *port)
{
	atomic_store(&port->matched, 0);
}

static uint64_t shutdown_port_read(void *dev, uint64_t offset, unsigned size)
{
	(void)dev;
	(void)offset;
	(void)size;
	return 0xff;
}

/* Two vCPUs that write at once may lose a letter each, nothing else: matched stays below the word's length. */
static void shutdown_port_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct shutdown_port *port = dev;
	unsigned matched = atomic_load(&port->matched);
	char letter = (char)value;

	(void)offset;
	(void)size;
	if (letter == shutdown_word[matched])
		matched++;
	else
		matched = letter == shutdown_word[0]; /* 'S' occurs only once in it */
	if (matched == sizeof(shutdown_word) - 1) {
		atomic_store(&port->matched, 0);
		board_request(&port->board, BOARD_POWEROFF, 0);
		return;
	}
	atomic_store(&port->matched, matched);
}

const struct bus_ops shutdown_port_ops = {shutdown_port_read, shutdown_port_write};
