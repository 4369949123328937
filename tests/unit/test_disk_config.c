// SPDX-License-Identifier: Apache-2.0
/* test_disk_config.c - what `--disk` takes, and what it refuses with which words. */
#include "disk_config.h"

#include "lull.h"
#include "util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_key_is_understood(void **state)
{
	struct disk_config c;

	(void)state;
	assert_int_equal(
		disk_config_parse(&c, "path=/a b/c,ro,direct,serial=x-1,queues=16,engine=io_uring,rate=10M,iops=2K",
	                          NULL),
		0);
	assert_string_equal(c.path, "/a b/c");
	assert_true(c.read_only && c.direct);
	assert_string_equal(c.serial, "x-1");
	assert_int_equal(c.queues, 16);
	assert_int_equal(c.engine, DISK_ENGINE_IO_URING);
	assert_int_equal(c.bytes_per_second, MiB(10));
	assert_int_equal(c.ops_per_second, 2048);
	disk_config_free(&c);
}

static void what_is_not_said_has_a_default(void **state)
{
	static const char *const same[] = {"path=disk.img", "disk.img"};
	struct disk_config c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		assert_int_equal(disk_config_parse(&c, same[i], NULL), 0);
		assert_string_equal(c.path, "disk.img");
		assert_false(c.read_only || c.direct);
		assert_string_equal(c.serial, "");
		assert_int_equal(c.queues, 1);
		assert_int_equal(c.engine, DISK_ENGINE_ANY);
		assert_int_equal(c.bytes_per_second | c.ops_per_second, 0);
		disk_config_free(&c);
	}
}

static void two_commas_are_one(void **state)
{
	static const struct {
		const char *spec, *path;
	} cases[] = {{"path=a,,b", "a,b"},
	             {"path=a,,,,b,,", "a,,b,"},
	             {"a,,ro", "a,ro"},
	             {"path=a=b", "a=b"},
	             {"path=a,,,ro", "a,"}};
	struct disk_config c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(disk_config_parse(&c, cases[i].spec, NULL), 0);
		assert_string_equal(c.path, cases[i].path);
		assert_int_equal(c.read_only, i == 4);
		disk_config_free(&c);
	}
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
		{"", "the path is empty"},
		{"ro", "no file is named"},
		{"path=", "the path is empty"},
		{"path=a,", "'' is not known"},
		{"path=a,rw", "'rw' is not known"},
		{"path=a,path", "'path' is not known"},
		{"path=a,ro=1", "ro takes no value"},
		{"path=a,format=qcow2", "'format=qcow2' is not known"},
		{"path=a,queues=0", "queues '0': give 1 to 16"},
		{"path=a,queues=17", "queues '17'"},
		{"path=a,queues=-1", "queues '-1'"},
		{"path=a,queues=", "queues ''"},
		{"path=a,engine=aio", "engine 'aio': give sync or io_uring"},
		{"path=a,rate=0", "rate '0'"},
		{"path=a,rate=fast", "rate 'fast'"},
		{"path=a,rate=1MB", "rate '1MB'"},
		{"path=a,rate=99999999999G", "rate '99999999999G'"},
		{"path=a,iops=1.5", "iops '1.5'"},
		{"path=a,serial=123456789012345678901", "more than 20 characters"},
		{"path=a,serial=a b", "visible ASCII"},
		{"path=a,serial=\xc3\xa4", "visible ASCII"},
	};
	struct disk_config c;
	struct lull_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(disk_config_parse(&c, cases[i].spec, &err), -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s: %s", cases[i].spec, err.text);
		assert_null(c.path);
	}
}

static void a_serial_may_have_20_characters(void **state)
{
	struct disk_config c;

	(void)state;
	assert_int_equal(disk_config_parse(&c, "path=a,serial=12345678901234567890", NULL), 0);
	assert_string_equal(c.serial, "12345678901234567890");
	disk_config_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_understood),
		cmocka_unit_test(what_is_not_said_has_a_default),
		cmocka_unit_test(two_commas_are_one),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_serial_may_have_20_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
