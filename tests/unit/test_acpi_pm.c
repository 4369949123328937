// SPDX-License-Identifier: Apache-2.0
/* test_acpi_pm.c - PM1 block, PM timer and power button through the ports, as a guest sees them. */
#include "acpi_pm.h"

#include "util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct world {
	struct acpi_pm *pm;
	uint64_t now_ns;
	bool sci;
	unsigned sci_changes;
	unsigned power_offs;
};

static void set_sci(void *chip, unsigned pin, bool level)
{
	struct world *w = chip;

	assert_int_equal(pin, 9);
	w->sci_changes++;
	w->sci = level;
}

static void power_off(void *ctx)
{
	struct world *w = ctx;

	w->power_offs++;
	acpi_pm_power_button(w->pm); /* no lock is held: this does not hang */
}

static uint64_t now_ns(void *ctx)
{
	return ((struct world *)ctx)->now_ns;
}

static uint64_t in(struct world *w, unsigned offset, unsigned size)
{
	return acpi_pm_ops.read(w->pm, offset, size);
}

static void out(struct world *w, unsigned offset, unsigned size, uint64_t value)
{
	acpi_pm_ops.write(w->pm, offset, size, value);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct acpi_pm_config config = {
		.sci = {set_sci, w, 9}, .s5_type = 5, .power_off = power_off, .now_ns = now_ns, .ctx = w};

	w->pm = acpi_pm_create(&config);
	*state = w;
	return w->pm ? 0 : -1;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	acpi_pm_destroy(w->pm);
	free(w);
	return 0;
}

static void always_in_acpi_mode(void **state)
{
	struct world *w = *state;

	assert_int_equal(in(w, ACPI_PM1_CNT, 2), ACPI_PM1_SCI_EN);
	out(w, ACPI_PM1_CNT, 2, 0);
	assert_int_equal(in(w, ACPI_PM1_CNT, 2), ACPI_PM1_SCI_EN);
	out(w, ACPI_PM1_CNT, 2, 0xffff & ~ACPI_PM1_SLP_EN);
	assert_int_equal(in(w, ACPI_PM1_CNT, 2), ACPI_PM1_SCI_EN | ACPI_PM1_BM_RLD | 7 << ACPI_PM1_SLP_TYP_SHIFT);
	assert_int_equal(w->power_offs, 0);
}

static void button_raises_sci_only_when_enabled(void **state)
{
	struct world *w = *state;

	assert_false(acpi_pm_power_button(w->pm));
	assert_false(w->sci);
	assert_int_equal(in(w, ACPI_PM1_STS, 2), ACPI_PM1_PWRBTN);
	out(w, ACPI_PM1_EN, 2, ACPI_PM1_PWRBTN);
	assert_true(w->sci);
	out(w, ACPI_PM1_STS, 2, ACPI_PM1_GBL); /* another bit: stays */
	assert_true(w->sci);
	out(w, ACPI_PM1_STS, 2, ACPI_PM1_PWRBTN);
	assert_false(w->sci);
	assert_int_equal(in(w, ACPI_PM1_STS, 2), 0);
	assert_true(acpi_pm_power_button(w->pm));
	assert_true(w->sci);
	out(w, ACPI_PM1_EN, 2, 0);
	assert_false(w->sci);
	assert_int_equal(w->sci_changes, 4);
}

static void enables_read_back(void **state)
{
	struct world *w = *state;

	out(w, ACPI_PM1_EN, 2, 0xffff);
	assert_int_equal(in(w, ACPI_PM1_EN, 2), 0x0721);
	out(w, ACPI_PM1_EN, 1, 0);
	assert_int_equal(in(w, ACPI_PM1_EN, 2), 0x0700);
	out(w, ACPI_PM1_EN + 1, 1, 0x01);
	assert_int_equal(in(w, ACPI_PM1_EN, 2), 0x0100);
	assert_false(w->sci);
}

static void wide_and_narrow_accesses_agree(void **state)
{
	struct world *w = *state;
	uint64_t all = 0;

	w->now_ns = 1234567890123ull;
	acpi_pm_power_button(w->pm);
	out(w, ACPI_PM1_STS, 4, (uint64_t)ACPI_PM1_GBL << 16); /* clears nothing, enables GBL */
	out(w, 2, 4, 0x0003 << 16 | ACPI_PM1_RTC);             /* across EN and CNT */
	assert_int_equal(in(w, 0, 4), ACPI_PM1_RTC << 16 | in(w, ACPI_PM1_STS, 2));
	assert_int_equal(in(w, ACPI_PM1_CNT, 2), ACPI_PM1_SCI_EN | ACPI_PM1_BM_RLD);
	assert_int_equal(in(w, 6, 2), 0);
	for (unsigned i = 0; i < 8; i++)
		all |= in(w, i, 1) << (8 * i);
	assert_int_equal(all, in(w, 0, 8));
	assert_int_equal(in(w, 4, 8), in(w, 4, 4) | in(w, 8, 4) << 32);
	assert_int_equal(in(w, 6, 4), (in(w, 8, 4) & 0xffff) << 16);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(in(w, 8 + i, 1), in(w, 8, 4) >> (8 * i) & 0xff);
	for (unsigned offset = 0; offset < 16; offset++)
		for (unsigned size = 1; size <= 8; size *= 2)
			in(w, offset, size);
	assert_int_equal(in(w, 12, 4), 0);
}

static void timer_runs_at_3_579545_mhz(void **state)
{
	struct world *w = *state;

	assert_int_equal(in(w, ACPI_PM_TMR, 4), 0);
	w->now_ns = 1000000000;
	assert_int_equal(in(w, ACPI_PM_TMR, 4), 3579545);
	w->now_ns = 365ull * 86400 * 1000000000; /* a year: 32 bits have gone round many times */
	assert_int_equal(in(w, ACPI_PM_TMR, 4), (365ull * 86400 * 3579545) & 0xffffffff);
	out(w, ACPI_PM_TMR, 4, 0);
	assert_int_equal(in(w, ACPI_PM_TMR, 4), (365ull * 86400 * 3579545) & 0xffffffff);
}

static void timer_bit_31_sets_its_status_both_ways(void **state)
{
	struct world *w = *state;
	uint64_t half = ((1ull << 31) * 1000000000ull) / 3579545 + 1;

	out(w, ACPI_PM1_EN, 2, ACPI_PM1_TMR);
	w->now_ns = half - 1000;
	assert_int_equal(in(w, ACPI_PM1_STS, 2), 0);
	for (unsigned i = 1; i <= 2; i++) {
		w->now_ns = half * i + 1000;
		assert_int_equal(in(w, ACPI_PM1_STS, 2), ACPI_PM1_TMR);
		assert_true(w->sci);
		out(w, ACPI_PM1_STS, 2, ACPI_PM1_TMR);
		assert_false(w->sci);
		assert_int_equal(in(w, ACPI_PM1_STS, 2), 0);
	}
}

static void s5_powers_off_and_nothing_else_does(void **state)
{
	struct world *w = *state;

	for (unsigned type = 0; type < 8; type++) {
		if (type == 5)
			continue;
		out(w, ACPI_PM1_CNT, 2, type << ACPI_PM1_SLP_TYP_SHIFT | ACPI_PM1_SLP_EN);
	}
	out(w, ACPI_PM1_CNT, 2, 5 << ACPI_PM1_SLP_TYP_SHIFT);
	assert_int_equal(w->power_offs, 0);
	/* As Linux: the type alone first, then with SLP_EN, the other bits as they were read. */
	out(w, ACPI_PM1_CNT, 2, in(w, ACPI_PM1_CNT, 2) | ACPI_PM1_SLP_EN);
	assert_int_equal(w->power_offs, 1);
	assert_int_equal(in(w, ACPI_PM1_CNT, 2) & ACPI_PM1_SLP_EN, 0);
	out(w, ACPI_PM1_CNT + 1, 1, (5 << ACPI_PM1_SLP_TYP_SHIFT | ACPI_PM1_SLP_EN) >> 8);
	assert_int_equal(w->power_offs, 2);
	out(w, ACPI_PM1_CNT, 4, 5 << ACPI_PM1_SLP_TYP_SHIFT | ACPI_PM1_SLP_EN);
	assert_int_equal(w->power_offs, 3);
	out(w, ACPI_PM1_CNT, 1, ACPI_PM1_SLP_EN); /* low byte only: no SLP_EN in it */
	assert_int_equal(w->power_offs, 3);
}

static void reset_lowers_the_sci(void **state)
{
	struct world *w = *state;

	out(w, ACPI_PM1_EN, 2, ACPI_PM1_PWRBTN);
	out(w, ACPI_PM1_CNT, 2, ACPI_PM1_BM_RLD);
	acpi_pm_power_button(w->pm);
	assert_true(w->sci);
	acpi_pm_reset(w->pm);
	assert_false(w->sci);
	assert_int_equal(in(w, 0, 4), 0);
	assert_int_equal(in(w, ACPI_PM1_CNT, 2), ACPI_PM1_SCI_EN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(always_in_acpi_mode, set_up, tear_down),
		cmocka_unit_test_setup_teardown(button_raises_sci_only_when_enabled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(enables_read_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(wide_and_narrow_accesses_agree, set_up, tear_down),
		cmocka_unit_test_setup_teardown(timer_runs_at_3_579545_mhz, set_up, tear_down),
		cmocka_unit_test_setup_teardown(timer_bit_31_sets_its_status_both_ways, set_up, tear_down),
		cmocka_unit_test_setup_teardown(s5_powers_off_and_nothing_else_does, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reset_lowers_the_sci, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
