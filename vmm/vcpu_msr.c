/* SPDX-License-Identifier: Apache-2.0 */
/* vcpu_msr.c - MSR accesses that KVM hands out. Sources: SDM vol. 4; Documentation/virt/kvm/x86/msr.rst for 4b564dxx.
 */
#include "vcpu.h"

#include "irqchip.h"

#include <errno.h>
#include <linux/kvm_para.h>

static int read_msr(struct vcpu *v, uint32_t index, uint64_t *value)
{
	struct irqchip *chip = v->env->chip;
	int ret = chip->ops->msr_read(chip, v, index, value);
	if (ret != -ENOENT)
		return ret;
	switch (index) {
	case MSR_KVM_POLL_CONTROL:
		*value = atomic_load(&v->halt.guest_allows);
		return 0;
	case MSR_KVM_STEAL_TIME:
		return steal_msr_read(&v->steal, value);
	default:
		return -EINVAL;
	}
}

/* hybrid: the area is KVM's, and we have to know it too. */
static int write_steal_time(struct vcpu *v, uint64_t value)
{
	int ret = steal_msr_write(&v->steal, value);
	if (ret < 0 || v->steal.config->mode != STEAL_HYBRID)
		return ret;
	ret = vcpu_set_msr(v, MSR_KVM_STEAL_TIME, value);
	if (ret < 0)
		steal_reset(&v->steal);
	return ret;
}

static int write_msr(struct vcpu *v, uint32_t index, uint64_t value)
{
	struct irqchip *chip = v->env->chip;
	int ret = chip->ops->msr_write(chip, v, index, value);
	if (ret != -ENOENT)
		return ret;
	switch (index) {
	case MSR_KVM_POLL_CONTROL:
		if (value & ~1ull) /* bits 63:1 are reserved */
			return -EINVAL;
		atomic_store(&v->halt.guest_allows, value);
		return 0;
	case MSR_KVM_STEAL_TIME:
		return write_steal_time(v, value);
	default:
		return -EINVAL;
	}
}

enum exit_action vcpu_msr_exit(struct vcpu *v)
{
	struct kvm_run *run = v->run;
	bool write = run->exit_reason == KVM_EXIT_X86_WRMSR;
	uint32_t index = run->msr.index;
	uint64_t value = run->msr.data;
	int ret = write ? write_msr(v, index, value) : read_msr(v, index, &value);
	if (ret < 0) {
		run->msr.error = 1; /* #GP */
		log_guest(v->env->log, &v->msr_limit, LULL_LOG_DEBUG, "vcpu %u: #GP for %s of MSR 0x%x (0x%llx)",
		          v->index, write ? "write" : "read", index, write ? (unsigned long long)value : 0);
		return EXIT_RESUME;
	}
	run->msr.error = 0;
	if (!write)
		run->msr.data = value;
	return EXIT_RESUME;
}
