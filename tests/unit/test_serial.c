/* SPDX-License-Identifier: Apache-2.0 */
/* The 16550A's registers: what they hold, what Linux makes of them, which interrupt goes first. */
#include "serial_rig.h"

/* -------------------------------------------------------------------------------- registers */

static void assert_reset_state(void)
{
	assert_int_equal(in(IER), 0);
	assert_int_equal(in(IIR), 0x01);
	assert_int_equal(in(LCR), 0);
	assert_int_equal(in(MCR), 0);
	assert_int_equal(in(LSR), 0x60);
	assert_int_equal(in(MSR), 0xb0);
	assert_false(wire.level);
}

static void registers_after_reset(void **state)
{
	(void)state;
	assert_reset_state();
	for (unsigned reg = 0; reg < 8; reg++)
		out(reg, 0x9b & (reg == MCR ? 0x0f : 0xff)); /* leaves the latch open, FIFO on, lines changed */
	out(LCR, 0);
	out(IER, 0x0f);
	type("xyz");
	assert_true(wire.level);
	unsigned kicks = host.kicks;
	serial_reset(serial);
	assert_false(wire.level);
	assert_true(host.kicks > kicks); /* there is room again */
	assert_reset_state();
	assert_int_equal(in(SCR), 0);
	assert_int_equal(host.user.room(host.user.ctx), 1);
}

static void the_divisor_hides_behind_its_latch(void **state)
{
	(void)state;
	out(LCR, 0x83);
	assert_int_equal(in(DATA), 12); /* 9600 baud */
	out(DATA, 0x34);
	out(IER, 0x12);
	assert_int_equal(in(DATA), 0x34);
	assert_int_equal(in(IER), 0x12);
	out(LCR, 0x03);
	assert_int_equal(in(IER), 0);
	assert_int_equal(host.len, 0);
	out(LCR, 0x80);
	assert_int_equal(in(DATA), 0x34);
}

static void bits_that_do_not_exist_stay_zero(void **state)
{
	(void)state;
	out(IER, 0xff);
	assert_int_equal(in(IER), 0x0f);
	out(MCR, 0xe0);
	assert_int_equal(in(MCR), 0);
	out(SCR, 0xa5);
	assert_int_equal(in(SCR), 0xa5);
	out(LSR, 0xff);
	out(MSR, 0xff);
	assert_int_equal(in(LSR), 0x60);
	assert_int_equal(in(MSR), 0xb0);
}

static void wide_accesses_use_the_low_byte(void **state)
{
	(void)state;
	serial_bus_ops.write(serial, SCR, 4, 0x11223344);
	assert_int_equal(serial_bus_ops.read(serial, SCR, 4), 0x44);
	serial_bus_ops.write(serial, DATA, 2, 0x4241);
	assert_int_equal(host.len, 1);
	assert_int_equal(host.out[0], 'A');
}

static void an_absent_wire_is_fine(void **state)
{
	(void)state;
	struct chardev other = {.takes = true};
	struct serial *silent = serial_create((struct irq_line){0}, &other);
	serial_bus_ops.write(silent, IER, 1, 0x0f);
	serial_bus_ops.write(silent, DATA, 1, 'x');
	assert_int_equal(other.len, 1);
	serial_destroy(silent);
}

/* ------------------------------------------------------------- what Linux asks a port first */

/* drivers/tty/serial/8250/8250_port.c: autoconfig() and autoconfig_16550a(). */
static void linux_finds_a_16550a(void **state)
{
	(void)state;
	out(IER, 0);
	assert_int_equal(in(IER)&0x0f, 0);
	out(IER, 0x0f);
	assert_int_equal(in(IER)&0x0f, 0x0f);
	out(IER, 0);
	out(MCR, 0x1a); /* loopback, OUT2, RTS */
	assert_int_equal(in(MSR)&0xf0, 0x90);
	out(MCR, 0x08);

	out(LCR, 0xbf);
	out(FCR, 0); /* EFR of others */
	out(LCR, 0);
	out(FCR, 0x01);
	assert_int_equal(in(IIR) >> 6, 3); /* 16550A or better */

	out(LCR, 0x80);
	assert_int_not_equal(in(FCR), 0); /* no EFR: not a 16650 */
	out(LCR, 0xbf);
	assert_int_not_equal(in(FCR), 0); /* not a 16650V2 */
	out(LCR, 0);
	uint8_t mcr = in(MCR);
	out(LCR, 0xe0);
	uint8_t excr = in(FCR);
	assert_false((excr ^ mcr) & 0x10);
	out(LCR, 0);
	out(MCR, mcr ^ 0x10);
	out(LCR, 0xe0);
	excr = in(FCR);
	out(LCR, 0);
	out(MCR, mcr);
	assert_false((excr ^ mcr) & 0x10); /* not an NS16550A of the superio kind */

	out(FCR, 0x21);
	uint8_t low = in(IIR) >> 5;
	out(FCR, 0x01);
	out(LCR, 0x80);
	out(FCR, 0x21);
	uint8_t high = in(IIR) >> 5;
	out(FCR, 0x01);
	assert_false(low == 6 && high == 7); /* not a TI16750 */
	out(LCR, 0);
	out(IER, 0x40);
	assert_int_equal(in(IER), 0); /* not an XScale */
}

/* size_fifo(): more than fits through the loop, then count. */
static void linux_counts_a_fifo_of_16(void **state)
{
	(void)state;
	unsigned count = 0;

	out(FCR, 0x07);
	out(MCR, 0x10);
	for (unsigned i = 0; i < 256; i++)
		out(DATA, (uint8_t)i);
	while ((in(LSR)&0x01) && count < 256)
		assert_int_equal(in(DATA), count++); /* the overrun loses the new bytes, not the old ones */
	assert_int_equal(count, 16);
	assert_int_equal(host.len, 0);
}

/* serial8250_do_startup(): wrong answers switch Linux to workarounds with timers. */
static void linux_sees_no_bug_of_the_transmitter(void **state)
{
	(void)state;
	out(FCR, 0x01);
	out(IER, 0x02);
	assert_int_equal(in(IIR), 0xc2);
	out(IER, 0);
	out(IER, 0x02);
	assert_int_equal(in(IIR), 0xc2); /* turning it on says "empty" again: no UART_BUG_THRE */
	out(IER, 0);
	out(IER, 0x02);
	assert_int_equal(in(LSR), 0x60);
	assert_int_equal(in(IIR), 0xc2); /* no UART_BUG_TXEN */
	out(IER, 0);
}

/* ------------------------------------------------------------------------------- priorities */

static void causes_come_in_the_order_of_their_priority(void **state)
{
	(void)state;
	out(MCR, 0x10);
	out(DATA, 'a');
	out(DATA, 'b'); /* overrun */
	out(MCR, 0x12); /* CTS changed */
	out(IER, 0x0f);
	assert_true(wire.level);
	assert_int_equal(in(IIR), 0x06);
	assert_int_equal(in(IIR), 0x06); /* only LSR takes it back */
	assert_int_equal(in(LSR), 0x63);
	assert_int_equal(in(IIR), 0x04);
	assert_int_equal(in(DATA), 'b'); /* without FIFO the new byte replaces the old one */
	assert_int_equal(in(IIR), 0x02);
	assert_int_equal(in(IIR), 0x00);
	assert_true(wire.level);
	in(MSR);
	assert_int_equal(in(IIR), 0x01);
	assert_false(wire.level);
	assert_int_equal(wire.rises, 1);
}

static void only_enabled_causes_count(void **state)
{
	(void)state;
	out(FCR, 0x01);
	type("x");
	out(MCR, 0x10);
	assert_int_equal(in(IIR), 0xc1);
	assert_int_equal(wire.changes, 0);
	for (unsigned i = 0; i < 20; i++)
		out(DATA, 'x'); /* overrun */
	out(IER, 0x08);
	assert_int_equal(in(IIR), 0xc0);
	out(IER, 0x01);
	assert_int_equal(in(IIR), 0xc4);
	out(IER, 0x05);
	assert_int_equal(in(IIR), 0xc6);
}

/* --------------------------------------------------------------------------------- loopback */

static void the_loop_returns_lines_and_bytes(void **state)
{
	(void)state;
	static const uint8_t lines[] = {0x00, 0x20, 0x10, 0x30, 0x40, 0x60, 0x50, 0x70};

	out(FCR, 0x01);
	for (unsigned i = 0; i < 16; i++) {
		out(MCR, (uint8_t)(0x10 | i));
		assert_int_equal(in(MSR)&0xf0, lines[i & 7] | (i & 8 ? 0x80 : 0));
	}
	out(DATA, 'q');
	assert_int_equal(host.len, 0);
	assert_int_equal(in(DATA), 'q');
	assert_int_equal(host.user.room(host.user.ctx), 0); /* the host's bytes wait */
	unsigned kicks = host.kicks;
	out(MCR, 0);
	assert_int_equal(host.kicks, kicks + 1);
	assert_int_equal(host.user.room(host.user.ctx), 16);
}

static void line_changes_are_noted_once(void **state)
{
	(void)state;
	out(MCR, 0x10);
	assert_int_equal(in(MSR), 0x0b); /* CTS, DSR and DCD went */
	assert_int_equal(in(MSR), 0x00);
	out(MCR, 0x14);
	assert_int_equal(in(MSR), 0x40); /* RI: its rise is no event */
	out(MCR, 0x10);
	assert_int_equal(in(MSR), 0x04); /* its end is */
	out(MCR, 0x12);
	out(MCR, 0x10);
	assert_int_equal(in(MSR), 0x01); /* forth and back is a change too */
	out(MCR, 0x12);
	out(MCR, 0x13);
	assert_int_equal(in(MSR), 0x33); /* and they add up */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERIAL(registers_after_reset),
		WITH_SERIAL(the_divisor_hides_behind_its_latch),
		WITH_SERIAL(bits_that_do_not_exist_stay_zero),
		WITH_SERIAL(wide_accesses_use_the_low_byte),
		WITH_SERIAL(an_absent_wire_is_fine),
		WITH_SERIAL(linux_finds_a_16550a),
		WITH_SERIAL(linux_counts_a_fifo_of_16),
		WITH_SERIAL(linux_sees_no_bug_of_the_transmitter),
		WITH_SERIAL(causes_come_in_the_order_of_their_priority),
		WITH_SERIAL(only_enabled_causes_count),
		WITH_SERIAL(the_loop_returns_lines_and_bytes),
		WITH_SERIAL(line_changes_are_noted_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
