/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steal.h - steal time: MSR_KVM_STEAL_TIME and the area it points to (Documentation/virt/kvm/x86/msr.rst), for a vCPU
 * whose halts are ours. docs/steal-time.md says what is counted and what it costs.
 *
 *   off      hidden, the MSR raises #GP
 *   kvm      KVM has the MSR; nothing here runs
 *   vmm      all of it is ours
 *   hybrid   KVM has the area; we add its preempted flag for a thread that was preempted
 *
 * The flag. The area is the guest's, the vCPU's thread cannot write while it is off its CPU, so the steal thread does,
 * and must not do it too late: a running vCPU marked preempted is a lie, and after the MSR was taken back the memory is
 * not ours at all. lock, a leaf, holds for some ten instructions:
 *
 *   vCPU thread                                         steal thread, woken by the record of a preemption
 *   before each entry, when there is a record:          lock
 *     lock                                              area set, record not taken, thread not back:
 *     clear the flag, take the record                     set the flag
 *     unlock                                            unlock
 *     arm the watch
 *   enter the guest
 *
 * The record also sends the kick signal to the vCPU's thread, and before it wakes anybody's wait has ended. So a vCPU
 * that was inside KVM_RUN comes out, instead of into the guest, and takes the record first: whatever the steal thread
 * did before is cleared, and what it does later finds the record taken. Without a record an entry costs two loads.
 */
#ifndef LULL_STEAL_H
#define LULL_STEAL_H

#include "event_loop.h"
#include "preempt_watch.h"
#include "stats.h"
#include "steal_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct guest_mem;
struct log;
struct lull_error;

enum steal_mode {
	STEAL_OFF,
	STEAL_KVM,
	STEAL_HYBRID,
	STEAL_VMM,
};

/* The guest's: struct kvm_steal_time. Written by us, read by the guest, or by anybody who wants to harm himself. */
struct steal_area {
	_Atomic uint64_t steal;   /* ns */
	_Atomic uint32_t version; /* odd: being written */
	uint32_t flags;
	_Atomic uint8_t preempted; /* bit 0 preempted, bit 1 flush the TLB (KVM and guest only) */
	uint8_t pad8[3];
	uint32_t pad[11];
};

/* One per VM, outlives the vCPUs. */
struct steal_config {
	enum steal_mode mode;
	const struct guest_mem *mem;
	struct steal_thread *thread; /* sets the flag */
	const struct log *log;
	uint64_t tsc_khz;
	int kick_signal;
};

struct steal_stats {
	stat_t told_ns;              /* vCPU thread: added to the area */
	stat_t updates;              /* vCPU thread: of the area */
	stat_t returns;              /* vCPU thread: records taken */
	stat_t flagged;              /* under lock: flag set before the vCPU was back */
	stat_t too_late;             /* under lock: it was back already */
	stat_t late_ns, late_max_ns; /* under lock: from leaving the CPU to the flag, sum and most */
};

struct steal {
	const struct steal_config *config;
	unsigned vcpu;

	/* vCPU thread. */
	uint64_t msr;
	bool opened;         /* the host's side was set up, as far as that went */
	int schedstat_fd;    /* /proc/thread-self/schedstat of the vCPU's thread, -1: none */
	uint32_t version;    /* as last written */
	uint64_t value_ns;   /* as last written */
	uint64_t counted_ns; /* of the thread's waiting: what value_ns has of it */
	uint64_t exempt_ns;  /* of the thread's waiting: what is nobody's loss */
	uint64_t next_tsc;   /* no look at the host's figures before */
	bool armed;          /* the watch is */

	pthread_mutex_t lock;
	struct steal_area *area; /* vCPU thread, under lock; NULL: the guest wants none */
	bool flagged;            /* under lock */
	struct preempt_watch watch;
	struct event_source source;
	struct steal_stats stats;
	/* For measurements, NULL otherwise; steal thread. */
	void (*trace)(void *ctx, unsigned vcpu, uint64_t out_ns, uint64_t set_ns, bool in_time);
	void *trace_ctx;
};

/* word: "vmm", "kvm", "hybrid", "off", or NULL for what suits this host. kernel_chip: KVM has the halts, then kvm and
 * off only. 0 or -errno with a text. */
int steal_mode_parse(enum steal_mode *mode, const char *word, bool kernel_chip, struct lull_error *err);
/* What this host lets us see, on the calling thread: 0 or -errno. */
int steal_probe_delay(void);
int steal_probe_preempt(void);

/* ---- on the thread that owns the VM ---- */
void steal_init(struct steal *s, const struct steal_config *config, unsigned vcpu);
void steal_fini(struct steal *s); /* the vCPU's thread must have ended, and the steal thread be stopped */

/* ---- vCPU thread ---- */
int steal_msr_write(struct steal *s, uint64_t value); /* 0, or -EINVAL: #GP */
int steal_msr_read(const struct steal *s, uint64_t *value);
void steal_reset(struct steal *s); /* INIT */

void steal_enter(struct steal *s);
void steal_leave(struct steal *s);

/* The guest is about to be entered: nothing may come in between but another look for work. */
static inline void steal_before_entry(struct steal *s)
{
	if (s->area)
		steal_enter(s);
}

/* The vCPU has nothing to do, its thread polls or sleeps: from here to the next entry it cannot be preempted. */
static inline void steal_before_wait(struct steal *s)
{
	if (s->area)
		steal_leave(s);
}

/* That wait is over, and while it polled the thread was preempted: nothing of the guest's was lost. */
void steal_exempt(struct steal *s);

/* ---- steal thread, and tests ---- */
void steal_notice(struct steal *s);

#endif
