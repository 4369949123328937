/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - the KVM calls that no monitor can avoid, and nothing else: VM, 64 MiB in one slot, one vCPU, CPUID,
 * registers, run to the first exit. What lull's start-up time is measured against. */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static const uint8_t code[] = {0xe6, 0xf4, 0xf4}; /* out %al, $0xf4; hlt */

int main(void)
{
	static struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = {.head = {.nent = 256}};
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	uint8_t *ram = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kvm_userspace_memory_region region = {.memory_size = 64 << 20, .userspace_addr = (uintptr_t)ram};
	if (vm < 0 || ram == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return 1;
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	struct kvm_run *run =
		mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (vcpu < 0 || run == MAP_FAILED || ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &cpuid) < 0 ||
	    ioctl(vcpu, KVM_SET_CPUID2, &cpuid) < 0)
		return 2;
	struct kvm_sregs sregs;
	struct kvm_regs regs = {.rip = 0x1000, .rflags = 2};
	if (ioctl(vcpu, KVM_GET_SREGS, &sregs) < 0)
		return 3;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	__builtin_memcpy(ram + 0x1000, code, sizeof(code));
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0 ||
	    ioctl(vcpu, KVM_RUN, 0) < 0)
		return 4;
	return run->exit_reason == KVM_EXIT_IO ? 0 : 5;
}
