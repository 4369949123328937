/* SPDX-License-Identifier: Apache-2.0 */
/*
 * irqchip_user.c - the backend in which lull owns the local APICs: what a vCPU thread does for its own APIC before it
 * enters the guest and after it left. The registers are devices/lapic.c; here is the meeting with KVM.
 *
 * KVM queues one vector without asking, so it is given one only when the last exit said the guest can take it and the
 * instruction of that exit is finished, and once per entry. What is not injected stays in IRR, and an interrupt window
 * is asked for. Where KVM has it, the vector goes through the event state of the run page (KVM_SYNC_X86_EVENTS) and
 * costs no system call.
 */
#include "irqchip.h"

#include "clock.h"
#include "error.h"
#include "guest_mem.h"
#include "ioapic.h"
#include "kvm.h"
#include "lapic.h"
#include "util.h"
#include "vcpu.h"

#include <errno.h>
#include <linux/kvm_para.h>
#include <string.h>
#include <sys/ioctl.h>

/* Of the multiprocessor protocol, SDM vol. 3, 9.4. KVM knows only running vCPUs here. */
enum mp_state {
	MP_RUNNABLE,
	MP_HALTED,
	MP_WAIT_SIPI,
};

/* vCPU thread only. */
struct user_cpu {
	struct lapic *apic;
	enum mp_state mp;
	bool nmi_pending;     /* to be given to KVM at the next entry */
	bool nmi_given;       /* KVM may still hold one: it latches an NMI that comes while another is handled */
	uint64_t pv_eoi;      /* MSR_KVM_PV_EOI_EN */
	bool pv_eoi_armed;    /* the guest's bit was set before this entry */
	uint64_t timer_stamp; /* when the timer that fired last was due; 0: reported */
};

struct irqchip_user {
	struct irqchip base;
	struct irqchip_config config;
	struct lapics *lapics;
	struct user_cpu cpus[];
};

static struct irqchip_user *user(struct irqchip *chip)
{
	return container_of(chip, struct irqchip_user, base);
}

static struct user_cpu *cpu_of(struct irqchip *chip, const struct vcpu *v)
{
	return &user(chip)->cpus[v->index];
}

/* ---------------------------------------------------------------------------- any thread */

static bool ioapic_deliver(void *ctx, const struct msi_msg *msg)
{
	struct irqchip_user *u = ctx;
	return lapics_msi(u->lapics, msg) > 0;
}

static void eoi_to_ioapic(void *ctx, uint8_t vector)
{
	struct irqchip_user *u = ctx;
	ioapic_eoi(u->base.ioapic, vector);
}

static void notify(void *ctx, unsigned cpu, enum wake_cause cause)
{
	struct irqchip_user *u = ctx;
	u->config.notify(u->config.notify_ctx, cpu, cause);
}

static void user_msi(struct irqchip *chip, const struct msi_msg *msg)
{
	lapics_msi(user(chip)->lapics, msg);
}

static void user_nmi(struct irqchip *chip, unsigned cpu)
{
	const struct lapic_irq irq = {.dest = cpu, .dest_x2apic = true, .mode = LAPIC_NMI};
	lapics_deliver(user(chip)->lapics, &irq, WAKE_NMI);
}

static bool user_has_events(struct irqchip *chip, unsigned cpu)
{
	return lapic_events(lapics_get(user(chip)->lapics, cpu)) != 0;
}

static void user_destroy(struct irqchip *chip)
{
	if (!chip)
		return;
	struct irqchip_user *u = user(chip);
	ioapic_destroy(u->base.ioapic);
	lapics_destroy(u->lapics);
	free(u);
}

static int user_create(struct irqchip **chip, const struct irqchip_config *config, struct lull_error *err)
{
	int ret = kvm_route_msrs(config->kvm, config->steal_msr, err);
	if (ret < 0)
		return ret;
	struct irqchip_user *u = calloc(1, sizeof(*u) + config->cpus * sizeof(u->cpus[0]));
	if (!u)
		return error_set(err, -ENOMEM, "irqchip: out of memory");
	u->base.ops = &irqchip_user;
	u->config = *config;
	const struct lapic_sink sink = {.notify = notify, .eoi = eoi_to_ioapic, .ctx = u};
	const struct ioapic_out out = {.deliver = ioapic_deliver, .ctx = u};
	u->lapics = lapics_create(config->cpus, config->tsc_khz, config->x2apic, config->tsc_deadline, &sink);
	u->base.ioapic = ioapic_create(&out);
	if (!u->lapics || !u->base.ioapic) {
		user_destroy(&u->base);
		return error_set(err, -ENOMEM, "irqchip: out of memory");
	}
	*chip = &u->base;
	return 0;
}

static int user_vcpu_init(struct irqchip *chip, struct vcpu *v, struct lull_error *err)
{
	struct user_cpu *c = cpu_of(chip, v);
	(void)err;
	c->apic = lapics_get(user(chip)->lapics, v->index);
	c->mp = v->index == 0 ? MP_RUNNABLE : MP_WAIT_SIPI;
	lapic_set_tsc_offset(c->apic, v->tsc_offset);
	v->syncs_events = kvm_check(v->env->kvm, KVM_CAP_SYNC_REGS) & KVM_SYNC_X86_EVENTS;
	if (v->syncs_events)
		v->run->kvm_valid_regs = KVM_SYNC_X86_EVENTS;
	v->reset_sregs.apic_base = lapic_base(c->apic);
	return 0;
}

/* -------------------------------------------------------------------------------- PV EOI */

/* Documentation/virt/kvm/x86/msr.rst, MSR_KVM_PV_EOI_EN. The guest clears the bit in place of an EOI when it finds it
 * set. Only this thread touches it, while the guest is out, so no atomics are needed beyond those against a hostile
 * other vCPU. */
static _Atomic uint8_t *pv_eoi_byte(struct vcpu *v, const struct user_cpu *c)
{
	return guest_mem_at(v->env->mem, gpa(c->pv_eoi & ~3ull), 4);
}

static void pv_eoi_arm(struct vcpu *v, struct user_cpu *c)
{
	if (!(c->pv_eoi & KVM_MSR_ENABLED) || !lapic_pv_eoi_ok(c->apic))
		return;
	_Atomic uint8_t *byte = pv_eoi_byte(v, c);
	if (!byte)
		return;
	atomic_store(byte, 1);
	c->pv_eoi_armed = true;
}

static void pv_eoi_harvest(struct vcpu *v, struct user_cpu *c)
{
	if (!c->pv_eoi_armed)
		return;
	c->pv_eoi_armed = false;
	_Atomic uint8_t *byte = pv_eoi_byte(v, c);
	if (byte && !(atomic_exchange(byte, 0) & 1)) {
		stat_add(&v->count.eois_saved, 1);
		lapic_eoi(c->apic);
	}
}

static int pv_eoi_write(struct irqchip *chip, struct vcpu *v, uint64_t value)
{
	struct user_cpu *c = cpu_of(chip, v);
	if (!user(chip)->config.pv_eoi || (value & 2))
		return -EINVAL;
	if ((value & KVM_MSR_ENABLED) && !guest_mem_at(v->env->mem, gpa(value & ~3ull), 4))
		return -EINVAL;
	c->pv_eoi = value;
	return 0;
}

/* ----------------------------------------------------------------- before each entry */

static void do_init(struct vcpu *v, struct user_cpu *c)
{
	lapic_reset(c->apic, true);
	c->mp = MP_WAIT_SIPI;
	c->nmi_pending = c->nmi_given = false;
	c->pv_eoi = 0;
	c->pv_eoi_armed = false;
	atomic_store(&v->halt.guest_allows, true); /* MSR_KVM_POLL_CONTROL */
	int ret = vcpu_setup_init(v);
	if (ret < 0)
		vcpu_end(v, LULL_EXIT_KVM_ERROR, 0, "vcpu %u: INIT: %s", v->index, strerror(-ret));
}

static void do_sipi(struct vcpu *v, struct user_cpu *c, uint8_t vector)
{
	int ret = vcpu_setup_sipi(v, vector);
	if (ret < 0)
		vcpu_end(v, LULL_EXIT_KVM_ERROR, 0, "vcpu %u: SIPI: %s", v->index, strerror(-ret));
	c->mp = MP_RUNNABLE;
}

/* False: INIT of the boot processor, for which there is no firmware to run. */
static bool take_events(struct vcpu *v, struct user_cpu *c)
{
	uint8_t vector = 0;
	uint32_t events = lapic_take_events(c->apic, &vector);
	if (!events)
		return true;
	if (events & LAPIC_EVENT_INIT) {
		if (v->index == 0)
			return false;
		do_init(v, c);
	}
	if ((events & LAPIC_EVENT_SIPI) && c->mp == MP_WAIT_SIPI) {
		do_sipi(v, c, vector);
		halt_end(&v->halt, WAKE_INIT, 0);
	}
	if ((events & LAPIC_EVENT_NMI) && c->mp != MP_WAIT_SIPI)
		c->nmi_pending = true;
	return true;
}

/* The halt is over: who ended it, and when did that come up? */
static void leave_halt(struct vcpu *v, struct user_cpu *c)
{
	uint64_t stamp;
	uint32_t causes = wake_take(&v->wake, &stamp);
	enum wake_cause cause = WAKE_DEVICE;
	if (c->nmi_pending)
		cause = WAKE_NMI;
	else if (c->timer_stamp && !(causes & (1u << WAKE_IPI | 1u << WAKE_DEVICE)))
		cause = WAKE_TIMER;
	else if (causes & 1u << WAKE_IPI)
		cause = WAKE_IPI;
	c->mp = MP_RUNNABLE;
	halt_end(&v->halt, cause, cause == WAKE_TIMER ? c->timer_stamp : stamp);
}

/* The event state as KVM left it at the last exit, about to be given back changed. */
static struct kvm_vcpu_events *change_events(struct vcpu *v)
{
	struct kvm_vcpu_events *events = &v->run->s.regs.events;
	events->flags = KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SHADOW;
	v->run->kvm_dirty_regs |= KVM_SYNC_X86_EVENTS;
	return events;
}

static void give_nmi(struct vcpu *v, struct user_cpu *c)
{
	c->nmi_pending = false;
	c->nmi_given = true;
	if (!v->syncs_events)
		(void)!ioctl(v->fd, KVM_NMI, 0);
	else
		change_events(v)->nmi.pending = 1;
}

static void give_interrupt(struct vcpu *v, uint8_t vector)
{
	const struct kvm_interrupt irq = {.irq = vector};
	v->injected = true;
	stat_add(&v->count.irqs_injected, 1);
	if (v->syncs_events) {
		struct kvm_vcpu_events *events = change_events(v);
		events->interrupt.injected = 1;
		events->interrupt.nr = vector;
		events->interrupt.soft = 0;
	} else if (ioctl(v->fd, KVM_INTERRUPT, &irq) < 0) {
		vcpu_end(v, LULL_EXIT_KVM_ERROR, vector, "vcpu %u: KVM_INTERRUPT %u: %s", v->index, vector,
		         strerror(errno));
	}
}

static void inject(struct vcpu *v, struct user_cpu *c)
{
	if (c->nmi_pending)
		give_nmi(v, c);
	int pending = lapic_pending(c->apic);
	if (pending >= 0 && !v->injected && v->run->ready_for_interrupt_injection && v->run->if_flag) {
		if (v->unfinished) {
			/* The access may yet end in an exception, and KVM drops an interrupt that is queued beside one:
			 * it finishes the access first and comes out again without having run the guest. */
			v->run->immediate_exit = 1;
		} else {
			give_interrupt(v, (uint8_t)lapic_ack(c->apic));
			pending = lapic_pending(c->apic);
		}
	}
	v->run->request_interrupt_window = pending >= 0;
}

static enum irqchip_verdict user_prepare(struct irqchip *chip, struct vcpu *v)
{
	struct user_cpu *c = cpu_of(chip, v);
	if (!take_events(v, c))
		return IRQCHIP_RESET;
	if (c->mp == MP_WAIT_SIPI)
		return IRQCHIP_HALTED;
	uint64_t due = lapic_timer_deadline(c->apic);
	if (due != WAKE_NEVER && lapic_timer_expire(c->apic, clock_tsc()))
		c->timer_stamp = due;
	if (c->mp == MP_HALTED) {
		if (!c->nmi_pending && !(v->run->if_flag && lapic_pending(c->apic) >= 0))
			return IRQCHIP_HALTED;
		leave_halt(v, c);
	}
	c->timer_stamp = 0;
	inject(v, c);
	pv_eoi_arm(v, c);
	vcpu_arm_timer(v, lapic_timer_deadline(c->apic));
	v->run->cr8 = lapic_cr8(c->apic);
	return IRQCHIP_RUN;
}

static void user_harvest(struct irqchip *chip, struct vcpu *v)
{
	struct user_cpu *c = cpu_of(chip, v);
	pv_eoi_harvest(v, c);
	if (v->run->cr8 != lapic_cr8(c->apic))
		lapic_set_cr8(c->apic, (uint8_t)v->run->cr8);
}

/* An NMI that KVM latched and that nothing blocks any more ends a halt at once. KVM itself does not look when HLT comes
 * out. */
static bool kvm_holds_nmi(struct vcpu *v, struct user_cpu *c)
{
	struct kvm_vcpu_events events;
	if (!c->nmi_given)
		return false;
	if (v->syncs_events)
		events = v->run->s.regs.events;
	else if (ioctl(v->fd, KVM_GET_VCPU_EVENTS, &events) < 0)
		return false;
	c->nmi_given = events.nmi.pending || events.nmi.masked;
	return events.nmi.pending && !events.nmi.masked;
}

static void user_halt(struct irqchip *chip, struct vcpu *v)
{
	struct user_cpu *c = cpu_of(chip, v);
	uint64_t stamp;
	if (kvm_holds_nmi(v, c))
		return;
	c->mp = MP_HALTED;
	/* Posts from before this halt did not end it. Their work is seen in IRR all the same. */
	(void)wake_take(&v->wake, &stamp);
}

static uint64_t user_deadline(struct irqchip *chip, struct vcpu *v)
{
	struct user_cpu *c = cpu_of(chip, v);
	return c->mp == MP_WAIT_SIPI ? WAKE_NEVER : lapic_timer_deadline(c->apic);
}

static bool user_is_dead(struct irqchip *chip, struct vcpu *v)
{
	struct user_cpu *c = cpu_of(chip, v);
	return c->mp == MP_WAIT_SIPI || (c->mp == MP_HALTED && !v->run->if_flag);
}

/* ------------------------------------------------------------------------ accesses of the guest */

static uint64_t user_mmio_read(struct irqchip *chip, struct vcpu *v, uint64_t offset, unsigned size)
{
	return lapic_mmio_read(cpu_of(chip, v)->apic, offset, size, clock_tsc());
}

static void user_mmio_write(struct irqchip *chip, struct vcpu *v, uint64_t offset, unsigned size, uint64_t value)
{
	lapic_mmio_write(cpu_of(chip, v)->apic, offset, size, value, clock_tsc());
}

static bool is_lapic_msr(uint32_t index)
{
	return index == MSR_IA32_TSC_DEADLINE || (index >= MSR_X2APIC_FIRST && index <= MSR_X2APIC_LAST);
}

static int user_msr_read(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t *value)
{
	struct user_cpu *c = cpu_of(chip, v);
	if (is_lapic_msr(index))
		return lapic_msr_read(c->apic, index, value, clock_tsc());
	switch (index) {
	case MSR_IA32_APIC_BASE:
		*value = lapic_base(c->apic);
		return 0;
	case MSR_KVM_PV_EOI_EN:
		*value = c->pv_eoi;
		return user(chip)->config.pv_eoi ? 0 : -EINVAL;
	default:
		return -ENOENT;
	}
}

static int user_msr_write(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t value)
{
	struct user_cpu *c = cpu_of(chip, v);
	if (is_lapic_msr(index))
		return lapic_msr_write(c->apic, index, value, clock_tsc());
	switch (index) {
	case MSR_IA32_APIC_BASE:
		if (lapic_set_base(c->apic, value) < 0)
			return -EINVAL;
		/* KVM keeps a copy, from which the guest's CPUID.1:EDX.APIC comes. */
		(void)vcpu_set_msr(v, MSR_IA32_APIC_BASE, value);
		return 0;
	case MSR_IA32_TSC:
	case MSR_IA32_TSC_ADJUST:
		if ((index == MSR_IA32_TSC ? vcpu_write_tsc(v, value) : vcpu_write_tsc_adjust(v, value)) < 0)
			return -EINVAL;
		lapic_set_tsc_offset(c->apic, v->tsc_offset);
		return 0;
	case MSR_KVM_PV_EOI_EN:
		return pv_eoi_write(chip, v, value);
	default:
		return -ENOENT;
	}
}

static void user_describe(struct irqchip *chip, struct vcpu *v, char *text, size_t size)
{
	static const char *const names[] = {"runnable", "halted", "waits for SIPI"};
	struct user_cpu *c = cpu_of(chip, v);
	int n = snprintf(text, size, "%s, %s, ", names[c->mp], v->run->if_flag ? "IF=1" : "IF=0");
	if (n > 0 && (size_t)n < size)
		lapic_describe(c->apic, text + n, size - (size_t)n);
}

const struct irqchip_ops irqchip_user = {
	.name = "user",
	.create = user_create,
	.destroy = user_destroy,
	.msi = user_msi,
	.nmi = user_nmi,
	.has_events = user_has_events,
	.vcpu_init = user_vcpu_init,
	.prepare = user_prepare,
	.harvest = user_harvest,
	.halt = user_halt,
	.deadline = user_deadline,
	.is_dead = user_is_dead,
	.mmio_read = user_mmio_read,
	.mmio_write = user_mmio_write,
	.msr_read = user_msr_read,
	.msr_write = user_msr_write,
	.describe = user_describe,
};
