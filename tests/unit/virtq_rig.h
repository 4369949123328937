/* SPDX-License-Identifier: Apache-2.0 */
/* virtq_rig.h - a queue with a driver at its other end, for the tests of virtq.c. */
#ifndef LULL_TESTS_VIRTQ_RIG_H
#define LULL_TESTS_VIRTQ_RIG_H

#include "virtq.h"

#include "fakes/virtq_driver.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	SIZE = 8,
	NEXT = VRING_DESC_F_NEXT,
	WRITE = VRING_DESC_F_WRITE,
	INDIRECT = VRING_DESC_F_INDIRECT,
};

struct rig {
	struct driver d;
	struct driver_ring r;
	struct virtq q;
	struct virtq_chain chain;
	struct iovec iov[SIZE + 4];
	uint64_t buf; /* a page */
};

static inline int set_up(void **state)
{
	static struct rig rig;

	memset(&rig, 0, sizeof(rig));
	driver_open(&rig.d);
	driver_ring_open(&rig.d, &rig.r, SIZE);
	rig.r.config.indirect = true;
	assert_int_equal(virtq_init(&rig.q, &rig.d.mem, &rig.r.config), 0);
	rig.chain = (struct virtq_chain){.iov = rig.iov, .iov_max = ARRAY_SIZE(rig.iov)};
	rig.buf = driver_alloc(&rig.d, 4096, 4096);
	*state = &rig;
	return 0;
}

static inline int tear_down(void **state)
{
	struct rig *rig = *state;

	driver_close(&rig->d);
	return 0;
}

static inline void use_event_idx(struct rig *rig)
{
	rig->r.config.event_idx = true;
	assert_int_equal(virtq_init(&rig->q, &rig->d.mem, &rig->r.config), 0);
}

static inline int pop(struct rig *rig)
{
	return virtq_pop(&rig->q, &rig->chain);
}

/* An indirect table at buf, of these descriptors; the ring's descriptor 0 points to it. */
static inline void indirect(struct rig *rig, const struct vring_desc *table, unsigned count, uint32_t len,
                            unsigned flags)
{
	if (count)
		memcpy(driver_at(&rig->d, rig->buf), table, count * sizeof(*table));
	driver_desc(&rig->r, 0, rig->buf, len, INDIRECT | flags, 1);
	driver_offer(&rig->r, 0);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
