/* SPDX-License-Identifier: Apache-2.0 */
/* halt.c - the wait of a halted vCPU. Knows neither VMs nor interrupts: only a wake word and a deadline. */
#include "halt.h"

#include "clock.h"
#include "error.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>

#define POLL_NS_MAX 1000000000ull

int halt_parse(struct halt_config *config, const char *spec, struct lull_error *err)
{
	*config = (struct halt_config){0};
	if (!spec || !strcmp(spec, "none"))
		return 0;
	if (strncmp(spec, "fixed:", 6))
		return error_set(err, -EINVAL, "halt-poll: '%s' is not a policy; use none or fixed:NS", spec);
	const char *digits = spec + 6;
	char *end;
	errno = 0;
	unsigned long long ns = strtoull(digits, &end, 10);
	if (*digits < '0' || *digits > '9' || *end || errno || ns > POLL_NS_MAX)
		return error_set(err, -EINVAL, "halt-poll: '%s' is not a time in ns; use fixed:NS with 0 to %llu", spec,
				 POLL_NS_MAX);
	config->poll_ns = ns;
	return 0;
}

void halt_init(struct halt *h, const struct halt_config *config, struct wake *wake, uint64_t tsc_khz)
{
	memset(h, 0, sizeof(*h));
	h->wake = wake;
	h->tsc_khz = tsc_khz;
	h->poll_tsc = clock_ns_to_tsc(config->poll_ns, tsc_khz);
}

/* True when a post or the deadline came within the window. */
static bool poll(struct halt *h, uint32_t ticket, uint64_t start, uint64_t deadline_tsc)
{
	uint64_t now = start;
	bool hit = false;
	while (!hit && now - start < h->poll_tsc) {
		__builtin_ia32_pause();
		hit = wake_posted(h->wake, ticket);
		now = clock_tsc();
		hit = hit || now >= deadline_tsc;
	}
	stat_add(&h->poll_ns, clock_tsc_to_ns(now - start, h->tsc_khz));
	return hit;
}

void halt_wait(struct halt *h, uint32_t ticket, uint64_t deadline_tsc)
{
	uint64_t now = clock_tsc();
	if (!h->halted) {
		h->halted = true;
		h->slept = false;
		stat_add(&h->halts, 1);
	}
	if (now >= deadline_tsc)
		return;
	/* A halt that was woken for nothing, by a request for one, does not poll again. */
	if (h->poll_tsc && !h->slept) {
		if (poll(h, ticket, now, deadline_tsc))
			return;
		now = clock_tsc();
	}
	h->slept = true;
	uint64_t deadline_ns = WAKE_NEVER, start_ns = clock_ns();
	if (deadline_tsc != WAKE_NEVER) {
		uint64_t left = now < deadline_tsc ? clock_tsc_to_ns(deadline_tsc - now, h->tsc_khz) : 0;
		deadline_ns = start_ns + left; /* both below 2^63 */
	}
	wake_block(h->wake, ticket, deadline_ns);
	stat_add(&h->wait_ns, clock_ns() - start_ns);
}

void halt_end(struct halt *h, enum wake_cause cause, uint64_t event_tsc)
{
	if (!h->halted)
		return;
	h->halted = false;
	struct halt_wake_stats *s = &h->sources[cause];
	stat_add(&s->wakes, 1);
	stat_add(h->slept ? &s->slept : &s->polled, 1);
	uint64_t now = clock_tsc();
	if (event_tsc && now > event_tsc) {
		uint64_t ns = clock_tsc_to_ns(now - event_tsc, h->tsc_khz);
		stat_add(&s->latency_ns, ns);
		stat_max(&s->latency_max_ns, ns);
	}
}
