/* SPDX-License-Identifier: Apache-2.0 */
/* irq.c - what the interrupt stubs call. */
#include "internal.h"

irq_handler *irq_handlers[256];
volatile uint32_t irq_counts[256];
static void (*exception_handlers[32])(struct regs *regs);

void exception_set(unsigned vector, void (*handler)(struct regs *regs))
{
	exception_handlers[vector] = handler;
}

void irq_direct(unsigned vector, void (*entry)(void))
{
	uint64_t to = (uint64_t)entry, *gate = idt + 2 * vector; /* SDM vol. 3, figure 6-8 */

	gate[0] = (gate[0] & 0x0000ffffffff0000) | (to & 0xffff) | (to >> 16 & 0xffff) << 48;
	gate[1] = to >> 32;
}

void exception_handler(struct regs *r)
{
	struct cpu *cpu = this_cpu();
	uint64_t cr2;

	if (r->vector == 13 && cpu->resume != 0) {
		r->rip = cpu->resume;
		cpu->resume = 0;
		return;
	}
	if (exception_handlers[r->vector] != NULL) {
		exception_handlers[r->vector](r);
		return;
	}
	__asm__ volatile("movq %%cr2, %0" : "=r"(cr2));
	print("FAIL cpu %u: exception %lu error 0x%lx at 0x%lx cs 0x%lx flags 0x%lx rsp 0x%lx cr2 0x%lx\n", cpu->id,
	      r->vector, r->error, r->rip, r->cs, r->rflags, r->rsp, cr2);
	print("rax %lx rbx %lx rcx %lx rdx %lx rsi %lx rdi %lx rbp %lx\n", r->rax, r->rbx, r->rcx, r->rdx, r->rsi,
	      r->rdi, r->rbp);
	print("r8 %lx r9 %lx r10 %lx r11 %lx r12 %lx r13 %lx r14 %lx r15 %lx\n", r->r8, r->r9, r->r10, r->r11, r->r12,
	      r->r13, r->r14, r->r15);
	guest_exit(1);
}

void irq_unexpected(unsigned vector, struct irq_frame *frame)
{
	print("FAIL cpu %u: unexpected interrupt 0x%x at 0x%lx cs 0x%lx\n", this_cpu()->id, vector, frame->rip,
	      frame->cs);
	guest_exit(1);
}

void irq_count_eoi(unsigned vector, struct irq_frame *frame)
{
	(void)frame;
	__atomic_fetch_add(&irq_counts[vector], 1, __ATOMIC_SEQ_CST);
	apic_eoi();
}

/* The #GP handler goes on at `resume` and clears it. */
bool rdmsr_ok(uint32_t index, uint64_t *v)
{
	struct cpu *cpu = this_cpu();
	uint32_t lo, hi;

	__asm__ volatile("movq $1f, %2\n\trdmsr\n1:"
	                 : "=a"(lo), "=d"(hi), "+m"(cpu->resume)
	                 : "c"(index), "0"(0), "1"(0)
	                 : "memory");
	*v = (uint64_t)hi << 32 | lo;
	if (cpu->resume == 0)
		return false;
	cpu->resume = 0;
	return true;
}

bool wrmsr_ok(uint32_t index, uint64_t v)
{
	struct cpu *cpu = this_cpu();

	__asm__ volatile("movq $1f, %0\n\twrmsr\n1:"
	                 : "+m"(cpu->resume)
	                 : "c"(index), "a"((uint32_t)v), "d"((uint32_t)(v >> 32))
	                 : "memory");
	if (cpu->resume == 0)
		return false;
	cpu->resume = 0;
	return true;
}
