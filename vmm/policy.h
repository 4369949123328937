/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - how a halted vCPU should wait: policies that turn what they have seen into a plan for one halt.
 *
 * A policy is arithmetic on what the halt engine tells it: a constant table of functions and a state that the caller
 * owns. It has no clock, no lock, no allocation and no other state, so that a recorded trace replays to the same
 * decisions. Floating point, where used, is float with + - * / and comparisons only, without contraction or
 * reassociation (the build says -ffp-contract=off, never -ffast-math): the same bits from every compiler.
 *
 * For each halt, on the thread of the vCPU:
 *
 *     plan(state, hint, plan)     on the way into the halt: a few ns
 *     ... the engine waits as planned ...
 *     observe(state, sample)      after the vCPU was made runnable, off the path of the wake
 *
 * A plan has four phases; any may be empty. The event or the guest's timer ends it in every phase:
 *
 *     halt       poll_ns           sleep_ns            spin_ns
 *      |--- poll ---|------ sleep ------|------- spin ------|------ sleep until the event or the timer ...
 *
 * All times are ns, relative to the start of the halt; durations are below 2^63, POLICY_NEVER stands for "none".
 */
#ifndef LULL_POLICY_H
#define LULL_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lull_error;

#define POLICY_NEVER       UINT64_MAX
#define POLICY_STATE_BYTES 640 /* no state is larger; aligned to 64 */
#define POLICY_KEYS        16  /* no policy has more keys */

/* What is known when a halt starts. */
struct policy_hint {
	uint64_t now_ns;   /* any clock that never goes back; the same one in policy_sample.gap_ns */
	uint64_t timer_ns; /* until the guest's next timer, or POLICY_NEVER */
	uint64_t max_ns;   /* live limit of a poll window, or POLICY_NEVER; the engine enforces it as well */
	bool io;           /* a request of a disk or another device is in flight */
	bool may_poll;     /* false: guest, power policy, contention or budget forbid it; the plan is then to sleep */
	uint64_t busy_ns;  /* how long the vCPU ran since the halt before; 0: not known */
};

struct policy_plan {
	uint64_t poll_ns;  /* poll until then; 0: do not. At or past the timer means: to the timer */
	uint64_t sleep_ns; /* then sleep until then, and spin; POLICY_NEVER: sleep until the event, the rest is void */
	uint64_t spin_ns;  /* spin until then, if it is past sleep_ns, and sleep until the event */
};

enum policy_source {
	POLICY_TIMER,   /* the guest's timer */
	POLICY_OTHER,   /* any other event */
	POLICY_REQUEST, /* stop, pause, inspect: teaches no policy anything */
};

/* What came of it. Durations that exceed INT64_MAX are that. */
struct policy_sample {
	/* d: the event's time stamp, put by who raised it, minus the start of the halt. A timer's is its deadline. */
	uint64_t event_ns;
	/* As KVM measures it: from the start until the vCPU runs, wake latency included. After a hit while polling the
	 * time of the last turn of the loop that found nothing, 0 on the first. */
	uint64_t halt_ns;
	uint64_t latency_ns; /* from the event until the vCPU noticed it */
	uint64_t poll_ns;    /* polled in the first phase */
	uint64_t spin_ns;    /* and in the third */
	/* How late the thread ran again after the second and the fourth phase, counted from what ended the sleep: the
	 * event, or the end of phase two. POLICY_NEVER: did not sleep there. A sleep without an end (sleep_ns is
	 * POLICY_NEVER) may be reported as either. */
	uint64_t wake_ns[2];
	uint64_t switch_ns; /* CPU time of one sleep and wake, 0: not measured this time */
	uint64_t gap_ns;    /* when (clock of now_ns) the host took the CPU away while polling, 0: it did not */
	uint64_t max_ns;    /* live limit now */
	enum policy_source source;
	bool may_poll; /* as it was in the hint */
	bool invalid;  /* woken for nothing. KVM on x86 never says so; a policy learns that polling does not pay */
};

/* What waiting costs on this host, as far as it has shown (host_cost.h); 0: not known. A policy's own keys win. */
struct policy_host {
	uint64_t wake_ns;   /* from an event to the sleeping thread running again */
	uint64_t switch_ns; /* CPU time of a sleep and wake */
	uint64_t arm_ns;    /* CPU time of a host timer for a sleep that would need none */
};

/* For people: what the policy thinks at the moment. 0: it has no such notion. */
struct policy_view {
	uint64_t window_ns; /* poll window of the last plan */
	uint64_t wake_ns;   /* wake latency */
	uint64_t cost_ns;   /* CPU time that a sleep and wake is worth */
	uint64_t lead_ns;   /* how long before a timer it wakes up to spin, at most */
};

enum policy_kind {
	POLICY_KEY_COUNT, /* decimal number */
	POLICY_KEY_TIME,  /* ns, or a number with ns, us, ms or s behind it */
	POLICY_KEY_RATIO, /* decimal fraction; its value is in thousandths */
};

struct policy_word {
	const char *word;
	uint64_t value;
};

struct policy_key {
	const char *name;
	enum policy_kind kind;
	uint64_t min, max, preset;
	const struct policy_word *words; /* names for values, or NULL; ends with a NULL word */
};

struct policy {
	const char *name, *summary;
	const struct policy_key *keys; /* ends with a NULL name; values without "key=" belong to the first. Or NULL */
	size_t state_bytes;
	/* values: one for each key. Cannot fail: what a key accepts is in its table. */
	void (*init)(void *state, const uint64_t *values, const struct policy_host *host);
	void (*plan)(void *state, const struct policy_hint *hint, struct policy_plan *plan);
	void (*observe)(void *state, const struct policy_sample *sample); /* NULL: learns nothing */
	void (*view)(const void *state, struct policy_view *view);        /* NULL: nothing to see */
};

extern const struct policy *const policies[]; /* ends with NULL; order of the help */

extern const struct policy policy_none, policy_fixed, policy_always, policy_kvm, policy_haltpoll, policy_cost;

/* A policy and the values of its keys. A plain value: copy it freely. */
struct policy_spec {
	const struct policy *policy;
	uint64_t values[POLICY_KEYS];
};

/* Reads "name", "name:value" or "name:key=value,...". more: policies of the embedding program, NULL-terminated, or
 * NULL; they are looked up first. 0, or -EINVAL with a line that says what was found and what is accepted. */
int policy_parse(struct policy_spec *spec, const char *text, const struct policy *const *more, struct lull_error *err);

/* state: policy->state_bytes, at most POLICY_STATE_BYTES. host may be NULL. */
void policy_init(const struct policy_spec *spec, void *state, const struct policy_host *host);

static inline uint64_t policy_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
