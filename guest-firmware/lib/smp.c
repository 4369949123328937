/* SPDX-License-Identifier: Apache-2.0 */
/* smp.c - per-CPU blocks, starting other CPUs, ring 3. */
#include "internal.h"

_Static_assert(offsetof(struct cpu, tss) + offsetof(struct tss, rsp) == CPU_RSP0, "layout.h");
_Static_assert(sizeof(struct cpu) < 0x200, "leaves room for the stack");

void cpu_load_tss(void)
{
	struct cpu *cpu = this_cpu();
	uint64_t block = (uint64_t)cpu, tss = (uint64_t)&cpu->tss;
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) gdtr = {GDT_BYTES - 1, (uint64_t)cpu->gdt};

	cpu->gdt[1] = boot_gdt[1];
	cpu->gdt[2] = boot_gdt[2];
	cpu->gdt[3] = boot_gdt[3];
	cpu->gdt[4] = boot_gdt[4];
	cpu->gdt[6] =
		0x0000890000000000ull | (sizeof(struct tss) - 1) | (tss & 0xffffff) << 16 | (tss >> 24 & 0xff) << 56;
	cpu->tss.ist[0] = block + IST_TOP;
	cpu->tss.io_map = sizeof(struct tss);
	__asm__ volatile("lgdt %0\n\tltr %w1" : : "m"(gdtr), "r"(TSS_SEL) : "memory");
}

struct cpu *cpu_block(unsigned id)
{
	return (struct cpu *)(CPU_BLOCKS + (uint64_t)id * CPU_BLOCK);
}

void ap_start(void)
{
	struct cpu *cpu = this_cpu();

	cpu_load_tss();
	if (apic_is_set_up)
		apic_enable();
	cpu->fn(cpu->arg);
	cpu->done = 1;
	if (apic_is_set_up)
		ipi(0, VECTOR_WAKE);
	stop_cpu();
}

static void wake(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	apic_eoi();
}

void cpu_start(unsigned id, void (*fn)(void *arg), void *arg)
{
	struct cpu *cpu = cpu_block(id);
	volatile uint64_t *to = (volatile uint64_t *)TRAMPOLINE;
	const uint64_t *from;

	if (irq_handlers[VECTOR_WAKE] == NULL) {
		irq_set(VECTOR_WAKE, wake);
		for (from = ap_trampoline; from < ap_trampoline_end; from++)
			*to++ = *from;
	}
	cpu->id = id;
	cpu->done = 0;
	cpu->resume = 0;
	cpu->fn = fn;
	cpu->arg = arg;
	apic_send(id, ICR_INIT | ICR_ASSERT);
	apic_send(id, ICR_SIPI | ICR_ASSERT | TRAMPOLINE >> 12);
}

void cpu_wait(unsigned id)
{
	halt_until(cpu_block(id)->done);
}

uint64_t ring3(uint64_t (*fn)(uint64_t arg), uint64_t arg)
{
	return ring3_call(fn, arg);
}
