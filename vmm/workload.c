/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c - generators of halts. Knows nothing of policies or files. */
#include "workload.h"

#include "util.h"

#include <string.h>

#define US 1000.0
#define MS 1000000.0
#define S  1000000000.0

struct workload_state {
	const struct workload *self;
	struct sim_random random;
	uint64_t index;              /* of this halt */
	double left;                 /* of a burst: halts or ns */
	double tick, ipi, disk;      /* mixed: time to the next of each, ns; disk < 0: no request in flight */
	double burst;                /* mixed: IPIs left in this burst */
	double phase;                /* phases: ns left */
	struct workload_state *part; /* phases: the workload that runs, one of parts */
	struct workload_state *parts;
};

static void other(struct sim_halt *halt, double ns)
{
	*halt = (struct sim_halt){
		.event_ns = ns < 1 ? 1 : (uint64_t)ns,
		.timer_ns = POLICY_NEVER,
		.source = POLICY_OTHER,
		.may_poll = true,
	};
}

static void timer(struct sim_halt *halt, double ns)
{
	other(halt, ns);
	halt->timer_ns = halt->event_ns;
	halt->source = POLICY_TIMER;
}

/* a: time to the reply; one in 33 takes Exp(2a) longer. */
static void next_rpc(struct workload_state *w, struct sim_halt *halt)
{
	double a = w->self->a, d = sim_normal(&w->random, a, 0.1 * a);

	if (sim_uniform(&w->random, 0, 1) < 0.03)
		d += sim_exponential(&w->random, 2 * a);
	other(halt, d);
}

static void next_poisson(struct workload_state *w, struct sim_halt *halt)
{
	other(halt, sim_exponential(&w->random, S / w->self->a));
}

static void next_bimodal(struct workload_state *w, struct sim_halt *halt)
{
	if (w->left < 1) {
		w->left = sim_uniform(&w->random, 25, 75);
		other(halt, 5 * MS);
		return;
	}
	w->left--;
	other(halt, sim_uniform(&w->random, 10 * US, 30 * US));
}

static void next_pareto(struct workload_state *w, struct sim_halt *halt)
{
	double d = 3 * US * sim_exp(-sim_ln(1 - sim_uniform(&w->random, 0, 1)) / 1.2);

	other(halt, d < S ? d : S);
}

/* a: period; jitter of the guest, which the deadline includes. */
static void next_tick(struct workload_state *w, struct sim_halt *halt)
{
	timer(halt, w->self->a * sim_uniform(&w->random, 0.98, 1.02));
}

static void next_idle(struct workload_state *w, struct sim_halt *halt)
{
	timer(halt, S / sim_uniform(&w->random, 4, 10));
}

/* a and its deviation; one in 100 is b. */
static void disk(struct workload_state *w, struct sim_halt *halt, double deviation)
{
	double d = sim_normal(&w->random, w->self->a, deviation);

	if (sim_uniform(&w->random, 0, 1) < 0.01)
		d = w->self->b;
	other(halt, d);
	halt->io = true;
}

static void next_nvme(struct workload_state *w, struct sim_halt *halt)
{
	disk(w, halt, 10 * US);
}

static void next_page_cache(struct workload_state *w, struct sim_halt *halt)
{
	disk(w, halt, 1 * US);
}

/* On for Exp(2 ms), when gaps are Exp(50 us), off for Exp(8 ms). */
static void next_mmpp(struct workload_state *w, struct sim_halt *halt)
{
	double gap = sim_exponential(&w->random, 50 * US);

	if (gap <= w->left) {
		w->left -= gap;
		other(halt, gap);
		return;
	}
	gap = w->left + sim_exponential(&w->random, 8 * MS) + sim_exponential(&w->random, 50 * US);
	w->left = sim_exponential(&w->random, 2 * MS);
	other(halt, gap);
}

/* A tick each 4 ms; bursts of some 20 IPIs 25 us apart, 1.5 ms between bursts; a disk request of 70 +- 8 us after one
 * wake in four, one at a time. The next of the three ends the halt. */
static void next_mixed(struct workload_state *w, struct sim_halt *halt)
{
	bool io = w->disk >= 0;
	double d;

	if (w->index == 0)
		w->tick = 4 * MS;
	d = w->tick < w->ipi ? w->tick : w->ipi;
	if (io && w->disk < d)
		d = w->disk;
	other(halt, d);
	halt->timer_ns = w->tick < 1 ? 1 : (uint64_t)w->tick;
	halt->io = io;
	if (d == w->tick) {
		halt->source = POLICY_TIMER;
		halt->event_ns = halt->timer_ns;
	}
	w->tick -= d;
	w->ipi -= d;
	w->disk = io ? w->disk - d : -1;
	if (w->tick <= 0)
		w->tick = 4 * MS;
	if (w->ipi <= 0) {
		w->burst = w->burst < 1 ? sim_uniform(&w->random, 10, 30) : w->burst - 1;
		w->ipi = w->burst < 1 ? sim_normal(&w->random, 1.5 * MS, 150 * US)
		                      : sim_normal(&w->random, 25 * US, 2.5 * US);
	}
	if (w->disk <= 0)
		w->disk = sim_uniform(&w->random, 0, 1) < 0.25 ? sim_normal(&w->random, 70 * US, 8 * US) : -1;
}

/* Another of the natural workloads every a ns. */
static void next_phase(struct workload_state *w, struct sim_halt *halt)
{
	if (w->phase <= 0) {
		unsigned n = 1;
		while (!(workloads[n].classes & WORKLOAD_ADVERSARY) && workloads[n].next != next_phase)
			n++;
		w->part = &w->parts[sim_bits(&w->random) % n];
		w->phase = w->self->a;
	}
	w->part->self->next(w->part, halt);
	w->part->index++;
	w->phase -= (double)halt->event_ns;
}

/* Makes KVM's window grow, then wakes just before its end for ever. */
static void next_against_growth(struct workload_state *w, struct sim_halt *halt)
{
	static const uint8_t ramp_us[] = {5, 15, 30, 50, 90, 145, 165, 180};

	other(halt, (w->index < ARRAY_SIZE(ramp_us) ? ramp_us[w->index] : 199) * US);
}

/* Each short halt makes KVM's window grow, each long one is longer than its limit. */
static void next_against_shrinking(struct workload_state *w, struct sim_halt *halt)
{
	other(halt, w->index % 2 ? 210 * US : 0.5 * US);
}

#define STATIONARY WORKLOAD_STATIONARY
#define SPARSE     (WORKLOAD_STATIONARY | WORKLOAD_SPARSE)
#define TIMER      (WORKLOAD_STATIONARY | WORKLOAD_TIMER)

/* Phases are made of those above them. */
const struct workload workloads[] = {
	{"rpc5", "replies after 5 us", STATIONARY, next_rpc, 5 * US, 0},
	{"rpc20", "replies after 20 us", STATIONARY, next_rpc, 20 * US, 0},
	{"rpc50", "replies after 50 us", STATIONARY, next_rpc, 50 * US, 0},
	{"rpc150", "replies after 150 us", STATIONARY, next_rpc, 150 * US, 0},
	{"poi100", "100 random events a second", SPARSE, next_poisson, 100, 0},
	{"poi1k", "1000 random events a second", SPARSE, next_poisson, 1000, 0},
	{"poi10k", "10000 random events a second", STATIONARY, next_poisson, 10000, 0},
	{"poi50k", "50000 random events a second", STATIONARY, next_poisson, 50000, 0},
	{"bimodal", "bursts of events 10 to 30 us apart, 5 ms between bursts", STATIONARY, next_bimodal, 0, 0},
	{"pareto", "heavy tail from 3 us", STATIONARY, next_pareto, 0, 0},
	{"tick250", "a timer 250 times a second", TIMER, next_tick, 4 * MS, 0},
	{"tick1000", "a timer 1000 times a second", TIMER, next_tick, 1 * MS, 0},
	{"idle4-10", "an idle guest: timers 4 to 10 times a second", TIMER | SPARSE, next_idle, 0, 0},
	{"nvme-qd1", "a disk at queue depth 1: 80 us, at times 2 ms", STATIONARY, next_nvme, 80 * US, 2 * MS},
	{"pgcache", "a disk behind a cache: 8 us, at times 80 us", STATIONARY, next_page_cache, 8 * US, 80 * US},
	{"mmpp-web", "a web server: busy for 2 ms, idle for 8 ms", STATIONARY, next_mmpp, 0, 0},
	{"mixed3", "tick, bursts of IPIs and a disk at once", WORKLOAD_CHANGING, next_mixed, 0, 0},
	{"phase0.5s", "another of the above each 0.5 s", WORKLOAD_CHANGING, next_phase, 500 * MS, 0},
	{"phase10ms", "another of the above each 10 ms", WORKLOAD_CHANGING, next_phase, 10 * MS, 0},
	{"adv-kvm-hi", "against growth: 199 us after a ramp", WORKLOAD_ADVERSARY, next_against_growth, 0, 0},
	{"adv-kvm-lo", "against shrinking: 0.5 us and 210 us in turns", WORKLOAD_ADVERSARY, next_against_shrinking, 0,
         0},
	{0},
};

const struct workload *workload_find(const char *name)
{
	for (const struct workload *w = workloads; w->name; w++)
		if (!strcmp(w->name, name))
			return w;
	return NULL;
}

static void start(struct workload_state *w, const struct workload *workload, uint64_t seed)
{
	*w = (struct workload_state){.self = workload, .disk = -1};
	sim_seed(&w->random, seed);
}

void workload_make(const struct workload *workload, uint64_t seed, struct sim_trace *trace)
{
	struct workload_state parts[ARRAY_SIZE(workloads)], w;
	struct sim_random factors;

	start(&w, workload, seed);
	w.parts = parts;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		start(&parts[i], &workloads[i], seed + 1 + i);
	sim_seed(&factors, ~seed);
	snprintf(trace->name, sizeof(trace->name), "%s", workload->name);
	for (size_t i = 0; i < trace->count; i++, w.index++) {
		workload->next(&w, &trace->halts[i]);
		trace->halts[i].factor[0] = sim_factor(&factors);
		trace->halts[i].factor[1] = sim_factor(&factors);
	}
}
