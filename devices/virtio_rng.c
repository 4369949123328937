// SPDX-License-Identifier: Apache-2.0
/* virtio_rng.c - fills the driver's buffers with random bytes, on the thread that notified. */
#include "virtio_rng.h"

#include "rate_limit.h"
#include "util.h"

#include <linux/virtio_ids.h>
#include <sys/random.h>

enum {
	QUEUE_MAX = 64,
	BYTES_MAX = 4096, /* of one buffer: a driver asks again when it wants more */
	STEP = 256,       /* getrandom() of so much is not interrupted */
};

struct virtio_rng {
	struct virtio_dev dev;
	struct rate_limit limit;
};

static struct virtio_rng *rng_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_rng, dev);
}

static uint32_t fill(const struct virtq_chain *chain)
{
	uint8_t bytes[STEP];
	uint32_t want = chain->writable_bytes < BYTES_MAX ? chain->writable_bytes : BYTES_MAX, done = 0;

	while (done < want) {
		size_t step = want - done < STEP ? want - done : STEP;
		ssize_t got = getrandom(bytes, step, 0);
		if (got <= 0)
			break;
		done += (uint32_t)virtq_write(chain, done, bytes, (size_t)got);
	}
	return done;
}

/* True: the budget was used up, so there may be more. */
static bool serve(struct virtio_rng *rng, struct virtio_queue *q)
{
	struct iovec iov[QUEUE_MAX];
	struct virtq_chain chain = {.iov = iov, .iov_max = QUEUE_MAX};
	unsigned budget = QUEUE_MAX;

	do {
		virtq_kick_off(&q->ring);
		for (; budget; budget--) {
			if (!rate_limit_open(&rng->limit))
				return false;
			int ret = virtq_pop(&q->ring, &chain);
			if (ret < 0)
				virtio_broken(&rng->dev, 0, "a chain that cannot be");
			if (ret <= 0)
				break;
			uint32_t done = fill(&chain);
			rate_limit_take(&rng->limit, done);
			virtq_push(&q->ring, chain.head, done);
		}
	} while (q->live && budget && virtq_kick_on(&q->ring));
	return q->live && !budget;
}

static void kick(struct virtio_dev *dev, unsigned n)
{
	bool more = serve(rng_of(dev), &dev->queues[n]);

	virtio_flush(dev, n);
	if (more)
		dev->up.again(dev->up.ctx, n);
}

static void reopened(void *ctx)
{
	struct virtio_rng *rng = ctx;

	rng->dev.up.again(rng->dev.up.ctx, 0);
}

static void destroy(struct virtio_dev *dev)
{
	rate_limit_fini(&rng_of(dev)->limit);
	free(rng_of(dev));
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-rng",
	.id = VIRTIO_ID_RNG,
	.queue_max = QUEUE_MAX,
	.kick = kick,
	.destroy = destroy,
};

struct virtio_dev *virtio_rng_create(struct event_loop *loop)
{
	struct virtio_rng *rng = calloc(1, sizeof(*rng));

	if (!rng)
		return NULL;
	rng->dev.ops = &ops;
	rng->dev.queue_count = 1;
	rate_limit_init(&rng->limit, VIRTIO_RNG_BYTES_PER_SECOND, 0, loop, reopened, rng);
	return &rng->dev;
}
