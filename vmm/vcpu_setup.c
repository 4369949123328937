/* SPDX-License-Identifier: Apache-2.0 */
/* vcpu_setup.c - register state: boot, INIT, SIPI, CPUID, and the probe of what KVM lets out. */
#include "vcpu.h"

#include "clock.h"
#include "error.h"
#include "guest_cpuid.h"
#include "kvm.h"
#include "lapic.h"
#include "machine.h"
#include "util.h"

#include <errno.h>
#include <linux/kvm_para.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
	CR0_PE = 1 << 0,
	CR0_ET = 1 << 4,
	CR0_NE = 1 << 5,
	CR4_PAE = 1 << 5,
	EFER_LME = 1 << 8,
	EFER_LMA = 1 << 10,
	RFLAGS_FIXED = 1 << 1,
	DR6_RESET = 0xffff0ff0u,
	DR7_RESET = 0x400,
	/* Selectors of the boot GDT. 0x10 and 0x18 are what the Linux 64-bit boot protocol names. */
	SEL_CODE32 = 0x08,
	SEL_CODE64 = 0x10,
	SEL_DATA = 0x18,
	SEL_TSS = 0x20,
};
#define CR0_PG (1u << 31)

static struct kvm_segment segment(uint16_t selector, uint8_t type, bool code64, bool code32, bool system)
{
	return (struct kvm_segment){
		.selector = selector,
		.limit = system ? 0x67 : 0xffffffffu,
		.type = type,
		.present = 1,
		.s = !system,
		.db = code32,
		.l = code64,
		.g = !system,
	};
}

static struct kvm_segment real_segment(uint16_t selector, bool code)
{
	return (struct kvm_segment){
		.selector = selector,
		.base = (uint64_t)selector << 4,
		.limit = 0xffff,
		.type = code ? 11 : 3,
		.present = 1,
		.s = 1,
	};
}

static void set_data_segments(struct kvm_sregs *s, struct kvm_segment data)
{
	s->ds = s->es = s->fs = s->gs = s->ss = data;
}

int vcpu_write_boot_tables(struct guest_mem *mem, struct lull_error *err)
{
	/* Ring 3 may use these pages: a tiny guest needs no page tables of its own. */
	enum {
		PRESENT_WRITE_USER = 7,
		LARGE = 1 << 7,
		ENTRIES = 512
	};
	uint64_t *table = guest_mem_at(mem, gpa(MACHINE_PAGE_TABLES), KiB(24));
	const uint64_t gdt[] = {
		[SEL_CODE32 / 8] = 0x00cf9b000000ffffull,
		[SEL_CODE64 / 8] = 0x00af9b000000ffffull,
		[SEL_DATA / 8] = 0x00cf93000000ffffull,
		[SEL_TSS / 8] = 0x00008b0000000067ull,
		[SEL_TSS / 8 + 1] = 0,
	};
	if (!table || guest_mem_write(mem, gpa(MACHINE_GDT), gdt, sizeof(gdt)) < 0)
		return error_set(err, -EFAULT, "memory: too little for the boot tables");
	table[0] = (MACHINE_PAGE_TABLES + 4096) | PRESENT_WRITE_USER;
	for (unsigned i = 0; i < 4; i++)
		table[ENTRIES + i] = (MACHINE_PAGE_TABLES + (2 + i) * 4096) | PRESENT_WRITE_USER;
	for (uint64_t i = 0; i < 4ull * ENTRIES; i++)
		table[2ull * ENTRIES + i] = i << 21 | PRESENT_WRITE_USER | LARGE;
	return 0;
}

static void mode_sregs(struct kvm_sregs *s, const struct boot_state *boot)
{
	if (boot->mode == BOOT_REAL) {
		uint16_t selector = boot->entry < 0x10000 ? 0 : (uint16_t)(boot->entry >> 4);
		s->cs = real_segment(selector, true);
		set_data_segments(s, real_segment(selector, false));
		s->ss = real_segment(0, false);
		s->cr0 = CR0_ET;
		return;
	}
	s->gdt = (struct kvm_dtable){.base = MACHINE_GDT, .limit = 6 * 8 - 1};
	s->idt = (struct kvm_dtable){0};
	s->tr = segment(SEL_TSS, 11, false, false, true);
	set_data_segments(s, segment(SEL_DATA, 3, false, true, false));
	if (boot->mode == BOOT_PROTECTED) {
		s->cs = segment(SEL_CODE32, 11, false, true, false);
		s->cr0 = CR0_PE | CR0_ET;
		return;
	}
	s->cs = segment(SEL_CODE64, 11, true, false, false);
	s->cr0 = CR0_PG | CR0_PE | CR0_ET | CR0_NE;
	s->cr3 = MACHINE_PAGE_TABLES;
	s->cr4 = CR4_PAE;
	s->efer = EFER_LME | EFER_LMA;
}

int vcpu_setup_boot(struct vcpu *v, const struct boot_state *boot, struct lull_error *err)
{
	struct kvm_sregs s = v->reset_sregs;
	mode_sregs(&s, boot);
	bool far_real = boot->mode == BOOT_REAL && boot->entry >= 0x10000;
	struct kvm_regs r = {
		.rip = far_real ? boot->entry & 15 : boot->entry,
		.rsp = boot->stack,
		.rax = boot->rax,
		.rbx = boot->rbx,
		.rdx = boot->rdx,
		.rdi = boot->rdi,
		.rsi = boot->rsi,
		.rflags = RFLAGS_FIXED,
	};
	if (ioctl(v->fd, KVM_SET_SREGS, &s) < 0)
		return error_sys(err, -errno, "vcpu %u: KVM_SET_SREGS", v->index);
	if (ioctl(v->fd, KVM_SET_REGS, &r) < 0)
		return error_sys(err, -errno, "vcpu %u: KVM_SET_REGS", v->index);
	return 0;
}

/* ------------------------------------------------------------------------------- INIT and SIPI */

int vcpu_set_msr(struct vcpu *v, uint32_t index, uint64_t value)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} msrs = {.head = {.nmsrs = 1}, .entry = {.index = index, .data = value}};
	return ioctl(v->fd, KVM_SET_MSRS, &msrs) == 1 ? 0 : -EINVAL;
}

int vcpu_get_msr(struct vcpu *v, uint32_t index, uint64_t *value)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} msrs = {.head = {.nmsrs = 1}, .entry = {.index = index}};
	if (ioctl(v->fd, KVM_GET_MSRS, &msrs) != 1)
		return -EINVAL;
	*value = msrs.entry.data;
	return 0;
}

/* Lets KVM finish an access that it handed out. What that reads does not matter any more. */
static void finish_access(struct vcpu *v)
{
	v->run->immediate_exit = 1;
	for (unsigned i = 0; v->unfinished && i < 64; i++)
		v->unfinished = ioctl(v->fd, KVM_RUN, 0) == 0 && vcpu_exit_unfinished(v);
	v->run->immediate_exit = 0;
}

int vcpu_setup_init(struct vcpu *v)
{
	/* Else it would write its result, and the address of the next instruction, into the registers of the new start.
	 */
	finish_access(v);
	/* KVM would go on writing into the next kernel's memory. Unknown ones are fine: then there is nothing to stop.
	 */
	static const uint32_t pv[] = {MSR_KVM_SYSTEM_TIME_NEW, MSR_KVM_SYSTEM_TIME, MSR_KVM_STEAL_TIME};
	for (size_t i = 0; i < ARRAY_SIZE(pv); i++)
		(void)vcpu_set_msr(v, pv[i], 0);
	steal_reset(&v->steal);
	struct kvm_vcpu_events events;
	if (ioctl(v->fd, KVM_GET_VCPU_EVENTS, &events) == 0) {
		memset(&events.exception, 0, sizeof(events.exception));
		memset(&events.interrupt, 0, sizeof(events.interrupt));
		memset(&events.nmi, 0, sizeof(events.nmi));
		/* Without these flags KVM would keep the NMIs that wait and the shadow of an STI, which with IF = 0
		 * is a state that VMX refuses to enter. */
		events.flags = KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SHADOW;
		if (ioctl(v->fd, KVM_SET_VCPU_EVENTS, &events) < 0)
			return -errno;
	}
	struct kvm_debugregs debug = {.dr6 = DR6_RESET, .dr7 = DR7_RESET};
	if (ioctl(v->fd, KVM_SET_DEBUGREGS, &debug) < 0)
		return -errno;
	v->injected = false;
	/* What the run page has of them is history, too. */
	memset(&v->run->s.regs.events, 0, sizeof(v->run->s.regs.events));
	v->run->kvm_dirty_regs = 0;
	return 0;
}

int vcpu_setup_sipi(struct vcpu *v, uint8_t vector)
{
	struct kvm_sregs s = v->reset_sregs, now;
	if (ioctl(v->fd, KVM_GET_SREGS, &now) < 0)
		return -errno;
	s.apic_base = now.apic_base; /* INIT keeps it, x2APIC mode included */
	s.cs.selector = (uint16_t)(vector << 8);
	s.cs.base = (uint64_t)vector << 12;
	uint32_t signature = 0;
	for (unsigned i = 0; v->cpuid && i < v->cpuid->nent; i++)
		if (v->cpuid->entries[i].function == 1)
			signature = v->cpuid->entries[i].eax;
	struct kvm_regs r = {.rdx = signature, .rflags = RFLAGS_FIXED};
	if (ioctl(v->fd, KVM_SET_SREGS, &s) < 0 || ioctl(v->fd, KVM_SET_REGS, &r) < 0)
		return -errno;
	/* What the last exit said of the interrupt flag is history. */
	v->run->if_flag = 0;
	v->run->ready_for_interrupt_injection = 0;
	return 0;
}

/* --------------------------------------------------------------------------------- CPUID and TSC */

/* Has KVM add offset to the host's TSC. False: no such attribute, KVM from before 5.16. */
static bool give_tsc_offset(struct vcpu *v, int64_t offset)
{
	struct kvm_device_attr attr = {
		.group = KVM_VCPU_TSC_CTRL,
		.attr = KVM_VCPU_TSC_OFFSET,
		.addr = (uintptr_t)&offset,
	};
	if (ioctl(v->fd, KVM_HAS_DEVICE_ATTR, &attr) < 0 || ioctl(v->fd, KVM_SET_DEVICE_ATTR, &attr) < 0)
		return false;
	v->tsc_offset = offset;
	return true;
}

/* What KVM chose, from the narrowest of a few looks: one that was interrupted would make every deadline late. */
static void read_tsc_offset(struct vcpu *v)
{
	uint64_t best = UINT64_MAX, tsc;
	for (unsigned i = 0; i < 5; i++) {
		uint64_t before = clock_tsc();
		if (vcpu_get_msr(v, MSR_IA32_TSC, &tsc) < 0)
			return;
		uint64_t width = clock_tsc() - before;
		if (width < best) {
			best = width;
			v->tsc_offset = (int64_t)(tsc - before - width / 2);
		}
	}
}

/* One offset for all vCPUs, and that 0: the guest's TSC is the host's. KVM treats equal offsets as synchronised. */
static void set_tsc_offset(struct vcpu *v)
{
	v->tsc_offset = 0;
	if (!give_tsc_offset(v, 0))
		read_tsc_offset(v);
}

/* By delta, which the guest sees in IA32_TSC_ADJUST as well. Written by the host, that MSR moves nothing itself. */
static int move_tsc(struct vcpu *v, uint64_t delta)
{
	uint64_t adjust = 0;
	(void)vcpu_get_msr(v, MSR_IA32_TSC_ADJUST, &adjust);
	if (!give_tsc_offset(v, (int64_t)((uint64_t)v->tsc_offset + delta)))
		return -EINVAL;
	(void)vcpu_set_msr(v, MSR_IA32_TSC_ADJUST, adjust + delta);
	return 0;
}

int vcpu_write_tsc(struct vcpu *v, uint64_t value)
{
	return move_tsc(v, value - (clock_tsc() + (uint64_t)v->tsc_offset));
}

int vcpu_write_tsc_adjust(struct vcpu *v, uint64_t value)
{
	uint64_t adjust = 0;
	if (vcpu_get_msr(v, MSR_IA32_TSC_ADJUST, &adjust) < 0)
		return -EINVAL;
	return move_tsc(v, value - adjust);
}

int vcpu_setup_cpuid(struct vcpu *v, const struct kvm_cpuid2 *cpuid, struct lull_error *err)
{
	size_t bytes = sizeof(*cpuid) + cpuid->nent * sizeof(cpuid->entries[0]);
	v->cpuid = malloc(bytes);
	if (!v->cpuid)
		return error_set(err, -ENOMEM, "vcpu %u: out of memory", v->index);
	memcpy(v->cpuid, cpuid, bytes);
	cpuid_set_id(v->cpuid, v->index);
	/* Hidden PV features are then really absent, and not just unlisted. */
	struct kvm_enable_cap enforce = {.cap = KVM_CAP_ENFORCE_PV_FEATURE_CPUID, .args = {1}};
	if (kvm_check(v->env->kvm, KVM_CAP_ENFORCE_PV_FEATURE_CPUID) > 0 && ioctl(v->fd, KVM_ENABLE_CAP, &enforce) < 0)
		return error_sys(err, -errno, "vcpu %u: KVM_CAP_ENFORCE_PV_FEATURE_CPUID", v->index);
	if (ioctl(v->fd, KVM_SET_CPUID2, v->cpuid) < 0)
		return error_sys(err, -errno, "vcpu %u: KVM_SET_CPUID2", v->index);
	set_tsc_offset(v);
	if (ioctl(v->fd, KVM_GET_SREGS, &v->reset_sregs) < 0)
		return error_sys(err, -errno, "vcpu %u: KVM_GET_SREGS", v->index);
	return 0;
}

/* ------------------------------------------------------------------------------------- the probe */

#define PROBE_GPA 0x1000u

static const uint8_t probe_stub[] = {
	0x66, 0xb9, 0xe0, 0x06, 0x00, 0x00, /* mov ecx, IA32_TSC_DEADLINE */
	0x66, 0xb8, 0xff, 0xff, 0xff, 0xff, /* mov eax, -1 */
	0x66, 0xba, 0xff, 0xff, 0xff, 0x3f, /* mov edx, 0x3fffffff: far away, but not 0 */
	0x0f, 0x30,                         /* wrmsr */
	0x66, 0xb9, 0x02, 0x08, 0x00, 0x00, /* mov ecx, x2APIC ID */
	0x0f, 0x32,                         /* rdmsr */
	0xf4,                               /* hlt */
};

static void probe_run(struct vcpu *v, bool *tsc_deadline, bool *x2apic)
{
	/* Two exits when all is well, then HLT. An MSR that KVM refuses raises #GP, which without an IDT is a shutdown.
	 * The rest is for signals of the application's: they must not decide what the guest gets. */
	for (unsigned i = 0; i < 1000; i++) {
		if (ioctl(v->fd, KVM_RUN, 0) < 0 && errno != EINTR)
			return;
		if (v->run->exit_reason == KVM_EXIT_X86_WRMSR && v->run->msr.index == MSR_IA32_TSC_DEADLINE)
			*tsc_deadline = true;
		else if (v->run->exit_reason == KVM_EXIT_X86_RDMSR && v->run->msr.index == 0x802)
			*x2apic = true;
		else if (v->run->exit_reason != KVM_EXIT_INTR)
			return;
		v->run->msr.error = 0;
		v->run->msr.data = 0;
	}
}

int vcpu_probe_msrs(struct vcpu *v, bool *tsc_deadline, bool *x2apic, struct lull_error *err)
{
	*tsc_deadline = *x2apic = false;
	struct kvm_sregs s = v->reset_sregs;
	const struct boot_state boot = {.mode = BOOT_REAL, .entry = PROBE_GPA};
	mode_sregs(&s, &boot);
	s.idt = (struct kvm_dtable){0};
	struct kvm_regs r = {.rip = PROBE_GPA, .rflags = RFLAGS_FIXED};
	if (guest_mem_write(v->env->mem, gpa(PROBE_GPA), probe_stub, sizeof(probe_stub)) < 0)
		return error_set(err, -EFAULT, "memory: too little for the start-up probe");
	if (ioctl(v->fd, KVM_SET_SREGS, &s) < 0 || ioctl(v->fd, KVM_SET_REGS, &r) < 0)
		return error_sys(err, -errno, "vcpu %u: start-up probe", v->index);
	probe_run(v, tsc_deadline, x2apic);
	/* Finish what the last exit left open before the registers are set anew. */
	v->run->immediate_exit = 1;
	(void)!ioctl(v->fd, KVM_RUN, 0);
	v->run->immediate_exit = 0;
	static const uint8_t zeros[sizeof(probe_stub)];
	(void)guest_mem_write(v->env->mem, gpa(PROBE_GPA), zeros, sizeof(zeros));
	v->run->if_flag = 0;
	v->run->ready_for_interrupt_injection = 0;
	return 0;
}
