/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest.h - everything a test guest uses. A guest is one file with `int main(void)`; what main returns is written to
 * the debug exit port: 0 pass, 1 fail, 77 skip.
 *
 * The world in main(): long mode, ring 0, interrupts off, identity map of 0-1 and 3-4 GiB with 2 MiB pages, all 256
 * vectors caught. Interrupts are taken only inside halt_until(), halt() and ring 3.
 *
 * Instructions in ring 0 may cost a microsecond each (README.md): wait with halt_until() or in ring 3, never in a loop.
 */
#ifndef GUEST_H
#define GUEST_H

#include "layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKIP 77

int main(void);

/* ---- text and verdict ---- */

/* To the debug console. %s %c %d %u %x, each also with l; no widths. */
__attribute__((format(printf, 1, 2))) void print(const char *fmt, ...);
/* The same to COM1, polled. */
__attribute__((format(printf, 1, 2))) void serial_print(const char *fmt, ...);

__attribute__((noreturn)) void guest_exit(unsigned code); /* isa-debug-exit */
__attribute__((noreturn)) void stop_cpu(void);            /* cli; hlt for ever */
__attribute__((noreturn)) void fail(const char *file, int line, const char *what);
__attribute__((noreturn)) void fail_eq(const char *file, int line, const char *what, uint64_t got, uint64_t want);
__attribute__((noreturn)) void skip(const char *why);

#define check(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			fail(__FILE__, __LINE__, #cond);                                                               \
	} while (0)
#define check_eq(got, want)                                                                                            \
	do {                                                                                                           \
		uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                                             \
		if (got_ != want_)                                                                                     \
			fail_eq(__FILE__, __LINE__, #got " == " #want, got_, want_);                                   \
	} while (0)

/* ---- what the loader told ---- */

/* The value of `name=value` on the command line; "" when it is not there. */
const char *param(const char *name);
bool param_is(const char *name, const char *value);
uint64_t param_u64(const char *name, uint64_t otherwise); /* decimal or 0x */

enum boot_protocol {
	BOOT_PVH, /* also long mode with start_info in RDI */
	BOOT_MULTIBOOT,
	BOOT_LINUX, /* long mode with only struct boot_params in RSI */
	BOOT_BARE,  /* long mode without anything we know */
};

struct boot {
	enum boot_protocol protocol;
	bool long_mode; /* how it was entered */
	const char *cmdline;
	uint64_t rsdp;          /* 0: not told */
	uint64_t info;          /* start_info, multiboot information, boot_params */
	uint64_t rsi, rdi, rdx; /* as they were at a long mode entry */
};
extern struct boot boot;

struct memory_range {
	uint64_t base, size;
	uint32_t type; /* 1 RAM */
};
/* The n-th entry of the memory map; false behind the last. */
bool boot_memory(unsigned n, struct memory_range *out);
/* The first module: the initrd. False when there is none. */
bool boot_module(uint64_t *base, uint64_t *bytes);

/* ---- instructions ---- */

static inline void out8(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline void out16(uint16_t port, uint16_t v)
{
	__asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline void out32(uint16_t port, uint32_t v)
{
	__asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static inline uint8_t in8(uint16_t port)
{
	uint8_t v;
	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}
static inline uint16_t in16(uint16_t port)
{
	uint16_t v;
	__asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}
static inline uint32_t in32(uint16_t port)
{
	uint32_t v;
	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port) : "memory");
	return v;
}
static inline uint32_t mmio_read(uint64_t addr)
{
	return *(volatile uint32_t *)addr;
}
static inline void mmio_write(uint64_t addr, uint32_t v)
{
	*(volatile uint32_t *)addr = v;
}
static inline uint64_t rdmsr(uint32_t index)
{
	uint32_t lo, hi;
	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(index) : "memory");
	return (uint64_t)hi << 32 | lo;
}
static inline void wrmsr(uint32_t index, uint64_t v)
{
	__asm__ volatile("wrmsr" : : "a"((uint32_t)v), "d"((uint32_t)(v >> 32)), "c"(index) : "memory");
}
static inline uint64_t rdtsc(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}
static inline void cli(void)
{
	__asm__ volatile("cli" : : : "memory");
}
static inline void sti(void)
{
	__asm__ volatile("sti" : : : "memory");
}
/* Halts with interrupts on, returns with interrupts off. STI keeps them off up to the HLT. */
static inline void halt(void)
{
	__asm__ volatile("sti; hlt; cli" : : : "memory");
}
/* The condition is looked at with interrupts off, so that none can slip in before the HLT. */
#define halt_until(cond)                                                                                               \
	do {                                                                                                           \
		while (!(cond))                                                                                        \
			halt();                                                                                        \
	} while (0)

/* False when the instruction raised #GP. */
bool rdmsr_ok(uint32_t index, uint64_t *v);
bool wrmsr_ok(uint32_t index, uint64_t v);

struct cpuid {
	uint32_t eax, ebx, ecx, edx;
};
static inline struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid r;
	__asm__ volatile("cpuid" : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx) : "a"(leaf), "c"(subleaf));
	return r;
}
enum {
	CPUID_1_ECX_X2APIC = 1u << 21,
	CPUID_1_ECX_TSC_DEADLINE = 1u << 24,
};

enum {
	MSR_APIC_BASE = 0x1b,
	MSR_TSC_DEADLINE = 0x6e0,
	MSR_X2APIC = 0x800,
};

/* ---- KVM's paravirtual interface: Documentation/virt/kvm/x86/{cpuid,msr}.rst ---- */

enum {
	KVM_CPUID = 0x40000000,
	KVM_FEATURE_CLOCKSOURCE2 = 3,
	KVM_FEATURE_STEAL_TIME = 5,
	KVM_FEATURE_PV_EOI = 6,
	KVM_FEATURE_POLL_CONTROL = 12,
	KVM_FEATURE_STABLE = 24,
	MSR_KVM_WALL_CLOCK = 0x4b564d00,
	MSR_KVM_SYSTEM_TIME = 0x4b564d01,
	MSR_KVM_STEAL_TIME = 0x4b564d03,
	MSR_KVM_PV_EOI = 0x4b564d04,
	MSR_KVM_POLL_CONTROL = 0x4b564d05,
};
/* Features of leaf 0x40000001, 0 when the signature is not KVM's. */
uint32_t kvm_features(void);

struct kvm_clock {
	uint32_t version, pad0;
	uint64_t tsc_timestamp, system_time;
	uint32_t tsc_to_system_mul;
	int8_t tsc_shift;
	uint8_t flags, pad[2];
};
struct kvm_steal {
	uint64_t steal;
	uint32_t version, flags;
	uint8_t preempted, pad8[3];
	uint32_t pad[11];
};

/* ---- exceptions and interrupts ---- */

struct regs {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
	uint64_t vector, error, rip, cs, rflags, rsp, ss;
};
struct irq_frame {
	uint64_t unused, rip, cs, rflags, rsp, ss;
};

/* Vectors 0 to 31; without a handler they print a dump and fail the test. NMI and #DF run on their own stack. */
void exception_set(unsigned vector, void (*handler)(struct regs *regs));
/* Vectors 32 to 255; unexpected ones fail the test. The handler sends the EOI itself. */
typedef void irq_handler(unsigned vector, struct irq_frame *frame);
extern irq_handler *irq_handlers[256];
static inline void irq_set(unsigned vector, irq_handler *handler)
{
	irq_handlers[vector] = handler;
}
/* Counts and sends EOI. */
irq_handler irq_count_eoi;
extern volatile uint32_t irq_counts[256];
static inline void irq_expect(unsigned vector)
{
	irq_set(vector, irq_count_eoi);
}
/* The handler itself, without the stubs: naked, keeps every register, ends the interrupt and returns by IRETQ. */
void irq_direct(unsigned vector, void (*entry)(void));

/* ---- local APIC, the same calls for xAPIC and x2APIC ---- */

enum apic_reg {
	APIC_ID = 0x20,
	APIC_VERSION = 0x30,
	APIC_TPR = 0x80,
	APIC_PPR = 0xa0,
	APIC_EOI = 0xb0,
	APIC_LDR = 0xd0,
	APIC_DFR = 0xe0, /* xAPIC only */
	APIC_SVR = 0xf0,
	APIC_ISR = 0x100,
	APIC_TMR = 0x180,
	APIC_IRR = 0x200,
	APIC_ESR = 0x280,
	APIC_ICR = 0x300,
	APIC_ICR_HIGH = 0x310, /* xAPIC only */
	APIC_LVT_TIMER = 0x320,
	APIC_LVT_LINT0 = 0x350,
	APIC_LVT_LINT1 = 0x360,
	APIC_LVT_ERROR = 0x370,
	APIC_TMICT = 0x380,
	APIC_TMCCT = 0x390,
	APIC_TDCR = 0x3e0,
	APIC_SELF_IPI = 0x3f0, /* x2APIC only */
};
enum {
	ICR_FIXED = 0,
	ICR_LOWEST = 1 << 8,
	ICR_NMI = 4 << 8,
	ICR_INIT = 5 << 8,
	ICR_SIPI = 6 << 8,
	ICR_LOGICAL = 1 << 11,
	ICR_ASSERT = 1 << 14,
	ICR_LEVEL = 1 << 15,
	ICR_SELF = 1 << 18,
	ICR_ALL = 2 << 18,
	ICR_OTHERS = 3 << 18,
};
enum {
	LVT_MASKED = 1 << 16,
	LVT_ONE_SHOT = 0,
	LVT_PERIODIC = 1 << 17,
	LVT_DEADLINE = 2 << 17,
};
enum {
	VECTOR_WAKE = 0xf1, /* cpu_wait() */
	VECTOR_SPURIOUS = 0xff,
	APIC_TIMER_HZ = 1000000000, /* divide by 1 */
};
#define XAPIC_BASE 0xfee00000ull

extern bool apic_x2; /* the mode of all CPUs */
/* irqchip=kernel: the local APIC is KVM's, which reports no errors, lets some reserved bits pass, and on some hosts
 * never shows an interrupt in service. */
bool apic_is_kvms(void);

/* Enables this CPU's APIC in the mode that the command line asks for (apic=xapic, the default, or apic=x2apic; skips
 * the test when the CPU has none), masks LINT0, SVR vector 0xff. CPUs started later follow. */
void apic_setup(void);
void apic_setup_as(bool x2apic);
void apic_enable(void); /* this CPU again, after INIT for instance */

static inline uint32_t apic_read(enum apic_reg reg)
{
	return apic_x2 ? (uint32_t)rdmsr(MSR_X2APIC + (reg >> 4)) : mmio_read(XAPIC_BASE + reg);
}
static inline void apic_write(enum apic_reg reg, uint32_t v)
{
	if (apic_x2)
		wrmsr(MSR_X2APIC + (reg >> 4), v);
	else
		mmio_write(XAPIC_BASE + reg, v);
}
static inline void apic_eoi(void)
{
	apic_write(APIC_EOI, 0);
}
/* One bit of the 256-bit ISR, TMR and IRR. */
static inline bool apic_bit(enum apic_reg array, unsigned vector)
{
	return apic_read(array + (vector >> 5) * 0x10) >> (vector & 31) & 1;
}
unsigned apic_id(void);
/* The destination is an APIC ID or a logical mask (ICR_LOGICAL); ignored with a shorthand. */
void apic_send(uint32_t dest, uint32_t command);
static inline void ipi(uint32_t dest, unsigned vector)
{
	apic_send(dest, ICR_ASSERT | vector);
}
/* Divide by 1. */
static inline void apic_timer(uint32_t lvt, uint32_t count)
{
	apic_write(APIC_TDCR, 0xb);
	apic_write(APIC_LVT_TIMER, lvt);
	apic_write(APIC_TMICT, count);
}

/* ---- IOAPIC ---- */

enum {
	IOAPIC_LOW = 1 << 13, /* active low */
	IOAPIC_REMOTE_IRR = 1 << 14,
	IOAPIC_LEVEL = 1 << 15,
	IOAPIC_MASKED = 1 << 16,
};
uint32_t ioapic_read(unsigned reg);
void ioapic_write(unsigned reg, uint32_t v);
/* flags | vector goes to APIC ID dest. */
void ioapic_route(unsigned pin, uint32_t flags, uint32_t dest);
static inline uint32_t ioapic_pin(unsigned pin)
{
	return ioapic_read(0x10 + 2 * pin);
}

/* ---- COM1 ---- */

enum {
	COM1 = 0x3f8,
	COM1_PIN = 4,
	COM_DATA = COM1,
	COM_IER = COM1 + 1, /* bit 0 data, bit 1 transmitter empty, bit 2 line status, bit 3 modem status */
	COM_IIR = COM1 + 2,
	COM_FCR = COM1 + 2,
	COM_LCR = COM1 + 3,
	COM_MCR = COM1 + 4, /* bit 3 OUT2: interrupt gate, bit 4 loopback */
	COM_LSR = COM1 + 5, /* bit 0 data, bit 5 transmitter empty, bit 6 and shift register too */
	COM_MSR = COM1 + 6,
	COM_SCR = COM1 + 7,
};
void serial_write(const char *text, size_t length);

/* ---- CPUs ---- */

struct tss {
	uint32_t reserved0;
	uint64_t rsp[3], reserved1, ist[7], reserved2;
	uint16_t reserved3, io_map;
} __attribute__((packed));

/* At the start of each CPU's block; the CPU finds it below its stack pointer. */
struct cpu {
	unsigned id;            /* APIC ID */
	volatile uint32_t done; /* fn returned */
	void (*fn)(void *arg);
	void *arg;
	uint64_t resume; /* where an expected #GP goes on; 0: not expected */
	uint64_t gdt[8];
	uint32_t pad;
	struct tss tss;
};
static inline struct cpu *this_cpu(void)
{
	uint64_t rsp;
	__asm__("movq %%rsp, %0" : "=r"(rsp));
	return (struct cpu *)(rsp & -(uint64_t)CPU_BLOCK);
}
/* INIT and SIPI; fn runs on that CPU with its APIC enabled and interrupts off, on a stack of 3 KiB. When it returns
 * the CPU says so and halts with interrupts off. */
void cpu_start(unsigned id, void (*fn)(void *arg), void *arg);
struct cpu *cpu_block(unsigned id);
/* Halts until that CPU's fn has returned. */
void cpu_wait(unsigned id);

/* ---- ring 3 and time ---- */

/* fn(arg) at full speed with interrupts on, no privileged instruction. Not from inside an interrupt that came out of
 * ring 3 itself. */
uint64_t ring3(uint64_t (*fn)(uint64_t arg), uint64_t arg);
/* In ring 3, interrupts on. */
void delay_us(unsigned us);
/* In ring 3 until *word >= value; false after that many microseconds. */
bool spin_until(volatile uint32_t *word, uint32_t value, unsigned timeout_us);

uint64_t tsc_khz(void); /* from kvmclock or the PM timer */
uint64_t tsc_to_ns(uint64_t cycles);
uint32_t pm_timer(void);
enum {
	PM_TIMER = 0x608,
	PM_TIMER_HZ = 3579545,
};

#endif
