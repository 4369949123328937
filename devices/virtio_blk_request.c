// SPDX-License-Identifier: Apache-2.0
/* virtio_blk_request.c - what one request asks for, and what the device says of itself: virtio 1.2, 5.2.4 and 5.2.6.
 * Pure but for the guest memory behind a chain. */
#include "virtio_blk_internal.h"

#include "util.h"

#include <errno.h>
#include <linux/virtio_blk.h>
#include <string.h>

#define BIT64(n) (UINT64_C(1) << (n))

enum {
	PENDING = -1,
	HEADER_BYTES = 16,
};

/* The header as it is in memory. */
struct header {
	uint32_t type, reserved;
	uint64_t sector;
};

/* Takes the last byte of the chain, which holds the status, off its data. */
static int split_status(struct blk_request *r)
{
	struct virtq_chain *c = &r->chain;

	if (!c->writable)
		return -EPROTO;
	struct iovec *last = &c->iov[c->readable + c->writable - 1];
	last->iov_len--;
	r->status = (uint8_t *)last->iov_base + last->iov_len;
	r->in_bytes = c->writable_bytes - 1;
	if (!last->iov_len)
		c->writable--;
	c->writable_bytes--;
	return 0;
}

/* Takes the header off the front of the readable part, however it is cut into buffers: 2.7.4 lets the driver choose. */
static bool split_header(struct virtq_chain *c, struct header *h)
{
	uint32_t left = HEADER_BYTES;

	if (virtq_read(c, 0, h, HEADER_BYTES) != HEADER_BYTES)
		return false;
	c->readable_bytes -= HEADER_BYTES;
	while (left) {
		struct iovec *v = c->iov;
		uint32_t n = v->iov_len < left ? (uint32_t)v->iov_len : left;
		v->iov_base = (uint8_t *)v->iov_base + n;
		v->iov_len -= n;
		left -= n;
		if (!v->iov_len) {
			c->iov++;
			c->readable--;
		}
	}
	return true;
}

/* Whether [sector, sector + bytes) is on the disk. */
static bool in_range(const struct virtio_blk *blk, uint64_t sector, uint64_t bytes)
{
	uint64_t sectors = blk->file->bytes / BLK_SECTOR;

	return sector <= sectors && bytes / BLK_SECTOR <= sectors - sector;
}

static int parse_transfer(const struct virtio_blk *blk, struct blk_request *r, const struct header *h)
{
	struct virtq_chain *c = &r->chain;
	bool write = h->type == VIRTIO_BLK_T_OUT;
	uint32_t bytes = write ? c->readable_bytes : c->writable_bytes;

	/* One direction, whole sectors: 5.2.6. */
	if ((write ? c->writable : c->readable) || bytes % BLK_SECTOR || !in_range(blk, h->sector, bytes))
		return VIRTIO_BLK_S_IOERR;
	if (write && blk->file->config.read_only)
		return VIRTIO_BLK_S_IOERR;
	if (!bytes)
		return VIRTIO_BLK_S_OK;
	r->io.op = write ? DISK_WRITE : DISK_READ;
	/* 5.2.6.2: a driver that cannot flush gets a write-through cache. */
	r->io.dsync = write && !virtio_has(&blk->dev, VIRTIO_BLK_F_FLUSH);
	r->io.offset = h->sector * BLK_SECTOR;
	r->io.left = bytes;
	r->io.iov = c->iov + (write ? 0 : c->readable);
	r->io.iov_count = write ? c->readable : c->writable;
	return PENDING;
}

/* 5.2.6: one range, as the configuration space says. */
static int parse_range(const struct virtio_blk *blk, struct blk_request *r, const struct header *h)
{
	struct virtio_blk_discard_write_zeroes range;
	bool discard = h->type == VIRTIO_BLK_T_DISCARD;

	if (!virtio_has(&blk->dev, discard ? VIRTIO_BLK_F_DISCARD : VIRTIO_BLK_F_WRITE_ZEROES))
		return VIRTIO_BLK_S_UNSUPP;
	if (blk->file->config.read_only || r->chain.readable_bytes != sizeof(range) || r->chain.writable)
		return VIRTIO_BLK_S_IOERR;
	virtq_read(&r->chain, 0, &range, sizeof(range));
	if (range.flags & (discard ? ~0u : ~(uint32_t)VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP))
		return VIRTIO_BLK_S_UNSUPP;
	uint64_t bytes = (uint64_t)range.num_sectors * BLK_SECTOR;
	if (range.num_sectors > BLK_RANGE_SECTORS_MAX || !in_range(blk, range.sector, bytes))
		return VIRTIO_BLK_S_IOERR;
	if (!bytes)
		return VIRTIO_BLK_S_OK;
	r->io.op = discard ? DISK_DISCARD : DISK_ZERO;
	r->io.keep_blocks = !discard && !(range.flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
	r->io.dsync = false;
	r->io.offset = range.sector * BLK_SECTOR;
	r->io.left = bytes;
	r->io.iov_count = 0;
	return PENDING;
}

static int answer_id(const struct virtio_blk *blk, struct blk_request *r)
{
	uint8_t id[DISK_SERIAL_BYTES] = {0};

	if (r->chain.writable_bytes < sizeof(id))
		return VIRTIO_BLK_S_IOERR;
	memcpy(id, blk->file->config.serial, strlen(blk->file->config.serial));
	virtq_write(&r->chain, 0, id, sizeof(id));
	return VIRTIO_BLK_S_OK;
}

int blk_parse(const struct virtio_blk *blk, struct blk_request *r)
{
	struct header h;

	if (split_status(r) < 0)
		return -EPROTO;
	r->io = (struct disk_io){.op = DISK_FLUSH};
	if (!split_header(&r->chain, &h))
		return VIRTIO_BLK_S_IOERR;
	switch (h.type) {
	case VIRTIO_BLK_T_IN:
	case VIRTIO_BLK_T_OUT:
		return parse_transfer(blk, r, &h);
	case VIRTIO_BLK_T_FLUSH:
		return PENDING;
	case VIRTIO_BLK_T_GET_ID:
		return answer_id(blk, r);
	case VIRTIO_BLK_T_DISCARD:
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return parse_range(blk, r, &h);
	default:
		return VIRTIO_BLK_S_UNSUPP;
	}
}

void blk_answer(struct blk_request *r, int status)
{
	/* 2.7.8.2: no more than what was written from the start on, and the status is the last byte. */
	uint32_t written = status == VIRTIO_BLK_S_OK || !r->in_bytes ? r->in_bytes + 1 : 0;

	__atomic_store_n(r->status, (uint8_t)status, __ATOMIC_RELAXED);
	virtq_push(&r->queue->blk->dev.queues[r->queue->index].ring, r->chain.head, written);
}

/* ------------------------------------------------------------------------------- what the device says */

uint64_t blk_features(const struct disk_file *file)
{
	uint64_t features = BIT64(VIRTIO_BLK_F_SEG_MAX) | BIT64(VIRTIO_BLK_F_BLK_SIZE) | BIT64(VIRTIO_BLK_F_TOPOLOGY) |
	                    BIT64(VIRTIO_BLK_F_FLUSH);

	if (file->config.read_only)
		features |= BIT64(VIRTIO_BLK_F_RO);
	if (file->config.queues > 1)
		features |= BIT64(VIRTIO_BLK_F_MQ);
	if (file->can_punch)
		features |= BIT64(VIRTIO_BLK_F_DISCARD) | BIT64(VIRTIO_BLK_F_WRITE_ZEROES);
	return features;
}

static uint8_t exponent(uint32_t ratio)
{
	return (uint8_t)(31 - __builtin_clz(ratio ? ratio : 1));
}

void blk_config(const struct virtio_blk *blk, uint8_t config[BLK_CONFIG_BYTES])
{
	const struct disk_file *file = blk->file;
	struct virtio_blk_config c = {
		.capacity = file->bytes / BLK_SECTOR,
		.seg_max = VIRTIO_BLK_SEGMENTS_MAX,
		.blk_size = file->block_bytes,
		.physical_block_exp = exponent(file->physical_bytes / file->block_bytes),
		.min_io_size = (uint16_t)(file->physical_bytes / file->block_bytes),
		.num_queues = (uint16_t)file->config.queues,
	};

	if (file->can_punch) {
		c.max_discard_sectors = c.max_write_zeroes_sectors = BLK_RANGE_SECTORS_MAX;
		c.max_discard_seg = c.max_write_zeroes_seg = 1;
		c.discard_sector_alignment = file->physical_bytes / BLK_SECTOR;
		c.write_zeroes_may_unmap = 1;
	}
	_Static_assert(sizeof(c) >= BLK_CONFIG_BYTES &&
	                       offsetof(struct virtio_blk_config, write_zeroes_may_unmap) == 56,
	               "the fields up to write_zeroes_may_unmap take 60 bytes");
	memcpy(config, &c, BLK_CONFIG_BYTES);
}
