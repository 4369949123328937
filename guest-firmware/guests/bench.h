/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - interrupts with as little around them as can be, so that a benchmark shows the monitor's part. */
#ifndef BENCH_H
#define BENCH_H

#include "guest.h"

/* In r15 while such an interrupt can come: the word for PV EOI of this CPU, whose bit 0 is set as long as clearing it
 * ends the interrupt. Without PV EOI it never is. */
#define BENCH_PV_EOI_WORD __asm__("r15")

/* The end of a handler for irq_direct(). Needs x2APIC. */
#define BENCH_EOI_IRETQ                                                                                                \
	"btrl $0, (%r15)\n\t"                                                                                          \
	"jnc 1f\n\t"                                                                                                   \
	"iretq\n"                                                                                                      \
	"1: push %rax\n\t"                                                                                             \
	"push %rcx\n\t"                                                                                                \
	"push %rdx\n\t"                                                                                                \
	"xorl %eax, %eax\n\t"                                                                                          \
	"xorl %edx, %edx\n\t"                                                                                          \
	"movl $0x80b, %ecx\n\t" /* MSR of the EOI register */                                                          \
	"wrmsr\n\t"                                                                                                    \
	"pop %rdx\n\t"                                                                                                 \
	"pop %rcx\n\t"                                                                                                 \
	"pop %rax\n\t"                                                                                                 \
	"iretq"

static inline void bench_pv_eoi(volatile uint32_t *word)
{
	if (kvm_features() & 1 << KVM_FEATURE_PV_EOI)
		wrmsr(MSR_KVM_PV_EOI, (uint64_t)word | 1);
}

static inline void bench_pv_eoi_off(void)
{
	if (kvm_features() & 1 << KVM_FEATURE_PV_EOI)
		wrmsr(MSR_KVM_PV_EOI, 0);
}

#endif
