/* SPDX-License-Identifier: Apache-2.0 */
/* lapic_regs.c - the registers of a local APIC as the guest sees them: the xAPIC page and the x2APIC MSRs, which are
 * two doors to one table. SDM vol. 3, 11.4.1 and 11.12.1. All on the owner's thread. */
#include "lapic_internal.h"
#include "util.h"

#include <errno.h>
#include <stdarg.h>

/* 6 LVT entries, EOI broadcast can be suppressed. */
#define VERSION (0x14u | (LVT_COUNT - 1) << 16 | 1u << 24)

/* Access through the xAPIC page, and as MSR. */
enum {
	R = 1,
	W = 2,
	MR = 4,
	MW = 8,
	ALL = R | W | MR | MW,
};

struct reg {
	uint8_t access;
	uint32_t writable; /* the other bits: reserved, #GP as MSR, dropped in the page */
	uint32_t ignored;  /* read-only bits: dropped through both doors */
};

static const struct reg regs[REG_COUNT] = {
	[REG_ID] = {R | MR, 0, 0},
	[REG_VERSION] = {R | MR, 0, 0},
	[REG_TPR] = {ALL, 0xff, 0},
	[REG_APR] = {R, 0, 0},
	[REG_PPR] = {R | MR, 0, 0},
	[REG_EOI] = {W | MW, 0, 0},
	[REG_RRD] = {R, 0, 0},
	[REG_LDR] = {R | W | MR, 0xff000000, 0},
	[REG_DFR] = {R | W, 0xf0000000, 0},
	[REG_SVR] = {ALL, 0xff | SVR_ENABLE | SVR_FOCUS | SVR_NO_EOI_BROADCAST, 0},
	[REG_ISR... REG_IRR + 7] = {R | MR, 0, 0},
	[REG_ESR] = {ALL, 0, 0},
	[REG_ICR] = {ALL, 0xccfff, ICR_STATUS},
	[REG_ICR_HIGH] = {R | W, 0xff000000, 0},
	[REG_LVT + LVT_TIMER] = {ALL, 0x600ff | LVT_MASKED, LVT_STATUS},
	[REG_LVT + LVT_THERMAL] = {ALL, 0x7ff | LVT_MASKED, LVT_STATUS},
	[REG_LVT + LVT_PERF] = {ALL, 0x7ff | LVT_MASKED, LVT_STATUS},
	[REG_LVT + LVT_LINT0] = {ALL, 0x7ff | LVT_POLARITY | LVT_LEVEL | LVT_MASKED, LVT_STATUS | LVT_REMOTE_IRR},
	[REG_LVT + LVT_LINT1] = {ALL, 0x7ff | LVT_POLARITY | LVT_LEVEL | LVT_MASKED, LVT_STATUS | LVT_REMOTE_IRR},
	[REG_LVT + LVT_ERROR] = {ALL, 0xff | LVT_MASKED, LVT_STATUS},
	[REG_INITIAL_COUNT] = {ALL, UINT32_MAX, 0},
	[REG_CURRENT_COUNT] = {R | MR, 0, 0},
	[REG_DIVIDE] = {ALL, 0xb, 0},
	[REG_SELF_IPI] = {MW, 0xff, 0},
};

static uint32_t writable_bits(const struct lapic *a, unsigned reg)
{
	uint32_t bits = regs[reg].writable;

	if (reg == REG_LVT + LVT_TIMER && !a->all->tsc_deadline)
		bits &= ~(uint32_t)LVT_TIMER_DEADLINE;
	return bits;
}

static uint32_t load(const _Atomic uint32_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

/* ----------------------------------------------------------------------------------- values */

static uint32_t read_reg(const struct lapic *a, unsigned reg, uint64_t now_tsc)
{
	switch (reg) {
	case REG_ID:
		return lapic_x2apic(a) ? a->id : a->id << 24;
	case REG_VERSION:
		return VERSION;
	case REG_TPR:
		return a->tpr;
	case REG_PPR:
		return load(&a->ppr);
	case REG_LDR:
		return lapic_x2apic(a) ? lapic_ldr_x2apic(a->id) : load(&a->ldr);
	case REG_DFR:
		return load(&a->dfr);
	case REG_SVR:
		return load(&a->svr);
	case REG_ISR ... REG_ISR + 7:
		return a->isr[reg - REG_ISR];
	case REG_TMR ... REG_TMR + 7:
		return load(&a->tmr[reg - REG_TMR]);
	case REG_IRR ... REG_IRR + 7:
		return load(&a->irr[reg - REG_IRR]);
	case REG_ESR:
		return a->esr;
	case REG_ICR:
		return (uint32_t)a->icr;
	case REG_ICR_HIGH:
		return (uint32_t)(a->icr >> 32);
	case REG_LVT ... REG_LVT + LVT_COUNT - 1:
		return load(&a->lvt[reg - REG_LVT]);
	case REG_INITIAL_COUNT:
		return a->timer.initial_count;
	case REG_CURRENT_COUNT:
		return lapic_timer_count(a, now_tsc);
	case REG_DIVIDE:
		return a->timer.divide;
	default: /* APR, RRD: not in any APIC of this age */
		return 0;
	}
}

/* While the APIC is disabled by software, LVT entries are masked and stay so: SDM vol. 3, 11.4.7.2. */
static void write_svr(struct lapic *a, uint32_t value)
{
	store(&a->svr, value);
	if (value & SVR_ENABLE)
		return;
	for (unsigned i = 0; i < LVT_COUNT; i++)
		store(&a->lvt[i], load(&a->lvt[i]) | LVT_MASKED);
}

static void write_lvt(struct lapic *a, unsigned entry, uint32_t value)
{
	if (!(load(&a->svr) & SVR_ENABLE))
		value |= LVT_MASKED;
	if (entry == LVT_TIMER)
		lapic_timer_write_lvt(a, value);
	else
		store(&a->lvt[entry], value);
}

/* value has legal bits only. */
static void write_reg(struct lapic *a, unsigned reg, uint32_t value, uint64_t now_tsc)
{
	switch (reg) {
	case REG_TPR:
		a->tpr = value;
		lapic_update_ppr(a);
		break;
	case REG_EOI:
		lapic_eoi(a);
		break;
	case REG_LDR:
		store(&a->ldr, value);
		break;
	case REG_DFR:
		store(&a->dfr, value | 0x0fffffff);
		break;
	case REG_SVR:
		write_svr(a, value);
		break;
	case REG_ESR: /* shows what was gathered, and rearms the error interrupt */
		a->esr = atomic_exchange_explicit(&a->errors, 0, memory_order_relaxed) & 0xff;
		break;
	case REG_ICR:
		a->icr = (a->icr & ~(uint64_t)UINT32_MAX) | value;
		lapic_send(a, a->icr);
		break;
	case REG_ICR_HIGH:
		a->icr = (uint64_t)value << 32 | (uint32_t)a->icr;
		break;
	case REG_LVT ... REG_LVT + LVT_COUNT - 1:
		write_lvt(a, reg - REG_LVT, value);
		break;
	case REG_INITIAL_COUNT:
		lapic_timer_write_initial(a, value, now_tsc);
		break;
	case REG_DIVIDE:
		lapic_timer_write_divide(a, value, now_tsc);
		break;
	case REG_SELF_IPI:
		lapic_send(a, value | 1u << ICR_SHORTHAND_SHIFT);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------------------ xAPIC page */

static uint64_t cut(uint64_t value, unsigned size)
{
	return size < 8 ? value & ((1ull << (size * 8)) - 1) : value;
}

static bool page_visible(const struct lapic *a)
{
	return lapic_enabled(a) && !lapic_x2apic(a);
}

/* The register at offset, or NULL: reserved, which is an error of its own. */
static const struct reg *page_reg(struct lapic *a, uint64_t offset)
{
	uint64_t reg = offset >> 4;

	if (reg < REG_COUNT && (regs[reg].access & (R | W)))
		return &regs[reg];
	lapic_error(a, ERROR_REGISTER);
	return NULL;
}

uint64_t lapic_mmio_read(struct lapic *a, uint64_t offset, unsigned size, uint64_t now_tsc)
{
	unsigned byte = (unsigned)(offset & 15);
	const struct reg *reg;

	if (!page_visible(a))
		return cut(UINT64_MAX, size);
	lapic_timer_expire(a, now_tsc);
	if (size > 4 || byte + size > 4)
		return 0;
	reg = page_reg(a, offset);
	if (!reg || !(reg->access & R))
		return 0;
	return cut((uint64_t)read_reg(a, (unsigned)(offset >> 4), now_tsc) >> byte * 8, size);
}

void lapic_mmio_write(struct lapic *a, uint64_t offset, unsigned size, uint64_t value, uint64_t now_tsc)
{
	const struct reg *reg;

	if (!page_visible(a))
		return;
	lapic_timer_expire(a, now_tsc);
	if (size != 4 || (offset & 15))
		return;
	reg = page_reg(a, offset);
	if (reg && (reg->access & W))
		write_reg(a, (unsigned)(offset >> 4), (uint32_t)value & writable_bits(a, (unsigned)(offset >> 4)),
		          now_tsc);
}

/* ------------------------------------------------------------------------------------- MSRs */

static int msr_reg(const struct lapic *a, uint32_t index, uint8_t access, unsigned *reg)
{
	if (index < MSR_X2APIC_FIRST || index - MSR_X2APIC_FIRST >= REG_COUNT || !lapic_x2apic(a))
		return -EINVAL;
	*reg = index - MSR_X2APIC_FIRST;
	return regs[*reg].access & access ? 0 : -EINVAL;
}

int lapic_msr_read(struct lapic *a, uint32_t index, uint64_t *value, uint64_t now_tsc)
{
	unsigned reg;

	lapic_timer_expire(a, now_tsc);
	if (index == MSR_IA32_TSC_DEADLINE && a->all->tsc_deadline) {
		*value = lapic_timer_read_deadline(a);
		return 0;
	}
	if (msr_reg(a, index, MR, &reg))
		return -EINVAL;
	*value = reg == REG_ICR ? a->icr : read_reg(a, reg, now_tsc);
	return 0;
}

/* SDM vol. 3, 11.12.1.3: a reserved bit set is a general protection fault, also in the upper half. */
int lapic_msr_write(struct lapic *a, uint32_t index, uint64_t value, uint64_t now_tsc)
{
	unsigned reg;
	uint32_t writable;
	uint64_t legal;

	lapic_timer_expire(a, now_tsc);
	if (index == MSR_IA32_TSC_DEADLINE && a->all->tsc_deadline) {
		lapic_timer_write_deadline(a, value, now_tsc);
		return 0;
	}
	if (msr_reg(a, index, MW, &reg))
		return -EINVAL;
	writable = writable_bits(a, reg);
	legal = (uint64_t)writable | regs[reg].ignored;
	if (reg == REG_ICR)
		legal |= (uint64_t)UINT32_MAX << 32;
	if (value & ~legal)
		return -EINVAL;
	if (reg == REG_ICR)
		a->icr = value & (uint64_t)UINT32_MAX << 32;
	write_reg(a, reg, (uint32_t)value & writable, now_tsc);
	return 0;
}

/* ------------------------------------------------------------------------------------ dump */

struct text {
	char *at;
	size_t left;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->at, t->left, fmt, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n >= t->left)
		n = (int)(t->left - 1);
	t->at += n;
	t->left -= (size_t)n;
}

static void put_vectors(struct text *t, const char *name, const uint32_t bits[8])
{
	bool any = false;

	put(t, "  %s:", name);
	for (unsigned i = 0; i < 8; i++) {
		for (uint32_t word = bits[i]; word; word &= word - 1) {
			put(t, " %02x", i * 32 + (unsigned)__builtin_ctz(word));
			any = true;
		}
	}
	put(t, "%s\n", any ? "" : " none");
}

void lapic_describe(const struct lapic *a, char *text, size_t size)
{
	static const char *const names[LVT_COUNT] = {"timer", "thermal", "perf", "lint0", "lint1", "error"};
	struct text t = {text, size};
	uint32_t irr[8], tmr[8];
	uint32_t svr = atomic_load(&a->svr);

	if (!size)
		return;
	text[0] = '\0';
	for (unsigned i = 0; i < 8; i++) {
		irr[i] = atomic_load(&a->irr[i]);
		tmr[i] = atomic_load(&a->tmr[i]);
	}
	put(&t, "apic %u: %s%s, svr %03x, tpr %02x, ppr %02x, icr %016llx, events %x, errors %02x\n", a->id,
	    !lapic_enabled(a) ? "off"
	    : lapic_x2apic(a) ? "x2apic"
	                      : "xapic",
	    svr & SVR_ENABLE ? "" : " (disabled by software)", svr, a->tpr, atomic_load(&a->ppr),
	    (unsigned long long)a->icr, atomic_load(&a->events), atomic_load(&a->errors) & 0xff);
	put_vectors(&t, "irr", irr);
	put_vectors(&t, "isr", a->isr);
	put_vectors(&t, "tmr", tmr);
	put(&t, "  lvt:");
	for (unsigned i = 0; i < LVT_COUNT; i++)
		put(&t, " %s %05x", names[i], atomic_load(&a->lvt[i]));
	put(&t, "\n  timer: %s, initial %u, divide %x, %s", lapic_timer_mode_name(a), a->timer.initial_count,
	    a->timer.divide, a->timer.armed ? "armed" : "stopped");
	if (a->timer.armed)
		put(&t, ", fires at host tsc %llu, last seen %llu", (unsigned long long)a->timer.end_tsc,
		    (unsigned long long)a->timer.last_tsc);
	put(&t, "\n");
}
