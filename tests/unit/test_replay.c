/* SPDX-License-Identifier: Apache-2.0 */
/* The model of waiting, the workloads, and lull replay and lull trace gen on top of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lull.h"
#include "replay.h"
#include "workload.h"

#define NEVER POLICY_NEVER

static char dir[] = "/tmp/lull-replay-XXXXXX";
static char path[64], other[64];

static int make_dir(void **unused)
{
	(void)unused;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/one", dir);
	snprintf(other, sizeof(other), "%s/two", dir);
	return 0;
}

static int remove_dir(void **unused)
{
	(void)unused;
	unlink(path);
	unlink(other);
	return rmdir(dir);
}

/* ------------------------------------------------------------------------ one halt under a plan */

static const struct sim_host host = {10000, 3000, 1000, 100};

static const struct play {
	const char *name;
	uint64_t d, timer;
	struct policy_plan plan;
	double cpu, latency;
	uint64_t polled, spun, halt_ns, wake[2];
} plays[] = {
	{"sleeps at once", 50000, NEVER, {0, NEVER, 0}, 3000, 10000, 0, 0, 60000, {NEVER, 10000}},
	{"sees it while polling", 5000, NEVER, {20000, NEVER, 0}, 5000, 100, 5000, 0, 5000, {NEVER, NEVER}},
	{"sees it at the end of the window",
         20000,
         NEVER,
         {20000, NEVER, 0},
         20000,
         100,
         20000,
         0,
         20000,
         {NEVER, NEVER}},
	{"misses it by a ns", 20001, NEVER, {20000, NEVER, 0}, 23000, 10000, 20000, 0, 30001, {NEVER, 10000}},
	{"polls to the timer", 12000, 12000, {12000, NEVER, 0}, 12000, 100, 12000, 0, 12000, {NEVER, NEVER}},
	{"wakes early and spins to the timer",
         4000000,
         4000000,
         {0, 3988000, 4036000},
         5000,
         100,
         0,
         2000,
         4000000,
         {10000, NEVER}},
	{"wakes early but too late",
         4000000,
         4000000,
         {0, 3993000, 4021000},
         3000,
         3000,
         0,
         0,
         4003000,
         {10000, NEVER}},
	{"wakes early for a timer, event before",
         100000,
         4000000,
         {0, 3988000, 4036000},
         3000,
         10000,
         0,
         0,
         110000,
         {10000, NEVER}},
	{"polls, then wakes early",
         4000000,
         4000000,
         {7000, 3988000, 4036000},
         12000,
         100,
         7000,
         2000,
         4000000,
         {10000, NEVER}},
	{"sleeps, then spins: hit", 100000, NEVER, {0, 80000, 120000}, 14000, 100, 0, 10000, 100000, {10000, NEVER}},
	{"sleeps, then spins: event in the sleep",
         70000,
         NEVER,
         {0, 80000, 120000},
         4000,
         10000,
         0,
         0,
         80000,
         {10000, NEVER}},
	{"sleeps, then spins: event in the wake",
         85000,
         NEVER,
         {0, 80000, 120000},
         4000,
         5000,
         0,
         0,
         90000,
         {10000, NEVER}},
	{"sleeps, then spins: no event",
         500000,
         NEVER,
         {0, 80000, 120000},
         37000,
         20000,
         0,
         30000,
         520000,
         {10000, 20000}},
	{"sleeps, spin is over before it runs",
         500000,
         NEVER,
         {0, 80000, 85000},
         7000,
         20000,
         0,
         0,
         520000,
         {10000, 20000}},
	{"a sleep that ends in the window is none",
         500000,
         NEVER,
         {90000, 80000, 120000},
         93000,
         10000,
         90000,
         0,
         510000,
         {NEVER, 10000}},
};

static void every_phase_of_a_plan_has_its_price(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++) {
		const struct play *p = &plays[i];
		struct sim_halt halt = {.event_ns = p->d,
		                        .timer_ns = p->timer,
		                        .factor = {1, 2},
		                        .source = POLICY_OTHER,
		                        .may_poll = true};
		struct policy_sample s;
		struct sim_outcome out = sim_play(&host, &halt, &p->plan, &s);
		if (out.cpu_ns != p->cpu || out.latency_ns != p->latency || s.poll_ns != p->polled ||
		    s.spin_ns != p->spun || s.halt_ns != p->halt_ns || s.wake_ns[0] != p->wake[0] ||
		    s.wake_ns[1] != p->wake[1])
			fail_msg("%s: cpu %g latency %g poll %llu spin %llu halt %llu wake %lld %lld", p->name,
			         out.cpu_ns, out.latency_ns, (unsigned long long)s.poll_ns,
			         (unsigned long long)s.spin_ns, (unsigned long long)s.halt_ns, (long long)s.wake_ns[0],
			         (long long)s.wake_ns[1]);
		assert_int_equal(s.event_ns, p->d);
		assert_int_equal(s.max_ns, NEVER);
		assert_true(s.may_poll);
	}
}

static void totals_add_up_and_the_clairvoyant_pays_the_lesser(void **unused)
{
	struct sim_halt halts[] = {
		{.event_ns = 5000, .timer_ns = NEVER, .factor = {1, 1}, .source = POLICY_OTHER, .may_poll = true},
		{.event_ns = 90000, .timer_ns = NEVER, .factor = {1, 1}, .source = POLICY_OTHER, .may_poll = true},
		{.event_ns = 5000, .timer_ns = NEVER, .factor = {2, 1}, .source = POLICY_OTHER, .may_poll = false},
	};
	struct sim_trace trace = {.halts = halts, .count = 3};
	struct policy_spec spec;
	struct sim_total t;
	float latencies[3];
	(void)unused;
	assert_int_equal(policy_parse(&spec, "fixed:20us", NULL, NULL), 0);
	sim_run(&host, &trace, &spec, 2, NULL, latencies, &t);
	assert_true(t.cpu_ns == 5000 + 23000 + 3000);
	assert_true(t.latency_ns == 100 + 10000 + 20000);
	assert_true(t.optimum_ns == 5000 + 23000 + 5000);
	assert_true(sim_cost(&t, 2) == 31000 + 2 * 30100);
	assert_int_equal(t.halts, 3);
	assert_int_equal(t.polled, 1);
}

static void quantiles_are_those_of_the_sorted_values(void **unused)
{
	float values[1000];
	(void)unused;
	for (int round = 0; round < 3; round++)
		for (int q = 0; q <= 10; q++) {
			for (int i = 0; i < 1000; i++) /* permuted, equal, and descending */
				values[i] = (float)(round == 0 ? i * 7 % 1000 : round == 1 ? 5 : 999 - i);
			assert_true(sim_quantile(values, 1000, q / 10.0) ==
			            (round == 1 ? 5 : (float)(99 * q + q * 9 / 10)));
		}
	assert_true(sim_quantile(values, 0, 0.5) == 0);
	assert_true(sim_quantile(values, 1, 0.99) == values[0]);
}

/* ------------------------------------------------------------------------ random numbers, workloads */

static bool close_to(double a, double b, double share)
{
	double d = a > b ? a - b : b - a, size = b < 0 ? -b : b;
	return d <= share * size;
}

static void ln_and_exp_are_exact_to_a_few_bits(void **unused)
{
	(void)unused;
	assert_true(close_to(sim_ln(2), 0.69314718055994530942, 1e-15));
	assert_true(close_to(sim_ln(10), 2.30258509299404568402, 1e-15));
	assert_true(close_to(sim_ln(1e-9), -20.7232658369464105, 1e-15));
	assert_true(sim_ln(1) == 0);
	assert_true(close_to(sim_exp(1), 2.71828182845904523536, 1e-15));
	assert_true(close_to(sim_exp(-20), 2.06115362243855782797e-9, 1e-14));
	assert_true(close_to(sim_exp(100), 2.68811714181613544841e43, 1e-13));
	assert_true(sim_exp(0) == 1);
	for (double x = 1e-6; x < 1e6; x *= 1.37)
		assert_true(close_to(sim_exp(sim_ln(x)), x, 1e-13));
}

static void distributions_have_their_moments(void **unused)
{
	enum {
		N = 200000
	};
	struct sim_random r;
	double normal = 0, square = 0, exponential = 0, uniform = 0, factor = 0;
	(void)unused;
	sim_seed(&r, 42);
	for (int i = 0; i < N; i++) {
		double x = sim_normal(&r, 0, 1), u = sim_uniform(&r, 2, 4);
		normal += x;
		square += x * x;
		exponential += sim_exponential(&r, 3);
		uniform += u;
		assert_true(u >= 2 && u < 4);
		factor += (double)sim_factor(&r);
	}
	assert_true(normal / N > -0.01 && normal / N < 0.01);
	assert_true(close_to(square / N, 1, 0.01));
	assert_true(close_to(exponential / N, 3, 0.01));
	assert_true(close_to(uniform / N, 3, 0.01));
	assert_true(close_to(factor / N, 1, 0.005)); /* the mean wake latency is the host's */
}

static void make(const char *name, uint64_t seed, struct sim_trace *trace, size_t count)
{
	const struct workload *w = workload_find(name);
	assert_non_null(w);
	trace->count = count;
	trace->halts = calloc(count, sizeof(*trace->halts));
	assert_non_null(trace->halts);
	workload_make(w, seed, trace);
}

static uint64_t sum_of(const char *name, uint64_t seed)
{
	struct sim_trace trace;
	uint64_t sum = 0;
	make(name, seed, &trace, 5000);
	for (size_t i = 0; i < trace.count; i++) {
		const struct sim_halt *h = &trace.halts[i];
		uint32_t factor;
		memcpy(&factor, &h->factor[0], sizeof(factor));
		sum = (sum ^ h->event_ns ^ h->timer_ns * 3 ^ h->source * 5u ^ h->io * 7u ^ factor) *
		      0x9e3779b97f4a7c15u;
	}
	free(trace.halts);
	return sum;
}

static void a_seed_makes_the_same_halts_in_every_build(void **unused)
{
	uint64_t sum = 0;
	int n = 0;
	(void)unused;
	for (const struct workload *w = workloads; w->name; w++, n++) {
		sum = sum * 31 + sum_of(w->name, 1);
		assert_int_equal(sum_of(w->name, 1), sum_of(w->name, 1));
		if (!(w->classes & WORKLOAD_ADVERSARY))
			assert_int_not_equal(sum_of(w->name, 1), sum_of(w->name, 2));
	}
	assert_int_equal(n, 21);
	assert_int_equal(sum, 0x7341ead830545eadu);
}

static double mean_us(const char *name)
{
	struct sim_trace trace;
	double sum = 0;
	make(name, 1, &trace, 50000);
	for (size_t i = 0; i < trace.count; i++)
		sum += (double)trace.halts[i].event_ns;
	sum /= (double)trace.count * 1000;
	free(trace.halts);
	return sum;
}

static void workloads_have_the_means_of_their_definitions(void **unused)
{
	(void)unused;
	assert_true(close_to(mean_us("rpc5"), 5.3, 0.02)); /* 5 + 3 % of 10 */
	assert_true(close_to(mean_us("rpc150"), 159, 0.02));
	assert_true(close_to(mean_us("poi1k"), 1000, 0.02));
	assert_true(close_to(mean_us("poi50k"), 20, 0.02));
	assert_true(close_to(mean_us("bimodal"), (50 * 20 + 5000) / 51.0, 0.05));
	assert_true(close_to(mean_us("tick250"), 4000, 0.01));
	assert_true(close_to(mean_us("tick1000"), 1000, 0.01));
	assert_true(close_to(mean_us("nvme-qd1"), 0.99 * 80 + 0.01 * 2000, 0.05));
	assert_true(close_to(mean_us("pgcache"), 0.99 * 8 + 0.01 * 80, 0.02));
	assert_true(close_to(mean_us("adv-kvm-lo"), 105.25, 0.001));
	assert_true(close_to(mean_us("adv-kvm-hi"), 199, 0.001));
}

static void events_come_no_later_than_the_timer(void **unused)
{
	(void)unused;
	for (const struct workload *w = workloads; w->name; w++) {
		struct sim_trace trace;
		size_t timers = 0;
		make(w->name, 3, &trace, 20000);
		for (size_t i = 0; i < trace.count; i++) {
			const struct sim_halt *h = &trace.halts[i];
			assert_true(h->event_ns >= 1 && h->event_ns <= h->timer_ns);
			assert_true((h->source == POLICY_TIMER) <= (h->event_ns == h->timer_ns));
			assert_true(h->may_poll);
			timers += h->source == POLICY_TIMER;
		}
		if (w->classes & WORKLOAD_TIMER)
			assert_int_equal(timers, trace.count);
		free(trace.halts);
	}
}

static void mixed_work_has_ticks_disks_and_interrupts_at_once(void **unused)
{
	struct sim_trace trace;
	size_t timers = 0, io = 0;
	double ns = 0;
	(void)unused;
	make("mixed3", 1, &trace, 50000);
	for (size_t i = 0; i < trace.count; i++) {
		timers += trace.halts[i].source == POLICY_TIMER;
		io += trace.halts[i].io;
		ns += (double)trace.halts[i].event_ns;
	}
	assert_true(close_to((double)timers, ns / 4e6, 0.01));
	assert_in_range(io, 10000, 40000);
	free(trace.halts);
}

/* ------------------------------------------------------------------------ lull replay, lull trace gen */

struct sink {
	char text[65536];
	size_t used;
};

static void take(void *ctx, const char *text)
{
	struct sink *s = ctx;
	size_t n = strlen(text);
	assert_true(s->used + n < sizeof(s->text));
	memcpy(s->text + s->used, text, n + 1);
	s->used += n;
}

static void generate(const char *name, const char *file, uint64_t halts)
{
	struct lull_error err = {0};
	if (lull_trace_generate(name, 1, halts, file, &err))
		fail_msg("%s", err.text);
}

static void run(struct sink *s, const struct lull_replay *replay)
{
	struct lull_error err = {0};
	s->used = 0;
	if (lull_replay(replay, take, s, &err))
		fail_msg("%s", err.text);
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;
	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void a_generated_trace_is_replayed_through_every_policy(void **unused)
{
	static struct sink s;
	const char *files[] = {path, other};
	struct lull_replay replay = {.size = sizeof(replay), .files = files, .file_count = 2};
	(void)unused;
	generate("rpc20", path, 2000);
	generate("tick250", other, 500);
	run(&s, &replay);
	assert_non_null(strstr(s.text, "rpc20, seed 1: 2000 halts in 0.04"));
	assert_non_null(strstr(s.text, "tick250, seed 1: 500 halts in 2.0"));
	for (const struct policy *const *p = policies; *p; p++) {
		char line[40];
		snprintf(line, sizeof(line), "\n%s", (*p)->name);
		assert_true(count(s.text, line) >= 2);
	}
	assert_int_equal(count(s.text, "\n"), 2 * 11 + 1);
}

static void a_replay_is_repeatable(void **unused)
{
	static struct sink a, b;
	const char *files[] = {path};
	struct lull_replay replay = {.size = sizeof(replay), .files = files, .file_count = 1};
	(void)unused;
	generate("phase10ms", path, 3000);
	run(&a, &replay);
	generate("phase10ms", path, 3000);
	run(&b, &replay);
	assert_string_equal(a.text, b.text);
}

static void json_has_the_figures_of_the_table(void **unused)
{
	static struct sink s;
	const char *files[] = {path}, *names[] = {"none", "always"};
	struct lull_replay replay = {.size = sizeof(replay),
	                             .flags = LULL_REPLAY_JSON,
	                             .files = files,
	                             .file_count = 1,
	                             .policies = names,
	                             .policy_count = 2,
	                             .lambda_milli = 1000,
	                             .wake_ns = 20000,
	                             .switch_ns = 4000};
	(void)unused;
	generate("adv-kvm-lo", path, 1000);
	run(&s, &replay);
	assert_non_null(strstr(s.text, "\"trace\": \"adv-kvm-lo, seed 1\", \"halts\": 1000, \"lost\": 0"));
	assert_non_null(strstr(s.text, "\"lambda\": 1, \"wake_ns\": 20000, \"switch_ns\": 4000, \"arm_ns\": 2000"));
	/* always: polls 0.5 us and 210 us in turns; the clairvoyant pays 0.5 us and 24 us */
	assert_non_null(strstr(s.text, "{\"policy\": \"always\", \"cost_ns\": 105350000, \"cpu_ns\": 105250000"));
	assert_non_null(strstr(s.text, "\"latency_p99_ns\": 100.0, \"polled\": 1000, \"ratio\": 8.6000}"));
	assert_non_null(strstr(s.text, "{\"policy\": \"none\""));
	assert_int_equal(count(s.text, "{\"policy\""), 2);
	assert_int_equal(count(s.text, "{"), count(s.text, "}"));
	assert_int_equal(s.text[0], '[');
}

static void hostile_text_of_a_trace_is_escaped_in_json(void **unused)
{
	static struct sink s;
	const char *files[] = {path}, *names[] = {"none"};
	struct lull_replay replay = {.size = sizeof(replay),
	                             .flags = LULL_REPLAY_JSON,
	                             .files = files,
	                             .file_count = 1,
	                             .policies = names,
	                             .policy_count = 1};
	struct trace_file file;
	(void)unused;
	assert_int_equal(trace_create(&file, path, 1, 1, 0, NULL, "a\"b\\c\n\033[1m\377", NULL), 0);
	trace_close(&file);
	run(&s, &replay);
	assert_non_null(strstr(s.text, "\"trace\": \"a\\\"b\\\\c\\u000a\\u001b[1m\\u00ff\""));
}

static void requests_are_left_out_and_losses_counted(void **unused)
{
	struct trace_file file;
	struct trace_view view;
	struct sim_trace trace;
	uint64_t lost = 0;
	(void)unused;
	assert_int_equal(trace_create(&file, path, 1, 5, 0, NULL, "x", NULL), 0);
	struct trace_ring ring = trace_ring(&file, 0);
	const struct trace_record records[] = {
		{.time_ns = 1000, .event_ns = 10, .timer_ns = NEVER, .source = POLICY_OTHER, .flags = TRACE_MAY_POLL},
		{.time_ns = 2000, .event_ns = 20, .timer_ns = NEVER, .source = POLICY_REQUEST},
		{.time_ns = 3000, .event_ns = 30, .timer_ns = 30, .source = 7},
		{.time_ns = 4000, .event_ns = 0, .timer_ns = 50, .source = POLICY_TIMER, .flags = TRACE_IO},
	};
	for (size_t i = 0; i < 4; i++)
		trace_append(&ring, &records[i]);
	assert_int_equal(trace_open(&view, file.map, file.bytes, "x", NULL), 0);
	assert_int_equal(replay_load(&view, 0, &trace, &lost, NULL), 0);
	assert_int_equal(trace.count, 2);
	assert_int_equal(lost, 1);
	assert_int_equal(trace.span_ns, 3000);
	assert_int_equal(trace.halts[0].event_ns, 10);
	assert_true(trace.halts[0].may_poll && !trace.halts[0].io);
	assert_int_equal(trace.halts[1].event_ns, 1);
	assert_int_equal(trace.halts[1].timer_ns, 50);
	assert_true(!trace.halts[1].may_poll && trace.halts[1].io);
	free(trace.halts);
	trace_close(&file);
}

static void each_vcpu_with_halts_is_a_trace_of_its_own(void **unused)
{
	static struct sink s;
	const char *files[] = {path};
	struct lull_replay replay = {.size = sizeof(replay), .files = files, .file_count = 1};
	struct trace_file file;
	const struct policy_host costs = {50000, 20000, 5000};
	(void)unused;
	assert_int_equal(trace_create(&file, path, 3, 4, 0, &costs, "x", NULL), 0);
	for (uint32_t i = 0; i < 3; i += 2) {
		struct trace_ring ring = trace_ring(&file, i);
		const struct trace_record r = {.event_ns = 10, .timer_ns = NEVER, .source = POLICY_OTHER};
		trace_append(&ring, &r);
	}
	trace_close(&file);
	run(&s, &replay);
	assert_non_null(strstr(s.text, "vCPU 0: 1 halts"));
	assert_null(strstr(s.text, "vCPU 1"));
	assert_non_null(strstr(s.text, "vCPU 2: 1 halts"));
	assert_non_null(strstr(s.text, "a wake takes 50.0 us, a switch 20.0 us; lambda 2"));
}

static void the_mean_wake_on_record_is_the_hosts(void **unused)
{
	static struct sink s;
	const char *files[] = {path};
	struct lull_replay replay = {.size = sizeof(replay), .files = files, .file_count = 1};
	struct trace_file file;
	(void)unused;
	assert_int_equal(trace_create(&file, path, 1, 4, 0, NULL, "x", NULL), 0);
	struct trace_ring ring = trace_ring(&file, 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct trace_record r = {.event_ns = 10,
		                               .timer_ns = NEVER,
		                               .wake_ns = 20000 * i,
		                               .source = POLICY_OTHER,
		                               .flags = i ? TRACE_SLEPT : 0};
		trace_append(&ring, &r);
	}
	trace_close(&file);
	run(&s, &replay);
	assert_non_null(strstr(s.text, "a wake takes 30.0 us, a switch 9.0 us; lambda 2"));
}

static void mistakes_are_answered_in_words(void **unused)
{
	static struct sink s;
	const char *files[] = {"/nonexistent"}, *names[] = {"kvn"};
	struct lull_replay replay = {.size = sizeof(replay), .files = files, .file_count = 1};
	struct lull_error err = {0};
	(void)unused;
	assert_int_equal(lull_replay(&replay, take, &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent: cannot open"));
	files[0] = "/dev/null";
	assert_int_equal(lull_replay(&replay, take, &s, &err), -EINVAL);
	assert_string_equal(err.text, "/dev/null: not a file; name a halt trace");
	replay.policies = names;
	replay.policy_count = 1;
	assert_int_equal(lull_replay(&replay, take, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'kvn' is not a policy"));
	replay.file_count = 0;
	replay.policies = NULL;
	assert_int_equal(lull_replay(&replay, take, &s, &err), -EINVAL);
	replay.size--;
	assert_int_equal(lull_replay(&replay, take, &s, &err), -EINVAL);
	assert_int_equal(lull_trace_generate("rpc6", 1, 10, path, &err), -EINVAL);
	assert_non_null(strstr(err.text, "trace: 'rpc6' is not a workload; use one of rpc5, rpc20, "));
	assert_non_null(strstr(err.text, ", adv-kvm-hi, adv-kvm-lo"));
	assert_int_equal(lull_trace_generate("rpc5", 1, 0, path, &err), -EINVAL);
	assert_int_equal(lull_trace_generate("rpc5", 1, 10000001, path, &err), -EINVAL);
	assert_int_equal(lull_trace_generate("rpc5", 1, 10, "/nonexistent/x", &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_phase_of_a_plan_has_its_price),
		cmocka_unit_test(totals_add_up_and_the_clairvoyant_pays_the_lesser),
		cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
		cmocka_unit_test(ln_and_exp_are_exact_to_a_few_bits),
		cmocka_unit_test(distributions_have_their_moments),
		cmocka_unit_test(a_seed_makes_the_same_halts_in_every_build),
		cmocka_unit_test(workloads_have_the_means_of_their_definitions),
		cmocka_unit_test(events_come_no_later_than_the_timer),
		cmocka_unit_test(mixed_work_has_ticks_disks_and_interrupts_at_once),
		cmocka_unit_test(a_generated_trace_is_replayed_through_every_policy),
		cmocka_unit_test(a_replay_is_repeatable),
		cmocka_unit_test(json_has_the_figures_of_the_table),
		cmocka_unit_test(hostile_text_of_a_trace_is_escaped_in_json),
		cmocka_unit_test(requests_are_left_out_and_losses_counted),
		cmocka_unit_test(each_vcpu_with_halts_is_a_trace_of_its_own),
		cmocka_unit_test(the_mean_wake_on_record_is_the_hosts),
		cmocka_unit_test(mistakes_are_answered_in_words),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
