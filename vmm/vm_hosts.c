// SPDX-License-Identifier: Apache-2.0
/* vm_hosts.c - the host's ends of a VM's devices: opened once, so that locks and files survive a reset of the guest. */
#include "vm.h"

#include "disk_file.h"
#include "error.h"

#include <errno.h>

int vm_hosts_open(struct lull_vm *vm, struct lull_error *err)
{
	const struct lull_config *c = &vm->config;

	if (c->disk_count > MACHINE_VIRTIO_SLOTS)
		return error_set(err, -ENOSPC, "disk: %u asked for; %u can be had", c->disk_count,
		                 MACHINE_VIRTIO_SLOTS);
	for (uint32_t i = 0; i < c->disk_count; i++) {
		if (!c->disks || !c->disks[i])
			return error_set(err, -EINVAL, "disk %u: its text is missing", i);
		vm->disks[i] = disk_file_open(c->disks[i], &vm->log, err);
		if (!vm->disks[i])
			return -EINVAL;
		vm->disk_count++;
	}
	return 0;
}

void vm_hosts_close(struct lull_vm *vm)
{
	while (vm->disk_count)
		disk_file_close(vm->disks[--vm->disk_count]);
}
