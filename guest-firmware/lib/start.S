/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.S - from any supported entry (PVH, multiboot 1, long mode, SIPI) to C in long mode, the static tables, the
 * interrupt stubs and the way to ring 3 and back.
 */
#include "layout.h"

	.section .boot, "ax"
	.globl	_start
	.code32
_start:
	cld
	/* Entered in 32-bit or in 64-bit mode? 0x41 is `inc %ecx` in the one and a REX prefix of the next
	 * instruction in the other. */
	xorl	%ecx, %ecx
	.byte	0x41
	testb	$0, %al
	testl	%ecx, %ecx
	jz	entry64

	movl	%eax, boot_entry
	movl	%ebx, boot_entry + 8
	movl	$1f, %edi
	jmp	enable_long_mode
1:
	.code64
	jmp	common64

	.balign	4
	/* Multiboot 1: page-aligned modules and memory information. Only the ELF32 copy has it, see guests.mk. */
	.long	multiboot_magic, 3, multiboot_checksum

	.code32
	/* Goes on at %edi in long mode. */
enable_long_mode:
	movl	$pml4, %eax
	movl	%eax, %cr3
	movl	$0x620, %eax		/* PAE, OSFXSR, OSXMMEXCPT */
	movl	%eax, %cr4
	movl	$0xc0000080, %ecx	/* EFER */
	movl	$0x100, %eax		/* LME */
	xorl	%edx, %edx
	wrmsr
	movl	$0x80000033, %eax	/* PG, NE, ET, MP, PE */
	movl	%eax, %cr0
	lgdt	boot_gdt_ptr
	ljmp	$KERNEL_CS, $1f
	.code64
1:	movl	$KERNEL_DS, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	jmp	*%rdi

entry64:
	movq	%rax, boot_entry
	movq	%rbx, boot_entry + 8
	movq	%rsi, boot_entry + 16
	movq	%rdi, boot_entry + 24
	movq	%rdx, boot_entry + 32
	incl	boot_entry_is_long
	movl	$CPU_BLOCKS + STACK_TOP, %esp
	movl	$pml4, %eax
	movq	%rax, %cr3
	lgdt	boot_gdt_ptr
	movl	$KERNEL_DS, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	pushq	$KERNEL_CS
	pushq	$common64
	lretq

common64:
	movl	$CPU_BLOCKS + STACK_TOP, %esp
	lidt	idt_ptr
	call	guest_start		/* does not return */

	/* ---- other CPUs: copied to TRAMPOLINE; SIPI starts them there in real mode ---- */
	.code16
	.balign	8
	.globl	ap_trampoline, ap_trampoline_end
ap_trampoline:
	cli
	movw	%cs, %ax
	movw	%ax, %ds
	lgdtl	9f - ap_trampoline
	movl	$0x11, %eax		/* ET, PE: also takes CD and NW away */
	movl	%eax, %cr0
	ljmpl	$CODE32_CS, $ap_entry32
	.balign	8
9:	.word	GDT_BYTES - 1
	.long	boot_gdt
	.balign	8
ap_trampoline_end:
	.code32
ap_entry32:
	movl	$KERNEL_DS, %eax
	movl	%eax, %ds
	movl	%eax, %ss
	movl	$ap_entry64, %edi
	jmp	enable_long_mode
	.code64
ap_entry64:
	lidt	idt_ptr
	xorl	%eax, %eax
	cpuid
	cmpl	$0xb, %eax
	jb	1f
	movl	$0xb, %eax
	xorl	%ecx, %ecx
	cpuid
	testl	%ebx, %ebx
	jnz	2f
1:	movl	$1, %eax
	cpuid
	shrl	$24, %ebx
	movl	%ebx, %edx
2:	shll	$13, %edx
	leal	CPU_BLOCKS + STACK_TOP(%rdx), %esp
	call	ap_start		/* does not return */

	.text
	/* uint64_t ring3_call(uint64_t (*fn)(uint64_t), uint64_t arg): with interrupts on. RSP0 is the stack as it is
	 * here, so that every entry from ring 3 lands right below what is saved. */
	.globl	ring3_call
ring3_call:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushfq
	movq	%rsp, %rax
	andq	$-CPU_BLOCK, %rax
	pushq	CPU_RSP0(%rax)
	movq	%rsp, %rbx		/* the CPU aligns what it takes from the TSS to 16 */
	andq	$-16, %rsp
	pushq	%rbx
	pushq	%rbx
	movq	%rsp, CPU_RSP0(%rax)
	leaq	USER_TOP(%rax), %rdx
	pushq	$USER_DS
	pushq	%rdx
	pushq	$0x202
	pushq	$USER_CS
	pushq	$1f
	iretq
1:	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	int3

	/* ---- interrupts and exceptions ---- */
	.section .stubs, "ax"
stubs:
	.set	vector, 0
	.rept	256
	.balign	8
	.if	vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30
	.byte	0x66, 0x90		/* the CPU pushed an error code */
	.else
	pushq	$0
	.endif
	.if	vector < 32
	call	exception_entry
	.else
	call	irq_entry
	.endif
	.set	vector, vector + 1
	.endr
	.balign	8

	/* At STUBS + 8 * 256: int3 out of ring 3. There is no other call gate (see README.md). */
ring3_return:
	testb	$3, 8(%rsp)
	jz	STUBS + 8 * 3
	addq	$40, %rsp		/* the frame */
	popq	%rsp
	movq	%rsp, %rdx
	andq	$-CPU_BLOCK, %rdx
	popq	CPU_RSP0(%rdx)
	popfq
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret

	.text
	/* All registers as struct regs. The return address into the stubs says which vector it is. */
exception_entry:
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %rdi
	subq	$stubs, 120(%rdi)
	shrq	$3, 120(%rdi)
	call	exception_handler
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	addq	$16, %rsp
	iretq

	/* Only what C may change: each instruction here costs a microsecond on an emulating host. */
irq_entry:
	xchgq	%rax, (%rsp)
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	subl	$STUBS, %eax
	leaq	72(%rsp), %rsi
	shrl	$3, %eax
	movl	%eax, %edi
	movq	irq_handlers(, %rax, 8), %rax
	testq	%rax, %rax
	jz	1f
	call	*%rax
2:	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	addq	$8, %rsp
	iretq
1:	call	irq_unexpected
	jmp	2b

	/* ---- static tables ---- */
	.section .tables, "aw"
	.balign	4096
	/* Identity map with 2 MiB pages, open to ring 3, accessed and dirty set: 0 to 1 GiB and 3 to 4 GiB. */
pml4:
	.quad	pdpt + 0x27
	.fill	511, 8, 0
pdpt:
	.quad	pd_low + 0x27, 0, 0, pd_high + 0x27
	.fill	508, 8, 0
pd_low:
	.set	page, 0
	.rept	512
	.quad	page + 0xe7
	.set	page, page + 0x200000
	.endr
pd_high:
	.rept	512
	.set	device, 0
	.if	page + 0x80000000 >= 0xd0000000
	.set	device, 0x10		/* PCD */
	.endif
	.quad	page + 0x80000000 + 0xe7 + device
	.set	page, page + 0x200000
	.endr

	.globl	idt
idt:
	.set	vector, 0
	.rept	256
	.if	vector == 3
	.word	(STUBS & 0xffff) + 8 * 256, KERNEL_CS	/* ring3_return */
	.byte	0, 0xee
	.word	STUBS >> 16
	.quad	0
	.else
	.word	(STUBS & 0xffff) + 8 * vector, KERNEL_CS
	.byte	(vector == 2 || vector == 8), 0x8e	/* NMI and double fault on IST 1 */
	.word	STUBS >> 16
	.quad	0
	.endif
	.set	vector, vector + 1
	.endr
	.globl	boot_gdt
boot_gdt:
	.quad	0
	.quad	0x00af9b000000ffff
	.quad	0x00cf93000000ffff
	.quad	0x00cff3000000ffff
	.quad	0x00affb000000ffff
	.quad	0x00cf9b000000ffff
	.quad	0, 0			/* TSS */
	.word	0, 0, 0
boot_gdt_ptr:
	.word	GDT_BYTES - 1
	.quad	boot_gdt
	.word	0, 0, 0
idt_ptr:
	.word	256 * 16 - 1
	.quad	idt
	.balign	8
	.globl	boot_entry, boot_entry_is_long
boot_entry:
	.quad	0, 0, 0, 0, 0		/* RAX, RBX, RSI, RDI, RDX */
boot_entry_is_long:
	.long	0

	/* PVH: XEN_ELFNOTE_PHYS32_ENTRY. */
	.section .note.Xen, "a", @note
	.balign	4
	.long	4, 4, 18
	.asciz	"Xen"
	.long	_start
	.section .note.GNU-stack, "", @progbits
