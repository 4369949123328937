/* SPDX-License-Identifier: Apache-2.0 */
/* steal.c - steal.h. What is lost is what the scheduler says: run_delay, the time a thread was ready to run and did not
 * (Documentation/scheduler/sched-stats.rst). Asleep it is 0 by nature. */
#include "steal.h"

#include "clock.h"
#include "error.h"
#include "guest_mem.h"
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm_para.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static_assert(sizeof(struct steal_area) == sizeof(struct kvm_steal_time), "one layout");
static_assert(offsetof(struct steal_area, version) == offsetof(struct kvm_steal_time, version), "one layout");
static_assert(offsetof(struct steal_area, preempted) == offsetof(struct kvm_steal_time, preempted), "one layout");

#define RESERVED_BITS ((uint64_t)KVM_STEAL_RESERVED_MASK)
#define SCHEDSTAT     "/proc/thread-self/schedstat"

/* ------------------------------------------------------------------------------ the host's figures */

/* "CPU time, time spent waiting, number of slices". Kernels that do not account say 0 0 0. */
static bool read_delay(int fd, uint64_t *delay_ns, uint64_t *slices)
{
	char buf[80];
	uint64_t field[3] = {0};
	ssize_t n = pread(fd, buf, sizeof(buf), 0);
	if (n <= 0)
		return false;
	const char *p = buf, *end = buf + n;
	for (unsigned i = 0; i < 3; i++) {
		for (; p < end && *p >= '0' && *p <= '9'; p++)
			field[i] = field[i] * 10 + (uint64_t)(*p - '0');
		while (p < end && *p == ' ')
			p++;
	}
	*delay_ns = field[1];
	*slices = field[2];
	return true;
}

int steal_probe_delay(void)
{
	uint64_t delay, slices;
	int fd = open(SCHEDSTAT, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	bool there = read_delay(fd, &delay, &slices) && slices;
	close(fd);
	return there ? 0 : -ENOTSUP;
}

int steal_probe_preempt(void)
{
	struct preempt_watch w;
	/* Muted all the time: the signal never comes. */
	int ret = preempt_watch_open(&w, 0);
	if (ret == 0)
		preempt_watch_close(&w);
	return ret;
}

int steal_mode_parse(enum steal_mode *mode, const char *word, bool kernel_chip, struct lull_error *err)
{
	static const struct {
		const char *word;
		enum steal_mode mode;
	} words[] = {{"off", STEAL_OFF}, {"kvm", STEAL_KVM}, {"hybrid", STEAL_HYBRID}, {"vmm", STEAL_VMM}};
	if (!word) {
		bool ours = !kernel_chip && steal_probe_delay() == 0 && steal_probe_preempt() == 0;
		*mode = ours ? STEAL_VMM : STEAL_KVM;
		return 0;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		*mode = words[i].mode;
		if (kernel_chip && *mode >= STEAL_HYBRID)
			return error_set(err, -EINVAL, "steal-time: '%s' needs --irqchip user; use kvm or off", word);
		int ret = *mode == STEAL_VMM ? steal_probe_delay() : 0;
		return ret < 0 ? error_set(err, ret, "steal-time: this kernel has no %s; use kvm or off", SCHEDSTAT)
		               : 0;
	}
	return error_set(err, -EINVAL, "steal-time: '%s' is not known; use vmm, kvm, hybrid or off", word);
}

/* ------------------------------------------------------------------------------------ the area */

/* A reader that sees the new value also sees at least the odd version before it, and an even one only with all of it.
 */
static void publish(struct steal *s)
{
	struct steal_area *area = s->area;
	atomic_store_explicit(&area->version, ++s->version, memory_order_relaxed);
	atomic_store_explicit(&area->steal, s->value_ns, memory_order_release);
	atomic_store_explicit(&area->version, ++s->version, memory_order_release);
	stat_add(&s->stats.updates, 1);
}

/* Adds what was lost since the last time. */
static void account(struct steal *s)
{
	uint64_t delay, slices;
	if (s->schedstat_fd < 0 || !read_delay(s->schedstat_fd, &delay, &slices))
		return;
	delay = delay > s->exempt_ns ? delay - s->exempt_ns : 0;
	if (delay <= s->counted_ns)
		return;
	s->value_ns += delay - s->counted_ns;
	stat_add(&s->stats.told_ns, delay - s->counted_ns);
	s->counted_ns = delay;
	publish(s);
}

/* ----------------------------------------------------------------------------------- the flag */

static void set_flag(struct steal *s)
{
	uint8_t none = 0;
	/* Bit 1 is between the guest and KVM. */
	(void)atomic_compare_exchange_strong(&s->area->preempted, &none, KVM_VCPU_PREEMPTED);
	s->flagged = true;
}

static void clear_flag(struct steal *s)
{
	uint8_t ours = KVM_VCPU_PREEMPTED;
	if (!s->flagged)
		return;
	s->flagged = false;
	if (s->config->mode == STEAL_HYBRID) /* with bit 1 it is for KVM to see both */
		(void)atomic_compare_exchange_strong(&s->area->preempted, &ours, 0);
	else
		atomic_exchange(&s->area->preempted, 0);
}

void steal_notice(struct steal *s)
{
	uint64_t out_ns = 0, now_ns = 0;
	pthread_mutex_lock(&s->lock);
	enum preempt_sight sight = s->area ? preempt_watch_look(&s->watch, &out_ns) : PREEMPT_NOTHING;
	bool told = sight == PREEMPT_NOTHING || s->flagged;
	if (sight == PREEMPT_AWAY && !s->flagged)
		set_flag(s);
	if (!told) {
		now_ns = clock_ns();
		uint64_t late = now_ns > out_ns ? now_ns - out_ns : 0;
		stat_add(sight == PREEMPT_AWAY ? &s->stats.flagged : &s->stats.too_late, 1);
		if (sight == PREEMPT_AWAY) {
			stat_add(&s->stats.late_ns, late);
			stat_max(&s->stats.late_max_ns, late);
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (!told && s->trace)
		s->trace(s->trace_ctx, s->vcpu, out_ns, now_ns, sight == PREEMPT_AWAY);
}

static void on_record(void *ctx, uint32_t events)
{
	struct steal *s = ctx;
	if (events & (EPOLLHUP | EPOLLERR)) /* the vCPU's thread has ended */
		event_loop_set(&s->config->thread->loop, &s->source, 0);
	steal_notice(s);
}

/* True: there was one. */
static bool take_record(struct steal *s)
{
	if (!preempt_watch_seen(&s->watch))
		return false;
	pthread_mutex_lock(&s->lock);
	clear_flag(s);
	preempt_watch_take(&s->watch);
	pthread_mutex_unlock(&s->lock);
	stat_add(&s->stats.returns, 1);
	return true;
}

/* ------------------------------------------------------------------------------- the vCPU's thread */

/* True: the thread was preempted since the last entry. */
static bool come_back(struct steal *s)
{
	bool back = false;
	if (s->watch.fd < 0)
		return false;
	for (;;) { /* until nothing has come since it was armed */
		bool taken = take_record(s);
		if (!taken && s->armed)
			return back;
		back = back || taken;
		preempt_watch_arm(&s->watch);
		s->armed = true;
	}
}

void steal_enter(struct steal *s)
{
	bool back = come_back(s);
	if (s->config->mode == STEAL_HYBRID)
		return;
	uint64_t now = clock_tsc();
	if (!back && now < s->next_tsc)
		return;
	s->next_tsc = now + s->config->tsc_khz; /* a millisecond */
	account(s);
}

void steal_leave(struct steal *s)
{
	if (!s->armed)
		return;
	preempt_watch_mute(&s->watch);
	s->armed = false;
	(void)take_record(s);
}

void steal_exempt(struct steal *s)
{
	uint64_t delay, slices;
	if (s->area && s->schedstat_fd >= 0 && read_delay(s->schedstat_fd, &delay, &slices))
		s->exempt_ns = delay - s->counted_ns;
}

static void open_watch(struct steal *s)
{
	int ret = preempt_watch_open(&s->watch, s->config->kick_signal);
	if (ret == 0) {
		s->source = (struct event_source){.fd = s->watch.fd, .fn = on_record, .ctx = s};
		ret = steal_thread_add(s->config->thread, &s->source);
		if (ret < 0)
			preempt_watch_close(&s->watch);
	}
	if (ret < 0)
		log_debug(s->config->log, "steal-time: vcpu %u: preemption is not seen: %s", s->vcpu, strerror(-ret));
}

/* At the first use: a guest without steal time costs the host no descriptors. */
static void open_host(struct steal *s)
{
	if (s->opened)
		return;
	s->opened = true;
	if (s->config->mode == STEAL_VMM)
		s->schedstat_fd = open(SCHEDSTAT, O_RDONLY | O_CLOEXEC);
	open_watch(s);
}

/* Goes on from what the guest left there: a CPU that went offline and came back must not find less. */
static void take_over(struct steal *s)
{
	if (s->config->mode == STEAL_HYBRID)
		return;
	s->value_ns = atomic_load_explicit(&s->area->steal, memory_order_relaxed);
	s->version = atomic_load_explicit(&s->area->version, memory_order_relaxed);
	s->version += s->version & 1;
	atomic_store(&s->area->preempted, 0);
	publish(s);
	account(s);
}

int steal_msr_write(struct steal *s, uint64_t value)
{
	struct steal_area *area = NULL;
	if (s->config->mode < STEAL_HYBRID || (value & RESERVED_BITS))
		return -EINVAL;
	if (value & KVM_MSR_ENABLED) {
		area = guest_mem_at(s->config->mem, gpa(value & KVM_STEAL_VALID_BITS), sizeof(*area));
		if (!area)
			return -EINVAL;
	}
	steal_before_wait(s);
	s->msr = value;
	pthread_mutex_lock(&s->lock);
	s->area = area;
	pthread_mutex_unlock(&s->lock);
	if (area) {
		open_host(s);
		take_over(s);
	}
	return 0;
}

int steal_msr_read(const struct steal *s, uint64_t *value)
{
	if (s->config->mode < STEAL_HYBRID)
		return -EINVAL;
	*value = s->msr;
	return 0;
}

void steal_reset(struct steal *s)
{
	(void)steal_msr_write(s, 0);
}

/* ---------------------------------------------------------------------------------------- life */

void steal_init(struct steal *s, const struct steal_config *config, unsigned vcpu)
{
	memset(s, 0, sizeof(*s));
	s->config = config;
	s->vcpu = vcpu;
	s->schedstat_fd = s->watch.fd = s->source.fd = -1;
	pthread_mutex_init(&s->lock, NULL);
}

void steal_fini(struct steal *s)
{
	preempt_watch_close(&s->watch);
	if (s->schedstat_fd >= 0)
		close(s->schedstat_fd);
	s->schedstat_fd = -1;
	pthread_mutex_destroy(&s->lock);
}
