/* SPDX-License-Identifier: Apache-2.0 */
/* blob.S - the demonstration guest inside lull: bytes between lull_demo_start and lull_demo_end. */
	.section .rodata.lull_demo, "a", @progbits
	.balign	16
	.globl	lull_demo_start
	.hidden	lull_demo_start
	.type	lull_demo_start, @object
lull_demo_start:
	.incbin	"guests/demo.elf"
	.size	lull_demo_start, . - lull_demo_start
	.globl	lull_demo_end
	.hidden	lull_demo_end
	.type	lull_demo_end, @object
lull_demo_end:
	.byte	0
	.size	lull_demo_end, 1
	.section .note.GNU-stack, "", @progbits
