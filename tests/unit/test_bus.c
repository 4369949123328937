/* SPDX-License-Identifier: Apache-2.0 */
/* The bus: which device answers which access, and what happens to the others. */
#include "bus.h"

#include "lull.h"
#include "util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct probe {
	unsigned reads, writes, size;
	uint64_t offset, value;
};

static uint64_t probe_read(void *dev, uint64_t offset, unsigned size)
{
	struct probe *probe = dev;
	probe->reads++;
	probe->offset = offset;
	probe->size = size;
	return probe->value;
}

static void probe_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct probe *probe = dev;
	probe->writes++;
	probe->offset = offset;
	probe->size = size;
	probe->value = value;
}

static const struct bus_ops probe_ops = {probe_read, probe_write};

static int add(struct bus *bus, const char *name, uint64_t base, uint64_t size, unsigned widths, struct probe *probe,
               struct lull_error *err)
{
	return bus_add(
		bus,
		&(struct bus_region){
			.name = name, .base = base, .size = size, .widths = widths, .ops = &probe_ops, .dev = probe},
		err);
}

static void every_address_finds_its_device(void **state)
{
	(void)state;
	static struct probe probes[BUS_REGIONS_MAX];
	struct bus bus;
	uint64_t value;

	bus_init(&bus, "test");
	/* In an order that is neither up nor down; region i is at 16 i with 8 bytes. */
	for (unsigned i = 0; i < BUS_REGIONS_MAX; i++)
		assert_int_equal(
			add(&bus, "x", 16 * (i * 37 % BUS_REGIONS_MAX), 8, 0, &probes[i * 37 % BUS_REGIONS_MAX], NULL),
			0);
	for (uint64_t addr = 0; addr < 16 * BUS_REGIONS_MAX + 32; addr++) {
		struct probe *probe = addr / 16 < BUS_REGIONS_MAX ? &probes[addr / 16] : NULL;
		bool inside = probe && addr % 16 < 8;
		unsigned before = probe ? probe->reads : 0;
		assert_int_equal(bus_read(&bus, addr, 1, &value), inside);
		if (probe)
			assert_int_equal(probe->reads, before + inside);
		if (inside)
			assert_int_equal(probe->offset, addr % 16);
	}
}

static void an_empty_bus_reads_all_ones(void **state)
{
	(void)state;
	struct bus bus;
	uint64_t value = 0;

	bus_init(&bus, "test");
	assert_false(bus_read(&bus, 0, 1, &value));
	assert_int_equal(value, 0xff);
	assert_false(bus_read(&bus, UINT64_MAX, 2, &value));
	assert_int_equal(value, 0xffff);
	assert_false(bus_read(&bus, 5, 4, &value));
	assert_int_equal(value, 0xffffffff);
	assert_false(bus_read(&bus, 5, 8, &value));
	assert_int_equal(value, UINT64_MAX);
	assert_false(bus_write(&bus, 5, 8, 1));
	assert_int_equal(atomic_load(&bus.unclaimed), 5);
}

static void an_access_across_the_end_is_nobodys(void **state)
{
	(void)state;
	struct bus bus;
	struct probe low = {0}, high = {0};
	uint64_t value;

	bus_init(&bus, "test");
	add(&bus, "low", 0x100, 8, 0, &low, NULL);
	add(&bus, "high", 0x108, 8, 0, &high, NULL);
	assert_true(bus_read(&bus, 0x104, 4, &value));
	assert_false(bus_read(&bus, 0x106, 4, &value));
	assert_int_equal(value, 0xffffffff);
	assert_false(bus_write(&bus, 0x10f, 2, 0));
	assert_false(bus_read(&bus, 0xff, 2, &value));
	assert_int_equal(low.reads, 1);
	assert_int_equal(high.reads + high.writes, 0);
	assert_int_equal(atomic_load(&bus.unclaimed), 3);
}

static void a_device_sees_only_the_widths_it_takes(void **state)
{
	(void)state;
	struct bus bus;
	struct probe probe = {0};
	uint64_t value;

	bus_init(&bus, "test");
	add(&bus, "words", 0, 16, 2 | 4, &probe, NULL);
	assert_false(bus_read(&bus, 0, 1, &value));
	assert_int_equal(value, 0xff);
	assert_false(bus_write(&bus, 0, 8, 1));
	assert_true(bus_write(&bus, 0, 2, 1));
	assert_true(bus_read(&bus, 0, 4, &value));
	assert_int_equal(probe.reads + probe.writes, 2);
}

/* KVM splits an unaligned access at a page boundary. */
static void odd_sizes_reach_no_device(void **state)
{
	(void)state;
	static const unsigned odd[] = {0, 3, 5, 6, 7, 9};
	struct bus bus;
	struct probe probe = {0};
	uint64_t value;

	bus_init(&bus, "test");
	add(&bus, "all", 0, 64, 0, &probe, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_false(bus_read(&bus, 0, odd[i], &value));
	assert_false(bus_read(&bus, 0, 3, &value));
	assert_int_equal(value, 0xffffff);
	assert_int_equal(probe.reads, 0);
}

static void values_have_no_more_bits_than_the_access(void **state)
{
	(void)state;
	struct bus bus;
	struct probe probe = {.value = UINT64_MAX};
	uint64_t value;

	bus_init(&bus, "test");
	add(&bus, "all", 0, 8, 0, &probe, NULL);
	assert_true(bus_read(&bus, 0, 2, &value));
	assert_int_equal(value, 0xffff);
	assert_true(bus_read(&bus, 0, 8, &value));
	assert_int_equal(value, UINT64_MAX);
	assert_true(bus_write(&bus, 0, 4, 0x1122334455667788));
	assert_int_equal(probe.value, 0x55667788);
	assert_int_equal(probe.size, 4);
}

static void overlaps(uint64_t base, uint64_t size)
{
	struct bus bus;
	struct probe probe;
	struct lull_error err = {0};

	bus_init(&bus, "port");
	assert_int_equal(add(&bus, "left", 0x3f8, 8, 0, &probe, NULL), 0);
	assert_int_equal(add(&bus, "right", 0x500, 16, 0, &probe, NULL), 0);
	assert_int_equal(add(&bus, "new", base, size, 0, &probe, &err), -EEXIST);
	assert_non_null(strstr(err.text, "new at 0x"));
	assert_true(strstr(err.text, "left at 0x3f8-0x3ff") || strstr(err.text, "right at 0x500-0x50f"));
	assert_int_equal(bus.count, 2);
}

static void an_overlap_is_refused_and_names_both(void **state)
{
	(void)state;
	overlaps(0x3f8, 8);   /* the same */
	overlaps(0x3f9, 1);   /* inside */
	overlaps(0x3ff, 1);   /* the last byte */
	overlaps(0x3f0, 9);   /* the first byte */
	overlaps(0x300, 512); /* around */
	overlaps(0x4ff, 2);
	overlaps(0x50f, 100);
	overlaps(0x400, 0x101);
	overlaps(0, UINT64_MAX);
}

static void neighbours_fit_exactly(void **state)
{
	(void)state;
	struct bus bus;
	struct probe probe;

	bus_init(&bus, "test");
	assert_int_equal(add(&bus, "a", 0x100, 8, 0, &probe, NULL), 0);
	assert_int_equal(add(&bus, "b", 0x108, 8, 0, &probe, NULL), 0);
	assert_int_equal(add(&bus, "c", 0xf8, 8, 0, &probe, NULL), 0);
}

static void the_top_of_the_address_space_is_usable(void **state)
{
	(void)state;
	struct bus bus;
	struct probe probe = {0};
	struct lull_error err;
	uint64_t value;

	bus_init(&bus, "test");
	assert_int_equal(add(&bus, "top", UINT64_MAX - 7, 8, 0, &probe, NULL), 0);
	assert_true(bus_read(&bus, UINT64_MAX, 1, &value));
	assert_int_equal(probe.offset, 7);
	assert_false(bus_read(&bus, UINT64_MAX, 4, &value));
	assert_int_equal(add(&bus, "wraps", UINT64_MAX - 100, 102, 0, &probe, &err), -EINVAL);
	assert_int_equal(add(&bus, "empty", 5, 0, 0, &probe, &err), -EINVAL);
}

static void a_full_or_frozen_bus_refuses(void **state)
{
	(void)state;
	struct bus bus;
	struct probe probe;
	struct lull_error err;

	bus_init(&bus, "test");
	for (unsigned i = 0; i < BUS_REGIONS_MAX; i++)
		assert_int_equal(add(&bus, "x", i, 1, 0, &probe, NULL), 0);
	assert_int_equal(add(&bus, "last", 1000, 1, 0, &probe, &err), -ENOSPC);
	bus_init(&bus, "test");
	bus_freeze(&bus);
	assert_int_equal(add(&bus, "late", 1000, 1, 0, &probe, &err), -EBUSY);
	assert_non_null(strstr(err.text, "late"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_address_finds_its_device),
		cmocka_unit_test(an_empty_bus_reads_all_ones),
		cmocka_unit_test(an_access_across_the_end_is_nobodys),
		cmocka_unit_test(a_device_sees_only_the_widths_it_takes),
		cmocka_unit_test(odd_sizes_reach_no_device),
		cmocka_unit_test(values_have_no_more_bits_than_the_access),
		cmocka_unit_test(an_overlap_is_refused_and_names_both),
		cmocka_unit_test(neighbours_fit_exactly),
		cmocka_unit_test(the_top_of_the_address_space_is_usable),
		cmocka_unit_test(a_full_or_frozen_bus_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
