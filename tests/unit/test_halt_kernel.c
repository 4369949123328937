/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of KVM's poll window: made-up guests halt under a simulated KVM, whose rule is followed to the letter
 * (kvm_vcpu_halt() in virt/kvm/kvm_main.c), and lull only sees KVM's statistics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "halt_kernel.h"
#include "util.h"

#include <stdlib.h>
#include <string.h>

#define US 1000.0

static const struct halt_kernel_rule new_rule = {2, 10000, 2}, old_rule = {2, 10000, 0};

static struct policy_spec spec_of(const char *text)
{
	struct policy_spec spec;
	assert_int_equal(policy_parse(&spec, text, NULL, NULL), 0);
	return spec;
}

/* ------------------------------------------------------------------------------ a simulated KVM */

struct sim_vcpu {
	double window;
	struct kvm_halt_stats stats; /* since the last step */
};

struct sim {
	struct halt_kernel governor;
	struct halt_kernel_rule rule;
	double limit, wake_ns;
	uint64_t seed;
	double polled, slept, halts; /* of the measured part */
};

static double uniform(struct sim *s)
{
	s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(s->seed >> 11) / (double)(1ull << 53);
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static double off_by(double model, double real)
{
	return model > real ? model / real - 1 : 1 - model / real;
}

/* Natural logarithm of 0 < x <= 1, without libm. */
static double ln(double x)
{
	double sum = 0, power;
	for (; x < 0.5; x *= 2)
		sum -= 0.6931471805599453;
	power = x = (x - 1) / (x + 1);
	for (int i = 1; i < 20; i += 2, power *= x * x)
		sum += 2 * power / i;
	return sum;
}

static double exponential(struct sim *s, double mean)
{
	return -mean * ln(1 - uniform(s));
}

static void count(uint64_t *hist, double ns)
{
	uint64_t v = (uint64_t)ns;
	unsigned bucket = v ? 64 - (unsigned)__builtin_clzll(v) : 0;
	hist[bucket < KVM_STATS_BUCKETS ? bucket : KVM_STATS_BUCKETS - 1]++;
}

/* One halt whose event comes after so long. How late the vCPU runs. */
static double sim_halt(struct sim *s, struct sim_vcpu *v, double event)
{
	struct kvm_halt_stats *k = &v->stats;
	double late = 0, halt;
	if (v->window > s->limit)
		v->window = s->limit;
	double poll = event < v->window ? event : v->window;
	if (v->window > 0) {
		k->attempted_poll++;
		if (event <= v->window) {
			k->successful_poll++;
			k->poll_success_ns += (uint64_t)poll;
			count(k->poll_success_hist, poll);
		} else {
			k->poll_fail_ns += (uint64_t)poll;
			count(k->poll_fail_hist, poll);
		}
	}
	s->polled += poll;
	s->halts++;
	if (v->window == 0 || event > v->window) {
		late = s->wake_ns * (0.8 + 0.4 * uniform(s));
		k->wait_ns += (uint64_t)(event - poll + late);
		count(k->wait_hist, event - poll + late);
		s->slept++;
	}
	halt = event + late;
	if (halt <= v->window)
		return late;
	if (v->window > 0 && halt > s->limit) {
		v->window = s->rule.shrink ? v->window / s->rule.shrink : 0;
		v->window = v->window < s->rule.start_ns ? 0 : v->window;
	} else if (v->window < s->limit && halt < s->limit) {
		v->window *= s->rule.grow;
		v->window = v->window < s->rule.start_ns ? s->rule.start_ns : v->window;
	}
	return late;
}

static void sim_step(struct sim *s, struct sim_vcpu *vcpus, unsigned n)
{
	struct kvm_halt_stats sum = {0};
	for (unsigned i = 0; i < n; i++) {
		kvm_halt_stats_add(&sum, &vcpus[i].stats);
		memset(&vcpus[i].stats, 0, sizeof(vcpus[i].stats));
	}
	s->limit = (double)halt_kernel_step(&s->governor, &sum);
}

static struct sim sim_start(const char *policy, const struct halt_kernel_rule *rule, double wake_ns)
{
	struct sim s = {.rule = *rule, .wake_ns = wake_ns, .seed = 42};
	struct policy_spec spec = spec_of(policy);
	halt_kernel_init(&s.governor, &spec, rule);
	halt_kernel_wake(&s.governor, (uint64_t)wake_ns);
	s.limit = (double)halt_kernel_rest(&s.governor);
	return s;
}

static double sim_cost(const struct sim *s)
{
	const struct halt_kernel *k = &s->governor;
	return (s->polled + s->slept * (k->switch_ns + k->lambda * k->wake_ns)) / s->halts;
}

/* One vCPU, halts from `next`, looked at every 10 ms of guest time or so. Mean cost of a halt once it has settled. */
static double run_alone(struct sim *s, double (*next)(struct sim *s), unsigned halts)
{
	struct sim_vcpu v = {0};
	double now = 0;
	for (unsigned i = 0; i < halts; i++) {
		if (i == halts / 4)
			s->polled = s->slept = s->halts = 0;
		double event = next(s);
		now += event + sim_halt(s, &v, event) + 5 * US;
		if (now > 10000 * US) {
			sim_step(s, &v, 1);
			now = 0;
		}
	}
	return sim_cost(s);
}

/* The same under a constant limit. */
static double run_fixed(const struct halt_kernel_rule *rule, double wake_ns, double limit,
                        double (*next)(struct sim *s), unsigned halts)
{
	struct sim s = sim_start("cost", rule, wake_ns);
	struct sim_vcpu v = {0};
	s.limit = limit;
	for (unsigned i = 0; i < halts; i++)
		sim_halt(&s, &v, next(&s));
	return sim_cost(&s);
}

/* ------------------------------------------------------------------------------ guests */

static double about(struct sim *s, double ns)
{
	return ns * (0.9 + 0.2 * uniform(s));
}

static double rpc_5us(struct sim *s)
{
	return about(s, 5 * US);
}

static double rpc_20us(struct sim *s)
{
	return about(s, 20 * US);
}

static double rpc_150us(struct sim *s)
{
	return about(s, 150 * US);
}

static double poisson_10k(struct sim *s)
{
	return exponential(s, 100 * US);
}

static double poisson_1k(struct sim *s)
{
	return exponential(s, 1000 * US);
}

static double tick_just_below_the_cap(struct sim *s)
{
	return 180 * US * (0.98 + 0.04 * uniform(s));
}

static double tick_1khz(struct sim *s)
{
	return 1000 * US * (0.98 + 0.04 * uniform(s));
}

static double bursts(struct sim *s)
{
	return uniform(s) < 0.02 ? 5000 * US : 10 * US + 20 * US * uniform(s);
}

static double page_cache(struct sim *s)
{
	return uniform(s) < 0.01 ? 80 * US : 7 * US + 2 * US * uniform(s);
}

static const struct {
	const char *name;
	double (*next)(struct sim *s);
} guests[] = {
	{"rpc 5 us", rpc_5us},        {"rpc 20 us", rpc_20us},    {"rpc 150 us", rpc_150us},
	{"poisson 10k", poisson_10k}, {"poisson 1k", poisson_1k}, {"tick 180 us", tick_just_below_the_cap},
	{"tick 1 ms", tick_1khz},     {"bursts", bursts},         {"page cache", page_cache},
};

static const double wakes[] = {5 * US, 10 * US, 35 * US, 50 * US};

#define LIMITS 9 /* 0, 10 us, ... 1280 us */

static double limit_of(unsigned i)
{
	return i ? 10 * US * (1u << (i - 1)) : 0;
}

/* ------------------------------------------------------------------------------ tests of the governor */

/* For each guest and host: no more than a little above the best constant limit, known in hindsight. */
static void costs_no_more_than_the_best_limit(void **state)
{
	static const struct halt_kernel_rule *const rules[] = {&new_rule, &old_rule};
	(void)state;
	for (size_t r = 0; r < ARRAY_SIZE(rules); r++)
		for (size_t w = 0; w < ARRAY_SIZE(wakes); w++)
			for (size_t g = 0; g < ARRAY_SIZE(guests); g++) {
				struct sim s = sim_start("cost", rules[r], wakes[w]);
				double cost = run_alone(&s, guests[g].next, 60000), best = 1e18;
				for (unsigned i = 0; i < LIMITS; i++)
					best = smaller(best, run_fixed(rules[r], wakes[w], limit_of(i), guests[g].next,
					                               10000));
				if (cost > 1.06 * best)
					fail_msg("%s, wake %g us, shrink %u: %.0f ns a halt, best limit %.0f",
					         guests[g].name, wakes[w] / US, rules[r]->shrink, cost, best);
			}
}

static void lambda_moves_the_limit(void **state)
{
	(void)state;
	struct sim thrifty = sim_start("cost:lambda=0.25", &new_rule, 10 * US);
	run_alone(&thrifty, rpc_20us, 60000);
	struct sim quick = sim_start("cost:lambda=latency", &new_rule, 10 * US);
	run_alone(&quick, rpc_20us, 60000);
	assert_true(thrifty.slept > 0.95 * thrifty.halts);
	assert_true(quick.slept < 0.05 * quick.halts);
}

/* Thirty looks after a change what the phase before has taught does no harm any more. */
static void follows_a_guest_that_changes(void **state)
{
	static double (*const phases[])(struct sim *) = {rpc_20us, tick_just_below_the_cap, page_cache, rpc_150us,
	                                                 rpc_5us};
	static const double at_most[] = {22 * US, 90 * US, 10 * US, 90 * US, 6 * US}; /* sleeping costs 80.5 us */
	(void)state;
	struct sim s = sim_start("cost", &new_rule, 35 * US);
	for (unsigned round = 0; round < 20; round++) {
		unsigned p = round % ARRAY_SIZE(phases);
		struct sim_vcpu v = {0};
		for (unsigned i = 0; i < 20000; i++) {
			if (i == 3000)
				s.polled = s.slept = s.halts = 0;
			sim_halt(&s, &v, phases[p](&s));
			if (i % 100 == 99)
				sim_step(&s, &v, 1);
		}
		if (sim_cost(&s) > at_most[p])
			fail_msg("round %u: %.0f ns a halt", round, sim_cost(&s));
	}
}

/* Two vCPUs that wait for each other: what one waits for is the other's wake and its work. */
static double run_pair(struct sim *s, double work, unsigned steps)
{
	struct sim_vcpu pair[2] = {0};
	double late = 0;
	for (unsigned i = 0; i < steps; i++) {
		if (i == steps / 2)
			s->polled = s->slept = s->halts = 0;
		for (unsigned halt = 0; halt < 200; halt++)
			late = sim_halt(s, &pair[halt % 2], late + about(s, work));
		sim_step(s, pair, 2);
	}
	return sim_cost(s);
}

/* Both sleep and so each looks slow to the other: a limit from the histograms alone would stay too low for ever. */
static void a_pair_is_not_trapped_in_sleep(void **state)
{
	(void)state;
	for (size_t w = 0; w < ARRAY_SIZE(wakes); w++)
		for (double work = 1 * US; work < 1.4 * wakes[w]; work *= 1.5) {
			struct sim s = sim_start("cost", &new_rule, wakes[w]);
			s.governor.home = s.governor.rung = 0;
			s.limit = 0;
			double cost = run_pair(&s, work, 1000);
			if (cost > 1.15 * work)
				fail_msg("wake %g us, work %g us: %.0f ns a halt at %.0f us", wakes[w] / US, work / US,
				         cost, s.limit / US);
		}
}

static void a_pair_that_polls_goes_on(void **state)
{
	(void)state;
	struct sim s = sim_start("cost", &new_rule, 50 * US);
	struct sim_vcpu pair[2] = {{.window = 160 * US}, {.window = 160 * US}};
	s.governor.home = s.governor.rung = 5;
	s.limit = 160 * US;
	double late = 0;
	unsigned away = 0;
	for (unsigned i = 0; i < 1000; i++) {
		for (unsigned halt = 0; halt < 200; halt++)
			late = sim_halt(&s, &pair[halt % 2], late + 60 * US);
		sim_step(&s, pair, 2);
		away += s.slept > 0.5 * s.halts;
		s.polled = s.slept = s.halts = 0;
	}
	assert_true(away < 50);
}

/* The chain against the simulation it stands for. A bucket is a factor of 2 wide,
 * and near an edge the model may take one limit for its neighbour. */
static void the_model_is_about_right(void **state)
{
	unsigned misses = 0;
	(void)state;
	for (size_t w = 0; w < ARRAY_SIZE(wakes); w++)
		for (size_t g = 0; g < ARRAY_SIZE(guests); g++) {
			struct sim s = sim_start("cost", &new_rule, wakes[w]);
			run_alone(&s, guests[g].next, 20000);
			for (unsigned i = 0; i < LIMITS; i++) {
				double model = halt_kernel_expected(&s.governor, (uint64_t)limit_of(i)), off = 1e18;
				for (double factor = 0.7; factor < 1.5; factor += 0.35) {
					double real = run_fixed(&new_rule, wakes[w], factor * limit_of(i),
					                        guests[g].next, 5000);
					off = smaller(off, off_by(model, real));
				}
				misses += off > 0.3;
			}
		}
	print_message("%u of %zu predictions are off by more than 30 %%\n", misses,
	              ARRAY_SIZE(wakes) * ARRAY_SIZE(guests) * LIMITS);
	assert_true(misses <= 8);
}

/* Where halts are of many lengths the buckets do not matter, and windows of every size occur: then it is close. */
static void the_model_follows_the_windows(void **state)
{
	(void)state;
	for (size_t w = 0; w < ARRAY_SIZE(wakes); w++) {
		struct sim s = sim_start("cost", &new_rule, wakes[w]);
		run_alone(&s, poisson_10k, 100000);
		for (unsigned i = 0; i < LIMITS; i++) {
			double model = halt_kernel_expected(&s.governor, (uint64_t)limit_of(i));
			double real = run_fixed(&new_rule, wakes[w], limit_of(i), poisson_10k, 100000);
			if (off_by(model, real) > 0.12)
				fail_msg("wake %g us, limit %g us: model %.0f, simulation %.0f", wakes[w] / US,
				         limit_of(i) / US, model, real);
		}
	}
}

static void few_halts_decide_nothing(void **state)
{
	struct halt_kernel k;
	struct policy_spec spec = spec_of("cost");
	struct kvm_halt_stats few = {.wait_hist[12] = 1, .wait_ns = 3000};
	(void)state;
	halt_kernel_init(&k, &spec, &new_rule);
	uint64_t limit = halt_kernel_rest(&k);
	for (unsigned i = 0; i < 63; i++)
		assert_int_equal(halt_kernel_step(&k, &few), limit);
	assert_false(k.home_known);
	halt_kernel_step(&k, &few);
	assert_true(k.home_known && k.home_slept == 1);
}

static void a_rest_ends_a_trial(void **state)
{
	(void)state;
	struct sim s = sim_start("cost", &new_rule, 50 * US);
	struct sim_vcpu v = {0};
	uint64_t home = (uint64_t)s.limit;
	while (!halt_kernel_is_trying(&s.governor)) {
		for (unsigned halt = 0; halt < 40; halt++)
			sim_halt(&s, &v, 20 * US);
		sim_step(&s, &v, 1);
	}
	assert_int_equal(halt_kernel_rest(&s.governor), home);
	assert_false(halt_kernel_is_trying(&s.governor));
}

static void absurd_figures_do_no_harm(void **state)
{
	struct halt_kernel k;
	struct policy_spec spec = spec_of("cost:lambda=1000");
	struct kvm_halt_stats absurd, none = {0};
	static const struct halt_kernel_rule rules[] = {
		{0, 0, 0}, {1, 10000, 1}, {2, 0, 2}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, {1, 1, 1}, {3, 1, 0}};
	(void)state;
	memset(&absurd, 0xff, sizeof(absurd));
	for (size_t r = 0; r < ARRAY_SIZE(rules); r++) {
		halt_kernel_init(&k, &spec, &rules[r]);
		for (unsigned i = 0; i < 500; i++) {
			halt_kernel_wake(&k, i % 7 ? 50000 : 0);
			uint64_t limit = halt_kernel_step(&k, i % 3 ? &absurd : &none);
			assert_true(limit <= 2560000);
			assert_true(k.home_polled < 1e300 && halt_kernel_expected(&k, limit) < 1e300); /* nor NaN */
		}
	}
}

static void policies_have_limits(void **state)
{
	static const struct {
		const char *text;
		uint64_t limit;
		bool governs;
	} cases[] = {
		{"none", 0, false},          {"fixed", 50000, false},        {"fixed:123us", 123000, false},
		{"kvm", 200000, false},      {"kvm:max=0", 0, false},        {"kvm:grow=3,max=1ms", 1000000, false},
		{"haltpoll", 200000, false}, {"haltpoll:max=77", 77, false}, {"always", 1000000000, false},
		{"cost", 0, true},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct policy_spec spec = spec_of(cases[i].text);
		bool governs;
		assert_int_equal(halt_kernel_limit(&spec, &governs), cases[i].limit);
		assert_int_equal(governs, cases[i].governs);
	}
}

static void given_prices_stay(void **state)
{
	struct halt_kernel k;
	struct policy_spec spec = spec_of("cost:wake=7us,switch=3us,lambda=8");
	(void)state;
	halt_kernel_init(&k, &spec, &new_rule);
	halt_kernel_wake(&k, 90000);
	assert_true(k.wake_ns == 7000 && k.switch_ns == 3000 && k.lambda == 8);
	spec = spec_of("cost");
	halt_kernel_init(&k, &spec, &new_rule);
	halt_kernel_wake(&k, 50000);
	assert_true(k.wake_ns == 50000 && k.switch_ns == 15000 && k.lambda == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(costs_no_more_than_the_best_limit),
		cmocka_unit_test(lambda_moves_the_limit),
		cmocka_unit_test(follows_a_guest_that_changes),
		cmocka_unit_test(a_pair_is_not_trapped_in_sleep),
		cmocka_unit_test(a_pair_that_polls_goes_on),
		cmocka_unit_test(the_model_is_about_right),
		cmocka_unit_test(the_model_follows_the_windows),
		cmocka_unit_test(few_halts_decide_nothing),
		cmocka_unit_test(a_rest_ends_a_trial),
		cmocka_unit_test(absurd_figures_do_no_harm),
		cmocka_unit_test(policies_have_limits),
		cmocka_unit_test(given_prices_stay),
	};
	return cmocka_run_group_tests_name("halt_kernel", tests, NULL, NULL);
}
