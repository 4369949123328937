/* SPDX-License-Identifier: Apache-2.0 */
/* apic.c - local APIC in both modes and the IOAPIC. */
#include "internal.h"

#define IOAPIC_BASE 0xfec00000ull

bool apic_x2, apic_is_set_up;

static void spurious(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
}

bool apic_is_kvms(void)
{
	return param_is("irqchip", "kernel");
}

void apic_setup(void)
{
	apic_setup_as(param_is("apic", "x2apic"));
}

void apic_setup_as(bool x2apic)
{
	apic_x2 = x2apic;
	if (apic_x2 && !(cpuid(1, 0).ecx & CPUID_1_ECX_X2APIC))
		skip("no x2APIC");
	irq_set(VECTOR_SPURIOUS, spurious);
	apic_is_set_up = true;
	apic_enable();
}

void apic_enable(void)
{
	if (apic_x2)
		wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | 3 << 10);
	apic_write(APIC_LVT_LINT0, LVT_MASKED);
	apic_write(APIC_SVR, 0x100 | VECTOR_SPURIOUS);
}

unsigned apic_id(void)
{
	return apic_x2 ? apic_read(APIC_ID) : apic_read(APIC_ID) >> 24;
}

void apic_send(uint32_t dest, uint32_t command)
{
	if (apic_x2) {
		wrmsr(MSR_X2APIC + (APIC_ICR >> 4), (uint64_t)dest << 32 | command);
	} else {
		if (!(command & ICR_OTHERS))
			apic_write(APIC_ICR_HIGH, dest << 24);
		apic_write(APIC_ICR, command);
	}
}

uint32_t ioapic_read(unsigned reg)
{
	mmio_write(IOAPIC_BASE, reg);
	return mmio_read(IOAPIC_BASE + 0x10);
}

void ioapic_write(unsigned reg, uint32_t v)
{
	mmio_write(IOAPIC_BASE, reg);
	mmio_write(IOAPIC_BASE + 0x10, v);
}

void ioapic_route(unsigned pin, uint32_t flags, uint32_t dest)
{
	ioapic_write(0x11 + 2 * pin, dest << 24);
	ioapic_write(0x10 + 2 * pin, flags);
}
