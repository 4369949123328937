/* SPDX-License-Identifier: Apache-2.0 */
/* exit_now.S - the least a guest can do; what start-up is measured with. The same bytes in 16, 32 and 64-bit mode. */
	.text
	.globl	_start
	.code32
_start:
	xorl	%eax, %eax
	outl	%eax, $0xf4
1:	hlt
	jmp	1b
	.balign	4
	.long	multiboot_magic, 3, multiboot_checksum

	.section .note.Xen, "a", @note
	.balign	4
	.long	4, 4, 18
	.asciz	"Xen"
	.long	_start
	.section .note.GNU-stack, "", @progbits
