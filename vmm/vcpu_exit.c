/* SPDX-License-Identifier: Apache-2.0 */
/* vcpu_exit.c - KVM exit reason to handler. Handlers act and return what the loop should do; none sleeps or ends the
 * process. */
#include "vcpu.h"

#include "bus.h"
#include "ioapic.h"
#include "irqchip.h"
#include "lapic.h"
#include "util.h"

#include <string.h>

/* The run page is ours alone while the vCPU is out, so values in it may be read in place. */
static uint64_t get(const uint8_t *data, unsigned size)
{
	uint64_t value = 0;
	memcpy(&value, data, size);
	return value;
}

static enum exit_action on_io(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	struct bus *bus = v->env->pio;
	unsigned size = run->io.size;
	uint8_t *data = (uint8_t *)run + run->io.data_offset;
	stat_add(&v->count.io, 1);
	/* REP INS and OUTS come in batches that fit into a page. */
	for (uint32_t i = 0; i < run->io.count; i++, data += size) {
		if (run->io.direction == KVM_EXIT_IO_OUT) {
			bus_write(bus, run->io.port, size, get(data, size));
		} else {
			uint64_t value;
			bus_read(bus, run->io.port, size, &value);
			memcpy(data, &value, size);
		}
	}
	return EXIT_RESUME;
}

static bool in_lapic(const struct vcpu *v, uint64_t addr, unsigned size)
{
	return v->env->chip->ops->mmio_read && addr >= LAPIC_BASE_DEFAULT &&
	       addr + size <= LAPIC_BASE_DEFAULT + LAPIC_SIZE;
}

static void mmio_access(struct vcpu *v, uint64_t addr, unsigned size, uint8_t *data, bool write)
{
	struct irqchip *chip = v->env->chip;
	uint64_t value = write ? get(data, size) : 0;
	if (in_lapic(v, addr, size)) {
		uint64_t offset = addr - LAPIC_BASE_DEFAULT;
		if (write)
			chip->ops->mmio_write(chip, v, offset, size, value);
		else
			value = chip->ops->mmio_read(chip, v, offset, size);
	} else if (write) {
		bus_write(v->env->mmio, addr, size, value);
	} else {
		bus_read(v->env->mmio, addr, size, &value);
	}
	if (!write)
		memcpy(data, &value, size);
}

static enum exit_action on_mmio(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	unsigned len = run->mmio.len > 8 ? 8 : run->mmio.len;
	uint64_t addr = run->mmio.phys_addr;
	stat_add(&v->count.mmio, 1);
	if (len && !(len & (len - 1))) {
		mmio_access(v, addr, len, run->mmio.data, run->mmio.is_write);
	} else { /* a part of an access that crosses a page: byte by byte */
		for (unsigned i = 0; i < len; i++)
			mmio_access(v, addr + i, 1, run->mmio.data + i, run->mmio.is_write);
	}
	return EXIT_RESUME;
}

static enum exit_action on_halt(struct vcpu *v)
{
	stat_add(&v->count.halt, 1);
	return EXIT_HALT;
}

static enum exit_action on_msr(struct vcpu *v)
{
	stat_add(&v->count.msr, 1);
	return vcpu_msr_exit(v);
}

static enum exit_action on_irq_window(struct vcpu *v)
{
	stat_add(&v->count.irq_window, 1);
	return EXIT_RESUME;
}

/* A signal; or CR8, which every entry and exit carries anyway. */
static enum exit_action on_nothing(struct vcpu *v)
{
	stat_add(v->run->exit_reason == KVM_EXIT_INTR ? &v->count.signal : &v->count.other, 1);
	return EXIT_RESUME;
}

static enum exit_action on_ioapic_eoi(struct vcpu *v)
{
	stat_add(&v->count.other, 1);
	ioapic_eoi(v->env->chip->ioapic, v->run->eoi.vector);
	return EXIT_RESUME;
}

static enum exit_action on_hypercall(struct vcpu *v)
{
	stat_add(&v->count.other, 1);
	v->run->hypercall.ret = (uint64_t)-1000; /* -KVM_ENOSYS */
	return EXIT_RESUME;
}

static enum exit_action on_shutdown(struct vcpu *v)
{
	return vcpu_end(v, LULL_EXIT_TRIPLE_FAULT, 0, "vcpu %u: triple fault", v->index);
}

static enum exit_action on_system_event(struct vcpu *v)
{
	switch (v->run->system_event.type) {
	case KVM_SYSTEM_EVENT_SHUTDOWN:
		return vcpu_end(v, LULL_EXIT_POWEROFF, 0, "%s", "");
	case KVM_SYSTEM_EVENT_RESET:
		return vcpu_end(v, LULL_EXIT_RESET, 0, "vcpu %u: system reset event", v->index);
	default:
		return vcpu_end(v, LULL_EXIT_KVM_ERROR, v->run->system_event.type, "vcpu %u: KVM system event %u",
		                v->index, v->run->system_event.type);
	}
}

static enum exit_action on_fail_entry(struct vcpu *v)
{
	return vcpu_end(v, LULL_EXIT_KVM_ERROR, 0,
	                "vcpu %u: the processor refused the guest state (hardware reason 0x%llx on CPU %u)", v->index,
	                (unsigned long long)v->run->fail_entry.hardware_entry_failure_reason, v->run->fail_entry.cpu);
}

static enum exit_action on_internal_error(struct vcpu *v)
{
	static const char *const names[] = {
		[KVM_INTERNAL_ERROR_EMULATION] = "an instruction that KVM cannot emulate",
		[KVM_INTERNAL_ERROR_SIMUL_EX] = "an exception while delivering another",
		[KVM_INTERNAL_ERROR_DELIVERY_EV] = "an exit while delivering an event",
		[KVM_INTERNAL_ERROR_UNEXPECTED_EXIT_REASON] = "an exit reason that KVM does not know",
	};
	uint32_t sub = v->run->internal.suberror;
	const char *name = sub < ARRAY_SIZE(names) && names[sub] ? names[sub] : "no further reason";
	return vcpu_end(v, LULL_EXIT_KVM_ERROR, sub, "vcpu %u: KVM internal error %u: %s", v->index, sub, name);
}

static enum exit_action on_unexpected(struct vcpu *v)
{
	return vcpu_end(v, LULL_EXIT_KVM_ERROR, v->run->exit_reason,
	                "vcpu %u: KVM exit reason %u, which lull does not handle", v->index, v->run->exit_reason);
}

static enum exit_action (*const handlers[])(struct vcpu *v) = {
	[KVM_EXIT_UNKNOWN] = on_unexpected,
	[KVM_EXIT_EXCEPTION] = on_unexpected,
	[KVM_EXIT_IO] = on_io,
	[KVM_EXIT_HYPERCALL] = on_hypercall,
	[KVM_EXIT_DEBUG] = on_nothing,
	[KVM_EXIT_HLT] = on_halt,
	[KVM_EXIT_MMIO] = on_mmio,
	[KVM_EXIT_IRQ_WINDOW_OPEN] = on_irq_window,
	[KVM_EXIT_SHUTDOWN] = on_shutdown,
	[KVM_EXIT_FAIL_ENTRY] = on_fail_entry,
	[KVM_EXIT_INTR] = on_nothing,
	[KVM_EXIT_SET_TPR] = on_nothing,
	[KVM_EXIT_NMI] = on_nothing,
	[KVM_EXIT_INTERNAL_ERROR] = on_internal_error,
	[KVM_EXIT_SYSTEM_EVENT] = on_system_event,
	[KVM_EXIT_IOAPIC_EOI] = on_ioapic_eoi,
	[KVM_EXIT_X86_RDMSR] = on_msr,
	[KVM_EXIT_X86_WRMSR] = on_msr,
	[KVM_EXIT_X86_BUS_LOCK] = on_nothing,
};

bool vcpu_exit_unfinished(const struct vcpu *v)
{
	switch (v->run->exit_reason) {
	case KVM_EXIT_IO:
	case KVM_EXIT_MMIO:
	case KVM_EXIT_HYPERCALL:
	case KVM_EXIT_X86_RDMSR:
	case KVM_EXIT_X86_WRMSR:
		return true;
	default:
		return false;
	}
}

enum exit_action vcpu_exit(struct vcpu *v)
{
	uint32_t reason = v->run->exit_reason;
	if (reason >= ARRAY_SIZE(handlers) || !handlers[reason])
		return on_unexpected(v);
	return handlers[reason](v);
}
