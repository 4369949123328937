/* SPDX-License-Identifier: Apache-2.0 */
/*
 * halt_kernel.h - where the limit of KVM's poll window (KVM_CAP_HALT_POLL) should be, when KVM halts and lull only sees
 * the histograms of its statistics. Arithmetic: no clock, no lock, no KVM.
 */
#ifndef LULL_HALT_KERNEL_H
#define LULL_HALT_KERNEL_H

#include "kvm_stats.h"
#include "policy.h"

#include <stdbool.h>
#include <stdint.h>

#define HALT_KERNEL_RUNGS     10          /* limits it can choose from: 0, and 10 us doubled again and again */
#define HALT_KERNEL_ALWAYS_NS 1000000000u /* the limit for the policy always */

/* The limit that a policy stands for. *governs: the policy is `cost`, and the limit moves, see below. */
uint64_t halt_kernel_limit(const struct policy_spec *spec, bool *governs);

/* The rule by which KVM moves the window of each vCPU below the limit: its module parameters. */
struct halt_kernel_rule {
	uint32_t grow, start_ns, shrink;
};

/* For one VM. */
struct halt_kernel {
	struct halt_kernel_rule rule;
	double lambda;
	double wake_ns, switch_ns; /* what a sleep and wake costs: latency, CPU time */
	bool wake_given, switch_given;

	/* What the guest's halts look like, the older the less: weights by KVM's buckets. */
	double success[KVM_STATS_BUCKETS], wait[KVM_STATS_BUCKETS];
	double failed, failed_ns; /* of the sleeps, those that began with polling; and how long that took */

	struct kvm_halt_stats sum;      /* since the last decision */
	unsigned home, rung;            /* the limit found best so far; the one in force: another one is on trial */
	bool home_known;                /* what a halt does there lately: */
	double home_polled, home_slept; /* ns polled; how often it sleeps */
	bool model_trial;               /* the trial is the model's idea */
	unsigned turn;                  /* of the explorations */
	unsigned since_model, since_exploration, model_every, exploration_every; /* decisions */
};

/* spec: policy `cost`. Its keys lambda, wake and switch count. */
void halt_kernel_init(struct halt_kernel *k, const struct policy_spec *spec, const struct halt_kernel_rule *rule);

/* A new estimate of the wake latency of a thread on this host. */
void halt_kernel_wake(struct halt_kernel *k, uint64_t wake_ns);

/* What all vCPUs did since the last call, under the limit that it returned. Returns the limit from now on. */
uint64_t halt_kernel_step(struct halt_kernel *k, const struct kvm_halt_stats *since);

/* The guest rested: a trial that runs cannot be judged any more. Returns the limit. */
uint64_t halt_kernel_rest(struct halt_kernel *k);

/* A decision is due soon: look again in a short while. */
bool halt_kernel_is_trying(const struct halt_kernel *k);

/* What one halt costs, in ns of CPU time, if the limit were this. For tests and for people. */
double halt_kernel_expected(const struct halt_kernel *k, uint64_t limit_ns);

#endif
