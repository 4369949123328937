/* SPDX-License-Identifier: Apache-2.0 */
/* vcpu_dump.c - the register dump that goes with an end that nobody wanted. */
#include "vcpu.h"

#include "guest_mem.h"
#include "irqchip.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define DUMP_BYTES 4096

struct text {
	char *buf;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->buf + t->used, DUMP_BYTES - t->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->used += (size_t)n < DUMP_BYTES - t->used ? (size_t)n : DUMP_BYTES - t->used - 1;
}

static void put_regs(struct text *t, const struct kvm_regs *r)
{
	const struct {
		const char *name;
		uint64_t value;
	} regs[] = {
		{"rip", r->rip}, {"rsp", r->rsp}, {"rfl", r->rflags}, {"rax", r->rax}, {"rbx", r->rbx}, {"rcx", r->rcx},
		{"rdx", r->rdx}, {"rsi", r->rsi}, {"rdi", r->rdi},    {"rbp", r->rbp}, {"r8 ", r->r8},  {"r9 ", r->r9},
		{"r10", r->r10}, {"r11", r->r11}, {"r12", r->r12},    {"r13", r->r13}, {"r14", r->r14}, {"r15", r->r15},
	};
	for (unsigned i = 0; i < 18; i++)
		put(t, "%s %016llx%s", regs[i].name, (unsigned long long)regs[i].value, i % 3 == 2 ? "\n" : "  ");
}

static void put_sregs(struct text *t, const struct kvm_sregs *s)
{
	const struct {
		const char *name;
		const struct kvm_segment *seg;
	} segs[] = {{"cs", &s->cs}, {"ss", &s->ss}, {"ds", &s->ds}, {"es", &s->es},
	            {"fs", &s->fs}, {"gs", &s->gs}, {"tr", &s->tr}, {"ld", &s->ldt}};
	put(t, "cr0 %llx  cr2 %llx  cr3 %llx  cr4 %llx  cr8 %llx  efer %llx  apic_base %llx\n",
	    (unsigned long long)s->cr0, (unsigned long long)s->cr2, (unsigned long long)s->cr3,
	    (unsigned long long)s->cr4, (unsigned long long)s->cr8, (unsigned long long)s->efer,
	    (unsigned long long)s->apic_base);
	for (unsigned i = 0; i < 8; i++)
		put(t, "%s %04x base %llx limit %x type %x dpl %u%s%s", segs[i].name, segs[i].seg->selector,
		    (unsigned long long)segs[i].seg->base, segs[i].seg->limit, segs[i].seg->type, segs[i].seg->dpl,
		    segs[i].seg->l    ? " 64"
		    : segs[i].seg->db ? " 32"
		                      : "",
		    i % 2 ? "\n" : "   ");
	put(t, "gdt %llx+%x  idt %llx+%x\n", (unsigned long long)s->gdt.base, s->gdt.limit,
	    (unsigned long long)s->idt.base, s->idt.limit);
}

/* The bytes at CS:RIP through the guest's own page tables. */
static void put_code(struct text *t, struct vcpu *v, const struct kvm_regs *r, const struct kvm_sregs *s)
{
	struct kvm_translation tr = {.linear_address = (s->cs.l ? 0 : s->cs.base) + r->rip};
	uint8_t code[16];
	if (ioctl(v->fd, KVM_TRANSLATE, &tr) < 0 || !tr.valid ||
	    guest_mem_read(v->env->mem, gpa(tr.physical_address), code, sizeof(code)) < 0) {
		put(t, "code: nothing mapped at cs:rip\n");
		return;
	}
	put(t, "code:");
	for (unsigned i = 0; i < sizeof(code); i++)
		put(t, " %02x", code[i]);
	put(t, "\n");
}

void vcpu_dump(struct vcpu *v)
{
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct text t = {.buf = malloc(DUMP_BYTES)};
	if (!t.buf)
		return;
	put(&t, "vcpu %u, last exit %u:\n", v->index, v->run->exit_reason);
	/* Registers are only right once an access that is under way has been finished. */
	v->run->immediate_exit = 1;
	(void)!ioctl(v->fd, KVM_RUN, 0);
	if (ioctl(v->fd, KVM_GET_REGS, &regs) < 0 || ioctl(v->fd, KVM_GET_SREGS, &sregs) < 0) {
		put(&t, "registers cannot be read\n");
	} else {
		put_regs(&t, &regs);
		put_sregs(&t, &sregs);
		put_code(&t, v, &regs, &sregs);
	}
	char chip[512] = "";
	v->env->chip->ops->describe(v->env->chip, v, chip, sizeof(chip));
	put(&t, "%s", chip);
	free(v->dump);
	v->dump = t.buf;
}
