// SPDX-License-Identifier: Apache-2.0
/* test_fw_cfg.c - the keys as a test kernel reads them: select, then byte by byte. */
#include "fw_cfg.h"

#include "util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t key(struct fw_cfg *cfg, unsigned number, unsigned bytes)
{
	uint64_t value = 0;

	fw_cfg_ops.write(cfg, 0, 2, number);
	for (unsigned i = 0; i < bytes; i++)
		value |= fw_cfg_ops.read(cfg, 1, 1) << (8 * i);
	return value;
}

static void known_keys_read_little_endian(void **state)
{
	struct fw_cfg *cfg = fw_cfg_create(300, 0x123456789000);

	(void)state;
	assert_int_equal(key(cfg, FW_CFG_SIGNATURE, 4), 0x554d4551);
	assert_int_equal(key(cfg, FW_CFG_ID, 4), 1);
	assert_int_equal(key(cfg, FW_CFG_RAM_SIZE, 8), 0x123456789000);
	assert_int_equal(key(cfg, FW_CFG_NB_CPUS, 2), 300);
	assert_int_equal(key(cfg, FW_CFG_MAX_CPUS, 2), 300);
	fw_cfg_destroy(cfg);
}

static void other_keys_and_what_follows_the_last_byte_read_0(void **state)
{
	static const unsigned known[] = {FW_CFG_SIGNATURE, FW_CFG_ID, FW_CFG_RAM_SIZE, FW_CFG_NB_CPUS, FW_CFG_MAX_CPUS};
	struct fw_cfg *cfg = fw_cfg_create(1, UINT64_MAX);

	(void)state;
	for (unsigned number = 0; number < 0x10000; number += number < 0x40 ? 1 : 0x111) {
		bool is_known = false;

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			is_known |= number == known[i];
		if (!is_known)
			assert_int_equal(key(cfg, number, 8), 0);
	}
	key(cfg, FW_CFG_RAM_SIZE, 8);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(fw_cfg_ops.read(cfg, 1, 1), 0);
	fw_cfg_destroy(cfg);
}

static void wrong_widths_and_reset_change_nothing_else(void **state)
{
	struct fw_cfg *cfg = fw_cfg_create(7, 0);

	(void)state;
	fw_cfg_ops.write(cfg, 0, 2, FW_CFG_NB_CPUS);
	fw_cfg_ops.write(cfg, 0, 1, FW_CFG_RAM_SIZE);
	fw_cfg_ops.write(cfg, 1, 1, 0xff);
	assert_int_equal(fw_cfg_ops.read(cfg, 0, 2), 0);
	assert_int_equal(fw_cfg_ops.read(cfg, 1, 1), 7);
	fw_cfg_reset(cfg);
	assert_int_equal(fw_cfg_ops.read(cfg, 1, 1), 'Q');
	fw_cfg_destroy(cfg);
	fw_cfg_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_keys_read_little_endian),
		cmocka_unit_test(other_keys_and_what_follows_the_last_byte_read_0),
		cmocka_unit_test(wrong_widths_and_reset_change_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
