/* SPDX-License-Identifier: Apache-2.0 */
/* Guest RAM: layout around the hole, translation at every edge, clearing, and the texts of refusals. */
#include "guest_mem.h"

#include "lull.h"
#include "util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void refused(uint64_t bytes, int code, const char *text)
{
	struct guest_mem mem;
	struct lull_error err = {0};
	assert_int_equal(guest_mem_init(&mem, bytes, false, &err), code);
	assert_int_equal(err.code, code);
	if (strstr(err.text, text) == NULL)
		fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
	assert_int_equal(mem.count, 0);
	assert_int_equal(mem.fd, -1);
	guest_mem_fini(&mem);
}

static void wrong_sizes_are_refused_with_text(void **state)
{
	(void)state;
	refused(0, -EINVAL, "too little");
	refused(1024, -EINVAL, "1024 bytes is too little: use at least 2M");
	refused(GUEST_MEM_MIN - 4096, -EINVAL, "too little");
	refused(GUEST_MEM_MIN + 1, -EINVAL, "not a multiple of 4096");
	refused(1ull << 60, -ENOMEM, "more than this host has");
	refused(UINT64_MAX & ~4095ull, -ENOMEM, "more than this host has");
}

static void a_refusal_needs_no_error_structure(void **state)
{
	(void)state;
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, 1, false, NULL), -EINVAL);
}

static void small_memory_is_one_region(void **state)
{
	(void)state;
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, MiB(4), false, NULL), 0);
	assert_int_equal(mem.count, 1);
	assert_int_equal(mem.bytes, MiB(4));
	assert_int_equal(mem.regions[0].base, 0);
	assert_int_equal(mem.regions[0].size, MiB(4));
	assert_int_equal((uintptr_t)mem.regions[0].hva % MiB(2), 0);
	guest_mem_fini(&mem);
	assert_int_equal(mem.count, 0);
}

static void big_memory_goes_on_above_the_hole(void **state)
{
	(void)state;
	struct guest_mem mem;
	struct lull_error err;
	int ret = guest_mem_init(&mem, GiB(3) + MiB(8), false, &err);
	if (ret == -ENOMEM)
		skip(); /* a host of less than 3 GiB */
	assert_int_equal(ret, 0);
	assert_int_equal(mem.count, 2);
	assert_int_equal(mem.regions[0].size, GUEST_MEM_HOLE_BASE);
	assert_int_equal(mem.regions[1].base, GUEST_MEM_HOLE_END);
	assert_int_equal(mem.regions[1].size, MiB(8));
	assert_int_equal((uintptr_t)mem.regions[1].hva % MiB(2), 0);
	assert_non_null(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_BASE - 1), 1));
	assert_null(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_BASE - 1), 2));
	assert_null(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_BASE), 1));
	assert_null(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_END - 1), 2));
	assert_ptr_equal(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_END), MiB(8)), mem.regions[1].hva);
	assert_null(guest_mem_at(&mem, gpa(GUEST_MEM_HOLE_END), MiB(8) + 1));
	guest_mem_fini(&mem);
}

static void translation_stops_at_every_edge(void **state)
{
	(void)state;
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, MiB(2), false, NULL), 0);
	assert_ptr_equal(guest_mem_at(&mem, gpa(0), MiB(2)), mem.regions[0].hva);
	assert_ptr_equal(guest_mem_at(&mem, gpa(5), 1), mem.regions[0].hva + 5);
	assert_null(guest_mem_at(&mem, gpa(0), 0));
	assert_null(guest_mem_at(&mem, gpa(0), MiB(2) + 1));
	assert_null(guest_mem_at(&mem, gpa(MiB(2)), 1));
	assert_null(guest_mem_at(&mem, gpa(1), UINT64_MAX));
	assert_null(guest_mem_at(&mem, gpa(UINT64_MAX), 1));
	assert_null(guest_mem_at(&mem, gpa(UINT64_MAX), UINT64_MAX));
	assert_null(guest_mem_at(&mem, gpa(MiB(2) - 1), 2));
	guest_mem_fini(&mem);
}

static void copies_are_all_or_nothing(void **state)
{
	(void)state;
	struct guest_mem mem;
	uint32_t value = 0x12345678, back = 0;
	assert_int_equal(guest_mem_init(&mem, MiB(2), false, NULL), 0);
	assert_int_equal(guest_mem_write(&mem, gpa(MiB(2) - 4), &value, 4), 0);
	assert_int_equal(guest_mem_read(&mem, gpa(MiB(2) - 4), &back, 4), 0);
	assert_int_equal(back, value);
	value = 0;
	assert_int_equal(guest_mem_write(&mem, gpa(MiB(2) - 3), &value, 4), -EFAULT);
	back = 77;
	assert_int_equal(guest_mem_read(&mem, gpa(MiB(2) - 3), &back, 4), -EFAULT);
	assert_int_equal(back, 77);
	assert_int_equal(guest_mem_read(&mem, gpa(MiB(2) - 4), &back, 4), 0);
	assert_int_equal(back, 0x12345678);
	assert_int_equal(guest_mem_read(&mem, gpa(UINT64_MAX), &back, 0), 0);
	assert_int_equal(guest_mem_write(&mem, gpa(UINT64_MAX), NULL, 0), 0);
	guest_mem_fini(&mem);
}

static void clearing_gives_zeros(bool shared)
{
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, MiB(8), shared, NULL), 0);
	assert_int_equal(mem.fd >= 0, shared);
	for (uint64_t at = 0; at < MiB(8); at += MiB(1))
		mem.regions[0].hva[at] = 0xaa;
	assert_int_equal(guest_mem_clear(&mem), 0);
	for (uint64_t at = 0; at < MiB(8); at += MiB(1))
		assert_int_equal(mem.regions[0].hva[at], 0);
	guest_mem_fini(&mem);
}

static void clearing_private_memory_gives_zeros(void **state)
{
	(void)state;
	clearing_gives_zeros(false);
}

static void clearing_shared_memory_gives_zeros(void **state)
{
	(void)state;
	clearing_gives_zeros(true);
}

static void others_see_shared_memory_and_cannot_shrink_it(void **state)
{
	(void)state;
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, MiB(4), true, NULL), 0);
	uint8_t *other = mmap(NULL, MiB(4), PROT_READ, MAP_SHARED, mem.fd, 0);
	assert_ptr_not_equal(other, MAP_FAILED);
	mem.regions[0].hva[MiB(3)] = 0x5a;
	assert_int_equal(other[MiB(3)], 0x5a);
	assert_int_equal(guest_mem_clear(&mem), 0);
	assert_int_equal(other[MiB(3)], 0);
	assert_int_equal(ftruncate(mem.fd, 0), -1);
	assert_int_equal(ftruncate(mem.fd, (off_t)MiB(64)), -1);
	munmap(other, MiB(4));
	guest_mem_fini(&mem);
}

static void discarded_pages_are_zero_and_gone_and_no_others(bool shared)
{
	struct guest_mem mem;
	uint8_t resident[8];
	assert_int_equal(guest_mem_init(&mem, MiB(2), shared, NULL), 0);
	uint8_t *at = mem.regions[0].hva + MiB(1);
	memset(at, 0x55, 8 * 4096);
	assert_int_equal(guest_mem_discard(&mem, gpa(MiB(1) + 2 * 4096), 3 * 4096), 0);
	assert_int_equal(mincore(at, sizeof(resident) * 4096, resident), 0);
	for (unsigned page = 0; page < 8; page++) {
		bool gone = page >= 2 && page < 5;
		assert_int_equal(resident[page] & 1, !gone);
		assert_int_equal(at[page * 4096], gone ? 0 : 0x55);
		assert_int_equal(at[page * 4096 + 4095], gone ? 0 : 0x55);
	}
	at[3 * 4096] = 1; /* it is still memory */
	assert_int_equal(at[3 * 4096], 1);
	guest_mem_fini(&mem);
}

static void discarding_private_memory(void **state)
{
	(void)state;
	discarded_pages_are_zero_and_gone_and_no_others(false);
}

static void discarding_shared_memory(void **state)
{
	(void)state;
	discarded_pages_are_zero_and_gone_and_no_others(true);
}

static void only_whole_pages_of_ram_are_discarded(void **state)
{
	static const struct {
		uint64_t addr, len;
		int ret;
	} cases[] = {
		{MiB(1) + 1, 4096, -EINVAL},
		{MiB(1), 4095, -EINVAL},
		{MiB(1), 1, -EINVAL},
		{MiB(1), 0, -EFAULT},
		{MiB(2), 4096, -EFAULT},
		{MiB(2) - 4096, 8192, -EFAULT},
		{-UINT64_C(4096), 4096, -EFAULT},
		{MiB(1), -UINT64_C(4096), -EFAULT},
		{-UINT64_C(4096), 8192, -EFAULT},
	};
	struct guest_mem mem;
	(void)state;
	assert_int_equal(guest_mem_init(&mem, MiB(2), false, NULL), 0);
	memset(mem.regions[0].hva, 0x55, MiB(2));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(guest_mem_discard(&mem, gpa(cases[i].addr), cases[i].len), cases[i].ret);
	for (uint64_t at = 0; at < MiB(2); at += 4096)
		assert_int_equal(mem.regions[0].hva[at], 0x55);
	guest_mem_fini(&mem);
}

static void what_the_host_cannot_let_go_of_is_an_error(void **state)
{
	struct guest_mem mem;
	(void)state;
	assert_int_equal(guest_mem_init(&mem, MiB(2), false, NULL), 0);
	/* Not mlock(): sanitizers make that do nothing. */
	if (syscall(SYS_mlock, mem.regions[0].hva + MiB(1), 4096) != 0) {
		guest_mem_fini(&mem);
		skip();
	}
	mem.regions[0].hva[MiB(1)] = 0x55;
	assert_int_equal(guest_mem_discard(&mem, gpa(MiB(1)), 4096), -EINVAL);
	assert_int_equal(mem.regions[0].hva[MiB(1)], 0x55);
	guest_mem_fini(&mem);
}

static void the_way_back_is_that_of_the_translation(void **state)
{
	static const uint64_t addrs[] = {
		0, 4095, MiB(1), GUEST_MEM_HOLE_BASE - 1, GUEST_MEM_HOLE_END, GUEST_MEM_HOLE_END + MiB(4) - 1};
	struct guest_mem mem;
	(void)state;
	assert_int_equal(guest_mem_init(&mem, GUEST_MEM_HOLE_BASE + MiB(4), false, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++)
		assert_int_equal(guest_mem_gpa(&mem, guest_mem_at(&mem, gpa(addrs[i]), 1)).value, addrs[i]);
	guest_mem_fini(&mem);
}

static unsigned long mapped_pages(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages;
}

static void nothing_is_left_behind(void **state)
{
	(void)state;
	struct guest_mem mem;
	assert_int_equal(guest_mem_init(&mem, MiB(16), true, NULL), 0);
	guest_mem_fini(&mem);
	unsigned long before = mapped_pages();
	for (int i = 0; i < 200; i++) {
		assert_int_equal(guest_mem_init(&mem, MiB(16), (i & 1) != 0, NULL), 0);
		guest_mem_fini(&mem);
	}
	assert_in_range(mapped_pages(), 0, before + MiB(16) / 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_sizes_are_refused_with_text),
		cmocka_unit_test(a_refusal_needs_no_error_structure),
		cmocka_unit_test(small_memory_is_one_region),
		cmocka_unit_test(big_memory_goes_on_above_the_hole),
		cmocka_unit_test(translation_stops_at_every_edge),
		cmocka_unit_test(copies_are_all_or_nothing),
		cmocka_unit_test(clearing_private_memory_gives_zeros),
		cmocka_unit_test(clearing_shared_memory_gives_zeros),
		cmocka_unit_test(others_see_shared_memory_and_cannot_shrink_it),
		cmocka_unit_test(discarding_private_memory),
		cmocka_unit_test(discarding_shared_memory),
		cmocka_unit_test(only_whole_pages_of_ram_are_discarded),
		cmocka_unit_test(what_the_host_cannot_let_go_of_is_an_error),
		cmocka_unit_test(the_way_back_is_that_of_the_translation),
		cmocka_unit_test(nothing_is_left_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
