// SPDX-License-Identifier: Apache-2.0
/* balloon_host.c - reads what `--balloon` says and keeps the target. Knows no device. */
#include "balloon_host.h"

#include "error.h"
#include "util.h"
#include "words.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum takes {
	TAKES_VALUE,
	TAKES_SWITCH, /* nothing, "on" or "off" */
};

struct key {
	const char *name;
	enum takes takes;
	int (*set)(struct balloon_host *h, const char *value, struct lull_error *err);
};

int balloon_host_set_target(struct balloon_host *host, uint64_t bytes, struct lull_error *err)
{
	if (bytes % BALLOON_PAGE != 0)
		return error_set(err, -EINVAL, "balloon: %" PRIu64 " bytes are not whole pages; give a multiple of %u",
		                 bytes, BALLOON_PAGE);
	if (bytes > host->ram_bytes || bytes / BALLOON_PAGE > UINT32_MAX)
		return error_set(err, -EINVAL,
		                 "balloon: %" PRIu64 " bytes are more than the guest has; give at most %" PRIu64, bytes,
		                 host->ram_bytes);
	atomic_store(&host->target_pages, (unsigned)(bytes / BALLOON_PAGE));
	return 0;
}

void balloon_host_forget(struct balloon_host *host)
{
	atomic_store(&host->actual_pages, 0);
	atomic_store(&host->guest_has, 0);
}

/* ------------------------------------------------------------------------------------ the words */

static int set_size(struct balloon_host *h, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n))
		return error_set(err, -EINVAL, "balloon: size '%s': give bytes, such as 256M", value);
	return balloon_host_set_target(h, n, err);
}

static int read_switch(const char *key, const char *value, bool *out, struct lull_error *err)
{
	*out = !strcmp(value, "on") || !*value;
	if (!*out && strcmp(value, "off") != 0)
		return error_set(err, -EINVAL, "balloon: %s '%s': give on or off", key, value);
	return 0;
}

static int set_deflate_on_oom(struct balloon_host *h, const char *value, struct lull_error *err)
{
	return read_switch("deflate-on-oom", value, &h->deflate_on_oom, err);
}

static int set_reporting(struct balloon_host *h, const char *value, struct lull_error *err)
{
	return read_switch("free-page-reporting", value, &h->reporting, err);
}

static int set_stats(struct balloon_host *h, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n < 1 || n > BALLOON_SECONDS_MAX)
		return error_set(err, -EINVAL, "balloon: stats '%s': give whole seconds, 1 to %u", value,
		                 BALLOON_SECONDS_MAX);
	h->stats_seconds = (unsigned)n;
	return 0;
}

static const struct key keys[] = {
	{"size", TAKES_VALUE, set_size},
	{"deflate-on-oom", TAKES_SWITCH, set_deflate_on_oom},
	{"free-page-reporting", TAKES_SWITCH, set_reporting},
	{"stats", TAKES_VALUE, set_stats},
};

static int set_word(void *ctx, const char *word, bool is_first, struct lull_error *err)
{
	struct balloon_host *h = ctx;
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	(void)is_first;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strlen(keys[i].name) != len || strncmp(keys[i].name, word, len) != 0)
			continue;
		if (keys[i].takes == TAKES_VALUE && !equals)
			return error_set(err, -EINVAL, "balloon: %s needs a value", keys[i].name);
		if (equals && !equals[1])
			return error_set(err, -EINVAL, "balloon: the value of %s is empty", keys[i].name);
		return keys[i].set(h, equals ? equals + 1 : "", err);
	}
	return error_set(err, -EINVAL,
	                 "balloon: '%s' is not known; give on, or any of size=SIZE, deflate-on-oom, "
	                 "free-page-reporting, stats=SECONDS",
	                 word);
}

static int parse(struct balloon_host *h, const char *spec, struct lull_error *err)
{
	if (!strcmp(spec, "on")) {
		h->reporting = true;
		return 0;
	}
	return words_each("balloon", spec, set_word, h, err);
}

struct balloon_host *balloon_host_open(const char *spec, uint64_t ram_bytes, struct lull_error *err)
{
	struct balloon_host *h = calloc(1, sizeof(*h));

	if (!h) {
		error_set(err, -ENOMEM, "balloon: out of memory");
		return NULL;
	}
	h->ram_bytes = ram_bytes;
	if (parse(h, spec, err) < 0) {
		free(h);
		return NULL;
	}
	return h;
}

void balloon_host_close(struct balloon_host *host)
{
	free(host);
}
