// SPDX-License-Identifier: Apache-2.0
/* test_virtq_hostile.c - the device's side of split queues, with a driver that breaks each rule. */
#include "virtq_rig.h"

#include <pthread.h>
#include <stdatomic.h>

/* -------------------------------------------------------------------------------------- violations */

static void violate_index(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 4, 0, 0);
	driver_offer(&rig->r, 0);
	rig->r.avail->idx = SIZE + 1;
}

static void violate_index_backwards(struct rig *rig)
{
	rig->r.avail->idx = 0xffff;
}

static void violate_head(struct rig *rig)
{
	driver_offer(&rig->r, SIZE);
}

static void violate_next(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 4, NEXT, SIZE);
	driver_offer(&rig->r, 0);
}

static void violate_next_far(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 4, NEXT, 0xffff);
	driver_offer(&rig->r, 0);
}

static void violate_self_loop(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 4, NEXT, 0);
	driver_offer(&rig->r, 0);
}

static void violate_loop(struct rig *rig)
{
	for (unsigned i = 0; i < SIZE; i++)
		driver_desc(&rig->r, i, rig->buf, 4, NEXT | WRITE, (i + 1) % SIZE);
	driver_offer(&rig->r, 3);
}

static void violate_order(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 4, NEXT | WRITE, 1);
	driver_desc(&rig->r, 1, rig->buf, 4, 0, 0);
	driver_offer(&rig->r, 0);
}

static void violate_length_0(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 0, 0, 0);
	driver_offer(&rig->r, 0);
}

static void violate_address(struct rig *rig)
{
	driver_desc(&rig->r, 0, DRIVER_RAM, 1, 0, 0);
	driver_offer(&rig->r, 0);
}

static void violate_end(struct rig *rig)
{
	driver_desc(&rig->r, 0, DRIVER_RAM - 4, 5, 0, 0);
	driver_offer(&rig->r, 0);
}

static void violate_wrap(struct rig *rig)
{
	driver_desc(&rig->r, 0, ~0ull - 3, 8, 0, 0);
	driver_offer(&rig->r, 0);
}

static void violate_huge(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, UINT32_MAX, WRITE, 0);
	driver_offer(&rig->r, 0);
}

static void violate_second_buffer(struct rig *rig)
{
	driver_desc(&rig->r, 0, rig->buf, 16, NEXT, 1);
	driver_desc(&rig->r, 1, 0xc0000000, 16, WRITE, 0);
	driver_offer(&rig->r, 0);
}

static void violate_table_in_table(struct rig *rig)
{
	const struct vring_desc t[] = {{rig->buf, 16, INDIRECT, 0}};

	indirect(rig, t, 1, 16, 0);
}

static void violate_table_with_next(struct rig *rig)
{
	const struct vring_desc t[] = {{rig->buf + 512, 16, 0, 0}};

	driver_desc(&rig->r, 1, rig->buf, 16, 0, 0);
	indirect(rig, t, 1, 16, NEXT);
}

static void violate_table_length_0(struct rig *rig)
{
	indirect(rig, NULL, 0, 0, 0);
}

static void violate_table_part(struct rig *rig)
{
	const struct vring_desc t[] = {{rig->buf + 512, 16, 0, 0}};

	indirect(rig, t, 1, 24, 0);
}

static void violate_table_too_long(struct rig *rig)
{
	indirect(rig, NULL, 0, 16 * (SIZE + 1), 0);
}

static void violate_table_next(struct rig *rig)
{
	const struct vring_desc t[] = {{rig->buf + 512, 16, NEXT, 2}, {rig->buf + 512, 16, 0, 0}};

	indirect(rig, t, 2, 32, 0);
}

static void violate_table_loop(struct rig *rig)
{
	const struct vring_desc t[] = {{rig->buf + 512, 16, NEXT, 1}, {rig->buf + 512, 16, NEXT, 0}};

	indirect(rig, t, 2, 32, 0);
}

static void violate_table_address(struct rig *rig)
{
	driver_desc(&rig->r, 0, DRIVER_RAM - 8, 16, INDIRECT, 0);
	driver_offer(&rig->r, 0);
}

static void violate_table_buffer(struct rig *rig)
{
	const struct vring_desc t[] = {{DRIVER_RAM - 8, 16, 0, 0}};

	indirect(rig, t, 1, 16, 0);
}

/* A chain that begins in the ring and ends in a table, longer than the queue in sum. */
static void violate_sum_of_both(struct rig *rig)
{
	struct vring_desc t[SIZE];

	for (unsigned i = 0; i < SIZE; i++)
		t[i] = (struct vring_desc){rig->buf + 512, 1, i + 1 < SIZE ? NEXT : 0, (uint16_t)(i + 1)};
	memcpy(driver_at(&rig->d, rig->buf), t, sizeof(t));
	driver_desc(&rig->r, 0, rig->buf + 512, 1, NEXT, 1);
	driver_desc(&rig->r, 1, rig->buf, sizeof(t), INDIRECT, 0);
	driver_offer(&rig->r, 0);
}

static const struct {
	const char *what;
	void (*violate)(struct rig *rig);
	int want;
} violations[] = {
	{"index beyond the queue", violate_index, -EPROTO},
	{"index goes back", violate_index_backwards, -EPROTO},
	{"head beyond the table", violate_head, -EPROTO},
	{"next beyond the table", violate_next, -EPROTO},
	{"next far beyond the table", violate_next_far, -EPROTO},
	{"descriptor follows itself", violate_self_loop, -EPROTO},
	{"loop through the whole table", violate_loop, -EPROTO},
	{"readable behind writable", violate_order, -EPROTO},
	{"buffer of length 0", violate_length_0, -EPROTO},
	{"buffer behind memory", violate_address, -EFAULT},
	{"buffer over the end of memory", violate_end, -EFAULT},
	{"buffer that wraps", violate_wrap, -EFAULT},
	{"buffer of 4 GiB - 1", violate_huge, -EFAULT},
	{"second buffer is no memory", violate_second_buffer, -EFAULT},
	{"table in a table", violate_table_in_table, -EPROTO},
	{"table with a successor", violate_table_with_next, -EPROTO},
	{"table of length 0", violate_table_length_0, -EPROTO},
	{"table with half a descriptor", violate_table_part, -EPROTO},
	{"table longer than the queue", violate_table_too_long, -EPROTO},
	{"next beyond the indirect table", violate_table_next, -EPROTO},
	{"loop in an indirect table", violate_table_loop, -EPROTO},
	{"table over the end of memory", violate_table_address, -EFAULT},
	{"buffer of a table over the end", violate_table_buffer, -EFAULT},
	{"ring and table together too long", violate_sum_of_both, -EPROTO},
};

static void each_violation_is_found_and_changes_nothing(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(violations); i++) {
		struct rig *rig = *state;
		violations[i].violate(rig);
		struct virtq before = rig->q;
		int ret = pop(rig);
		if (ret != violations[i].want)
			fail_msg("%s: %d", violations[i].what, ret);
		assert_memory_equal(&before, &rig->q, sizeof(before));
		tear_down(state);
		set_up(state);
	}
}

static void more_chains_than_descriptors_are_found(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf buf = {rig->buf, 4, true};

	for (unsigned i = 0; i < SIZE; i++) {
		driver_chain(&rig->r, &buf, 1);
		assert_int_equal(pop(rig), 1);
	}
	driver_chain(&rig->r, &buf, 1);
	assert_int_equal(pop(rig), -EPROTO);
	virtq_push(&rig->q, 0, 0);
	assert_int_equal(pop(rig), 1);
}

static void a_chain_for_which_the_device_has_no_room_is_found(void **state)
{
	struct rig *rig = *state;
	const struct driver_buf bufs[] = {{rig->buf, 4, false}, {rig->buf, 4, false}, {rig->buf, 4, true}};

	rig->chain.iov_max = 2;
	driver_chain(&rig->r, bufs, 3);
	assert_int_equal(pop(rig), -EPROTO);
}

static void lengths_that_sum_up_to_4_gib_are_found(void **state)
{
	struct rig *rig = *state;
	const unsigned size = 2048, each = DRIVER_RAM / 2;
	struct iovec *iov = calloc(size, sizeof(*iov));
	struct driver_ring r;
	struct virtq q;
	struct virtq_chain chain = {.iov = iov, .iov_max = size};

	driver_ring_open(&rig->d, &r, size);
	assert_int_equal(virtq_init(&q, &rig->d.mem, &r.config), 0);
	/* 2048 * 2 MiB = 4 GiB: one byte less is the most there can be. */
	for (unsigned i = 0; i < size; i++)
		driver_desc(&r, i, 0, each, WRITE | (i + 1 < size ? NEXT : 0), i + 1);
	driver_offer(&r, 0);
	assert_int_equal(virtq_pop(&q, &chain), -EPROTO);
	r.desc[size - 1].len = each - 1;
	assert_int_equal(virtq_pop(&q, &chain), 1);
	assert_int_equal(chain.writable_bytes, UINT32_MAX);
	free(iov);
}

/* ------------------------------------------------------------------------- a driver that changes its mind */

static atomic_bool stop;

static void *flip(void *arg)
{
	struct rig *rig = arg;
	uint64_t *desc = (uint64_t *)(void *)rig->r.desc;

	/* Length and flags of a good descriptor, and of one that goes far beyond memory. */
	while (!atomic_load(&stop)) {
		__atomic_store_n(&desc[1], 16, __ATOMIC_RELAXED);
		__atomic_store_n(&desc[1], UINT32_MAX, __ATOMIC_RELAXED);
		__atomic_store_n(&desc[0], DRIVER_RAM - 16, __ATOMIC_RELAXED);
		__atomic_store_n(&desc[0], DRIVER_RAM - 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Whatever is used was checked: a buffer is inside memory or there is none. */
static void what_is_checked_is_what_is_used(void **state)
{
	struct rig *rig = *state;
	pthread_t thread;
	uint8_t *ram = driver_at(&rig->d, 0);

#ifdef __SANITIZE_THREAD__
	skip(); /* a race is what this is about */
#endif
	atomic_store(&stop, false);
	driver_desc(&rig->r, 0, rig->buf, 16, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, flip, rig), 0);
	for (unsigned i = 0; i < 100000; i++) {
		driver_offer(&rig->r, 0);
		int ret = pop(rig);
		if (ret < 0) {
			rig->r.avail->idx--;
			continue;
		}
		assert_int_equal(ret, 1);
		const uint8_t *from = rig->iov[0].iov_base;
		assert_true(from >= ram && from + rig->iov[0].iov_len <= ram + DRIVER_RAM);
		virtq_push(&rig->q, 0, 0);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(each_violation_is_found_and_changes_nothing),
		WITH_RIG(more_chains_than_descriptors_are_found),
		WITH_RIG(a_chain_for_which_the_device_has_no_room_is_found),
		WITH_RIG(lengths_that_sum_up_to_4_gib_are_found),
		WITH_RIG(what_is_checked_is_what_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
