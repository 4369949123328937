/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcpu.c - the spine: the only place that enters the guest and the only place that halts.
 *
 * The loop takes its wake ticket, looks for work (requests, events, timer, interrupts), and then either waits on the
 * ticket or enters the guest on it. Whatever is published after the look makes both fail, so nothing is ever slept
 * over; wake.h has the argument.
 */
#include "vcpu.h"

#include "clock.h"
#include "error.h"
#include "irqchip.h"
#include "kvm.h"
#include "lapic.h"
#include "thread.h"
#include "util.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES KiB(128)

/* The vCPU that this thread runs: all the kick handler knows. */
static __thread struct vcpu *current __attribute__((tls_model("initial-exec")));

static void on_kick(int sig)
{
	(void)sig;
	if (!current)
		return;
	current->run->immediate_exit = 1;
	current->signalled = true;
}

int vcpu_install_kick(int signal, struct lull_error *err)
{
	struct sigaction action = {.sa_handler = on_kick};
	sigemptyset(&action.sa_mask);
	if (sigaction(signal, &action, NULL) < 0)
		return error_sys(err, -errno, "kick signal %d", signal);
	return 0;
}

/* wake.kick: the vCPU is in the guest, or about to enter it with its ticket already swapped. */
static void kick(void *ctx)
{
	struct vcpu *v = ctx;
	atomic_fetch_add_explicit(&v->count.kicks, 1, memory_order_relaxed);
	if (syscall(SYS_tgkill, getpid(), atomic_load(&v->tid), v->env->kick_signal) == 0 || errno != EAGAIN)
		return;
	/* Real-time signals are queued, and this user may queue no more (RLIMIT_SIGPENDING). The timer has its place in
	 * the queue since it was made. Its owner arms it again for what it was armed for: a signal came. */
	const struct itimerspec now = {.it_value.tv_nsec = 1};
	syscall(SYS_timer_settime, v->timer, 0, &now, NULL);
}

void vcpu_notify(struct vcpu *v, enum wake_cause cause)
{
	wake_post(&v->wake, cause, clock_tsc());
}

void vcpu_request(struct vcpu *v, uint32_t requests)
{
	atomic_fetch_or(&v->requests, requests);
	vcpu_notify(v, WAKE_REQUEST);
}

void vcpu_unpause(struct vcpu *v)
{
	atomic_fetch_and(&v->requests, ~(uint32_t)VCPU_PAUSE);
	vcpu_notify(v, WAKE_REQUEST);
}

enum exit_action vcpu_end(struct vcpu *v, enum lull_exit_reason reason, uint32_t code, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	v->env->end(v->env->ctx, reason, code, v->index, text);
	return EXIT_STOP;
}

/* ---------------------------------------------------------------------------- timer in guest mode */

/* The kernel's struct sigevent; the C libraries disagree on the name of the thread id. */
struct kernel_sigevent {
	void *value;
	int signo, notify, tid;
	int pad[11];
};

static bool create_timer(struct vcpu *v)
{
	struct kernel_sigevent event = {
		.signo = v->env->kick_signal, .notify = SIGEV_THREAD_ID, .tid = atomic_load(&v->tid)};
	v->timer_tsc = WAKE_NEVER;
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &v->timer) == 0)
		return true;
	/* Without it a guest that computes would get no timer interrupt. */
	vcpu_end(v, LULL_EXIT_KVM_ERROR, 0, "vcpu %u: timer_create: %s%s", v->index, strerror(errno),
	         errno == EAGAIN ? "; this user's limit of pending signals is reached, raise it (ulimit -i)" : "");
	return false;
}

void vcpu_arm_timer(struct vcpu *v, uint64_t deadline_tsc)
{
	/* The timer's clock is not the TSC: it may have fired a moment too early, and then this deadline is not
	 * covered. */
	if (deadline_tsc == v->timer_tsc && !v->signalled)
		return;
	v->signalled = false;
	struct itimerspec spec = {0};
	if (deadline_tsc != WAKE_NEVER) {
		uint64_t now = clock_tsc();
		uint64_t ns = deadline_tsc > now ? clock_tsc_to_ns(deadline_tsc - now, v->env->tsc_khz) : 0;
		ns = ns ? ns : 1; /* 0 would disarm */
		spec.it_value = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	}
	v->timer_tsc = deadline_tsc;
	syscall(SYS_timer_settime, v->timer, 0, &spec, NULL);
}

/* --------------------------------------------------------------------------------------- the loop */

static void set_dead(struct vcpu *v, bool dead)
{
	if (v->dead == dead)
		return;
	v->dead = dead;
	v->env->dead(v->env->ctx, dead);
}

/* Until nobody wants a pause any more. */
static void park(struct vcpu *v)
{
	v->env->parked(v->env->ctx, true);
	steal_before_wait(&v->steal);
	for (;;) {
		uint32_t ticket = wake_ticket(&v->wake);
		uint32_t requests = atomic_load(&v->requests);
		if (!(requests & VCPU_PAUSE) || (requests & VCPU_STOP))
			break;
		wake_block(&v->wake, ticket, WAKE_NEVER);
	}
	v->env->parked(v->env->ctx, false);
	/* Tells the guest's watchdogs that it was stopped; fails where the guest has no kvmclock, which is fine. */
	(void)!ioctl(v->fd, KVM_KVMCLOCK_CTRL, 0);
}

/* kernel backend: the state that only KVM knows. */
static void inspect(struct vcpu *v)
{
	struct kvm_mp_state mp = {0};
	struct kvm_regs regs;
	struct kvm_lapic_state lapic;
	uint64_t deadline = 0;
	uint32_t answer = VCPU_INSPECT_DONE;
	if (ioctl(v->fd, KVM_GET_MP_STATE, &mp) == 0 && ioctl(v->fd, KVM_GET_REGS, &regs) == 0) {
		bool waits = mp.mp_state == KVM_MP_STATE_UNINITIALIZED || mp.mp_state == KVM_MP_STATE_INIT_RECEIVED;
		if (waits || mp.mp_state == KVM_MP_STATE_HALTED)
			answer |= VCPU_INSPECT_HALTED;
		if (waits || !(regs.rflags & 0x200))
			answer |= VCPU_INSPECT_DEAF;
	}
	/* Current count of the count-mode timer, or a TSC deadline. */
	if (ioctl(v->fd, KVM_GET_LAPIC, &lapic) < 0 || *(const uint32_t *)(const void *)&lapic.regs[0x390] ||
	    vcpu_get_msr(v, MSR_IA32_TSC_DEADLINE, &deadline) < 0 || deadline)
		answer |= VCPU_INSPECT_TIMER;
	atomic_fetch_and(&v->requests, ~(uint32_t)VCPU_INSPECT);
	atomic_store(&v->inspected, answer);
}

static bool requested_stop(struct vcpu *v)
{
	uint32_t requests = atomic_load(&v->requests);
	if (!requests)
		return false;
	halt_disturb(&v->halt);
	if (requests & VCPU_STOP)
		return true;
	if (requests & VCPU_INSPECT)
		inspect(v);
	if (requests & VCPU_PAUSE)
		park(v);
	return (atomic_load(&v->requests) & VCPU_STOP) != 0;
}

static void wait_halted(struct vcpu *v, uint32_t ticket)
{
	struct irqchip *chip = v->env->chip;
	set_dead(v, chip->ops->is_dead(chip, v));
	/* The futex has the deadline: a timer left armed would wake this thread twice. */
	vcpu_arm_timer(v, WAKE_NEVER);
	steal_before_wait(&v->steal);
	uint64_t gaps = stat_get(&v->halt.stats.gaps);
	halt_wait(&v->halt, ticket, chip->ops->deadline(chip, v));
	if (stat_get(&v->halt.stats.gaps) != gaps)
		steal_exempt(&v->steal);
}

static enum exit_action enter(struct vcpu *v, uint32_t ticket)
{
	steal_before_entry(&v->steal);
	if (!wake_enter(&v->wake, ticket))
		return EXIT_RESUME;
	int ret = ioctl(v->fd, KVM_RUN, 0);
	int e = errno;
	(void)wake_ticket(&v->wake); /* looking again: posters need not kick any more */
	v->injected = false;
	v->unfinished = ret == 0 && vcpu_exit_unfinished(v);
	stat_add(&v->count.exits, 1);
	v->env->chip->ops->harvest(v->env->chip, v);
	if (ret < 0) {
		if (e == EINTR || e == EAGAIN) {
			stat_add(&v->count.signal, 1);
			/* The kernel ends a request in the thread that submitted it, and interrupts KVM_RUN to do so.
			 */
			if (e == EINTR)
				poll_hooks_poll(v->halt.hooks);
			return EXIT_RESUME;
		}
		return vcpu_end(v, LULL_EXIT_KVM_ERROR, 0, "vcpu %u: KVM_RUN: %s", v->index, strerror(e));
	}
	return vcpu_exit(v);
}

static void loop(struct vcpu *v)
{
	struct irqchip *chip = v->env->chip;
	for (;;) {
		/* Before the ticket: a kick that comes after this line is for work that the look below may miss. */
		v->run->immediate_exit = 0;
		uint32_t ticket = wake_ticket(&v->wake);
		if (requested_stop(v))
			return;
		switch (chip->ops->prepare(chip, v)) {
		case IRQCHIP_HALTED:
			wait_halted(v, ticket);
			continue;
		case IRQCHIP_RESET:
			vcpu_end(v, LULL_EXIT_RESET, 0, "vcpu %u: INIT of the boot processor", v->index);
			return;
		case IRQCHIP_RUN:
			break;
		}
		set_dead(v, false);
		switch (enter(v, ticket)) {
		case EXIT_HALT:
			chip->ops->halt(chip, v);
			break;
		case EXIT_STOP:
			return;
		case EXIT_RESUME:
			break;
		}
	}
}

static void *thread_main(void *arg)
{
	struct vcpu *v = arg;
	char name[16];
	snprintf(name, sizeof(name), "lull-vcpu%u", v->index);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1); /* ns: a halted vCPU wakes at its deadline, not 50 us after it */
	current = v;
	atomic_store(&v->tid, (int)syscall(SYS_gettid));
	clockid_t clock;
	if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
		atomic_store(&v->cpu_clock, clock);
	if (create_timer(v)) {
		loop(v);
		if (atomic_load(&v->requests) & VCPU_DUMP)
			vcpu_dump(v);
		syscall(SYS_timer_delete, v->timer);
	}
	atomic_store(&v->count.cpu_ns, clock_of(CLOCK_THREAD_CPUTIME_ID));
	atomic_store(&v->cpu_clock, 0);
	v->env->finished(v->env->ctx);
	return NULL;
}

uint64_t vcpu_cpu_ns(const struct vcpu *v)
{
	clockid_t clock = atomic_load(&v->cpu_clock);
	uint64_t ns = clock ? clock_of(clock) : 0;
	/* If the thread has ended meanwhile, that clock may be another's. */
	return clock && atomic_load(&v->cpu_clock) == clock ? ns : stat_get(&v->count.cpu_ns);
}

/* ------------------------------------------------------------------------------------ life */

int vcpu_create(struct vcpu *v, unsigned index, const struct vcpu_env *env, struct lull_error *err)
{
	memset(v, 0, sizeof(*v));
	v->index = index;
	v->env = env;
	v->fd = -1;
	v->timer_tsc = WAKE_NEVER;
	atomic_store(&v->tid, -1);
	wake_init(&v->wake, kick, v);
	steal_init(&v->steal, &env->steal, index);
	int fd = ioctl(env->kvm->vm_fd, KVM_CREATE_VCPU, (unsigned long)index);
	if (fd < 0)
		return error_sys(err, -errno, "KVM_CREATE_VCPU %u", index);
	void *run = mmap(NULL, env->kvm->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (run == MAP_FAILED) {
		int e = errno;
		close(fd);
		return error_sys(err, -e, "vcpu %u: cannot map the run area", index);
	}
	v->fd = fd;
	v->run = run;
	return 0;
}

void vcpu_destroy(struct vcpu *v)
{
	invariant(!v->started);
	if (v->fd >= 0) {
		munmap(v->run, v->env->kvm->run_bytes);
		close(v->fd);
	}
	v->fd = -1;
	steal_fini(&v->steal);
	free(v->cpuid);
	free(v->dump);
	v->cpuid = NULL;
	v->dump = NULL;
}

int vcpu_start(struct vcpu *v, const cpu_set_t *affinity, struct lull_error *err)
{
	int ret = thread_start(&v->thread, STACK_BYTES, v->env->kick_signal, thread_main, v);
	if (ret < 0)
		return error_sys(err, ret, "vcpu %u: cannot start a thread", v->index);
	v->started = true;
	if (affinity && (ret = pthread_setaffinity_np(v->thread, sizeof(*affinity), affinity)))
		return error_sys(err, -ret, "vcpu %u: cannot be bound to the CPUs asked for", v->index);
	return 0;
}

void vcpu_join(struct vcpu *v)
{
	if (v->started)
		pthread_join(v->thread, NULL);
	v->started = false;
}
