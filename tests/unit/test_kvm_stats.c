/* SPDX-License-Identifier: Apache-2.0 */
/* KVM's statistics files: what is found in them, and what their descriptors may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvm_stats.h"
#include "util.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_BYTES 48

struct desc {
	struct kvm_stats_desc d;
	char name[NAME_BYTES];
};

struct file {
	struct kvm_stats_header header;
	struct desc descs[12];
	uint64_t data[512];
};

static const char *const figure_names[] = {"exits",
                                           "halt_attempted_poll",
                                           "halt_successful_poll",
                                           "halt_poll_invalid",
                                           "halt_wakeup",
                                           "halt_poll_success_ns",
                                           "halt_poll_fail_ns",
                                           "halt_wait_ns",
                                           "halt_poll_success_hist",
                                           "halt_poll_fail_hist",
                                           "halt_wait_hist",
                                           "blocking"};

/* As KVM lays it out: a number is its place in the data. */
static struct file good_file(void)
{
	struct file f = {.header = {.name_size = NAME_BYTES,
	                            .num_desc = ARRAY_SIZE(figure_names),
	                            .desc_offset = offsetof(struct file, descs),
	                            .data_offset = offsetof(struct file, data)}};
	uint32_t at = 40;
	for (size_t i = 0; i < ARRAY_SIZE(figure_names); i++) {
		bool hist = strstr(figure_names[i], "_hist");
		f.descs[i].d = (struct kvm_stats_desc){
			.flags = hist ? KVM_STATS_TYPE_LOG_HIST : KVM_STATS_TYPE_CUMULATIVE,
			.size = hist ? 32 : 1,
			.offset = at,
		};
		strcpy(f.descs[i].name, figure_names[i]);
		at += 8 * f.descs[i].d.size;
	}
	for (size_t i = 0; i < ARRAY_SIZE(f.data); i++)
		f.data[i] = i;
	return f;
}

static int open_file(struct kvm_stats *s, const struct file *f, size_t bytes)
{
	int fd = memfd_create("stats", 0);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, f, bytes), bytes);
	return kvm_stats_open(s, fd);
}

static void figures_are_found_by_name(void **state)
{
	struct file f = good_file();
	struct kvm_stats s;
	struct kvm_halt_stats h;
	(void)state;
	assert_int_equal(open_file(&s, &f, sizeof(f)), 0);
	assert_true(kvm_stats_read(&s, &h));
	assert_int_equal(h.attempted_poll, 6);
	assert_int_equal(h.successful_poll, 7);
	assert_int_equal(h.poll_invalid, 8);
	assert_int_equal(h.wakeup, 9);
	assert_int_equal(h.poll_success_ns, 10);
	assert_int_equal(h.poll_fail_ns, 11);
	assert_int_equal(h.wait_ns, 12);
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(h.poll_success_hist[i], 13 + i);
		assert_int_equal(h.poll_fail_hist[i], 45 + i);
		assert_int_equal(h.wait_hist[i], 77 + i);
	}
	kvm_stats_close(&s);
	assert_false(kvm_stats_read(&s, &h));
	assert_int_equal(h.wait_hist[3], 0);
}

static void what_is_missing_is_zero_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(figure_names); i++) {
		struct file f = good_file();
		struct kvm_stats s;
		struct kvm_halt_stats h;
		bool needed = i == 5 || i == 6 || (i >= 8 && i <= 10);
		f.descs[i].name[0] = 'x';
		assert_int_equal(open_file(&s, &f, sizeof(f)), needed ? -ENOTSUP : 0);
		assert_int_equal(s.fd >= 0, !needed);
		assert_int_equal(kvm_stats_read(&s, &h), !needed);
		if (i == 2)
			assert_int_equal(h.successful_poll, 0);
		kvm_stats_close(&s);
	}
}

static void a_histogram_of_another_size_is_cut(void **state)
{
	struct file f = good_file();
	struct kvm_stats s;
	struct kvm_halt_stats h;
	(void)state;
	f.descs[10].d.size = 7;
	f.descs[9].d.size = 60;
	assert_int_equal(open_file(&s, &f, sizeof(f)), 0);
	assert_true(kvm_stats_read(&s, &h));
	assert_int_equal(h.wait_hist[6], 83);
	assert_int_equal(h.wait_hist[7], 0);
	assert_int_equal(h.poll_fail_hist[31], 76);
	kvm_stats_close(&s);
}

static void bad_files_are_refused(void **state)
{
	struct kvm_stats s;
	struct file f;
	(void)state;
	f = good_file();
	assert_int_equal(open_file(&s, &f, 10), -EPROTO);
	assert_int_equal(open_file(&s, &f, offsetof(struct file, data) - 1), -EPROTO);
	f.header.name_size = 0;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f.header.name_size = 257;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f.header.name_size = UINT32_MAX;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f = good_file();
	f.header.num_desc = UINT32_MAX;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f.header.num_desc = 0;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
	f = good_file();
	f.header.desc_offset = UINT32_MAX;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f = good_file();
	memset(f.descs[8].name, 'x', NAME_BYTES); /* no end */
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
	f = good_file();
	f.descs[10].d.offset = 1u << 20; /* too far from the others */
	assert_int_equal(open_file(&s, &f, sizeof(f)), -EPROTO);
	f = good_file();
	f.descs[10].d.offset = UINT32_MAX - 7;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
	f = good_file();
	f.descs[10].d.offset += 4;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
	f = good_file();
	f.descs[10].d.flags = KVM_STATS_TYPE_CUMULATIVE;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
	f = good_file();
	f.descs[5].d.size = 0;
	assert_int_equal(open_file(&s, &f, sizeof(f)), -ENOTSUP);
}

static void a_file_that_ends_early_reads_as_nothing(void **state)
{
	struct file f = good_file();
	struct kvm_stats s;
	struct kvm_halt_stats h;
	(void)state;
	assert_int_equal(open_file(&s, &f, offsetof(struct file, data) + 100), 0);
	memset(&h, 0x55, sizeof(h));
	assert_false(kvm_stats_read(&s, &h));
	assert_int_equal(h.attempted_poll, 0);
	kvm_stats_close(&s);
}

static void differences_never_go_back(void **state)
{
	struct kvm_halt_stats a = {.wait_ns = 10, .wait_hist[31] = 3, .poll_success_hist[0] = 2}, b = {.wait_ns = 12},
			      d;
	(void)state;
	kvm_halt_stats_since(&d, &a, &b);
	assert_int_equal(d.wait_ns, 0);
	assert_int_equal(d.wait_hist[31], 3);
	assert_int_equal(kvm_halt_stats_sleeps(&d), 3);
	assert_int_equal(kvm_halt_stats_halts(&d), 5);
	kvm_halt_stats_add(&d, &a);
	assert_int_equal(d.wait_ns, 10);
	assert_int_equal(kvm_halt_stats_halts(&d), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_found_by_name),
		cmocka_unit_test(what_is_missing_is_zero_or_refused),
		cmocka_unit_test(a_histogram_of_another_size_is_cut),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(a_file_that_ends_early_reads_as_nothing),
		cmocka_unit_test(differences_never_go_back),
	};
	return cmocka_run_group_tests_name("kvm_stats", tests, NULL, NULL);
}
