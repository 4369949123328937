/* SPDX-License-Identifier: Apache-2.0 */
/* serial_rig.h - a serial port between a chardev and a wire that are played here. For one test program each. */
#ifndef LULL_TESTS_SERIAL_RIG_H
#define LULL_TESTS_SERIAL_RIG_H

#include "chardev.h"
#include "serial.h"
#include "util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
	DATA,
	IER,
	IIR,
	FCR = 2,
	LCR,
	MCR,
	LSR,
	MSR,
	SCR
};

/* ------------------------------------------------------------------- the host and the wire */

struct chardev {
	struct chardev_user user;
	uint8_t out[8192];
	size_t len;
	bool takes; /* as opposed to blocked */
	unsigned kicks;
};

struct wire {
	bool level;
	unsigned rises, changes;
};

static struct chardev host;
static struct wire wire;
static struct serial *serial;

void chardev_connect(struct chardev *cd, const struct chardev_user *user)
{
	cd->user = *user;
}

void chardev_disconnect(struct chardev *cd)
{
	memset(&cd->user, 0, sizeof(cd->user));
}

bool chardev_write(struct chardev *cd, const uint8_t *data, size_t len)
{
	invariant(cd->len + len <= sizeof(cd->out));
	memcpy(cd->out + cd->len, data, len);
	cd->len += len;
	return cd->takes;
}

void chardev_kick_input(struct chardev *cd)
{
	__atomic_fetch_add(&cd->kicks, 1, __ATOMIC_RELAXED);
}

static void set_wire(void *chip, unsigned pin, bool level)
{
	struct wire *w = chip;
	invariant(pin == 4);
	w->changes++;
	w->rises += level && !w->level;
	w->level = level;
}

static inline uint8_t in(unsigned reg)
{
	return (uint8_t)serial_bus_ops.read(serial, reg, 1);
}

static inline void out(unsigned reg, uint8_t value)
{
	serial_bus_ops.write(serial, reg, 1, value);
}

static inline void type(const char *text)
{
	size_t len = strlen(text);
	assert_true(host.user.room(host.user.ctx) >= len);
	host.user.input(host.user.ctx, (const uint8_t *)text, len);
}

static inline void drain(void)
{
	host.user.drained(host.user.ctx);
}

static int set_up(void **state)
{
	(void)state;
	host = (struct chardev){.takes = true};
	memset(&wire, 0, sizeof(wire));
	serial = serial_create((struct irq_line){.set = set_wire, .chip = &wire, .pin = 4}, &host);
	return serial ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	serial_destroy(serial);
	return host.user.input ? -1 : 0;
}

#define WITH_SERIAL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
