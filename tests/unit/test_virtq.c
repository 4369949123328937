// SPDX-License-Identifier: Apache-2.0
/* test_virtq.c - the device's side of split queues, with a driver that keeps the rules. */
#include "virtq_rig.h"

/* ------------------------------------------------------------------------------------------ a queue */

static void sizes_and_addresses_are_checked(void **state)
{
	struct rig *rig = *state;
	const struct virtq_config good = rig->r.config;
	const uint64_t end = DRIVER_RAM;
	const struct {
		int want;
		struct virtq_config c;
	} cases[] = {
		{-EINVAL, {0, good.desc, good.avail, good.used, false, false}},
		{-EINVAL, {3, good.desc, good.avail, good.used, false, false}},
		{-EINVAL, {65536, good.desc, good.avail, good.used, false, false}},
		{-EINVAL, {UINT32_MAX, good.desc, good.avail, good.used, false, false}},
		{-EINVAL, {SIZE, gpa(8), good.avail, good.used, false, false}},
		{-EINVAL, {SIZE, good.desc, gpa(1), good.used, false, false}},
		{-EINVAL, {SIZE, good.desc, good.avail, gpa(2), false, false}},
		{-EFAULT, {SIZE, gpa(end - 16 * SIZE + 16), good.avail, good.used, false, false}},
		{-EFAULT, {SIZE, good.desc, gpa(end - 2 * SIZE - 4), good.used, false, false}},
		{-EFAULT, {SIZE, good.desc, good.avail, gpa(end - 8 * SIZE - 4), false, false}},
		{-EFAULT, {SIZE, gpa(~0ull << 4), good.avail, good.used, false, false}},
		{-EFAULT, {32768, gpa(end - 16), good.avail, good.used, false, false}},
		{0, {SIZE, gpa(end - 16 * SIZE), good.avail, good.used, false, false}},
		{0, {SIZE, good.desc, gpa(end - 2 * SIZE - 6), good.used, false, false}},
		{0, {SIZE, good.desc, good.avail, gpa(end - 8 * SIZE - 8), false, false}},
		{0, {1, good.desc, good.avail, good.used, false, false}},
	};
	struct virtq q;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(virtq_init(&q, &rig->d.mem, &cases[i].c), cases[i].want);
}

/* ------------------------------------------------------------------------------------------- chains */

static void a_chain_comes_as_the_driver_made_it(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf bufs[] = {{rig->buf, 16, false},
	                                  {rig->buf + 100, 5, false},
	                                  {rig->buf + 200, 7, true},
	                                  {rig->buf + 300, 1, true}};

	assert_int_equal(pop(rig), 0);
	uint16_t head = driver_chain(&rig->r, bufs, 4);
	assert_int_equal(pop(rig), 1);
	assert_int_equal(rig->chain.head, head);
	assert_int_equal(rig->chain.readable, 2);
	assert_int_equal(rig->chain.writable, 2);
	assert_int_equal(rig->chain.readable_bytes, 21);
	assert_int_equal(rig->chain.writable_bytes, 8);
	for (unsigned i = 0; i < 4; i++) {
		assert_ptr_equal(rig->iov[i].iov_base, driver_at(&rig->d, bufs[i].addr));
		assert_int_equal(rig->iov[i].iov_len, bufs[i].len);
	}
	assert_int_equal(pop(rig), 0);
}

static void a_chain_as_long_as_the_queue_is_fine(void **state)
{
	struct rig *rig = *state;
	struct driver_buf bufs[SIZE];

	for (unsigned i = 0; i < SIZE; i++)
		bufs[i] = (struct driver_buf){rig->buf, 1, true};
	driver_chain(&rig->r, bufs, SIZE);
	assert_int_equal(pop(rig), 1);
	assert_int_equal(rig->chain.writable, SIZE);
}

static void indices_wrap(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf buf = {rig->buf, 4, true};
	uint32_t id, len;

	for (uint32_t i = 0; i < 70000; i++) {
		uint16_t head = driver_chain(&rig->r, &buf, 1);
		assert_int_equal(pop(rig), 1);
		assert_int_equal(pop(rig), 0);
		virtq_push(&rig->q, rig->chain.head, i);
		assert_true(virtq_flush(&rig->q));
		assert_true(driver_used(&rig->r, &id, &len));
		assert_int_equal(id, head);
		assert_int_equal(len, i);
		assert_false(driver_used(&rig->r, &id, &len));
	}
}

static void chains_may_return_in_any_order(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf buf = {rig->buf, 4, true};
	uint16_t heads[SIZE];
	uint32_t id, len;

	for (unsigned i = 0; i < SIZE; i++) {
		driver_chain(&rig->r, &buf, 1);
		assert_int_equal(pop(rig), 1);
		heads[i] = rig->chain.head;
	}
	for (unsigned i = SIZE; i--;)
		virtq_push(&rig->q, heads[i], i);
	assert_false(driver_used(&rig->r, &id, &len)); /* nothing is out before it is flushed */
	assert_true(virtq_flush(&rig->q));
	assert_false(virtq_flush(&rig->q));
	for (unsigned i = SIZE; i--;) {
		assert_true(driver_used(&rig->r, &id, &len));
		assert_int_equal(id, heads[i]);
		assert_int_equal(len, i);
	}
}

/* ---------------------------------------------------------------------------------- indirect tables */

static void an_indirect_table_may_lie_anywhere(void **state)
{
	struct rig *rig = *state;
	const uint64_t places[] = {rig->buf, rig->buf + 1, rig->buf + 7, DRIVER_RAM - 32};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct vring_desc t[] = {{rig->buf + 512, 16, NEXT, 1}, {rig->buf + 1024, 8, WRITE, 9}};
		memcpy(driver_at(&rig->d, places[i]), t, sizeof(t));
		/* 2.7.5.3.2: the write flag of the one that points to it is ignored. */
		driver_desc(&rig->r, 2, places[i], sizeof(t), INDIRECT | WRITE, 77);
		driver_offer(&rig->r, 2);
		assert_int_equal(pop(rig), 1);
		assert_int_equal(rig->chain.head, 2);
		assert_int_equal(rig->chain.readable_bytes, 16);
		assert_int_equal(rig->chain.writable_bytes, 8);
	}
}

static void a_chain_may_end_with_an_indirect_table(void **state)
{
	struct rig *rig = *state;
	const struct vring_desc t[] = {{rig->buf + 512, 8, WRITE, 0}};

	memcpy(driver_at(&rig->d, rig->buf), t, sizeof(t));
	driver_desc(&rig->r, 0, rig->buf + 600, 4, NEXT, 1);
	driver_desc(&rig->r, 1, rig->buf, sizeof(t), INDIRECT, 0);
	driver_offer(&rig->r, 0);
	assert_int_equal(pop(rig), 1);
	assert_int_equal(rig->chain.readable_bytes, 4);
	assert_int_equal(rig->chain.writable_bytes, 8);
}

static void an_indirect_table_that_was_not_negotiated_is_found(void **state)
{
	struct rig *rig = *state;
	const struct vring_desc t[] = {{rig->buf + 512, 8, WRITE, 0}};

	rig->q.indirect = false;
	indirect(rig, t, 1, 16, 0);
	assert_int_equal(pop(rig), -EPROTO);
}

/* ------------------------------------------------------------------------------------ notifications */

static bool push_one(struct rig *rig)
{
	const struct driver_buf buf = {rig->buf, 4, true};

	driver_chain(&rig->r, &buf, 1);
	assert_int_equal(pop(rig), 1);
	virtq_push(&rig->q, rig->chain.head, 0);
	return virtq_flush(&rig->q);
}

static void a_driver_may_refuse_interrupts(void **state)
{
	struct rig *rig = *state;

	assert_true(push_one(rig));
	rig->r.avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	assert_false(push_one(rig));
	rig->r.avail->flags = 0;
	assert_true(push_one(rig));
}

static void with_event_indices_an_interrupt_comes_when_the_index_is_passed(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf buf = {rig->buf, 4, true};

	use_event_idx(rig);
	for (uint32_t used = 0; used < 70000; used += 3) {
		for (uint16_t ahead = 0; ahead < 5; ahead++) {
			rig->q.used_next = rig->q.used_told = (uint16_t)used;
			rig->r.avail->ring[SIZE] = (uint16_t)(used + ahead);
			for (unsigned i = 0; i < 3; i++) {
				driver_chain(&rig->r, &buf, 1);
				assert_int_equal(pop(rig), 1);
				virtq_push(&rig->q, rig->chain.head, 0);
			}
			/* Entries used .. used + 2 went out: those behind an index of used + 2 or less are news. */
			assert_int_equal(virtq_flush(&rig->q), ahead < 3);
		}
	}
}

static void the_driver_is_asked_to_notify_or_not(void **state)
{
	struct rig *rig = *state;

	virtq_kick_off(&rig->q);
	assert_int_equal(rig->r.used->flags, VRING_USED_F_NO_NOTIFY);
	assert_false(virtq_kick_on(&rig->q));
	assert_int_equal(rig->r.used->flags, 0);
	virtq_kick_off(&rig->q);
	driver_offer(&rig->r, 0);
	assert_true(virtq_kick_on(&rig->q)); /* it came while nobody was to be told */
}

static void with_event_indices_the_next_chain_notifies(void **state)
{
	struct rig *rig = *state;
	uint16_t *avail_event = (uint16_t *)(void *)&rig->r.used->ring[SIZE];

	use_event_idx(rig);
	virtq_kick_off(&rig->q);
	assert_int_equal(rig->r.used->flags, 0);
	for (unsigned i = 1; i < 20; i++) {
		push_one(rig);
		assert_false(virtq_kick_on(&rig->q));
		assert_int_equal(*avail_event, i);
	}
	driver_offer(&rig->r, 0);
	assert_true(virtq_kick_on(&rig->q));
}

/* ----------------------------------------------------------------------------------------- contents */

static void contents_are_copied_across_buffers(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf bufs[] = {
		{rig->buf, 3, false}, {rig->buf + 10, 4, false}, {rig->buf + 100, 2, true}, {rig->buf + 200, 5, true}};
	char text[8] = "", *in = driver_at(&rig->d, rig->buf);

	memcpy(in, "abc", 3);
	memcpy(in + 10, "defg", 4);
	driver_chain(&rig->r, bufs, 4);
	assert_int_equal(pop(rig), 1);
	assert_int_equal(virtq_read(&rig->chain, 0, text, 8), 7);
	assert_string_equal(text, "abcdefg");
	memset(text, 0, sizeof(text));
	assert_int_equal(virtq_read(&rig->chain, 2, text, 3), 3);
	assert_string_equal(text, "cde");
	assert_int_equal(virtq_read(&rig->chain, 7, text, 1), 0);
	assert_int_equal(virtq_read(&rig->chain, SIZE_MAX, text, 1), 0);
	assert_int_equal(virtq_write(&rig->chain, 0, "ABCDEFGHIJ", 10), 7);
	assert_memory_equal(in + 100, "AB\0", 3);
	assert_memory_equal(in + 200, "CDEFG\0", 6);
	assert_int_equal(virtq_write(&rig->chain, 3, "xy", 2), 2);
	assert_memory_equal(in + 200, "CxyFG", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(sizes_and_addresses_are_checked),
		WITH_RIG(a_chain_comes_as_the_driver_made_it),
		WITH_RIG(a_chain_as_long_as_the_queue_is_fine),
		WITH_RIG(indices_wrap),
		WITH_RIG(chains_may_return_in_any_order),
		WITH_RIG(an_indirect_table_may_lie_anywhere),
		WITH_RIG(a_chain_may_end_with_an_indirect_table),
		WITH_RIG(an_indirect_table_that_was_not_negotiated_is_found),
		WITH_RIG(a_driver_may_refuse_interrupts),
		WITH_RIG(with_event_indices_an_interrupt_comes_when_the_index_is_passed),
		WITH_RIG(the_driver_is_asked_to_notify_or_not),
		WITH_RIG(with_event_indices_the_next_chain_notifies),
		WITH_RIG(contents_are_copied_across_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
