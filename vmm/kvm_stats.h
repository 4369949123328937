/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_stats.h - what KVM counts about the halts of one vCPU, read from its statistics file (KVM_GET_STATS_FD,
 * Documentation/virt/kvm/api.rst). KVM says by descriptors where each figure is; they are believed only within bounds.
 *
 * Reading takes no lock of KVM's and does not disturb the vCPU. Getting the file does: that is for before its first
 * run.
 */
#ifndef LULL_KVM_STATS_H
#define LULL_KVM_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVM_STATS_BUCKETS 32 /* KVM's HALT_POLL_HIST_COUNT: bucket 0 counts 0 ns, bucket k counts [2^(k-1), 2^k) */

/* KVM's names without "halt_". Each counts from the creation of the vCPU, or is the difference of two readings. */
struct kvm_halt_stats {
	uint64_t attempted_poll, successful_poll, poll_invalid, wakeup;
	uint64_t poll_success_ns, poll_fail_ns, wait_ns;
	uint64_t poll_success_hist[KVM_STATS_BUCKETS], poll_fail_hist[KVM_STATS_BUCKETS], wait_hist[KVM_STATS_BUCKETS];
};

enum {
	KVM_STATS_FIGURES = 10
};

struct kvm_stats {
	int fd;         /* -1: none */
	uint64_t base;  /* where in the file the figures begin */
	uint32_t bytes; /* how much of it to read */
	struct {
		uint32_t offset; /* from base */
		uint32_t count;  /* of 64-bit values; 0: this KVM does not count it */
	} figures[KVM_STATS_FIGURES];
};

/* Takes over the file. 0 or -errno; -ENOTSUP: it lacks the histograms. Closed and fd = -1 on failure. */
int kvm_stats_open(struct kvm_stats *s, int fd);
void kvm_stats_close(struct kvm_stats *s);
/* False, and *out all 0, when there is nothing to read. Any thread. */
bool kvm_stats_read(const struct kvm_stats *s, struct kvm_halt_stats *out);

/* The part of open that judges: header and descriptors as they are in the file. 0 or -EPROTO or -ENOTSUP. */
struct kvm_stats_header;
int kvm_stats_parse(struct kvm_stats *s, const struct kvm_stats_header *header, const void *descriptors, size_t bytes);

/* later - earlier, and a sum. */
void kvm_halt_stats_since(struct kvm_halt_stats *difference, const struct kvm_halt_stats *later,
                          const struct kvm_halt_stats *earlier);
void kvm_halt_stats_add(struct kvm_halt_stats *sum, const struct kvm_halt_stats *more);
/* Polls that found work, and sleeps: halts that found nothing to do at once. */
uint64_t kvm_halt_stats_sleeps(const struct kvm_halt_stats *s);
uint64_t kvm_halt_stats_halts(const struct kvm_halt_stats *s);

#endif
