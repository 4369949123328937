/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - addresses, selectors and offsets that C and assembly share. */
#ifndef GUEST_LAYOUT_H
#define GUEST_LAYOUT_H

#define KERNEL_CS 0x08
#define KERNEL_DS 0x10
#define USER_DS   0x1b /* with RPL 3 */
#define USER_CS   0x23
#define CODE32_CS 0x28
#define TSS_SEL   0x30
#define GDT_BYTES 0x40

#define STUBS 0x100400 /* vector n enters at STUBS + 8 * n */

/* One block per CPU, aligned to its size: struct cpu, then the stacks. */
#define CPU_BLOCK  0x2000
#define CPU_RSP0   0x68 /* offset of tss.rsp0 */
#define STACK_TOP  0x1000
#define IST_TOP    0x1400
#define USER_TOP   0x2000
#define CPU_BLOCKS 0x140000 /* the block of APIC ID n: CPU_BLOCKS + n * CPU_BLOCK */
#define TRAMPOLINE 0x40000  /* real-mode start of the other CPUs: SIPI vector TRAMPOLINE >> 12 */

#endif
