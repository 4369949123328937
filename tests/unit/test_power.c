/* SPDX-License-Identifier: Apache-2.0 */
/* test_power.c - cpufreq trees made for the purpose. */
#include "power.h"

#include "lull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/lull-power-XXXXXX";

static void put(int cpu, const char *file, const char *text)
{
	char path[256];
	const char *const parts[] = {"", "/devices", "/devices/system", "/devices/system/cpu"};
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", root, parts[i]);
		mkdir(path, 0700);
	}
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d", root, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cpufreq", root, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/cpufreq/%s", root, cpu, file);
	unlink(path);
	if (!text)
		return;
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%s\n", text);
	fclose(f);
}

static void tree(int cpu, const char *driver, const char *governor, const char *preference)
{
	put(cpu, "scaling_driver", driver);
	put(cpu, "scaling_governor", governor);
	put(cpu, "energy_performance_preference", preference);
}

static bool ask(enum power_mode mode, int cpu)
{
	struct power p;
	power_init(&p, mode, root);
	return power_saves(&p, cpu, 1, 0);
}

static void drivers_and_governors_are_read_as_their_documentation_says(void **state)
{
	static const struct {
		const char *driver, *governor, *preference;
		bool strict, smart;
	} rows[] = {
		{"intel_pstate", "powersave", "balance_performance", true, false},
		{"intel_pstate", "powersave", "default", true, false},
		{"intel_pstate", "powersave", "balance_power", true, true},
		{"intel_pstate", "powersave", "power", true, true},
		{"intel_pstate", "powersave", NULL, true, false},
		{"intel_pstate", "performance", "performance", false, false},
		{"intel_cpufreq", "powersave", NULL, true, true},
		{"acpi-cpufreq", "powersave", NULL, true, true},
		{"cppc_cpufreq", "powersave", NULL, true, true},
		{"amd-pstate", "powersave", NULL, true, true},
		{"amd-pstate-epp", "powersave", "balance_performance", true, false},
		{"amd-pstate-epp", "powersave", "power", true, true},
		{"acpi-cpufreq", "schedutil", NULL, false, false},
		{"acpi-cpufreq", "ondemand", NULL, false, false},
		{"acpi-cpufreq", "conservative", NULL, false, false},
		{"acpi-cpufreq", "performance", NULL, false, false},
		{"acpi-cpufreq", "PowerSave", NULL, true, true},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		tree(0, rows[i].driver, rows[i].governor, rows[i].preference);
		if (ask(POWER_STRICT, 0) != rows[i].strict || ask(POWER_SMART, 0) != rows[i].smart)
			fail_msg("row %zu: %s %s", i, rows[i].driver, rows[i].governor);
		assert_false(ask(POWER_IGNORE, 0));
	}
}

static void a_host_without_cpufreq_does_not_save(void **state)
{
	(void)state;
	assert_false(ask(POWER_STRICT, 77));
	assert_false(ask(POWER_SMART, 77));
	assert_false(ask(POWER_SMART, -1));
}

static void ignore_reads_nothing(void **state)
{
	struct power p;
	(void)state;
	power_init(&p, POWER_IGNORE, root);
	assert_false(power_saves(&p, 0, 1, 0));
	assert_int_equal(p.reads, 0);
}

static void an_answer_stands_for_a_while(void **state)
{
	struct power p;
	(void)state;
	tree(1, "acpi-cpufreq", "performance", NULL);
	power_init(&p, POWER_SMART, root);
	assert_false(power_saves(&p, 1, 5, 0));
	tree(1, "acpi-cpufreq", "powersave", NULL);
	assert_false(power_saves(&p, 1, 5 + POWER_PERIOD_NS - 1, 0));
	assert_int_equal(p.reads, 1);
	assert_false(power_saves(&p, 1, 5 + POWER_PERIOD_NS, POWER_WORTH_NS - 1)); /* hardly anything was polled */
	assert_int_equal(p.reads, 1);
	struct power q = p;
	assert_true(power_saves(&p, 1, 5 + POWER_PERIOD_NS, POWER_WORTH_NS));
	assert_int_equal(p.reads, 2);
	assert_false(power_saves(&q, 1, 5 + POWER_LONGEST_NS - 1, 0));
	assert_true(power_saves(&q, 1, 5 + POWER_LONGEST_NS, 0));
}

static void another_cpu_is_another_question(void **state)
{
	struct power p;
	(void)state;
	tree(1, "acpi-cpufreq", "performance", NULL);
	tree(2, "acpi-cpufreq", "powersave", NULL);
	power_init(&p, POWER_SMART, root);
	assert_false(power_saves(&p, 1, 5, 0));
	assert_true(power_saves(&p, 2, 6, 0));
	assert_false(power_saves(&p, 1, 7, 0));
	assert_true(power_saves(&p, 2, 8, 0));
	assert_int_equal(p.reads, 2); /* it is not asked again each time the thread moves */
	tree(1 + POWER_ANSWERS, "acpi-cpufreq", "powersave", NULL);
	assert_true(power_saves(&p, 1 + POWER_ANSWERS, 9, 0));
	assert_false(power_saves(&p, 1, 10, 0));
}

static void a_file_that_vanishes_is_no_wish(void **state)
{
	struct power p;
	(void)state;
	tree(3, "acpi-cpufreq", "powersave", NULL);
	power_init(&p, POWER_SMART, root);
	assert_true(power_saves(&p, 3, 1, 0));
	put(3, "scaling_governor", NULL);
	assert_false(power_saves(&p, 3, 1 + POWER_PERIOD_NS, 0));
}

static void modes_have_names(void **state)
{
	enum power_mode mode;
	struct lull_error err;
	(void)state;
	assert_int_equal(power_parse(&mode, "smart", &err), 0);
	assert_int_equal(mode, POWER_SMART);
	assert_true(power_parse(&mode, "sometimes", &err) < 0);
	assert_non_null(strstr(err.text, "sometimes"));
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[sizeof(root) + 16];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drivers_and_governors_are_read_as_their_documentation_says),
		cmocka_unit_test(a_host_without_cpufreq_does_not_save),
		cmocka_unit_test(ignore_reads_nothing),
		cmocka_unit_test(an_answer_stands_for_a_while),
		cmocka_unit_test(another_cpu_is_another_question),
		cmocka_unit_test(a_file_that_vanishes_is_no_wish),
		cmocka_unit_test(modes_have_names),
	};
	return cmocka_run_group_tests_name("power", tests, make_root, remove_root);
}
