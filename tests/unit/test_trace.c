/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file: what is written is read back, over the end of the ring, after a crash in the middle, and from hostile
 * bytes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lull.h"
#include "trace.h"

static char dir[] = "/tmp/lull-trace-XXXXXX";
static char path[64];

static int make_dir(void **unused)
{
	(void)unused;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/trace", dir);
	return 0;
}

static int remove_dir(void **unused)
{
	(void)unused;
	unlink(path);
	return rmdir(dir);
}

/* The whole file, to be freed. */
static uint8_t *slurp(size_t *bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*bytes = (size_t)st.st_size;
	return data;
}

static struct trace_file create(uint32_t rings, uint64_t records)
{
	const struct policy_host host = {1, 2, 3};
	struct trace_file file;
	struct lull_error err = {0};
	if (trace_create(&file, path, rings, records, 1000, &host, "unit test", &err))
		fail_msg("%s", err.text);
	return file;
}

/* n records whose event is their number, 1 up. */
static void append(struct trace_ring *ring, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct trace_record r = {.event_ns = ring->seq + 1, .timer_ns = POLICY_NEVER};
		trace_append(ring, &r);
	}
}

/* Reads ring 0 of data; returns how many records, checks that they are consecutive up to last. */
static uint64_t read_back(const void *data, size_t bytes, uint64_t last, uint64_t *lost)
{
	struct trace_view view;
	struct trace_cursor cursor;
	struct trace_record r = {0};
	struct lull_error err = {0};
	uint64_t n = 0, before = 0;
	if (trace_open(&view, data, bytes, "x", &err))
		fail_msg("%s", err.text);
	trace_rewind(&cursor, &view, 0);
	for (; trace_next(&cursor, &r); n++) {
		assert_int_equal(r.event_ns, r.seq);
		assert_true(r.seq > before);
		before = r.seq;
	}
	assert_int_equal(before, last);
	if (lost)
		*lost = cursor.lost;
	return n;
}

static void what_the_host_costs_can_be_told_later(void **unused)
{
	const struct policy_host host = {40000, 9000, 0};
	struct trace_file file = create(1, 4);
	struct trace_view view;
	size_t bytes;
	(void)unused;
	trace_host(&file, &host);
	trace_close(&file);
	trace_host(&file, &host); /* nothing is there any more */
	uint8_t *data = slurp(&bytes);
	assert_int_equal(trace_open(&view, data, bytes, "x", NULL), 0);
	assert_int_equal(view.header.wake_ns, 40000);
	assert_int_equal(view.header.switch_ns, 9000);
	assert_int_equal(view.header.arm_ns, 0);
	free(data);
}

static void a_halt_comes_back_as_it_was(void **unused)
{
	const struct policy_hint hint = {
		.now_ns = 5000, .timer_ns = 4000000, .max_ns = 1, .io = true, .may_poll = true};
	const struct policy_plan plan = {.poll_ns = 7000, .sleep_ns = 3990000, .spin_ns = 4030000};
	const struct policy_sample sample = {.event_ns = 4000000,
	                                     .latency_ns = 55,
	                                     .poll_ns = 7000,
	                                     .spin_ns = 600,
	                                     .wake_ns = {9400, POLICY_NEVER},
	                                     .source = POLICY_TIMER,
	                                     .gap_ns = 1};
	struct trace_file file = create(2, 4);
	struct trace_ring ring = trace_ring(&file, 1);
	struct trace_view view;
	struct trace_cursor cursor;
	struct trace_record r;
	size_t bytes;
	(void)unused;
	trace_halt(&ring, &file, &hint, &plan, &sample);
	trace_close(&file);
	uint8_t *data = slurp(&bytes);
	assert_int_equal(bytes, 128 + 2 * 4 * 64);
	assert_int_equal(trace_open(&view, data, bytes, "x", NULL), 0);
	assert_string_equal(view.header.text, "unit test");
	assert_int_equal(view.header.wake_ns, 1);
	assert_int_equal(view.header.switch_ns, 2);
	assert_int_equal(view.header.arm_ns, 3);
	trace_rewind(&cursor, &view, 0);
	assert_false(trace_next(&cursor, &r));
	trace_rewind(&cursor, &view, 1);
	assert_true(trace_next(&cursor, &r));
	assert_int_equal(r.seq, 1);
	assert_int_equal(r.time_ns, 4000);
	assert_int_equal(r.event_ns, 4000000);
	assert_int_equal(r.timer_ns, 4000000);
	assert_int_equal(r.poll_ns, 7000);
	assert_int_equal(r.sleep_ns, 3990000);
	assert_int_equal(r.spin_ns, 40000);
	assert_int_equal(r.polled_ns, 7600);
	assert_int_equal(r.wake_ns, 9400);
	assert_int_equal(r.latency_ns, 55);
	assert_int_equal(r.source, POLICY_TIMER);
	assert_int_equal(r.flags, TRACE_IO | TRACE_MAY_POLL | TRACE_SLEPT | TRACE_GAP);
	assert_false(trace_next(&cursor, &r));
	assert_int_equal(cursor.lost, 0);
	free(data);
}

static void the_bytes_are_those_of_the_documented_format(void **unused)
{
	static const uint8_t header[44] = {'l', 'u', 'l', 'l', 't', 'r', 'c', 0, 1, 0, 0, 0, 128, 0, 0,
	                                   0,   64,  0,   0,   0,   1,   0,   0, 0, 2, 0, 0, 0,   0, 0,
	                                   0,   0,   1,   0,   0,   0,   0,   0, 0, 0, 2, 0, 0,   0};
	struct trace_file file = create(1, 2);
	struct trace_ring ring = trace_ring(&file, 0);
	size_t bytes;
	(void)unused;
	struct trace_record r = {0, 0x0102030405060708, 9, 10, 11, 12, 13, 14, 15, 16, 1, 2, 0};
	trace_append(&ring, &r);
	trace_close(&file);
	uint8_t *data = slurp(&bytes);
	assert_memory_equal(data, header, sizeof(header));
	assert_int_equal(data[128], 1);     /* seq */
	assert_int_equal(data[128 + 8], 8); /* time, lowest byte first */
	assert_int_equal(data[128 + 15], 1);
	assert_int_equal(data[128 + 60], 1); /* source */
	assert_int_equal(data[128 + 61], 2); /* flags */
	free(data);
}

static void times_that_do_not_fit_saturate(void **unused)
{
	const struct policy_hint hint = {.now_ns = 1000, .timer_ns = POLICY_NEVER};
	const struct policy_plan plan = {.poll_ns = POLICY_NEVER, .sleep_ns = POLICY_NEVER};
	const struct policy_sample sample = {.event_ns = 1,
	                                     .latency_ns = UINT32_MAX + 1ull,
	                                     .poll_ns = 5000000000,
	                                     .wake_ns = {POLICY_NEVER, POLICY_NEVER},
	                                     .source = POLICY_REQUEST};
	struct trace_file file = create(1, 1);
	struct trace_ring ring = trace_ring(&file, 0);
	(void)unused;
	trace_halt(&ring, &file, &hint, &plan, &sample);
	assert_int_equal(ring.slots[0].poll_ns, UINT32_MAX);
	assert_int_equal(ring.slots[0].latency_ns, UINT32_MAX);
	assert_int_equal(ring.slots[0].polled_ns, UINT32_MAX);
	assert_int_equal(ring.slots[0].spin_ns, 0);
	assert_int_equal(ring.slots[0].flags, 0);
	trace_close(&file);
}

static void a_full_ring_keeps_the_newest(void **unused)
{
	(void)unused;
	for (uint64_t n = 0; n <= 23; n++) {
		struct trace_file file = create(1, 7);
		struct trace_ring ring = trace_ring(&file, 0);
		uint64_t lost;
		size_t bytes;
		append(&ring, n);
		trace_close(&file);
		uint8_t *data = slurp(&bytes);
		assert_int_equal(read_back(data, bytes, n, &lost), n < 7 ? n : 7);
		assert_int_equal(lost, 0);
		free(data);
	}
}

static void a_crash_in_any_byte_of_a_record_costs_that_record(void **unused)
{
	struct trace_file file = create(1, 7);
	struct trace_ring ring = trace_ring(&file, 0);
	size_t bytes;
	(void)unused;
	append(&ring, 10);
	uint8_t *old = slurp(&bytes);
	append(&ring, 1); /* number 11 replaces number 4 in slot 3 */
	uint8_t *new = slurp(&bytes);
	trace_close(&file);
	uint8_t *torn = malloc(bytes);
	assert_non_null(torn);
	for (size_t at = 1; at < 64; at++) {
		size_t slot = 128 + 3 * 64;
		uint64_t lost;
		memcpy(torn, old, bytes);
		memcpy(torn + slot, new + slot, at); /* stores became visible in this order, or in the other */
		bool same_as_old = !memcmp(torn + slot, old + slot, 64),
		     same_as_new = !memcmp(torn + slot, new + slot, 64);
		assert_int_equal(read_back(torn, bytes, same_as_new ? 11 : 10, &lost),
		                 same_as_old || same_as_new ? 7 : 6);
		assert_int_equal(lost, same_as_old || same_as_new ? 0 : 1);
		memcpy(torn, new, bytes);
		memcpy(torn + slot, old + slot, at);
		same_as_old = !memcmp(torn + slot, old + slot, 64), same_as_new = !memcmp(torn + slot, new + slot, 64);
		assert_int_equal(read_back(torn, bytes, same_as_new ? 11 : 10, NULL),
		                 same_as_old || same_as_new ? 7 : 6);
	}
	free(old);
	free(new);
	free(torn);
}

static void any_flipped_bit_of_a_record_is_noticed(void **unused)
{
	struct trace_file file = create(1, 3);
	struct trace_ring ring = trace_ring(&file, 0);
	size_t bytes;
	(void)unused;
	append(&ring, 3);
	trace_close(&file);
	uint8_t *data = slurp(&bytes);
	for (size_t bit = 0; bit < 64 * 8; bit++) {
		uint8_t *byte = &data[128 + 64 + bit / 8];
		uint64_t lost;
		*byte ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(read_back(data, bytes, 3, &lost), 2);
		assert_int_equal(lost, 1);
		*byte ^= (uint8_t)(1u << bit % 8);
	}
	free(data);
}

static void a_short_file_gives_what_is_there(void **unused)
{
	struct trace_file file = create(1, 8);
	struct trace_ring ring = trace_ring(&file, 0);
	size_t bytes;
	(void)unused;
	append(&ring, 8);
	trace_close(&file);
	uint8_t *data = slurp(&bytes);
	for (size_t n = 128; n <= bytes; n++) {
		uint64_t whole = (n - 128) / 64;
		uint8_t *exact = malloc(n);
		assert_non_null(exact);
		memcpy(exact, data, n);
		assert_int_equal(read_back(exact, n, whole, NULL), whole);
		free(exact);
	}
	free(data);
}

static void headers_that_are_none_are_refused_in_words(void **unused)
{
	struct trace_view view;
	struct lull_error err;
	struct trace_file file = create(1, 8);
	size_t bytes;
	(void)unused;
	trace_close(&file);
	uint8_t *data = slurp(&bytes), *copy = malloc(bytes + 1);
	assert_non_null(copy);
	for (size_t n = 0; n < 128; n++) {
		memcpy(copy, data, n);
		assert_int_equal(trace_open(&view, copy, n, "x", NULL), -EINVAL);
	}
	static const struct {
		size_t at;
		uint8_t value;
		const char *line;
	} c[] = {
		{0, 'L', "f: not a halt trace; make one with --halt-trace or trace gen"},
		{8, 2, "f: a halt trace of version 2; this lull reads version 1"},
		{12, 127, "f: a halt trace of version 1; this lull reads version 1"},
		{16, 65, "f: a halt trace of version 1; this lull reads version 1"},
		{20, 0, "f: damaged header: 0 rings of 8 records"},
		{21, 255, "f: damaged header: 65281 rings of 8 records"},
		{24, 0, "f: damaged header: 1 rings of 0 records"},
		{31, 255, "f: damaged header: 1 rings of 18374686479671623688 records"},
		{24, 7, "f: longer than its header says; it is no halt trace, or damaged"},
	};
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		memcpy(copy, data, bytes);
		copy[c[i].at] = c[i].value;
		err = (struct lull_error){0};
		assert_int_equal(trace_open(&view, copy, bytes, "f", &err), -EINVAL);
		assert_string_equal(err.text, c[i].line);
	}
	memset(data + 64, 'x', 64); /* no end of the text */
	assert_int_equal(trace_open(&view, data, bytes, "f", NULL), 0);
	assert_int_equal(strlen(view.header.text), 63);
	free(data);
	free(copy);
}

static void records_that_make_no_sense_are_lost(void **unused)
{
	struct trace_file file = create(1, 6);
	struct trace_ring ring = trace_ring(&file, 0);
	size_t bytes;
	uint64_t lost;
	(void)unused;
	append(&ring, 1);
	struct trace_record bad[] = {
		{.event_ns = 1, .source = 3}, {.event_ns = 1, .flags = 0x80}, {.event_ns = (1ull << 62) + 1},
		{.time_ns = 1ull << 63},      {.timer_ns = POLICY_NEVER - 1},
	};
	for (size_t i = 0; i < 5; i++)
		trace_append(&ring, &bad[i]);
	trace_close(&file);
	uint8_t *data = slurp(&bytes);
	assert_int_equal(read_back(data, bytes, 1, &lost), 1);
	assert_int_equal(lost, 5);
	free(data);
}

static void a_header_that_promises_a_terabyte_costs_nothing(void **unused)
{
	struct trace_header h = {.magic = TRACE_MAGIC,
	                         .version = 1,
	                         .header_bytes = 128,
	                         .record_bytes = 64,
	                         .rings = TRACE_RINGS_MAX,
	                         .records = TRACE_RECORDS_MAX};
	struct trace_view view;
	struct trace_record r;
	(void)unused;
	assert_int_equal(trace_open(&view, &h, sizeof(h), "x", NULL), 0);
	for (uint32_t ring = 0; ring <= TRACE_RINGS_MAX; ring++) {
		struct trace_cursor cursor;
		trace_rewind(&cursor, &view, ring);
		assert_false(trace_next(&cursor, &r));
	}
}

static void only_a_trace_or_an_empty_file_is_replaced(void **unused)
{
	struct trace_file file;
	struct lull_error err = {0};
	char line[200];
	(void)unused;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, "precious", 8), 8);
	close(fd);
	assert_int_equal(trace_create(&file, path, 1, 1, 0, NULL, "x", &err), -EEXIST);
	snprintf(line, sizeof(line), "halt trace %s: exists and is not a trace; name another file", path);
	assert_string_equal(err.text, line);
	trace_close(&file);
	assert_int_equal(trace_create(&file, dir, 1, 1, 0, NULL, "x", &err), -EEXIST);
	assert_int_equal(truncate(path, 0), 0);
	file = create(1, 1);
	trace_close(&file);
	file = create(1, 2);
	trace_close(&file);
}

static void a_replaced_trace_stays_whole_for_who_still_writes_it(void **unused)
{
	struct trace_file first = create(1, 4), second = create(1, 1);
	struct trace_ring ring = trace_ring(&first, 0);
	(void)unused;
	append(&ring, 9); /* would be a bus error had the file been cut */
	assert_int_equal(ring.slots[0].seq, 9);
	trace_close(&first);
	trace_close(&second);
}

static void sizes_out_of_range_are_refused(void **unused)
{
	static const struct {
		uint32_t rings;
		uint64_t records;
	} c[] = {{0, 1}, {1, 0}, {TRACE_RINGS_MAX + 1, 1}, {1, TRACE_RECORDS_MAX + 1ull}, {2, UINT64_MAX}};
	struct trace_file file;
	(void)unused;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		assert_int_equal(trace_create(&file, path, c[i].rings, c[i].records, 0, NULL, "x", NULL), -EINVAL);
	assert_int_equal(trace_create(&file, "/nonexistent/x", 1, 1, 0, NULL, "x", NULL), -ENOENT);
}

static void without_a_file_nothing_is_recorded(void **unused)
{
	struct trace_file file = {0};
	struct trace_ring ring = trace_ring(&file, 0);
	(void)unused;
	append(&ring, 3);
	trace_close(&file);
	file = create(1, 1);
	ring = trace_ring(&file, 1); /* there is no such vCPU */
	append(&ring, 3);
	trace_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_host_costs_can_be_told_later),
		cmocka_unit_test(a_halt_comes_back_as_it_was),
		cmocka_unit_test(the_bytes_are_those_of_the_documented_format),
		cmocka_unit_test(times_that_do_not_fit_saturate),
		cmocka_unit_test(a_full_ring_keeps_the_newest),
		cmocka_unit_test(a_crash_in_any_byte_of_a_record_costs_that_record),
		cmocka_unit_test(any_flipped_bit_of_a_record_is_noticed),
		cmocka_unit_test(a_short_file_gives_what_is_there),
		cmocka_unit_test(headers_that_are_none_are_refused_in_words),
		cmocka_unit_test(records_that_make_no_sense_are_lost),
		cmocka_unit_test(a_header_that_promises_a_terabyte_costs_nothing),
		cmocka_unit_test(only_a_trace_or_an_empty_file_is_replaced),
		cmocka_unit_test(a_replaced_trace_stays_whole_for_who_still_writes_it),
		cmocka_unit_test(sizes_out_of_range_are_refused),
		cmocka_unit_test(without_a_file_nothing_is_recorded),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
