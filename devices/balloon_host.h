/* SPDX-License-Identifier: Apache-2.0 */
/* balloon_host.h - what of a balloon outlives a reset of its guest: what `--balloon` says, how much the guest should
 * give up, what it says of itself, and counts. */
#ifndef LULL_BALLOON_HOST_H
#define LULL_BALLOON_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lull_error;

#define BALLOON_PAGE        4096u
#define BALLOON_STATS       16u /* tags that have a meaning: virtio 1.2, 5.5.6.4, and those that came later */
#define BALLOON_SECONDS_MAX 86400u

struct balloon_host {
	/* Constant from balloon_host_open() on. */
	bool deflate_on_oom, reporting;
	unsigned stats_seconds; /* how often the guest is asked; 0: never */
	uint64_t ram_bytes;
	/* Any thread. Pages are of 4 KiB, each is a snapshot of its own. */
	atomic_uint target_pages;
	atomic_uint actual_pages; /* the guest's word for it */
	atomic_ullong inflated_pages, deflated_pages, reported_pages;
	atomic_ullong ignored_pages; /* named by the guest, and not to be had */
	atomic_ullong failed;        /* times the host did not take pages back */
	atomic_ullong guest_updates;
	atomic_uint guest_has; /* bit n: guest[n] was given with the last update */
	atomic_ullong guest[BALLOON_STATS];
};

/* "on", or any of "size=SIZE", "deflate-on-oom", "free-page-reporting", "stats=SECONDS", with commas between them; "on"
 * is the same as "free-page-reporting". A word without value may have "=on" or "=off". NULL with a text. */
struct balloon_host *balloon_host_open(const char *spec, uint64_t ram_bytes, struct lull_error *err);
void balloon_host_close(struct balloon_host *host); /* NULL is fine */

/* How much the guest should give up. -EINVAL with a text: more than there is, or not whole pages. */
int balloon_host_set_target(struct balloon_host *host, uint64_t bytes, struct lull_error *err);

/* What the guest said of itself is over. */
void balloon_host_forget(struct balloon_host *host);

#endif
