/* SPDX-License-Identifier: Apache-2.0 */
/* kvm_stats.c - the format of KVM's statistics files: header, descriptors, figures. Knows no vCPU. */
#include "kvm_stats.h"

#include "util.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	NAME_MAX_BYTES = 256,
	DESCRIPTORS_MAX = 1024,
	SPAN_MAX = 16384, /* from the first to the last figure that is wanted */
};

/* In the order of struct kvm_stats.figures. */
static const struct {
	const char *name;
	size_t offset, count;
	bool is_hist, is_needed;
} wanted[] = {
#define NUMBER(member)                                                                                                 \
	{                                                                                                              \
		"halt_" #member, offsetof(struct kvm_halt_stats, member), 1, false, false                              \
	}
#define NEEDED(member)                                                                                                 \
	{                                                                                                              \
		"halt_" #member, offsetof(struct kvm_halt_stats, member), 1, false, true                               \
	}
#define HIST(member)                                                                                                   \
	{                                                                                                              \
		"halt_" #member, offsetof(struct kvm_halt_stats, member), KVM_STATS_BUCKETS, true, true                \
	}
	NUMBER(attempted_poll),  NUMBER(successful_poll), NUMBER(poll_invalid), NUMBER(wakeup),
	NEEDED(poll_success_ns), NEEDED(poll_fail_ns),    NUMBER(wait_ns),      HIST(poll_success_hist),
	HIST(poll_fail_hist),    HIST(wait_hist),
};

_Static_assert(ARRAY_SIZE(wanted) == KVM_STATS_FIGURES, "one row for each figure");

static bool fits(size_t i, const struct kvm_stats_desc *d)
{
	bool is_hist = (d->flags & KVM_STATS_TYPE_MASK) == KVM_STATS_TYPE_LOG_HIST;
	return is_hist == wanted[i].is_hist && d->size > 0 && d->offset % sizeof(uint64_t) == 0 &&
	       d->offset < 1u << 24 && (is_hist || d->size == 1);
}

static void take(struct kvm_stats *s, const struct kvm_stats_desc *d, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!strcmp(name, wanted[i].name) && fits(i, d)) {
			s->figures[i].offset = d->offset;
			s->figures[i].count = d->size < wanted[i].count ? d->size : (uint32_t)wanted[i].count;
		}
}

/* One read gets all figures: the span from the first to the last of them. */
static int span(struct kvm_stats *s, uint32_t data_offset)
{
	uint32_t first = UINT32_MAX, end = 0;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (!s->figures[i].count) {
			if (wanted[i].is_needed)
				return -ENOTSUP;
			continue;
		}
		uint32_t last = s->figures[i].offset + s->figures[i].count * (uint32_t)sizeof(uint64_t);
		first = s->figures[i].offset < first ? s->figures[i].offset : first;
		end = last > end ? last : end;
	}
	if (end - first > SPAN_MAX)
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		s->figures[i].offset -= s->figures[i].count ? first : 0;
	s->base = (uint64_t)data_offset + first;
	s->bytes = end - first;
	return 0;
}

int kvm_stats_parse(struct kvm_stats *s, const struct kvm_stats_header *header, const void *descriptors, size_t bytes)
{
	const size_t fixed = sizeof(struct kvm_stats_desc), step = fixed + header->name_size;
	if (header->name_size < 1 || header->name_size > NAME_MAX_BYTES || header->num_desc > DESCRIPTORS_MAX ||
	    header->num_desc * step > bytes)
		return -EPROTO;
	memset(s->figures, 0, sizeof(s->figures));
	for (uint32_t i = 0; i < header->num_desc; i++) {
		const uint8_t *at = (const uint8_t *)descriptors + i * step;
		struct kvm_stats_desc d;
		memcpy(&d, at, fixed);
		if (memchr(at + fixed, 0, header->name_size))
			take(s, &d, (const char *)at + fixed);
	}
	return span(s, header->data_offset);
}

static int read_descriptors(struct kvm_stats *s)
{
	struct kvm_stats_header header;
	if (pread(s->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -EPROTO;
	if (header.name_size > NAME_MAX_BYTES || header.num_desc > DESCRIPTORS_MAX)
		return -EPROTO;
	size_t bytes = header.num_desc * (sizeof(struct kvm_stats_desc) + header.name_size);
	void *descriptors = malloc(bytes ? bytes : 1);
	if (!descriptors)
		return -ENOMEM;
	int ret = -EPROTO;
	if (pread(s->fd, descriptors, bytes, header.desc_offset) == (ssize_t)bytes)
		ret = kvm_stats_parse(s, &header, descriptors, bytes);
	free(descriptors);
	return ret;
}

int kvm_stats_open(struct kvm_stats *s, int fd)
{
	*s = (struct kvm_stats){.fd = fd};
	int ret = read_descriptors(s);
	if (ret < 0)
		kvm_stats_close(s);
	return ret;
}

void kvm_stats_close(struct kvm_stats *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

bool kvm_stats_read(const struct kvm_stats *s, struct kvm_halt_stats *out)
{
	uint64_t data[SPAN_MAX / sizeof(uint64_t)];
	memset(out, 0, sizeof(*out));
	if (s->fd < 0 || pread(s->fd, data, s->bytes, (off_t)s->base) != (ssize_t)s->bytes)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		memcpy((uint8_t *)out + wanted[i].offset, data + s->figures[i].offset / sizeof(uint64_t),
		       s->figures[i].count * sizeof(uint64_t));
	return true;
}

/* ----------------------------------------------------------------------------------- arithmetic */

_Static_assert(sizeof(struct kvm_halt_stats) == (7 + 3 * KVM_STATS_BUCKETS) * sizeof(uint64_t), "numbers only");
#define NUMBERS (sizeof(struct kvm_halt_stats) / sizeof(uint64_t))

void kvm_halt_stats_since(struct kvm_halt_stats *difference, const struct kvm_halt_stats *later,
                          const struct kvm_halt_stats *earlier)
{
	const uint64_t *a = (const uint64_t *)later, *b = (const uint64_t *)earlier;
	uint64_t *d = (uint64_t *)difference;
	for (size_t i = 0; i < NUMBERS; i++)
		d[i] = a[i] > b[i] ? a[i] - b[i] : 0;
}

void kvm_halt_stats_add(struct kvm_halt_stats *sum, const struct kvm_halt_stats *more)
{
	const uint64_t *from = (const uint64_t *)more;
	uint64_t *to = (uint64_t *)sum;
	for (size_t i = 0; i < NUMBERS; i++)
		to[i] += from[i];
}

uint64_t kvm_halt_stats_sleeps(const struct kvm_halt_stats *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < KVM_STATS_BUCKETS; i++)
		sum += s->wait_hist[i];
	return sum;
}

uint64_t kvm_halt_stats_halts(const struct kvm_halt_stats *s)
{
	uint64_t sum = kvm_halt_stats_sleeps(s);
	for (size_t i = 0; i < KVM_STATS_BUCKETS; i++)
		sum += s->poll_success_hist[i];
	return sum;
}
