/* SPDX-License-Identifier: Apache-2.0 */
/*
 * irqchip_kernel.c - the backend in which KVM owns the local APICs (split irqchip). HLT, IPIs, timers and INIT/SIPI
 * stay in the kernel; the I/O APIC is ours. Its interrupts go in as MSIs, and the EOI of a level-triggered one comes
 * out because its redirection entry is mirrored as a GSI route (Documentation/virt/kvm/api.rst, KVM_CAP_SPLIT_IRQCHIP,
 * KVM_EXIT_IOAPIC_EOI).
 */
#include "irqchip.h"

#include "error.h"
#include "ioapic.h"
#include "kvm.h"
#include "log.h"
#include "util.h"
#include "vcpu.h"

#include <errno.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

struct irqchip_kernel {
	struct irqchip base;
	struct irqchip_config config;
	struct log_limit limit;
	/* Under the I/O APIC's lock: the routes KVM knows, level-triggered and unmasked pins only. */
	struct msi_msg routes[IOAPIC_PINS];
	bool routed[IOAPIC_PINS];
};

static struct irqchip_kernel *kernel(struct irqchip *chip)
{
	return container_of(chip, struct irqchip_kernel, base);
}

/* True: some APIC took it. */
static bool signal_msi(struct irqchip *chip, const struct msi_msg *msg)
{
	struct irqchip_kernel *k = kernel(chip);
	struct kvm_msi msi = {
		.address_lo = (uint32_t)msg->address,
		.address_hi = (uint32_t)(msg->address >> 32),
		.data = msg->data,
	};
	int ret = ioctl(k->config.kvm->vm_fd, KVM_SIGNAL_MSI, &msi);
	if (ret < 0 && errno != EPERM) /* EPERM is KVM's -1: no APIC took it */
		log_guest(k->config.log, &k->limit, LULL_LOG_WARN, "irqchip: KVM_SIGNAL_MSI: %s", strerror(errno));
	k->config.active(k->config.notify_ctx);
	return ret > 0;
}

static void kernel_msi(struct irqchip *chip, const struct msi_msg *msg)
{
	(void)signal_msi(chip, msg);
}

static bool ioapic_deliver(void *ctx, const struct msi_msg *msg)
{
	struct irqchip_kernel *k = ctx;
	return signal_msi(&k->base, msg);
}

static void set_routes(struct irqchip_kernel *k)
{
	struct {
		struct kvm_irq_routing head;
		struct kvm_irq_routing_entry entries[IOAPIC_PINS];
	} table = {0};
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if (!k->routed[pin])
			continue;
		table.entries[table.head.nr++] = (struct kvm_irq_routing_entry){
			.gsi = pin,
			.type = KVM_IRQ_ROUTING_MSI,
			.u.msi =
				{
					.address_lo = (uint32_t)k->routes[pin].address,
					.address_hi = (uint32_t)(k->routes[pin].address >> 32),
					.data = k->routes[pin].data,
				},
		};
	}
	if (ioctl(k->config.kvm->vm_fd, KVM_SET_GSI_ROUTING, &table) < 0)
		log_guest(k->config.log, &k->limit, LULL_LOG_WARN, "irqchip: KVM_SET_GSI_ROUTING: %s", strerror(errno));
}

static void ioapic_route(void *ctx, unsigned pin, const struct msi_msg *msg, bool masked, bool level)
{
	struct irqchip_kernel *k = ctx;
	/* A masked level pin may still be in service: its route stays until it becomes an edge pin or gets another
	 * vector. */
	bool wanted = level && (!masked || k->routed[pin]);
	if (wanted == k->routed[pin] &&
	    (!wanted || (msg->address == k->routes[pin].address && msg->data == k->routes[pin].data)))
		return;
	k->routed[pin] = wanted;
	k->routes[pin] = *msg;
	set_routes(k);
}

static void kernel_destroy(struct irqchip *chip)
{
	if (!chip)
		return;
	ioapic_destroy(chip->ioapic);
	free(kernel(chip));
}

static int kernel_create(struct irqchip **chip, const struct irqchip_config *config, struct lull_error *err)
{
	if (kvm_check(config->kvm, KVM_CAP_SPLIT_IRQCHIP) <= 0 || kvm_check(config->kvm, KVM_CAP_SIGNAL_MSI) <= 0)
		return error_set(err, -ENOTSUP, "irqchip: this KVM has no split irqchip; use --irqchip user");
	int ret = kvm_enable(config->kvm, KVM_CAP_SPLIT_IRQCHIP, IOAPIC_PINS, err);
	if (ret == 0)
		ret = kvm_watch_poll_control(config->kvm, err);
	if (ret < 0)
		return ret;
	struct irqchip_kernel *k = calloc(1, sizeof(*k));
	if (!k)
		return error_set(err, -ENOMEM, "irqchip: out of memory");
	k->base.ops = &irqchip_kernel;
	k->config = *config;
	const struct ioapic_out out = {.deliver = ioapic_deliver, .route = ioapic_route, .ctx = k};
	k->base.ioapic = ioapic_create(&out);
	if (!k->base.ioapic) {
		kernel_destroy(&k->base);
		return error_set(err, -ENOMEM, "irqchip: out of memory");
	}
	*chip = &k->base;
	return 0;
}

static void kernel_nmi(struct irqchip *chip, unsigned cpu)
{
	/* An NMI as a message: delivery mode 4. */
	const struct msi_msg msg = {.address = 0xfee00000u | cpu << 12, .data = 4 << 8};
	kernel_msi(chip, &msg);
}

static int kernel_vcpu_init(struct irqchip *chip, struct vcpu *v, struct lull_error *err)
{
	(void)chip;
	(void)v;
	(void)err;
	return 0;
}

static enum irqchip_verdict kernel_prepare(struct irqchip *chip, struct vcpu *v)
{
	(void)chip;
	(void)v;
	return IRQCHIP_RUN;
}

static void kernel_harvest(struct irqchip *chip, struct vcpu *v)
{
	(void)chip;
	(void)v;
}

static uint64_t kernel_deadline(struct irqchip *chip, struct vcpu *v)
{
	(void)chip;
	(void)v;
	return WAKE_NEVER;
}

static bool kernel_is_dead(struct irqchip *chip, struct vcpu *v)
{
	(void)chip;
	(void)v;
	return false;
}

static int kernel_msr_read(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t *value)
{
	(void)chip;
	(void)v;
	(void)index;
	(void)value;
	return -ENOENT;
}

static int kernel_msr_write(struct irqchip *chip, struct vcpu *v, uint32_t index, uint64_t value)
{
	(void)chip;
	/* KVM polls, so it has to know. Then the common code takes note of it. */
	if (index == MSR_KVM_POLL_CONTROL && vcpu_set_msr(v, index, value) < 0)
		return -EINVAL;
	return -ENOENT;
}

static void kernel_describe(struct irqchip *chip, struct vcpu *v, char *text, size_t size)
{
	struct kvm_mp_state mp;
	(void)chip;
	if (ioctl(v->fd, KVM_GET_MP_STATE, &mp) == 0)
		snprintf(text, size, "multiprocessor state %u of KVM", mp.mp_state);
}

const struct irqchip_ops irqchip_kernel = {
	.name = "kernel",
	.create = kernel_create,
	.destroy = kernel_destroy,
	.msi = kernel_msi,
	.nmi = kernel_nmi,
	.vcpu_init = kernel_vcpu_init,
	.prepare = kernel_prepare,
	.harvest = kernel_harvest,
	.halt = kernel_harvest,
	.deadline = kernel_deadline,
	.is_dead = kernel_is_dead,
	.msr_read = kernel_msr_read,
	.msr_write = kernel_msr_write,
	.describe = kernel_describe,
};
