/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the parts of the runtime and start.S know of each other. */
#ifndef GUEST_INTERNAL_H
#define GUEST_INTERNAL_H

#include "guest.h"

/* start.S */
extern uint64_t boot_entry[5];
extern uint32_t boot_entry_is_long;
extern uint64_t boot_gdt[8];
extern uint64_t idt[512];
extern const uint64_t ap_trampoline[], ap_trampoline_end[];
uint64_t ring3_call(uint64_t (*fn)(uint64_t), uint64_t arg);

/* called by start.S */
__attribute__((noreturn)) void guest_start(void);
__attribute__((noreturn)) void ap_start(void);
void exception_handler(struct regs *regs);
void irq_unexpected(unsigned vector, struct irq_frame *frame);

extern bool apic_is_set_up;
void cpu_load_tss(void);

#endif
