/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lull.h - embed KVM microVMs in a program.
 *
 * The whole public interface. It knows no internal type. Rules that hold for every function:
 *
 *  - Functions that can fail return 0 (or a pointer) on success and -errno (or NULL) on failure, and then
 *    fill *err when it is not NULL. No function prints, exits, forks or touches a terminal.
 *  - The only signal disposition changed is that of the kick signal (lull_config.kick_signal).
 *  - Structures grow at the end only. Their first member `size` is the caller's sizeof: a smaller size
 *    means defaults for what is missing, a larger one must hold zeros there, else -E2BIG.
 *  - Several VMs may live in one process; calls on different VMs need no common lock. Calls on one VM may
 *    come from any thread unless their text says otherwise.
 */
#ifndef LULL_H
#define LULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LULL_API __attribute__((visibility("default")))
#else
#define LULL_API
#endif

/* -------------------------------------------------------------------- errors and log lines */

struct lull_error {
	int code;       /* negative errno */
	char text[512]; /* one line: names the thing, what was found and what to do */
};

enum lull_log_level {
	LULL_LOG_ERROR,
	LULL_LOG_WARN,
	LULL_LOG_INFO,
	LULL_LOG_DEBUG,
};

/* ------------------------------------------------------------------------------ making a VM */

enum lull_flag {
	LULL_RESTART_ON_RESET = 1u << 0, /* a guest reset boots it again instead of ending the VM */
	LULL_DEBUG_EXIT_RAW = 1u << 1,   /* isa-debug-exit: code is v, not (v << 1) | 1 */
	LULL_SHARED_MEMORY = 1u << 2,    /* guest RAM is a memfd that others can map */
	LULL_FLAT_REAL_MODE = 1u << 3,   /* a flat binary starts in real mode, not in long mode */
	LULL_FORCE_FLAT = 1u << 4,       /* do not sniff: the kernel is a flat binary */
	LULL_NO_X2APIC = 1u << 5,        /* hide x2APIC from the guest */
	LULL_NO_TSC_DEADLINE = 1u << 6,  /* hide the TSC-deadline timer from the guest */
	LULL_NO_PV_EOI = 1u << 7,        /* hide PV EOI from the guest */
	LULL_NO_RNG = 1u << 8,           /* no virtio entropy device */
	LULL_GUEST_MWAIT = 1u << 9, /* the guest may use MONITOR and MWAIT, without exits; -ENOTSUP where KVM cannot */
};

struct lull_config {
	uint32_t size;            /* sizeof(struct lull_config) */
	uint32_t flags;           /* enum lull_flag */
	uint32_t vcpus;           /* 0: 1 */
	int32_t kick_signal;      /* 0: SIGRTMIN + 5; its handler is installed by the first VM */
	uint64_t ram_bytes;       /* multiple of 4096; 0: 256 MiB */
	uint64_t flat_addr;       /* where a flat binary goes and starts; 0: 0x7c00 real mode, 1 MiB long mode */
	const char *kernel;       /* path; or kernel_image below */
	const void *kernel_image; /* an image in memory, which must outlive the VM */
	uint64_t kernel_bytes;
	const char *initrd;       /* path or NULL; a multiboot kernel gets it as its first module */
	const char *cmdline;      /* NULL: empty. lull adds nothing to it */
	const char *irqchip;      /* "user" (NULL) or "kernel" */
	const char *halt_poll;    /* "POLICY[:key=value,...]", see lull(1); NULL: "cost" */
	const char *serial;       /* "null" (NULL), "fd=IN,OUT", "file=PATH", "pty", "socket=PATH" */
	const char *cpu_affinity; /* NULL, or one CPU list per vCPU joined by ':', the last one repeats: "0", "0:1",
	                             "0-3,8" */
	void (*log)(void *ctx, enum lull_log_level level, const char *line); /* any thread; NULL: none */
	void *log_ctx;
	enum lull_log_level log_level; /* lines above it are not made */
	uint32_t dead_halt_ms;   /* how long a dead halt must last before it is reported; 0: 500. It does not know of
	                            an NMI that lull_vm_nmi() or lull_vm_msi() would send later */
	uint32_t max_pollers;    /* vCPUs of this process that may poll at a time; 0: no limit */
	const char *poll_wait;   /* "auto" (NULL), "pause", "umwait" or "mwaitx" */
	const char *powersave;   /* "ignore", "strict" or "smart" (NULL): what cpufreq's word counts for */
	const char *poll_budget; /* "PERCENT[,vm=PERCENT]" of wall time for polling; NULL: no limit */
	/* Disks, first to last: "path=FILE[,ro][,direct][,serial=TEXT][,queues=N][,engine=sync|io_uring][,rate=BYTES]
	   [,iops=N]", see lull(1). Files stay open and locked for the life of the VM. */
	const char *const *disks;
	uint32_t disk_count;
	uint32_t net_count;
	/* Network interfaces, first to last: "tap=NAME", "tap", "fd=N" or "socket=PATH", then [,mac=ADDRESS][,mtu=N]
	   [,queues=N][,rate=BYTES][,name=TEXT], see lull(1). A descriptor stays the caller's. */
	const char *const *nets;
	const char *console; /* as serial, for a virtio console; NULL: there is none */
	const char
		*halt_trace; /* a file for a record of each halt, see lull(1); NULL: none. Replaced if it is a trace */
	const char *steal_time; /* "vmm", "kvm", "hybrid" or "off", see lull(1); NULL: what suits this host */
	/* "cid=N,socket=PATH": streams between the guest and unix sockets of the host, see lull(1); NULL: none. Each
	   takes a descriptor of this process. */
	const char *vsock;
	const char *balloon; /* "on", or any of "size=BYTES", "deflate-on-oom", "free-page-reporting" and
	                        "stats=SECONDS" with commas between them, see lull(1); NULL: there is none */
};

struct lull_vm;

/* Reads the configuration (copied), opens KVM, memory, serial and the images. Nothing runs yet. */
LULL_API struct lull_vm *lull_vm_create(const struct lull_config *config, struct lull_error *err);

/* Starts the vCPU threads and the I/O thread. Once per VM. */
LULL_API int lull_vm_start(struct lull_vm *vm, struct lull_error *err);

enum lull_exit_reason {
	LULL_EXIT_NONE,         /* still running */
	LULL_EXIT_POWEROFF,     /* ACPI S5 or the "Shutdown" port */
	LULL_EXIT_RESET,        /* i8042, 0xcf9, ACPI reset register; not with LULL_RESTART_ON_RESET */
	LULL_EXIT_DEBUG_EXIT,   /* isa-debug-exit: code is what a process should exit with */
	LULL_EXIT_TRIPLE_FAULT, /* shutdown state of a vCPU */
	LULL_EXIT_KVM_ERROR,    /* internal error, failed entry, failed emulation, failed ioctl */
	LULL_EXIT_PANIC,        /* pvpanic: code is the byte written */
	LULL_EXIT_DEAD_HALT,    /* every vCPU halted with interrupts off, and nothing can wake one */
	LULL_EXIT_STOPPED,      /* lull_vm_stop() */
	LULL_EXIT_REASONS
};

struct lull_exit {
	uint32_t size;
	enum lull_exit_reason reason;
	uint32_t code;
	uint32_t vcpu;  /* the vCPU that ended it, or 0 */
	char text[512]; /* one line for people; empty when there is nothing to say */
};

/* Waits until the VM has ended. timeout_ns < 0: for ever; 0: just look. -ETIMEDOUT: it still runs. */
LULL_API int lull_vm_wait(struct lull_vm *vm, int64_t timeout_ns, struct lull_exit *out, struct lull_error *err);

/* A descriptor that polls readable once the VM has ended. Owned by the VM. */
LULL_API int lull_vm_event_fd(const struct lull_vm *vm);

LULL_API void lull_vm_stop(struct lull_vm *vm); /* idempotent, returns at once */
/* Returns once no vCPU runs guest code. -ESRCH: the VM has ended; -ECANCELED: it was resumed meanwhile; -EDEADLK:
 * called by a device on a vCPU's thread, which cannot wait for itself. */
LULL_API int lull_vm_pause(struct lull_vm *vm);
LULL_API int lull_vm_resume(struct lull_vm *vm);
LULL_API void lull_vm_reset(struct lull_vm *vm);        /* as if the guest had reset the machine */
LULL_API void lull_vm_power_button(struct lull_vm *vm); /* asks the guest to power off */
LULL_API void lull_vm_nmi(struct lull_vm *vm);          /* an NMI to vCPU 0 */
LULL_API void lull_vm_destroy(struct lull_vm *vm);      /* stops it first; NULL is fine */

/* Live: each vCPU follows at its next halt. The other members of the configuration that concern polling stay. */
LULL_API int lull_vm_set_halt_poll(struct lull_vm *vm, const char *halt_poll, struct lull_error *err);
/* false: no vCPU of this VM polls any more, whatever the policy, until it is true again. */
LULL_API void lull_vm_allow_polling(struct lull_vm *vm, bool allow);

/* How many bytes of its memory the guest should leave to the host: the size of its balloon, a multiple of 4096, 0 to
 * give all of it back. Asks and returns at once; the guest follows in its own time or not at all, and
 * lull_vm_balloon_stats() tells how far it is. Stays over a reset. Any thread, at any time of the VM's life, also
 * before its start. -ENODEV: it has no balloon (lull_config.balloon); -EINVAL: not whole pages, or more than ram_bytes.
 */
LULL_API int lull_vm_set_balloon(struct lull_vm *vm, uint64_t bytes, struct lull_error *err);

/* The kernel thread id of a vCPU for pinning and accounting, or -ESRCH before start. */
LULL_API int lull_vm_vcpu_tid(const struct lull_vm *vm, uint32_t vcpu);

/* Where the serial port ended up: the pty's path, the socket's path, or "". */
LULL_API const char *lull_vm_serial_path(const struct lull_vm *vm);
LULL_API const char *lull_vm_console_path(const struct lull_vm *vm); /* the same for the console */

/* Which interface of the host a network interface of the guest leads to: the name of its tap, or "". */
LULL_API const char *lull_vm_net_interface(const struct lull_vm *vm, uint32_t net);

/* ------------------------------------------------------------------------------ statistics */

enum lull_wake_source {
	LULL_WAKE_TIMER,  /* the vCPU's own APIC timer */
	LULL_WAKE_IPI,    /* another vCPU */
	LULL_WAKE_DEVICE, /* IOAPIC pin or message-signalled interrupt */
	LULL_WAKE_NMI,
	LULL_WAKE_INIT,    /* INIT or SIPI */
	LULL_WAKE_REQUEST, /* stop, pause, reset: not an event of the guest's */
	LULL_WAKE_INLINE,  /* a disk request that the halted vCPU completed itself */
	LULL_WAKE_SOURCES
};

/* Why a halt was not allowed to poll. */
enum lull_refusal {
	LULL_REFUSED_OFF,        /* lull_vm_allow_polling() */
	LULL_REFUSED_GUEST,      /* the guest polls itself: MSR_KVM_POLL_CONTROL */
	LULL_REFUSED_POWER,      /* cpufreq: the CPU should save power */
	LULL_REFUSED_CONTENTION, /* others want the CPU */
	LULL_REFUSED_BUDGET,     /* the share of wall time is spent */
	LULL_REFUSED_POLLERS,    /* enough vCPUs of this process poll already */
	LULL_REFUSALS
};

#define LULL_HIST_BUCKETS 32

struct lull_wake_stats {
	uint64_t wakes;      /* halts ended by this source */
	uint64_t polled;     /* of these, seen while polling */
	uint64_t slept;      /* of these, the thread slept; events between poll and sleep count in neither */
	uint64_t latency_ns; /* sum, from the event's time stamp to the vCPU runnable again */
	uint64_t latency_max_ns;
};

struct lull_vcpu_stats {
	uint32_t size;
	uint32_t vcpu;
	uint64_t exits; /* returns from KVM_RUN */
	uint64_t exits_io, exits_mmio, exits_msr, exits_halt, exits_irq_window, exits_signal, exits_other;
	uint64_t irqs_injected;
	uint64_t eois_saved;   /* by PV EOI */
	uint64_t kicks;        /* signals sent to this vCPU while it ran guest code */
	uint64_t halts;        /* halts that found nothing to do */
	uint64_t halt_poll_ns; /* time spent polling: the sum of the two below */
	uint64_t halt_wait_ns; /* time spent asleep */
	struct lull_wake_stats wake[LULL_WAKE_SOURCES];
	/* As in KVM's own statistics (Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD). Histograms: bucket 0 counts 0
	 * ns, bucket k counts [2^(k-1), 2^k), the last one everything above. */
	uint64_t halt_attempted_poll, halt_successful_poll, halt_poll_invalid, halt_wakeup;
	uint64_t halt_poll_success_ns, halt_poll_fail_ns;
	uint64_t halt_poll_success_hist[LULL_HIST_BUCKETS], halt_poll_fail_hist[LULL_HIST_BUCKETS];
	uint64_t halt_wait_hist[LULL_HIST_BUCKETS];
	/* What KVM does not count. */
	uint64_t wake_latency_hist[LULL_HIST_BUCKETS]; /* from the event to the vCPU runnable */
	uint64_t poll_refused[LULL_REFUSALS];          /* halts that were not allowed to poll, by reason */
	uint64_t poll_gaps;                            /* polls that ended because the host took the CPU away */
	uint64_t prewakes;                             /* sleeps that ended early, to poll for the rest */
	uint64_t window_ns;                            /* poll window as the policy has it now */
	uint64_t wake_cost_ns;                         /* wake latency as the policy has measured it */
	uint64_t poll_control; /* MSR_KVM_POLL_CONTROL: 1, or 0 when the guest polls itself and the host must not */
	uint64_t steal_ns;     /* steal time that lull told the guest; 0 where KVM tells it (lull_config.steal_time) */
	uint64_t preempted_flags; /* times that lull told the guest that this vCPU does not run */
	uint64_t cpu_ns;          /* CPU time of the vCPU's thread: guest, KVM, exits and polling */
};

struct lull_stats {
	uint32_t size;
	uint32_t vcpus;
	uint64_t boots;                        /* 1, and one more for each restart */
	uint64_t serial_dropped;               /* characters that nobody read in time */
	uint64_t unclaimed_io, unclaimed_mmio; /* accesses that no device answered */
	uint64_t ram_bytes;
	uint64_t setup_kvm_ns, setup_memory_ns, setup_load_ns, setup_tables_ns, setup_total_ns;
	uint64_t console_dropped;  /* as serial_dropped */
	uint64_t setup_devices_ns; /* opening what devices lead to, and making them */
};

/* Snapshots: a reader never disturbs a vCPU, and waits only while a reset makes the machine anew. In `kernel` mode KVM
 * halts: the halt_* figures are KVM's, halts is polls that found work plus sleeps, window_ns the limit that KVM's
 * windows have, poll_refused counts halts while that was 0, and what KVM does not know stays 0: wakes by source, wake
 * latency, gaps, pre-wakes. */
LULL_API int lull_vm_stats(const struct lull_vm *vm, struct lull_stats *out);
LULL_API int lull_vm_vcpu_stats(const struct lull_vm *vm, uint32_t vcpu, struct lull_vcpu_stats *out);

struct lull_disk_stats {
	uint32_t size;
	uint32_t uses_io_uring; /* 0: system calls, or the guest has not used it yet */
	uint64_t bytes;         /* of the disk */
	uint64_t requests;      /* of the guest */
	uint64_t errors;        /* requests that the host failed */
	uint64_t inline_done;   /* requests that a vCPU completed itself, in a halt */
};

/* -EINVAL: there is no such disk. */
LULL_API int lull_vm_disk_stats(const struct lull_vm *vm, uint32_t disk, struct lull_disk_stats *out);

struct lull_net_stats {
	uint32_t size;
	uint32_t link_is_up;           /* 0: the other end has gone */
	uint64_t rx_frames, rx_bytes;  /* to the guest */
	uint64_t rx_dropped, rx_waits; /* did not fit the guest's buffers; times the host waited for buffers */
	uint64_t tx_frames, tx_bytes;
	uint64_t tx_dropped, tx_waits; /* the host would not have them; times the guest waited for the host */
};

/* -EINVAL: there is no such network interface. */
LULL_API int lull_vm_net_stats(const struct lull_vm *vm, uint32_t net, struct lull_net_stats *out);

struct lull_vsock_stats {
	uint32_t size;
	uint32_t connections; /* at this moment */
	uint64_t opened;      /* of all time, from both sides */
	uint64_t refused;     /* nobody listened, or there were too many */
	uint64_t resets;      /* ended without both sides having said so */
	uint64_t to_guest;    /* bytes */
	uint64_t from_guest;  /* bytes */
	uint64_t waits;       /* times bytes of the guest waited for who reads on the host */
};

/* -EINVAL: there is no vsock device. */
LULL_API int lull_vm_vsock_stats(const struct lull_vm *vm, struct lull_vsock_stats *out);

/* What a guest says of its memory; sizes are in bytes. Linux tells those from LULL_BALLOON_OOM_KILLS on since
 * about 6.12. */
enum lull_balloon_stat {
	LULL_BALLOON_SWAP_IN,  /* swapped in, since its boot; */
	LULL_BALLOON_SWAP_OUT, /* and out */
	LULL_BALLOON_MAJOR_FAULTS,
	LULL_BALLOON_MINOR_FAULTS,
	LULL_BALLOON_FREE,      /* used for nothing */
	LULL_BALLOON_TOTAL,     /* without what is in the balloon */
	LULL_BALLOON_AVAILABLE, /* could be had for new programs without swapping */
	LULL_BALLOON_CACHES,    /* could be given up without I/O */
	LULL_BALLOON_HUGETLB_ALLOCATIONS,
	LULL_BALLOON_HUGETLB_FAILURES,
	LULL_BALLOON_OOM_KILLS,
	LULL_BALLOON_STALLS,          /* allocations that had to wait for memory */
	LULL_BALLOON_ASYNC_SCANNED,   /* looked at by reclaim in the background; */
	LULL_BALLOON_DIRECT_SCANNED,  /* and by those who needed memory */
	LULL_BALLOON_ASYNC_RECLAIMED, /* reclaimed, in the same two ways */
	LULL_BALLOON_DIRECT_RECLAIMED,
	LULL_BALLOON_STATS
};

struct lull_balloon_stats {
	uint32_t size;
	uint32_t guest_has;    /* bit n: the guest told guest[n] last time; 0: it has told nothing */
	uint64_t target_bytes; /* what it should give up: lull_vm_set_balloon() */
	uint64_t actual_bytes; /* what it says it has given up */
	/* Since the VM was made, resets or not. */
	uint64_t inflated_bytes, deflated_bytes; /* went to the host by the balloon; taken back, by the guest's word */
	uint64_t reported_bytes;                 /* went to the host because the guest reported them as free */
	uint64_t ignored_pages;                  /* of 4096 bytes, that the guest named and that cannot be had */
	uint64_t failures;                       /* times the host would not take memory back */
	uint64_t guest_updates;                  /* times the guest told its figures */
	uint64_t guest[LULL_BALLOON_STATS];      /* by enum lull_balloon_stat, from the last update */
};

/* -ENODEV: there is no balloon. */
LULL_API int lull_vm_balloon_stats(const struct lull_vm *vm, struct lull_balloon_stats *out);

/* --------------------------------------------------------------------------- custom devices */

struct lull_device {
	uint32_t size;
	uint32_t is_mmio; /* 0: I/O ports, 1: memory */
	const char *name; /* copied */
	uint64_t base, length;
	int32_t gsi;     /* IOAPIC pin 0..23 it may raise, or -1 */
	uint32_t widths; /* sum of the access sizes accepted: 1, 2, 4, 8; 0: all */
	/* On a vCPU's thread, maybe on several at once; must not block: neither lull_vm_wait() nor lull_vm_destroy().
	 * Its stack has 128 KiB. The offset is relative to base. */
	uint64_t (*read)(void *ctx, uint64_t offset, uint32_t bytes);
	void (*write)(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value);
	void (*reset)(void *ctx); /* machine reset, no vCPU runs; may be NULL */
	void *ctx;
};

/* Before lull_vm_start(). -EEXIST names both devices when ranges overlap. */
LULL_API int lull_vm_add_device(struct lull_vm *vm, const struct lull_device *device, struct lull_error *err);

/* Sets the level of an IOAPIC input. An edge pin latches the rise even while it is masked. */
LULL_API int lull_vm_set_irq(struct lull_vm *vm, uint32_t gsi, bool level);
/* Message-signalled interrupt, SDM vol. 3, 11.11. */
LULL_API int lull_vm_msi(struct lull_vm *vm, uint64_t address, uint32_t data);

/* Guest RAM at gpa, or NULL when [gpa, gpa + bytes) is not RAM in one piece. Valid until destroy. */
LULL_API void *lull_vm_memory(struct lull_vm *vm, uint64_t gpa, uint64_t bytes);

/* ------------------------------------------------------------------------------ inspection */

/* A table or text about the machine that `config` describes, without running it: `what` is "acpi" (the
 * tables one after the other, RSDP first), "fdt", "e820", "cpuid", "machine", or one ACPI signature such as
 * "DSDT". Returns a malloc()ed buffer and its length; text ends in a newline. */
LULL_API int lull_dump(const struct lull_config *config, const char *what, void **data, size_t *bytes,
                       struct lull_error *err);

/* Looks at this host. Calls line() for each finding: verdict is "ok", "note", "warn" or "fail". 0, or -ENODEV
 * when VMs cannot run here. */
LULL_API int lull_doctor(void (*line)(void *ctx, const char *verdict, const char *topic, const char *text), void *ctx);

/* The built-in demonstration guest as an image for lull_config.kernel_image. */
LULL_API const void *lull_demo_image(size_t *bytes);

LULL_API const char *lull_version(void);

/* --------------------------------------------------------------------------- halts on record */

/* Makes a trace of a synthetic workload at path, the same for the same seed everywhere. An unknown workload is answered
 * with the list of those there are. */
LULL_API int lull_trace_generate(const char *workload, uint64_t seed, uint64_t halts, const char *path,
                                 struct lull_error *err);

enum lull_replay_flag {
	LULL_REPLAY_JSON = 1u << 0, /* JSON instead of tables */
};

struct lull_replay {
	uint32_t size;
	uint32_t flags;              /* enum lull_replay_flag */
	const char *const *files;    /* recorded or generated traces */
	const char *const *policies; /* as in lull_config.halt_poll; NULL: every built-in policy */
	uint32_t file_count, policy_count;
	uint32_t lambda_milli; /* cost = CPU time + lambda * latency; in thousandths, 0: 2000 */
	uint32_t reserved;
	uint64_t wake_ns, switch_ns, arm_ns; /* what waiting costs on the host; 0: as recorded, or presets */
};

/* What each policy would have cost on each trace; text() gets the report in pieces. Needs no KVM. */
LULL_API int lull_replay(const struct lull_replay *replay, void (*text)(void *ctx, const char *text), void *ctx,
                         struct lull_error *err);

#ifdef __cplusplus
}
#endif
#endif
