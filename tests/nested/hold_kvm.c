// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps one VM with KVM's interrupt chip and one without alive in the emulated host. Creating the
 * first and destroying the last VM of a kind makes KVM patch its own code and the scheduler's
 * (static keys), and multi-threaded TCG sometimes loses that race: an int3 oops in __schedule or
 * a triple fault. With these two around the keys never change.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int hold(int kvm, int with_irqchip)
{
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);

	if (vm < 0 || (with_irqchip && ioctl(vm, KVM_CREATE_IRQCHIP, 0) < 0))
		return -1;
	return ioctl(vm, KVM_CREATE_VCPU, 0);
}

int main(void)
{
	int kvm = open("/dev/kvm", O_RDWR);

	if (kvm < 0 || hold(kvm, 0) < 0 || hold(kvm, 1) < 0) {
		perror("hold_kvm");
		return 1;
	}
	puts("holding");
	fflush(stdout);
	for (;;)
		pause();
}
