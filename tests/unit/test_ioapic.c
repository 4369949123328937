/* SPDX-License-Identifier: Apache-2.0 */
/* The IOAPIC against the 82093AA data sheet, with a recorder in place of the local APICs. A stress test with real
 * threads shows that no pulse and no level is lost while a guest masks and unmasks. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ioapic.h"
#include "util.h"

/* Registers, and bits of a redirection entry. */
enum {
	ID = 0x00,
	VERSION = 0x01,
	ARBITRATION = 0x02,
	ENTRY = 0x10,
	LOWEST = 1u << 8,
	SMI = 2u << 8,
	NMI = 4u << 8,
	INIT = 5u << 8,
	EXTINT = 7u << 8,
	LOGICAL = 1u << 11,
	ACTIVE_LOW = 1u << 13,
	REMOTE_IRR = 1u << 14,
	LEVEL = 1u << 15,
	MASKED = 1u << 16,
};

/* --------------------------------------------------------------------------------- fixture */

struct fixture {
	struct ioapic *io;
	bool refuse; /* nobody takes a message */
	unsigned delivered;
	struct msi_msg msg; /* the last one */
	unsigned routed;
	struct {
		unsigned count;
		struct msi_msg msg;
		bool masked, level;
	} route[IOAPIC_PINS];
};

static bool record_deliver(void *ctx, const struct msi_msg *msg)
{
	struct fixture *f = ctx;

	f->delivered++;
	f->msg = *msg;
	return !f->refuse;
}

static void record_route(void *ctx, unsigned pin, const struct msi_msg *msg, bool masked, bool level)
{
	struct fixture *f = ctx;

	f->routed++;
	f->route[pin].count++;
	f->route[pin].msg = *msg;
	f->route[pin].masked = masked;
	f->route[pin].level = level;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ioapic_out out = {.deliver = record_deliver, .route = record_route, .ctx = f};

	assert_non_null(f);
	f->io = ioapic_create(&out);
	assert_non_null(f->io);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ioapic_destroy(f->io);
	free(f);
	return 0;
}

static void rewrite(struct ioapic *io, unsigned reg, uint32_t value)
{
	ioapic_bus_ops.write(io, 0x00, 4, reg);
	ioapic_bus_ops.write(io, 0x10, 4, value);
}

static void wr(struct fixture *f, unsigned reg, uint32_t value)
{
	rewrite(f->io, reg, value);
}

static uint32_t rd(struct fixture *f, unsigned reg)
{
	ioapic_bus_ops.write(f->io, 0x00, 4, reg);
	return (uint32_t)ioapic_bus_ops.read(f->io, 0x10, 4);
}

static void entry(struct fixture *f, unsigned pin, uint32_t low)
{
	wr(f, ENTRY + 2 * pin, low);
}

static uint32_t entry_low(struct fixture *f, unsigned pin)
{
	return rd(f, ENTRY + 2 * pin);
}

static void pulse(struct fixture *f, unsigned pin)
{
	struct irq_line line = ioapic_line(f->io, pin);

	irq_pulse(&line);
}

static void eoi_register(struct fixture *f, uint8_t vector)
{
	ioapic_bus_ops.write(f->io, 0x40, 4, vector);
}

/* ------------------------------------------------------------------------------- registers */

static void registers_after_reset(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(rd(f, ID), 0);
	assert_int_equal(rd(f, VERSION), 0x00170020);
	assert_int_equal(rd(f, ARBITRATION), 0);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		assert_int_equal(rd(f, ENTRY + 2 * pin), MASKED);
		assert_int_equal(rd(f, ENTRY + 2 * pin + 1), 0);
	}
}

static void only_writable_bits_are_kept(void **state)
{
	struct fixture *f = *state;

	f->refuse = true;
	wr(f, ID, UINT32_MAX);
	assert_int_equal(rd(f, ID), 0x0f000000);
	assert_int_equal(rd(f, ARBITRATION), 0x0f000000); /* follows the ID */
	wr(f, ARBITRATION, 0);
	assert_int_equal(rd(f, ARBITRATION), 0x0f000000);
	wr(f, VERSION, 0);
	assert_int_equal(rd(f, VERSION), 0x00170020);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		wr(f, ENTRY + 2 * pin, UINT32_MAX);
		wr(f, ENTRY + 2 * pin + 1, UINT32_MAX);
		assert_int_equal(rd(f, ENTRY + 2 * pin), 0x1afff);
		assert_int_equal(rd(f, ENTRY + 2 * pin + 1), 0xff000000);
	}
}

static void registers_that_are_not_there_read_zero(void **state)
{
	struct fixture *f = *state;

	for (unsigned reg = 0; reg < 256; reg++) {
		wr(f, reg, MASKED | 0x00000055);
		if ((reg > ARBITRATION && reg < ENTRY) || reg >= ENTRY + 2 * IOAPIC_PINS)
			assert_int_equal(rd(f, reg), 0);
	}
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		assert_int_equal(entry_low(f, pin), MASKED | 0x55);
}

static void the_index_register_is_8_bits_wide(void **state)
{
	struct fixture *f = *state;

	ioapic_bus_ops.write(f->io, 0x00, 4, 0xffffff01);
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x00, 4), 1);
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x10, 4), 0x00170020);
	ioapic_bus_ops.write(f->io, 0x00, 1, ENTRY);
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x10, 4), MASKED);
}

static void accesses_of_other_widths_and_offsets_do_nothing(void **state)
{
	static const struct {
		uint64_t offset;
		unsigned size;
	} table[] = {{0x10, 1}, {0x10, 2}, {0x10, 8}, {0x11, 4}, {0x14, 4},
	             {0x20, 4}, {0x40, 1}, {0x40, 8}, {0x44, 4}, {0xffc, 4}};
	struct fixture *f = *state;

	entry(f, 3, LEVEL | 0x31);
	ioapic_set_pin(f->io, 3, true);
	ioapic_bus_ops.write(f->io, 0x00, 4, ENTRY + 2 * 3);
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		ioapic_bus_ops.write(f->io, table[i].offset, table[i].size, 0x31);
		assert_int_equal(ioapic_bus_ops.read(f->io, table[i].offset, table[i].size), 0);
	}
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x10, 4), LEVEL | REMOTE_IRR | 0x31);
	assert_int_equal(f->delivered, 1);
}

/* ---------------------------------------------------------------------------------- messages */

static void messages(void **state)
{
	static const struct {
		const char *name;
		uint32_t low, dest;
		uint64_t address;
		uint32_t data;
	} table[] = {
		{"fixed, physical", 0x31, 5, 0xfee05000, 0x0031},
		{"fixed, logical", LOGICAL | 0x31, 0x83, 0xfee83004, 0x0031},
		{"lowest, physical: hint", LOWEST | 0x31, 1, 0xfee01008, 0x0131},
		{"lowest, logical: hint", LOGICAL | LOWEST | 0x31, 0xff, 0xfeeff00c, 0x0131},
		{"level: asserted", LEVEL | 0x31, 0, 0xfee00000, 0xc031},
		{"level, lowest", LEVEL | LOWEST | LOGICAL | 0x31, 3, 0xfee0300c, 0xc131},
		{"polarity does not travel", ACTIVE_LOW | 0x31, 0, 0xfee00000, 0x0031},
		{"smi", SMI, 0, 0xfee00000, 0x0200},
		{"nmi", NMI, 2, 0xfee02000, 0x0400},
		{"nmi is an edge", NMI | LEVEL, 2, 0xfee02000, 0x0400},
		{"init", INIT | LEVEL, 2, 0xfee02000, 0x0500},
		{"extint", EXTINT | 0x31, 0, 0xfee00000, 0x0731},
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		wr(f, ENTRY + 2 * i + 1, table[i].dest << 24);
		entry(f, i, table[i].low);
		ioapic_set_pin(f->io, i, true);
		if (f->delivered != i + 1 || f->msg.address != table[i].address || f->msg.data != table[i].data)
			fail_msg("%s: %llx %x", table[i].name, (unsigned long long)f->msg.address, f->msg.data);
	}
}

static void each_pin_has_its_own_entry(void **state)
{
	struct fixture *f = *state;

	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		entry(f, pin, 0x30 + pin);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		pulse(f, pin);
		assert_int_equal(f->delivered, pin + 1);
		assert_int_equal(f->msg.data, 0x30 + pin);
	}
}

/* ------------------------------------------------------------------------------------- edges */

static void edge_is_delivered_once_per_rise(void **state)
{
	struct fixture *f = *state;

	entry(f, 4, 0x34);
	ioapic_set_pin(f->io, 4, true);
	ioapic_set_pin(f->io, 4, true);
	assert_int_equal(f->delivered, 1);
	ioapic_set_pin(f->io, 4, false);
	assert_int_equal(f->delivered, 1);
	ioapic_set_pin(f->io, 4, true);
	assert_int_equal(f->delivered, 2);
	assert_int_equal(entry_low(f, 4), 0x34); /* no remote IRR, no delivery status */
	ioapic_eoi(f->io, 0x34);
	assert_int_equal(f->delivered, 2);
}

static void edge_latched_while_masked_is_delivered_on_unmask(void **state)
{
	struct fixture *f = *state;

	entry(f, 4, MASKED | 0x34);
	pulse(f, 4);
	pulse(f, 4);
	assert_int_equal(f->delivered, 0);
	wr(f, ENTRY + 2 * 4 + 1, 7u << 24); /* still masked */
	assert_int_equal(f->delivered, 0);
	entry(f, 4, 0x34);
	assert_int_equal(f->delivered, 1);
	assert_true(f->msg.address == 0xfee07000);
	entry(f, 4, MASKED | 0x34);
	entry(f, 4, 0x34);
	assert_int_equal(f->delivered, 1); /* once */
}

static void edge_while_the_reset_entry_is_masked_is_kept_too(void **state)
{
	struct fixture *f = *state;

	pulse(f, 9);
	entry(f, 9, 0x39);
	assert_int_equal(f->delivered, 1);
	assert_int_equal(f->msg.data, 0x39);
}

static void edge_that_nobody_took_is_tried_again(void **state)
{
	struct fixture *f = *state;

	entry(f, 4, 0x34);
	f->refuse = true;
	ioapic_set_pin(f->io, 4, true);
	assert_int_equal(f->delivered, 1);
	f->refuse = false;
	wr(f, ENTRY + 2 * 4 + 1, 1u << 24); /* to another CPU */
	assert_int_equal(f->delivered, 2);
	wr(f, ENTRY + 2 * 4 + 1, 0);
	assert_int_equal(f->delivered, 2);
}

/* ------------------------------------------------------------------------------------ levels */

static void level_is_delivered_once_until_eoi(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	assert_int_equal(f->delivered, 1);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
	ioapic_set_pin(f->io, 5, true);
	ioapic_set_pin(f->io, 5, false);
	ioapic_set_pin(f->io, 5, true);
	assert_int_equal(f->delivered, 1);
	ioapic_set_pin(f->io, 5, false);
	ioapic_eoi(f->io, 0x35);
	assert_int_equal(entry_low(f, 5), LEVEL | 0x35);
	assert_int_equal(f->delivered, 1);
	ioapic_set_pin(f->io, 5, true);
	assert_int_equal(f->delivered, 2);
}

static void level_still_high_at_eoi_is_delivered_again(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	ioapic_eoi(f->io, 0x35);
	assert_int_equal(f->delivered, 2);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
}

static void level_masked_at_eoi_is_delivered_on_unmask_if_still_high(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	entry(f, 5, MASKED | LEVEL | 0x35);
	ioapic_eoi(f->io, 0x35);
	assert_int_equal(entry_low(f, 5), MASKED | LEVEL | 0x35);
	assert_int_equal(f->delivered, 1);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 2);
	entry(f, 5, MASKED | LEVEL | 0x35);
	ioapic_eoi(f->io, 0x35);
	ioapic_set_pin(f->io, 5, false);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 2); /* a level that went away is no interrupt */
}

static void unmasking_does_not_repeat_a_level_in_service(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	entry(f, 5, MASKED | LEVEL | 0x35);
	assert_int_equal(entry_low(f, 5), MASKED | LEVEL | REMOTE_IRR | 0x35);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 1);
}

static void writing_an_entry_cannot_set_or_clear_remote_irr(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, MASKED | LEVEL | REMOTE_IRR | 0x35);
	assert_int_equal(entry_low(f, 5), MASKED | LEVEL | 0x35);
	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
}

static void eoi_of_another_vector_does_nothing(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	ioapic_eoi(f->io, 0x36);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
	assert_int_equal(f->delivered, 1);
}

static void eoi_reaches_every_pin_with_the_vector(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	entry(f, 20, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	ioapic_set_pin(f->io, 20, true);
	ioapic_set_pin(f->io, 5, false);
	ioapic_eoi(f->io, 0x35);
	assert_int_equal(entry_low(f, 5), LEVEL | 0x35);
	assert_int_equal(entry_low(f, 20), LEVEL | REMOTE_IRR | 0x35);
	assert_int_equal(f->delivered, 3);
}

static void eoi_register_does_what_the_broadcast_does(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	ioapic_set_pin(f->io, 5, false);
	eoi_register(f, 0x36);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
	eoi_register(f, 0x35);
	assert_int_equal(entry_low(f, 5), LEVEL | 0x35);
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x40, 4), 0);
}

/* What Linux does on chips without an EOI register: mask and edge, then the entry as it was. */
static void edge_and_back_ends_a_level(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	entry(f, 5, MASKED | 0x35);
	assert_int_equal(entry_low(f, 5), MASKED | 0x35);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 2);
	ioapic_set_pin(f->io, 5, false);
	entry(f, 5, MASKED | 0x35);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(entry_low(f, 5), LEVEL | 0x35);
	assert_int_equal(f->delivered, 2);
}

static void edge_latched_before_a_change_to_level_is_gone_with_the_level(void **state)
{
	struct fixture *f = *state;

	pulse(f, 5);
	entry(f, 5, MASKED | LEVEL | 0x35);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 0);
	entry(f, 5, 0x35);
	assert_int_equal(f->delivered, 0);
}

static void level_that_nobody_took_has_no_remote_irr_and_is_tried_again(void **state)
{
	struct fixture *f = *state;

	entry(f, 5, LEVEL | 0x35);
	f->refuse = true;
	ioapic_set_pin(f->io, 5, true);
	assert_int_equal(f->delivered, 1);
	assert_int_equal(entry_low(f, 5), LEVEL | 0x35);
	f->refuse = false;
	wr(f, ENTRY + 2 * 5 + 1, 1u << 24);
	assert_int_equal(f->delivered, 2);
	assert_int_equal(entry_low(f, 5), LEVEL | REMOTE_IRR | 0x35);
}

static void nmi_programmed_as_level_is_an_edge(void **state)
{
	struct fixture *f = *state;

	entry(f, 2, NMI | LEVEL);
	ioapic_set_pin(f->io, 2, true);
	assert_int_equal(entry_low(f, 2), NMI | LEVEL);
	ioapic_set_pin(f->io, 2, true);
	assert_int_equal(f->delivered, 1);
	ioapic_set_pin(f->io, 2, false);
	ioapic_set_pin(f->io, 2, true);
	assert_int_equal(f->delivered, 2);
}

/* ------------------------------------------------------------------------------------- rest */

static void reset_masks_and_forgets_but_wires_keep_their_level(void **state)
{
	struct fixture *f = *state;

	wr(f, ID, 5u << 24);
	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	pulse(f, 6);
	ioapic_bus_ops.write(f->io, 0x00, 4, 0x11);
	ioapic_reset(f->io);
	assert_int_equal(ioapic_bus_ops.read(f->io, 0x00, 4), 0);
	registers_after_reset(state);
	entry(f, 6, 0x36);
	assert_int_equal(f->delivered, 1); /* the edge on 6 is forgotten */
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->delivered, 2);
}

static void routes_follow_the_entries(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->routed, IOAPIC_PINS); /* at creation */
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		assert_int_equal(f->route[pin].count, 1);
		assert_true(f->route[pin].masked);
		assert_false(f->route[pin].level);
	}
	wr(f, ENTRY + 2 * 5 + 1, 9u << 24);
	assert_int_equal(f->route[5].count, 2);
	assert_true(f->route[5].msg.address == 0xfee09000);
	entry(f, 5, LEVEL | 0x35);
	assert_int_equal(f->route[5].count, 3);
	assert_int_equal(f->route[5].msg.data, 0xc035);
	assert_false(f->route[5].masked);
	assert_true(f->route[5].level);
	entry(f, 5, NMI | LEVEL);
	assert_false(f->route[5].level);
	wr(f, ID, 1u << 24);
	assert_int_equal(f->routed, IOAPIC_PINS + 3);
	ioapic_reset(f->io);
	assert_int_equal(f->routed, 2 * IOAPIC_PINS + 3);
	assert_true(f->route[5].masked);
}

static void has_nmi_sees_unmasked_nmi_pins_only(void **state)
{
	struct fixture *f = *state;

	assert_false(ioapic_has_nmi(f->io));
	entry(f, 23, MASKED | NMI);
	assert_false(ioapic_has_nmi(f->io));
	entry(f, 22, 0x31);
	assert_false(ioapic_has_nmi(f->io));
	entry(f, 23, NMI);
	assert_true(ioapic_has_nmi(f->io));
	ioapic_reset(f->io);
	assert_false(ioapic_has_nmi(f->io));
}

static void a_chip_without_route_works(void **state)
{
	struct fixture f = {0};
	struct ioapic_out out = {.deliver = record_deliver, .ctx = &f};

	(void)state;
	f.io = ioapic_create(&out);
	assert_non_null(f.io);
	entry(&f, 1, 0x31);
	pulse(&f, 1);
	assert_int_equal(f.delivered, 1);
	ioapic_destroy(f.io);
	ioapic_destroy(NULL);
}

static void description_names_busy_pins_and_is_cut_to_size(void **state)
{
	struct fixture *f = *state;
	char text[1024], cut[64];

	ioapic_describe(f->io, text, sizeof(text));
	assert_string_equal(text, "");
	entry(f, 5, LEVEL | 0x35);
	ioapic_set_pin(f->io, 5, true);
	pulse(f, 6);
	ioapic_describe(f->io, text, sizeof(text));
	assert_non_null(strstr(text, "ioapic pin 5: entry 000000000000c035, high, remote IRR\n"));
	assert_non_null(strstr(text, "ioapic pin 6: entry 0000000000010000, masked, edge waiting\n"));
	for (size_t size = 1; size < sizeof(cut); size++) {
		ioapic_describe(f->io, cut, size);
		assert_true(strlen(cut) < size);
	}
	ioapic_describe(f->io, NULL, 0);
}

/* ----------------------------------------------------------------------------------- stress */

/* Devices pulse or hold a pin, each waiting until its last interrupt was seen; a guest masks, unmasks and moves the
 * entries; a CPU takes what is delivered, lowers levels and ends them. A lost interrupt leaves a device waiting. */
enum {
	DEVICES = 4, /* even: edge, odd: level */
	ROUNDS = 3000,
};

struct stress {
	struct ioapic *io;
	atomic_uint pending; /* bit per device: its vector is requested */
	atomic_bool seen[DEVICES];
	atomic_uint count[DEVICES];
	atomic_bool stop, lost;
};

struct device {
	struct stress *s;
	unsigned pin;
};

static bool stress_deliver(void *ctx, const struct msi_msg *msg)
{
	struct stress *s = ctx;

	atomic_fetch_or(&s->pending, 1u << (msg->data & 0xf));
	return true;
}

static uint64_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

static void *stress_device(void *arg)
{
	struct device *d = arg;
	struct stress *s = d->s;
	struct irq_line line = ioapic_line(s->io, d->pin);

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t limit = seconds() + 30;

		if (d->pin & 1)
			irq_set(&line, true);
		else
			irq_pulse(&line);
		while (!atomic_exchange(&s->seen[d->pin], false)) {
			if (atomic_load(&s->lost) || seconds() > limit) {
				atomic_store(&s->lost, true);
				return NULL;
			}
			sched_yield();
		}
	}
	return NULL;
}

static void *stress_cpu(void *arg)
{
	struct stress *s = arg;

	while (!atomic_load(&s->stop)) {
		unsigned pending = atomic_exchange(&s->pending, 0);

		for (unsigned pin = 0; pin < DEVICES; pin++) {
			if (!(pending & 1u << pin))
				continue;
			if (pin & 1) {
				ioapic_set_pin(s->io, pin, false);
				ioapic_eoi(s->io, (uint8_t)(0x30 + pin));
			}
			atomic_fetch_add(&s->count[pin], 1);
			atomic_store(&s->seen[pin], true);
		}
		if (!pending)
			sched_yield();
	}
	return NULL;
}

static void *stress_guest(void *arg)
{
	struct stress *s = arg;

	for (unsigned i = 0; !atomic_load(&s->stop); i++) {
		unsigned pin = i % DEVICES;
		uint32_t low = 0x30 + pin + (pin & 1 ? LEVEL : 0);

		rewrite(s->io, ENTRY + 2 * pin, low | MASKED);
		sched_yield();
		rewrite(s->io, ENTRY + 2 * pin + 1, i << 24);
		rewrite(s->io, ENTRY + 2 * pin, low);
	}
	return NULL;
}

static void no_interrupt_is_lost_between_threads(void **state)
{
	struct stress s = {0};
	struct ioapic_out out = {.deliver = stress_deliver, .ctx = &s};
	struct device devices[DEVICES];
	pthread_t device[DEVICES], cpu, guest;

	(void)state;
	s.io = ioapic_create(&out);
	assert_non_null(s.io);
	assert_int_equal(pthread_create(&cpu, NULL, stress_cpu, &s), 0);
	assert_int_equal(pthread_create(&guest, NULL, stress_guest, &s), 0);
	for (unsigned i = 0; i < DEVICES; i++) {
		devices[i] = (struct device){&s, i};
		assert_int_equal(pthread_create(&device[i], NULL, stress_device, &devices[i]), 0);
	}
	for (unsigned i = 0; i < DEVICES; i++)
		pthread_join(device[i], NULL);
	atomic_store(&s.stop, true);
	pthread_join(cpu, NULL);
	pthread_join(guest, NULL);
	assert_false(atomic_load(&s.lost));
	for (unsigned i = 0; i < DEVICES; i++)
		assert_int_equal(atomic_load(&s.count[i]), ROUNDS);
	ioapic_destroy(s.io);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(registers_after_reset),
		T(only_writable_bits_are_kept),
		T(registers_that_are_not_there_read_zero),
		T(the_index_register_is_8_bits_wide),
		T(accesses_of_other_widths_and_offsets_do_nothing),
		T(messages),
		T(each_pin_has_its_own_entry),
		T(edge_is_delivered_once_per_rise),
		T(edge_latched_while_masked_is_delivered_on_unmask),
		T(edge_while_the_reset_entry_is_masked_is_kept_too),
		T(edge_that_nobody_took_is_tried_again),
		T(level_is_delivered_once_until_eoi),
		T(level_still_high_at_eoi_is_delivered_again),
		T(level_masked_at_eoi_is_delivered_on_unmask_if_still_high),
		T(unmasking_does_not_repeat_a_level_in_service),
		T(writing_an_entry_cannot_set_or_clear_remote_irr),
		T(eoi_of_another_vector_does_nothing),
		T(eoi_reaches_every_pin_with_the_vector),
		T(eoi_register_does_what_the_broadcast_does),
		T(edge_and_back_ends_a_level),
		T(edge_latched_before_a_change_to_level_is_gone_with_the_level),
		T(level_that_nobody_took_has_no_remote_irr_and_is_tried_again),
		T(nmi_programmed_as_level_is_an_edge),
		T(reset_masks_and_forgets_but_wires_keep_their_level),
		T(routes_follow_the_entries),
		T(has_nmi_sees_unmasked_nmi_pins_only),
		cmocka_unit_test(a_chip_without_route_works),
		T(description_names_busy_pins_and_is_cut_to_size),
		cmocka_unit_test(no_interrupt_is_lost_between_threads),
	};

	return cmocka_run_group_tests_name("ioapic", tests, NULL, NULL);
}
