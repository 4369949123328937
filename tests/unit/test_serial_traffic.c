/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes through the 16550A and the interrupts they cost on an edge-triggered pin: every one that a driver needs, and
 * none that has nothing to say. */
#include "serial_rig.h"

#include <pthread.h>
#include <sched.h>

/* ---------------------------------------------------------------------------- transmitting */

/* An edge-triggered pin and one interrupt in service at a time: a rise during the handler makes it run again. */
struct linux_driver {
	const char *text;
	size_t left;
	unsigned interrupts, empty, accesses;
	unsigned rises_seen;
};

static void driver_in_handler(struct linux_driver *d)
{
	bool handled = false;

	d->interrupts++;
	for (unsigned pass = 0; pass < 512; pass++) {
		d->accesses++;
		if (in(IIR)&0x01)
			break;
		handled = true;
		in(LSR);
		in(MSR);
		d->accesses += 2;
		if (!(in(IER)&0x02)) /* Linux keeps a copy: not counted */
			continue;
		for (unsigned i = 0; i < 16 && d->left; i++, d->left--, d->accesses++)
			out(DATA, (uint8_t)*d->text++);
		if (!d->left) {
			out(IER, 0x05);
			d->accesses++;
		}
	}
	if (!handled)
		d->empty++;
}

static void driver_interrupts(struct linux_driver *d)
{
	while (d->rises_seen != wire.rises) {
		d->rises_seen = wire.rises;
		driver_in_handler(d);
	}
}

static void driver_prints(struct linux_driver *d, const char *text)
{
	d->text = text;
	d->left = strlen(text);
	d->rises_seen = wire.rises;
	out(IER, 0x07);
	d->accesses++;
	driver_interrupts(d);
}

static const char line[] = "[    0.000000] Linux version 6.12 (a line of the boot log, 60 cha)\r\n";

static void a_line_of_linux_is_one_interrupt(void **state)
{
	(void)state;
	struct linux_driver driver = {0};

	out(FCR, 0x81);
	out(IER, 0x05);
	driver_prints(&driver, line);
	assert_int_equal(driver.left, 0);
	assert_int_equal(driver.interrupts, 1);
	assert_int_equal(host.len, strlen(line));
	assert_memory_equal(host.out, line, host.len);
	/* Each byte, IIR + LSR + MSR per 16 of them, THRE on and off, the last IIR. */
	assert_int_equal(driver.accesses, strlen(line) + 3 * ((strlen(line) + 15) / 16) + 2 + 1);
	drain(); /* nothing is left to say */
	driver_interrupts(&driver);
	assert_int_equal(driver.interrupts, 1);
}

static void a_byte_of_linux_is_one_interrupt(void **state)
{
	(void)state;
	struct linux_driver driver = {0};

	out(FCR, 0x81);
	out(IER, 0x05);
	for (int i = 0; i < 100; i++)
		driver_prints(&driver, "x");
	assert_int_equal(driver.interrupts, 100);
	assert_int_equal(driver.empty, 0);
	assert_int_equal(host.len, 100);
}

/* Nobody will tell when the bytes went: the wire must rise at once, at the price of one empty interrupt per line. */
static void a_blocked_host_does_not_stop_the_driver(void **state)
{
	(void)state;
	struct linux_driver driver = {0};

	host.takes = false;
	out(FCR, 0x81);
	out(IER, 0x05);
	for (int i = 0; i < 10; i++)
		driver_prints(&driver, line);
	assert_int_equal(driver.left, 0);
	assert_true(driver.interrupts <= 20);
	assert_int_equal(host.len, 10 * strlen(line));
}

/* A handler that writes one byte and leaves: each needs its own rise. */
static void one_byte_per_interrupt(bool reads_iir, bool fifo, bool takes)
{
	unsigned seen = 0, sent = 0;

	host.takes = takes;
	out(FCR, fifo ? 0x01 : 0x00);
	out(IER, 0x02);
	for (unsigned i = 0; i < 1000 && sent < 50; i++) {
		if (wire.rises == seen) {
			assert_true(fifo && takes); /* only this waits */
			drain();
		}
		assert_int_not_equal(wire.rises, seen);
		seen = wire.rises;
		if (reads_iir)
			assert_int_equal(in(IIR)&0x0f, 0x02);
		out(DATA, (uint8_t)sent++);
	}
	assert_int_equal(host.len, 50);
	serial_reset(serial);
	host.len = 0;
	wire.rises = 0;
}

static void a_simple_driver_gets_a_rise_for_each_byte(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++)
		one_byte_per_interrupt(i & 1, i & 2, i & 4);
}

static void reading_iir_takes_the_interrupt_back(void **state)
{
	(void)state;
	out(FCR, 0x01);
	out(IER, 0x02);
	assert_true(wire.level);
	assert_int_equal(in(IIR), 0xc2);
	assert_false(wire.level);
	assert_int_equal(in(IIR), 0xc1);
	out(DATA, 'x');
	assert_int_equal(in(IIR), 0xc2); /* the register tells it at once */
	drain();
	assert_false(wire.level); /* it was told */
}

static void a_held_transmitter_does_not_hide_other_causes(void **state)
{
	(void)state;
	out(FCR, 0x01);
	out(IER, 0x0f);
	in(IIR);
	out(DATA, 'x');
	assert_false(wire.level);
	type("k");
	assert_true(wire.level);
	assert_int_equal(in(IIR), 0xc4);
	in(DATA);
	assert_false(wire.level); /* the transmitter is held again */
	out(MCR, 0x10);           /* the lines change */
	assert_true(wire.level);
	out(MCR, 0x00);
	drain();
	in(IIR);
	assert_true(wire.level);
	in(MSR);
	assert_false(wire.level);
}

static void turning_the_interrupt_off_lowers_the_wire(void **state)
{
	(void)state;
	out(FCR, 0x01);
	out(IER, 0x02);
	assert_true(wire.level);
	out(IER, 0);
	assert_false(wire.level);
	out(DATA, 'x');
	drain();
	assert_int_equal(wire.rises, 1);
	out(IER, 0x02);
	assert_int_equal(wire.rises, 2);
}

/* -------------------------------------------------------------------------------- receiving */

static void a_byte_is_received(void **state)
{
	(void)state;
	out(IER, 0x01);
	assert_int_equal(host.user.room(host.user.ctx), 1); /* no FIFO yet */
	type("k");
	assert_int_equal(host.user.room(host.user.ctx), 0);
	assert_true(wire.level);
	assert_int_equal(in(IIR), 0x04);
	assert_int_equal(in(LSR), 0x61);
	unsigned kicks = host.kicks;
	assert_int_equal(in(DATA), 'k');
	assert_int_equal(host.kicks, kicks + 1);
	assert_int_equal(in(LSR), 0x60);
	assert_int_equal(in(DATA), 0);
	assert_false(wire.level);
}

static void the_trigger_level_tells_full_from_timeout(void **state)
{
	(void)state;
	static const unsigned levels[] = {1, 4, 8, 14};

	out(IER, 0x01);
	for (unsigned i = 0; i < 4; i++) {
		out(FCR, (uint8_t)(0x03 | i << 6));
		for (unsigned n = 1; n <= 16; n++) {
			type("x");
			assert_true(wire.level); /* typing never waits */
			assert_int_equal(in(IIR), n >= levels[i] ? 0xc4 : 0xcc);
		}
		assert_int_equal(host.user.room(host.user.ctx), 0);
		for (unsigned n = 15; n > 0; n--) {
			in(DATA);
			assert_int_equal(in(IIR), n >= levels[i] ? 0xc4 : 0xcc);
		}
		in(DATA);
		assert_int_equal(in(IIR), 0xc1);
		assert_false(wire.level);
	}
}

static void bytes_keep_their_order(void **state)
{
	(void)state;
	uint8_t next_in = 0, next_out = 0;

	out(FCR, 0x01);
	for (unsigned round = 0; round < 100; round++) {
		uint8_t data[16];
		size_t room = host.user.room(host.user.ctx), n = round % 2 ? room : room / 2;
		for (size_t i = 0; i < n; i++)
			data[i] = next_in++;
		host.user.input(host.user.ctx, data, n);
		for (unsigned i = 0; i < 5 && (in(LSR)&1); i++)
			assert_int_equal(in(DATA), next_out++);
	}
	while (in(LSR)&1)
		assert_int_equal(in(DATA), next_out++);
	assert_int_equal(next_in, next_out);
}

/* One that reads a byte and leaves, on an edge-triggered pin. */
static void what_a_handler_leaves_behind_rises_again(void **state)
{
	(void)state;
	out(FCR, 0x81); /* 8 */
	out(IER, 0x01);
	type("abc");
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(wire.rises, i + 1);
		assert_int_equal(in(DATA), 'a' + i);
	}
	assert_false(wire.level);
	/* And one that reads what the trigger level promises. */
	type("0123456789");
	unsigned before = wire.rises;
	for (unsigned i = 0; i < 8; i++)
		in(DATA);
	assert_true(wire.rises > before && wire.level);
}

static void a_typed_byte_is_one_rise(void **state)
{
	(void)state;
	out(FCR, 0x81);
	out(IER, 0x05);
	for (unsigned i = 0; i < 10; i++) {
		type("k");
		assert_int_equal(wire.rises, i + 1);
		assert_int_equal(in(IIR), 0xcc);
		assert_int_equal(in(LSR), 0x61);
		assert_int_equal(in(DATA), 'k');
		assert_int_equal(in(LSR), 0x60);
		assert_int_equal(in(IIR), 0xc1);
	}
	assert_int_equal(wire.rises, 10);
}

static void clearing_the_fifo_makes_room(void **state)
{
	(void)state;
	out(FCR, 0x01);
	out(IER, 0x01);
	type("0123456789");
	unsigned kicks = host.kicks;
	out(FCR, 0x03);
	assert_int_equal(host.kicks, kicks + 1);
	assert_int_equal(host.user.room(host.user.ctx), 16);
	assert_false(wire.level);
	type("x");
	out(FCR, 0x05); /* the transmitter's: leaves the receiver alone */
	assert_int_equal(in(DATA), 'x');
	type("y");
	out(FCR, 0x00); /* turned off: emptied */
	assert_int_equal(in(LSR), 0x60);
	assert_int_equal(in(IIR), 0x01);
	type("z");
	out(FCR, 0xc2); /* without bit 0 nothing is programmed */
	assert_int_equal(in(IIR), 0x04);
	assert_int_equal(in(DATA), 'z');
}

/* ---------------------------------------------------------------------------------- threads */

static void *typist(void *arg)
{
	unsigned *sent = arg;

	while (*sent < 3000) {
		uint8_t data[16];
		size_t room = host.user.room(host.user.ctx);
		if (!room)
			sched_yield();
		for (size_t i = 0; i < room; i++)
			data[i] = (uint8_t)(*sent)++;
		host.user.input(host.user.ctx, data, room);
		host.user.drained(host.user.ctx);
	}
	return NULL;
}

static void guest_and_host_may_meet(void **state)
{
	(void)state;
	unsigned sent = 0, got = 0;
	pthread_t thread;

	out(FCR, 0x01);
	out(IER, 0x07);
	assert_int_equal(pthread_create(&thread, NULL, typist, &sent), 0);
	while (got < 3000) {
		if (!(in(LSR)&1))
			sched_yield();
		while (in(LSR)&1)
			assert_int_equal(in(DATA), (uint8_t)got++);
		host.len = 0;
		out(DATA, 'x');
		in(IIR);
	}
	pthread_join(thread, NULL);
	while (in(LSR)&1)
		assert_int_equal(in(DATA), (uint8_t)got++);
	assert_int_equal(got, sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERIAL(a_line_of_linux_is_one_interrupt),
		WITH_SERIAL(a_byte_of_linux_is_one_interrupt),
		WITH_SERIAL(a_blocked_host_does_not_stop_the_driver),
		WITH_SERIAL(a_simple_driver_gets_a_rise_for_each_byte),
		WITH_SERIAL(reading_iir_takes_the_interrupt_back),
		WITH_SERIAL(a_held_transmitter_does_not_hide_other_causes),
		WITH_SERIAL(turning_the_interrupt_off_lowers_the_wire),
		WITH_SERIAL(a_byte_is_received),
		WITH_SERIAL(the_trigger_level_tells_full_from_timeout),
		WITH_SERIAL(bytes_keep_their_order),
		WITH_SERIAL(what_a_handler_leaves_behind_rises_again),
		WITH_SERIAL(a_typed_byte_is_one_rise),
		WITH_SERIAL(clearing_the_fifo_makes_room),
		WITH_SERIAL(guest_and_host_may_meet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
