/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - lull replay and lull trace gen: files of halts, and what each policy would have made of them. */
#include "replay.h"

#include "error.h"
#include "lull.h"
#include "util.h"
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX    GiB(1)
#define HALTS_MAX   10000000u
#define POLL_NS     100.0 /* latency of a hit while polling */
#define COLUMN_NAME 26

struct replay {
	const struct lull_replay *asked;
	void (*text)(void *ctx, const char *text);
	void *ctx;
	bool first; /* JSON: no comma yet */
};

static const char *const line_up[] = {
	"none",     "fixed:50us",     "always",        "kvm:shrink=2", "kvm:shrink=0",
	"haltpoll", "cost:powersave", "cost:balanced", "cost:latency",
};

__attribute__((format(printf, 2, 3))) static void say(struct replay *r, const char *fmt, ...)
{
	char text[768];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	r->text(r->ctx, text);
}

/* In quotes, cut off if it is very long. */
static void say_json(struct replay *r, const char *s)
{
	char out[512];
	size_t n = 0;

	out[n++] = '"';
	for (; *s && n < sizeof(out) - 8; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			out[n++] = '\\';
		if (c < 0x20 || c >= 0x7f)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "\\u%04x", c);
		else
			out[n++] = (char)c;
	}
	out[n++] = '"';
	out[n] = 0;
	r->text(r->ctx, out);
}

/* -------------------------------------------------------------------------------- files */

static int read_whole(const char *path, void **data, size_t *bytes, struct lull_error *err)
{
	struct stat st;
	int ret = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*data = NULL;
	*bytes = 0;
	if (fd < 0)
		return error_sys(err, -errno, "%s: cannot open", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		ret = error_set(err, -EINVAL, "%s: not a file; name a halt trace", path);
	} else if ((uint64_t)st.st_size > FILE_MAX) {
		ret = error_set(err, -EFBIG, "%s: %lld bytes; at most 1 GiB is read", path, (long long)st.st_size);
	} else {
		*data = malloc((size_t)st.st_size + 1);
		if (!*data)
			ret = error_set(err, -ENOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
	}
	while (!ret && *bytes < (size_t)st.st_size) {
		ssize_t n = read(fd, (char *)*data + *bytes, (size_t)st.st_size - *bytes);
		if (n < 0 && errno != EINTR)
			ret = error_sys(err, -errno, "%s: cannot read", path);
		if (n == 0)
			break;
		*bytes += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return ret;
}

int replay_load(const struct trace_view *view, uint32_t ring, struct sim_trace *trace, uint64_t *lost,
                struct lull_error *err)
{
	struct trace_cursor cursor;
	struct trace_record r;
	struct sim_random random;
	uint64_t start_ns = 0, sleeps = 0;
	double late = 0;

	trace_rewind(&cursor, view, ring);
	*trace = (struct sim_trace){0};
	uint64_t room = policy_min(cursor.end - cursor.seq, view->slot_count);
	trace->halts = calloc(room + 1, sizeof(*trace->halts));
	if (!trace->halts)
		return error_set(err, -ENOMEM, "no memory for %llu halts", (unsigned long long)room);
	sim_seed(&random, 1);
	while (trace->count < room && trace_next(&cursor, &r)) {
		if (r.source == POLICY_REQUEST)
			continue;
		struct sim_halt *halt = &trace->halts[trace->count];
		*halt = (struct sim_halt){
			.event_ns = r.event_ns ? r.event_ns : 1,
			.timer_ns = r.timer_ns,
			.source = r.source,
			.io = r.flags & TRACE_IO,
			.may_poll = r.flags & TRACE_MAY_POLL,
		};
		if (r.flags & TRACE_SLEPT) {
			late += r.wake_ns;
			sleeps++;
		}
		halt->factor[0] = sim_factor(&random);
		halt->factor[1] = sim_factor(&random);
		if (!trace->count++)
			start_ns = r.time_ns;
		if (r.time_ns >= start_ns)
			trace->span_ns = r.time_ns - start_ns + r.event_ns;
	}
	if (sleeps)
		trace->wake_ns = late / (double)sleeps;
	*lost += cursor.lost;
	return 0;
}

/* -------------------------------------------------------------------------------- reports */

static double or_else(uint64_t asked, uint64_t recorded, double otherwise)
{
	if (asked)
		return (double)asked;
	return recorded ? (double)recorded : otherwise;
}

static struct sim_host host_of(const struct lull_replay *asked, const struct trace_header *header,
                               const struct sim_trace *trace)
{
	struct sim_host h = {.poll_ns = POLL_NS};

	h.wake_ns = or_else(asked->wake_ns, header->wake_ns, trace->wake_ns > 0 ? trace->wake_ns : 10000);

	/* Where wakes are very late it is because of others, and not work of this thread. */
	h.switch_ns = or_else(asked->switch_ns, header->switch_ns, h.wake_ns < 66667 ? 0.3 * h.wake_ns : 20000);
	h.arm_ns = or_else(asked->arm_ns, header->arm_ns, h.wake_ns < 50000 ? 0.1 * h.wake_ns : 5000);
	return h;
}

static double cpu_share(const struct sim_trace *trace, const struct sim_total *t)
{
	double wall = (double)trace->span_ns > t->wall_ns ? (double)trace->span_ns : t->wall_ns;

	return wall > 0 ? 100 * t->cpu_ns / wall : 0;
}

static void report_policy(struct replay *r, const char *name, const struct sim_trace *trace, const struct sim_total *t,
                          double lambda, bool first)
{
	double n = t->halts ? (double)t->halts : 1, cost = sim_cost(t, lambda);
	double ratio = t->optimum_ns > 0 ? cost / t->optimum_ns : 1;

	if (r->asked->flags & LULL_REPLAY_JSON) {
		say(r, "%s\n    {\"policy\": ", first ? "" : ",");
		say_json(r, name);
		say(r,
		    ", \"cost_ns\": %.0f, \"cpu_ns\": %.0f, \"cpu_percent\": %.3f, \"latency_mean_ns\": %.1f, "
		    "\"latency_p99_ns\": %.1f, \"polled\": %llu, \"ratio\": %.4f}",
		    cost, t->cpu_ns, cpu_share(trace, t), t->latency_ns / n, t->latency_p99_ns,
		    (unsigned long long)t->polled, ratio);
		return;
	}
	say(r, "%-*s %10.2f %8.2f %8.2f %10.2f %10.2f %8.1f\n", COLUMN_NAME, name, cost / n / 1000, ratio,
	    cpu_share(trace, t), t->latency_ns / n / 1000, t->latency_p99_ns / 1000, 100 * (double)t->polled / n);
}

static void report_trace(struct replay *r, const struct sim_trace *trace, const struct sim_host *host, uint64_t lost,
                         double lambda)
{
	double seconds = (double)trace->span_ns / 1e9;

	if (r->asked->flags & LULL_REPLAY_JSON) {
		say(r, "%s\n  {\"trace\": ", r->first ? "" : ",");
		say_json(r, trace->name);
		say(r,
		    ", \"halts\": %zu, \"lost\": %llu, \"seconds\": %.6f, \"lambda\": %g, \"wake_ns\": %.0f, "
		    "\"switch_ns\": %.0f, \"arm_ns\": %.0f, \"policies\": [",
		    trace->count, (unsigned long long)lost, seconds, lambda, host->wake_ns, host->switch_ns,
		    host->arm_ns);
	} else {
		say(r, "%s%s: %zu halts in %.3f s", r->first ? "" : "\n", trace->name, trace->count, seconds);
		if (lost)
			say(r, ", %llu more unreadable", (unsigned long long)lost);
		say(r, "; a wake takes %.1f us, a switch %.1f us; lambda %g\n", host->wake_ns / 1000,
		    host->switch_ns / 1000, lambda);
		say(r, "%-*s %10s %8s %8s %10s %10s %8s\n", COLUMN_NAME, "policy", "cost us", "ratio", "CPU %",
		    "mean us", "p99 us", "polled %");
	}
	r->first = false;
}

/* The i-th policy to replay, or NULL: those asked for, else all. */
static const char *entrant(const struct lull_replay *asked, size_t i)
{
	if (asked->policies)
		return i < asked->policy_count ? asked->policies[i] : NULL;
	return i < ARRAY_SIZE(line_up) ? line_up[i] : NULL;
}

static int replay_trace(struct replay *r, const struct sim_trace *trace, const struct trace_header *header,
                        uint64_t lost, struct lull_error *err)
{
	struct sim_host host = host_of(r->asked, header, trace);
	struct policy_host told = sim_told(&host);
	double lambda = r->asked->lambda_milli ? (double)r->asked->lambda_milli / 1000 : 2;
	float *latencies = calloc(trace->count + 1, sizeof(*latencies));
	const char *name;

	if (!latencies)
		return error_set(err, -ENOMEM, "no memory for %zu halts", trace->count);
	report_trace(r, trace, &host, lost, lambda);
	for (size_t i = 0; (name = entrant(r->asked, i)); i++) {
		struct policy_spec spec;
		struct sim_total total;
		int ret = policy_parse(&spec, name, NULL, err);
		if (ret) {
			free(latencies);
			return ret;
		}
		sim_run(&host, trace, &spec, lambda, &told, latencies, &total);
		report_policy(r, name, trace, &total, lambda, i == 0);
	}
	if (r->asked->flags & LULL_REPLAY_JSON)
		say(r, "]}");
	free(latencies);
	return 0;
}

static int replay_file(struct replay *r, const char *path, struct lull_error *err)
{
	struct trace_view view;
	void *data;
	size_t bytes;
	int ret = read_whole(path, &data, &bytes, err);

	if (!ret)
		ret = trace_open(&view, data, bytes, path, err);
	for (uint32_t ring = 0; !ret && ring < view.header.rings; ring++) {
		struct sim_trace trace;
		uint64_t lost = 0;
		ret = replay_load(&view, ring, &trace, &lost, err);
		if (ret)
			break;
		if (view.header.rings > 1)
			snprintf(trace.name, sizeof(trace.name), "vCPU %u", ring);
		else
			snprintf(trace.name, sizeof(trace.name), "%.31s", view.header.text);
		if (trace.count || view.header.rings == 1)
			ret = replay_trace(r, &trace, &view.header, lost, err);
		free(trace.halts);
	}
	free(data);
	return ret;
}

int lull_replay(const struct lull_replay *asked, void (*text)(void *ctx, const char *text), void *ctx,
                struct lull_error *err)
{
	struct replay r = {.asked = asked, .text = text, .ctx = ctx, .first = true};
	struct policy_spec spec;
	const char *name;
	int ret = 0;

	if (asked->size != sizeof(*asked))
		return error_set(err, -EINVAL, "replay: size is %u, not %zu", asked->size, sizeof(*asked));
	if (!asked->file_count)
		return error_set(err, -EINVAL, "replay: no file; name one or more halt traces");
	for (size_t i = 0; (name = entrant(asked, i)); i++) {
		ret = policy_parse(&spec, name, NULL, err);
		if (ret)
			return ret;
	}
	if (asked->flags & LULL_REPLAY_JSON)
		say(&r, "[");
	for (size_t i = 0; !ret && i < asked->file_count; i++)
		ret = replay_file(&r, asked->files[i], err);
	if (asked->flags & LULL_REPLAY_JSON)
		say(&r, "\n]\n");
	return ret;
}

/* -------------------------------------------------------------------------------- trace gen */

static int unknown_workload(const char *name, struct lull_error *err)
{
	char list[300] = "";
	size_t used = 0;

	for (const struct workload *w = workloads; w->name && used < sizeof(list); w++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", w->name);
	return error_set(err, -EINVAL, "trace: '%.40s' is not a workload; use one of %s", name, list);
}

int lull_trace_generate(const char *name, uint64_t seed, uint64_t halts, const char *path, struct lull_error *err)
{
	const struct workload *workload = workload_find(name);
	struct sim_trace trace = {.count = halts};
	struct trace_file file;
	char text[64];
	uint64_t now_ns = 0;
	int ret;

	if (!workload)
		return unknown_workload(name, err);
	if (!halts || halts > HALTS_MAX)
		return error_set(err, -EINVAL, "trace: %llu halts; give 1 to %u", (unsigned long long)halts, HALTS_MAX);
	trace.halts = calloc(halts, sizeof(*trace.halts));
	if (!trace.halts)
		return error_set(err, -ENOMEM, "trace: no memory for %llu halts", (unsigned long long)halts);
	workload_make(workload, seed, &trace);
	snprintf(text, sizeof(text), "%s, seed %llu", name, (unsigned long long)seed);
	ret = trace_create(&file, path, 1, halts, 0, NULL, text, err);
	if (!ret) {
		struct trace_ring ring = trace_ring(&file, 0);
		for (size_t i = 0; i < trace.count; i++) {
			const struct sim_halt *h = &trace.halts[i];
			struct trace_record record = {.time_ns = now_ns,
			                              .event_ns = h->event_ns,
			                              .timer_ns = h->timer_ns,
			                              .sleep_ns = POLICY_NEVER,
			                              .source = h->source};
			record.flags = (uint8_t)((h->io ? TRACE_IO : 0) | (h->may_poll ? TRACE_MAY_POLL : 0));
			trace_append(&ring, &record);
			now_ns += h->event_ns;
		}
		trace_close(&file);
	}
	free(trace.halts);
	return ret;
}
