// SPDX-License-Identifier: Apache-2.0
/* vm_hosts.c - the host's ends of a VM's devices: opened once, so that locks, connections and files survive a reset of
 * the guest. */
#include "vm.h"

#include "balloon_host.h"
#include "disk_file.h"
#include "error.h"
#include "net_host.h"
#include "vsock_host.h"

#include <errno.h>

static int check_count(const char *what, uint32_t count, const char *const *texts, struct lull_error *err)
{
	if (count > MACHINE_VIRTIO_SLOTS)
		return error_set(err, -ENOSPC, "%s: %u asked for; %u can be had", what, count, MACHINE_VIRTIO_SLOTS);
	for (uint32_t i = 0; i < count; i++)
		if (!texts || !texts[i])
			return error_set(err, -EINVAL, "%s %u: its text is missing", what, i);
	return 0;
}

static int open_disks(struct lull_vm *vm, struct lull_error *err)
{
	const struct lull_config *c = &vm->config;
	int ret = check_count("disk", c->disk_count, c->disks, err);

	for (uint32_t i = 0; i < c->disk_count && ret == 0; i++) {
		vm->disks[i] = disk_file_open(c->disks[i], &vm->log, err);
		if (!vm->disks[i])
			return -EINVAL;
		vm->disk_count++;
	}
	return ret;
}

static int open_nets(struct lull_vm *vm, struct lull_error *err)
{
	const struct lull_config *c = &vm->config;
	int ret = check_count("net", c->net_count, c->nets, err);

	for (uint32_t i = 0; i < c->net_count && ret == 0; i++) {
		vm->nets[i] = net_host_open(c->nets[i], &vm->log, err);
		if (!vm->nets[i])
			return -EINVAL;
		vm->net_count++;
	}
	return ret;
}

static int open_vsock(struct lull_vm *vm, struct lull_error *err)
{
	if (!vm->config.vsock)
		return 0;
	vm->vsock = vsock_host_open(vm->config.vsock, &vm->log, err);
	return vm->vsock ? 0 : -EINVAL;
}

int vm_hosts_open(struct lull_vm *vm, struct lull_error *err)
{
	int ret = open_disks(vm, err);

	if (ret == 0)
		ret = open_nets(vm, err);
	if (ret == 0)
		ret = open_vsock(vm, err);
	if (ret == 0 && vm->config.balloon) {
		vm->balloon = balloon_host_open(vm->config.balloon, vm->config.ram_bytes, err);
		ret = vm->balloon ? 0 : -EINVAL;
	}
	if (ret < 0 || !vm->config.console)
		return ret;
	vm->console = chardev_open_as("console", vm->config.console, &vm->log, err);
	return vm->console ? 0 : -EINVAL;
}

void vm_hosts_close(struct lull_vm *vm)
{
	while (vm->disk_count)
		disk_file_close(vm->disks[--vm->disk_count]);
	while (vm->net_count)
		net_host_close(vm->nets[--vm->net_count]);
	vsock_host_close(vm->vsock);
	balloon_host_close(vm->balloon);
	chardev_close(vm->console);
}
