/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt.h - the halt engine: what a halted vCPU does until there is work. It asks the policy for a plan, asks the
 * permissions whether polling is allowed, polls, sleeps, spins and sleeps as planned, counts, and tells the policy what
 * came of it.
 *
 * It knows a wake word, a deadline and a policy; no VM, no interrupt, no vCPU.
 */
#ifndef LULL_HALT_H
#define LULL_HALT_H

#include "budget.h"
#include "contention.h"
#include "cpu_wait.h"
#include "host_cost.h"
#include "policy.h"
#include "poll_hook.h"
#include "power.h"
#include "stats.h"
#include "trace.h"
#include "wake.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct lull_error;

/* Why a halt was not allowed to poll, in the order in which it is asked. */
enum halt_refusal {
	HALT_REFUSED_OFF,        /* switched off by the host */
	HALT_REFUSED_GUEST,      /* MSR_KVM_POLL_CONTROL: the guest polls itself */
	HALT_REFUSED_POWER,      /* cpufreq: this CPU should save power */
	HALT_REFUSED_CONTENTION, /* others want the CPU */
	HALT_REFUSED_BUDGET,     /* the vCPU's or the VM's share of wall time is spent */
	HALT_REFUSED_POLLERS,    /* enough vCPUs of this process poll already */
	HALT_REFUSALS
};

struct halt_config {
	struct policy_spec policy;
	enum cpu_wait wait;
	enum power_mode power;
	unsigned vcpu_budget_percent, vm_budget_percent; /* 0: none */
	unsigned max_pollers;                            /* 0: no limit */
};

/* One per VM; outlives its vCPUs. Any thread. */
struct halt_shared {
	atomic_bool off;         /* wins over everything, also on a running VM */
	_Atomic uint64_t max_ns; /* live limit of a poll window */
	struct budget vm_budget;
	struct host_cost cost;  /* learned by all of them */
	atomic_uint generation; /* grows when config changes */
	pthread_mutex_t lock;   /* of config; a vCPU takes it when the generation changed */
	struct halt_config config;
	const char *sysfs, *proc; /* "/sys", "/proc" */
};

/* KVM's bucket rule: index min(fls64(ns), 31). */
#define HALT_BUCKETS 32

struct halt_wake_stats {
	stat_t wakes, polled, slept, latency_ns, latency_max_ns;
};

/* Names and meaning as KVM's (include/linux/kvm_host.h), then our own. One writer: the vCPU's thread. */
struct halt_stats {
	stat_t attempted_poll, successful_poll, poll_invalid, wakeup;
	stat_t poll_success_ns, poll_fail_ns, wait_ns;
	stat_t poll_success_hist[HALT_BUCKETS], poll_fail_hist[HALT_BUCKETS], wait_hist[HALT_BUCKETS];
	stat_t latency_hist[HALT_BUCKETS]; /* from the event's stamp to the vCPU runnable */
	stat_t halts, refused[HALT_REFUSALS], gaps, prewakes;
	stat_t window_ns, wake_cost_ns; /* as the policy sees them */
	struct halt_wake_stats sources[WAKE_CAUSES];
};

enum halt_phase {
	HALT_POLL,
	HALT_SLEEP,
	HALT_SPIN,
	HALT_SLEEP_ON,
};

/* One per vCPU; its thread only, but for stats. */
struct halt {
	struct wake *wake;
	struct halt_shared *shared;
	const struct trace_file *trace_file; /* with trace */
	struct trace_ring *trace;            /* NULL: nothing is recorded */
	const struct poll_hooks *hooks;      /* devices whose completions a polling vCPU takes itself */
	uint64_t tsc_khz;
	unsigned generation;
	enum cpu_wait wait;
	bool may_ask;             /* the policy polls at all */
	atomic_bool guest_allows; /* MSR_KVM_POLL_CONTROL, bit 0; others read it */
	struct policy_spec spec;
	struct power power;
	struct contention contention;
	bool host_agreed;         /* both said that polling is fine, */
	uint64_t asked_polled_ns; /* when so much had been polled, */
	uint64_t asked_at_ns;     /* and when that was */
	struct budget budget;
	unsigned max_pollers;

	bool off;        /* polling was switched off when this halt began */
	bool halted;     /* between halt_wait() and halt_end() */
	bool inline_io;  /* a hook completed something during this halt */
	bool disturbed;  /* a request came in between: this halt teaches nothing */
	bool polled_now; /* the last wait ended while polling */
	enum halt_phase phase;
	uint64_t start_tsc, last_turn_tsc, end_tsc; /* end: of the halt before */
	uint64_t slept_ns;                          /* in this halt */
	unsigned in_flight;                         /* requests when it began */
	uint64_t io_ns; /* from the start of a halt to a completion, when polls looked; 0: none has */
	struct policy_hint hint;
	struct policy_plan plan;
	struct policy_sample sample;
	bool sample_pending; /* told at the next halt: off the path of the wake */

	struct halt_stats stats;
	_Alignas(64) uint8_t state[POLICY_STATE_BYTES];
};

/* What a configuration gives as text; NULL members mean the default. 0 or -errno with a text. */
struct halt_words {
	const char *policy, *wait, *power, *budget; /* budget: "PERCENT[,vm=PERCENT]" */
	unsigned max_pollers;
};
int halt_parse(struct halt_config *config, const struct halt_words *words, struct lull_error *err);

/* Until halt_shared_set(): no polling. */
void halt_shared_init(struct halt_shared *s);
void halt_shared_fini(struct halt_shared *s);
/* Live: each vCPU takes it up at its next halt. */
void halt_shared_set(struct halt_shared *s, const struct halt_config *config);

void halt_init(struct halt *h, struct halt_shared *shared, const struct poll_hooks *hooks, struct wake *wake,
               uint64_t tsc_khz);

/* Records each halt from now on. Both outlive the halts; the ring is this vCPU's own. */
void halt_record(struct halt *h, const struct trace_file *file, struct trace_ring *ring);

/* The ticket was taken before work was looked for, and there was none. Returns after a post, at the deadline (host TSC,
 * WAKE_NEVER: none), or early: the caller looks again. */
void halt_wait(struct halt *h, uint32_t ticket, uint64_t deadline_tsc);

/* The caller found work: the halt is over. event_tsc is when the work came up, 0: unknown. */
void halt_end(struct halt *h, enum wake_cause cause, uint64_t event_tsc);

/* A stop, pause or inspection came by. */
static inline void halt_disturb(struct halt *h)
{
	h->disturbed = true;
}

#endif
