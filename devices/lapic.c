/* SPDX-License-Identifier: Apache-2.0 */
/* lapic.c - local APICs: who takes an interrupt, and which one comes next. Knows no register layout but the ICR's
 * (lapic_regs.c) and no time (lapic_timer.c). */
#include "lapic.h"

#include "lapic_internal.h"
#include "util.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------ life */

struct lapics *lapics_create(unsigned cpus, uint64_t tsc_khz, bool x2apic, bool tsc_deadline,
                             const struct lapic_sink *sink)
{
	size_t bytes = sizeof(struct lapics) + (size_t)cpus * sizeof(struct lapic);
	struct lapics *l;

	invariant(cpus > 0 && tsc_khz > 0);
	l = aligned_alloc(_Alignof(struct lapics), bytes);
	if (!l)
		return NULL;
	memset(l, 0, bytes);
	l->count = cpus;
	l->x2apic = x2apic;
	l->tsc_deadline = tsc_deadline;
	l->tsc_khz = tsc_khz;
	l->sink = *sink;
	atomic_init(&l->turn, 0);
	for (unsigned i = 0; i < cpus; i++) {
		l->apic[i].all = l;
		l->apic[i].id = i;
		lapic_reset(&l->apic[i], false);
	}
	return l;
}

void lapics_destroy(struct lapics *l)
{
	free(l);
}

struct lapic *lapics_get(struct lapics *l, unsigned cpu)
{
	invariant(cpu < l->count);
	return &l->apic[cpu];
}

/* SDM vol. 3, 11.4.7.1, all but TPR and the events. SVR goes first: from then on posters leave IRR alone. */
void lapic_clear_state(struct lapic *a)
{
	atomic_store_explicit(&a->svr, 0xff, memory_order_seq_cst);
	for (unsigned i = 0; i < 8; i++) {
		atomic_store_explicit(&a->irr[i], 0, memory_order_relaxed);
		atomic_store_explicit(&a->tmr[i], 0, memory_order_relaxed);
		a->isr[i] = 0;
	}
	for (unsigned i = 0; i < LVT_COUNT; i++)
		atomic_store_explicit(&a->lvt[i], LVT_MASKED, memory_order_relaxed);
	atomic_store_explicit(&a->ldr, 0, memory_order_relaxed);
	atomic_store_explicit(&a->dfr, UINT32_MAX, memory_order_relaxed);
	atomic_store_explicit(&a->errors, 0, memory_order_relaxed);
	a->esr = 0;
	a->icr = 0;
	lapic_timer_reset(a);
	lapic_update_ppr(a);
}

void lapic_reset(struct lapic *a, bool init)
{
	if (!init) {
		atomic_store_explicit(&a->events, 0, memory_order_relaxed);
		atomic_store_explicit(&a->base,
		                      LAPIC_BASE_DEFAULT | APIC_BASE_ENABLE | (a->id == 0 ? APIC_BASE_BSP : 0),
		                      memory_order_release);
	}
	a->tpr = 0;
	lapic_clear_state(a);
}

uint64_t lapic_base(const struct lapic *a)
{
	return atomic_load_explicit(&a->base, memory_order_relaxed);
}

/* SDM vol. 3, figure 11-27: off -> xAPIC -> x2APIC -> off, and xAPIC -> off. */
int lapic_set_base(struct lapic *a, uint64_t value)
{
	uint64_t old = lapic_base(a);
	bool enable = value & APIC_BASE_ENABLE, x2apic = value & APIC_BASE_X2APIC;
	bool was_enabled = old & APIC_BASE_ENABLE, was_x2apic = old & APIC_BASE_X2APIC;

	if ((value & ~(uint64_t)(APIC_BASE_BSP | APIC_BASE_X2APIC | APIC_BASE_ENABLE)) != LAPIC_BASE_DEFAULT)
		return -EINVAL;
	if (x2apic && (!enable || !was_enabled || !a->all->x2apic))
		return -EINVAL;
	if (was_x2apic && enable && !x2apic)
		return -EINVAL;
	if (enable && !was_enabled)
		lapic_clear_state(a); /* again: a poster may have looked just before it was disabled */
	atomic_store_explicit(&a->base, value, memory_order_seq_cst);
	if (was_enabled && !enable)
		lapic_clear_state(a);
	if (x2apic && !was_x2apic)
		a->icr &= UINT32_MAX; /* 11.12.5.1 */
	return 0;
}

/* ------------------------------------------------------------------------------ priorities */

static int highest_bit(unsigned word, uint32_t bits)
{
	return (int)(word * 32 + 31 - (unsigned)__builtin_clz(bits));
}

static int highest_irr(const struct lapic *a)
{
	for (unsigned i = 8; i-- > 0;) {
		uint32_t bits = atomic_load_explicit(&a->irr[i], memory_order_acquire);

		if (bits)
			return highest_bit(i, bits);
	}
	return -1;
}

static int highest_isr(const struct lapic *a)
{
	for (unsigned i = 8; i-- > 0;) {
		if (a->isr[i])
			return highest_bit(i, a->isr[i]);
	}
	return -1;
}

static bool is_level(const struct lapic *a, int vector)
{
	return atomic_load_explicit(&a->tmr[vector >> 5], memory_order_relaxed) & 1u << (vector & 31);
}

/* SDM vol. 3, 11.8.3.1. */
void lapic_update_ppr(struct lapic *a)
{
	int vector = highest_isr(a);
	uint32_t isr_class = vector < 0 ? 0 : (uint32_t)vector & 0xf0;

	atomic_store_explicit(&a->ppr, (a->tpr & 0xf0) >= isr_class ? a->tpr : isr_class, memory_order_relaxed);
}

int lapic_pending(struct lapic *a)
{
	int vector = highest_irr(a);

	if (vector < 0 || !lapic_enabled(a))
		return -1;
	return (uint32_t)vector >> 4 > atomic_load_explicit(&a->ppr, memory_order_relaxed) >> 4 ? vector : -1;
}

int lapic_ack(struct lapic *a)
{
	int vector = lapic_pending(a);

	if (vector < 0)
		return -1;
	atomic_fetch_and_explicit(&a->irr[vector >> 5], ~(1u << (vector & 31)), memory_order_acq_rel);
	a->isr[vector >> 5] |= 1u << (vector & 31);
	lapic_update_ppr(a);
	return vector;
}

void lapic_eoi(struct lapic *a)
{
	int vector = highest_isr(a);

	if (vector < 0)
		return;
	a->isr[vector >> 5] &= ~(1u << (vector & 31));
	lapic_update_ppr(a);
	if (is_level(a, vector) && !(atomic_load_explicit(&a->svr, memory_order_relaxed) & SVR_NO_EOI_BROADCAST))
		a->all->sink.eoi(a->all->sink.ctx, (uint8_t)vector);
}

uint8_t lapic_cr8(const struct lapic *a)
{
	return (uint8_t)(a->tpr >> 4);
}

void lapic_set_cr8(struct lapic *a, uint8_t cr8)
{
	if ((cr8 & 0xf) == a->tpr >> 4)
		return;
	a->tpr = (cr8 & 0xfu) << 4;
	lapic_update_ppr(a);
}

bool lapic_pv_eoi_ok(const struct lapic *a)
{
	int vector = highest_isr(a);

	if (vector < 0 || is_level(a, vector) || highest_irr(a) >= 0)
		return false;
	for (int i = 0; i < 8; i++) {
		if (a->isr[i] & ~(i == vector >> 5 ? 1u << (vector & 31) : 0))
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------- accepting: one interrupt, one APIC */

/* TMR before IRR: whoever sees the request knows how to end it. */
void lapic_request(struct lapic *a, uint8_t vector, bool level)
{
	uint32_t bit = 1u << (vector & 31);

	if (is_level(a, vector) != level) {
		if (level)
			atomic_fetch_or_explicit(&a->tmr[vector >> 5], bit, memory_order_relaxed);
		else
			atomic_fetch_and_explicit(&a->tmr[vector >> 5], ~bit, memory_order_relaxed);
	}
	atomic_fetch_or_explicit(&a->irr[vector >> 5], bit, memory_order_release);
}

/* One interrupt per write to ESR, however many errors follow. */
bool lapic_error(struct lapic *a, uint32_t error)
{
	uint32_t lvt = atomic_load_explicit(&a->lvt[LVT_ERROR], memory_order_relaxed);

	atomic_fetch_or_explicit(&a->errors, error, memory_order_relaxed);
	if (lvt & LVT_MASKED)
		return false;
	if (atomic_fetch_or_explicit(&a->errors, ERROR_SIGNALLED, memory_order_relaxed) & ERROR_SIGNALLED)
		return false;
	if ((lvt & 0xff) < VECTOR_FIRST_LEGAL) {
		atomic_fetch_or_explicit(&a->errors, ERROR_RECEIVE_VECTOR, memory_order_relaxed);
		return false;
	}
	lapic_request(a, (uint8_t)lvt, false);
	return true;
}

bool lapic_self(struct lapic *a, uint8_t vector)
{
	if (!lapic_accepts(a))
		return false;
	if (vector < VECTOR_FIRST_LEGAL)
		return lapic_error(a, ERROR_RECEIVE_VECTOR);
	lapic_request(a, vector, false);
	return true;
}

static void post_event(struct lapic *a, uint32_t event, uint8_t vector)
{
	uint32_t old = atomic_load_explicit(&a->events, memory_order_relaxed), new;

	do {
		new = old | event;
		if (event == LAPIC_EVENT_INIT)
			new &= ~(LAPIC_EVENT_NMI | LAPIC_EVENT_EXTINT | LAPIC_EVENT_SIPI | 0xff00u);
		else if (event == LAPIC_EVENT_SIPI && !(old & LAPIC_EVENT_SIPI))
			new |= (uint32_t)vector << 8;
	} while (!atomic_compare_exchange_weak_explicit(&a->events, &old, new, memory_order_release,
	                                                memory_order_relaxed));
}

uint32_t lapic_events(const struct lapic *a)
{
	return atomic_load_explicit(&a->events, memory_order_acquire) & 0xff;
}

uint32_t lapic_take_events(struct lapic *a, uint8_t *sipi_vector)
{
	uint32_t events;

	if (sipi_vector)
		*sipi_vector = 0;
	if (!atomic_load_explicit(&a->events, memory_order_acquire)) /* the usual case costs no bus lock */
		return 0;
	events = atomic_exchange_explicit(&a->events, 0, memory_order_acquire);
	if (sipi_vector)
		*sipi_vector = (uint8_t)(events >> 8);
	return events & 0xff;
}

/* from is the sender when the owner of target is the caller or may be, else NULL. */
static void notify(struct lapic *target, const struct lapic *from, enum wake_cause cause)
{
	if (target != from)
		target->all->sink.notify(target->all->sink.ctx, target->id, cause);
}

static bool accept_vector(struct lapic *a, const struct lapic_irq *irq, const struct lapic *from, enum wake_cause cause)
{
	if (!lapic_accepts(a))
		return false;
	if (irq->vector < VECTOR_FIRST_LEGAL) {
		if (lapic_error(a, ERROR_RECEIVE_VECTOR))
			notify(a, from, cause);
		return false;
	}
	lapic_request(a, irq->vector, irq->level);
	notify(a, from, cause);
	return true;
}

static bool accept_event(struct lapic *a, uint32_t event, uint8_t vector, const struct lapic *from,
                         enum wake_cause cause)
{
	if (!lapic_enabled(a))
		return false;
	post_event(a, event, vector);
	notify(a, from, cause);
	return true;
}

static bool accept(struct lapic *a, const struct lapic_irq *irq, const struct lapic *from, enum wake_cause cause)
{
	switch (irq->mode) {
	case LAPIC_FIXED:
	case LAPIC_LOWEST:
		return accept_vector(a, irq, from, cause);
	case LAPIC_NMI:
		return accept_event(a, LAPIC_EVENT_NMI, 0, from, WAKE_NMI);
	case LAPIC_INIT:
		return accept_event(a, LAPIC_EVENT_INIT, 0, from, WAKE_INIT);
	case LAPIC_SIPI:
		return accept_event(a, LAPIC_EVENT_SIPI, irq->vector, from, WAKE_INIT);
	case LAPIC_EXTINT:
		return accept_event(a, LAPIC_EVENT_EXTINT, 0, from, cause);
	case LAPIC_SMI:
		break;
	}
	return false; /* SMI, and the reserved mode 3 */
}

/* While the APIC is globally disabled its pins are INTR and NMI of the CPU: SDM vol. 3, 11.4.3. */
void lapic_lint(struct lapic *a, unsigned lint)
{
	uint32_t lvt;
	struct lapic_irq irq;

	invariant(lint < 2);
	if (!lapic_enabled(a)) {
		post_event(a, lint ? LAPIC_EVENT_NMI : LAPIC_EVENT_EXTINT, 0);
		notify(a, NULL, lint ? WAKE_NMI : WAKE_DEVICE);
		return;
	}
	lvt = atomic_load_explicit(&a->lvt[LVT_LINT0 + lint], memory_order_relaxed);
	if (lvt & LVT_MASKED)
		return;
	irq = (struct lapic_irq){.mode = (enum lapic_delivery)(lvt >> 8 & 7), .vector = (uint8_t)lvt};
	if (irq.mode != LAPIC_SIPI && irq.mode != LAPIC_LOWEST) /* not for LVT entries */
		accept(a, &irq, NULL, WAKE_DEVICE);
}

/* --------------------------------------------------------------------------- destinations */

enum whom {
	TO_DEST,
	TO_SELF,
	TO_ALL,
	TO_OTHERS, /* the numbers of the ICR's shorthands */
};

/* SDM vol. 3, 11.6.2.2 and 11.12.10. A mask of 8 bits reaches an APIC in x2APIC mode as one of 32 bits would. */
static bool matches_logical(const struct lapic *a, uint32_t mask)
{
	uint32_t ldr, dfr;

	if (lapic_x2apic(a)) {
		ldr = lapic_ldr_x2apic(a->id);
		return mask >> 16 == ldr >> 16 && (mask & ldr & 0xffff);
	}
	if (mask > 0xff)
		return false;
	ldr = atomic_load_explicit(&a->ldr, memory_order_relaxed) >> 24;
	dfr = atomic_load_explicit(&a->dfr, memory_order_relaxed) >> 28;
	if (dfr == 0xf) /* flat */
		return mask & ldr;
	if (dfr == 0) /* cluster */
		return mask >> 4 == ldr >> 4 && (mask & ldr & 0xf);
	return false;
}

static bool is_broadcast(const struct lapic_irq *irq)
{
	return irq->dest == (irq->dest_x2apic ? UINT32_MAX : 0xff);
}

static bool matches(const struct lapic *a, const struct lapic_irq *irq, const struct lapic *from, enum whom whom)
{
	switch (whom) {
	case TO_SELF:
		return a == from;
	case TO_ALL:
		return true;
	case TO_OTHERS:
		return a != from;
	case TO_DEST:
		break;
	}
	if (is_broadcast(irq))
		return true;
	return irq->logical ? matches_logical(a, irq->dest) : a->id == irq->dest;
}

/* The one with the lowest class in PPR, as the bus would arbitrate. The search starts behind the one chosen last, so
 * that equals take turns. */
static struct lapic *pick_lowest(struct lapics *l, const struct lapic_irq *irq, const struct lapic *from,
                                 enum whom whom)
{
	unsigned start = atomic_load_explicit(&l->turn, memory_order_relaxed);
	struct lapic *best = NULL;
	uint32_t best_class = UINT32_MAX;

	for (unsigned i = 0; i < l->count && best_class > 0; i++) {
		struct lapic *a = &l->apic[(start + i) % l->count];
		uint32_t class;

		if (!matches(a, irq, from, whom) || !lapic_accepts(a))
			continue;
		class = atomic_load_explicit(&a->ppr, memory_order_relaxed) >> 4;
		if (class < best_class) {
			best = a;
			best_class = class;
		}
	}
	if (best)
		atomic_store_explicit(&l->turn, (best->id + 1) % l->count, memory_order_relaxed);
	return best;
}

static unsigned deliver(struct lapics *l, const struct lapic_irq *irq, const struct lapic *from, enum whom whom,
                        enum wake_cause cause)
{
	unsigned taken = 0;

	if (irq->mode == LAPIC_LOWEST) {
		struct lapic *a = pick_lowest(l, irq, from, whom);

		return a && accept(a, irq, from, cause);
	}
	if (whom == TO_DEST && !irq->logical && !is_broadcast(irq)) /* the usual case looks at no other APIC */
		return irq->dest < l->count && accept(&l->apic[irq->dest], irq, from, cause);
	for (unsigned i = 0; i < l->count; i++) {
		if (matches(&l->apic[i], irq, from, whom))
			taken += accept(&l->apic[i], irq, from, cause);
	}
	return taken;
}

unsigned lapics_deliver(struct lapics *l, const struct lapic_irq *irq, enum wake_cause cause)
{
	return deliver(l, irq, NULL, TO_DEST, cause);
}

/* SDM vol. 3, 11.11. */
unsigned lapics_msi(struct lapics *l, const struct msi_msg *msg)
{
	bool hint = msg->address & 1u << 3;
	struct lapic_irq irq = {
		.dest = msg->address >> 12 & 0xff,
		.logical = msg->address & 1u << 2,
		.level = msg->data & 1u << 15,
		.mode = (enum lapic_delivery)(msg->data >> 8 & 7),
		.vector = (uint8_t)msg->data,
	};

	if (msg->address >> 20 != 0xfee || irq.mode == LAPIC_SIPI)
		return 0;
	if (irq.level && !(msg->data & 1u << 14)) /* de-assert: levels are the IOAPIC's */
		return 0;
	if (irq.mode == LAPIC_FIXED && hint)
		irq.mode = LAPIC_LOWEST;
	return lapics_deliver(l, &irq, WAKE_DEVICE);
}

/* SDM vol. 3, 11.6.1. The trigger and level bits matter for INIT alone: other IPIs are edges. */
void lapic_send(struct lapic *a, uint64_t icr)
{
	uint32_t low = (uint32_t)icr;
	bool x2apic = lapic_x2apic(a);
	struct lapic_irq irq = {
		.dest = (uint32_t)(icr >> (x2apic ? 32 : 56)),
		.dest_x2apic = x2apic,
		.logical = low & ICR_LOGICAL,
		.mode = (enum lapic_delivery)(low >> 8 & 7),
		.vector = (uint8_t)low,
	};

	if (irq.mode == LAPIC_EXTINT)
		return; /* reserved in the ICR */
	if (irq.mode == LAPIC_INIT && (low & (ICR_LEVEL | ICR_ASSERT)) == ICR_LEVEL)
		return; /* INIT level de-assert: only ever reset the arbitration IDs of the APIC bus */
	if ((irq.mode == LAPIC_FIXED || irq.mode == LAPIC_LOWEST) && irq.vector < VECTOR_FIRST_LEGAL)
		lapic_error(a, ERROR_SEND_VECTOR);
	deliver(a->all, &irq, a, (enum whom)(low >> ICR_SHORTHAND_SHIFT & 3), WAKE_IPI);
}
