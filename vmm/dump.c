/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - lull_dump(): the machine's descriptions as guests get them, without a VM. */
#include "api.h"
#include "error.h"
#include "guest_cpuid.h"
#include "kvm.h"
#include "mainboard.h"
#include "util.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

static int give_text(char *text, void **data, size_t *bytes, struct lull_error *err)
{
	if (!text)
		return error_set(err, -ENOMEM, "dump: out of memory");
	*data = text;
	*bytes = strlen(text);
	return 0;
}

static int dump_cpuid(const struct lull_config *config, void **data, size_t *bytes, struct lull_error *err)
{
	const struct cpuid_options opt = {
		.vcpus = config->vcpus,
		.kernel_irqchip = config->irqchip && !strcmp(config->irqchip, "kernel"),
		.x2apic = !(config->flags & LULL_NO_X2APIC),
		.tsc_deadline = !(config->flags & LULL_NO_TSC_DEADLINE),
		.pv_eoi = !(config->flags & LULL_NO_PV_EOI),
		.mwait = config->flags & LULL_GUEST_MWAIT,
	};
	struct kvm kvm;
	int ret = kvm_open(&kvm, err);
	if (ret < 0)
		return ret;
	if (opt.mwait)
		ret = kvm_check_mwait(&kvm, err);
	struct kvm_cpuid2 *cpuid = ret < 0 ? NULL : cpuid_make(&kvm, &opt, err);
	kvm_close(&kvm);
	if (!cpuid)
		return ret < 0 ? ret : -EIO;
	ret = give_text(cpuid_text(cpuid), data, bytes, err);
	free(cpuid);
	return ret;
}

static int dump_acpi(const struct machine *m, const char *signature, void **data, size_t *bytes, struct lull_error *err)
{
	uint8_t *buf = calloc(1, MACHINE_ACPI_MAX);
	if (!buf)
		return error_set(err, -ENOMEM, "dump: out of memory");
	int used = acpi_build(m, buf, MACHINE_ACPI_MAX, err);
	const void *table = buf;
	size_t size = used < 0 ? 0 : (size_t)used;
	if (used >= 0 && signature)
		table = acpi_find(buf, (size_t)used, signature, &size);
	if (used >= 0 && !table)
		used = error_set(err, -ENOENT,
		                 "dump: no ACPI table '%s'; use acpi, fdt, e820, cpuid, machine, or FACP, FACS, APIC, "
		                 "DSDT, XSDT",
		                 signature);
	if (used < 0 || !table) {
		free(buf);
		return used;
	}
	memmove(buf, table, size);
	*data = buf;
	*bytes = size;
	return 0;
}

static int dump_fdt(const struct machine *m, void **data, size_t *bytes, struct lull_error *err)
{
	void *buf = calloc(1, MACHINE_FDT_MAX);
	if (!buf)
		return error_set(err, -ENOMEM, "dump: out of memory");
	int used = fdt_build(m, buf, MACHINE_FDT_MAX, err);
	if (used < 0) {
		free(buf);
		return used;
	}
	*data = buf;
	*bytes = (size_t)used;
	return 0;
}

int lull_dump(const struct lull_config *config, const char *what, void **data, size_t *bytes, struct lull_error *err)
{
	struct lull_config full;
	int ret = api_import_config(&full, config, err);
	if (ret < 0)
		return ret;
	if (full.vcpus > KVM_VCPUS_MAX)
		return error_set(err, -EINVAL, "cpus: %u asked for; 1 to %u can be described", full.vcpus,
		                 KVM_VCPUS_MAX);
	if (full.ram_bytes < GUEST_MEM_MIN || full.ram_bytes % 4096)
		return error_set(err, -EINVAL, "mem: %llu bytes asked for; use a multiple of 4096 from %llu on",
		                 (unsigned long long)full.ram_bytes, (unsigned long long)GUEST_MEM_MIN);
	if (!strcmp(what, "cpuid"))
		return dump_cpuid(&full, data, bytes, err);
	struct machine *m = malloc(sizeof(*m));
	if (!m)
		return error_set(err, -ENOMEM, "dump: out of memory");
	machine_init(m, full.vcpus, full.ram_bytes);
	m->cmdline = full.cmdline ? full.cmdline : "";
	const struct mainboard_slots slots = {.disks = full.disk_count,
	                                      .nets = full.net_count,
	                                      .console = full.console != NULL,
	                                      .vsock = full.vsock != NULL,
	                                      .rng = !(full.flags & LULL_NO_RNG),
	                                      .balloon = full.balloon != NULL};
	ret = mainboard_describe(m, err);
	if (ret == 0)
		ret = mainboard_describe_virtio(m, &slots, err);
	if (ret < 0)
		;
	else if (!strcmp(what, "machine"))
		ret = give_text(machine_text(m), data, bytes, err);
	else if (!strcmp(what, "e820"))
		ret = give_text(e820_text(m), data, bytes, err);
	else if (!strcmp(what, "fdt"))
		ret = dump_fdt(m, data, bytes, err);
	else
		ret = dump_acpi(m, strcmp(what, "acpi") ? what : NULL, data, bytes, err);
	free(m);
	return ret;
}
