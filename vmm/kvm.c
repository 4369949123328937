/* SPDX-License-Identifier: Apache-2.0 */
/* kvm.c - opening KVM, making a VM, and saying clearly why that does not work. */
#include "kvm.h"

#include "clock.h"
#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Where VMX keeps its real-mode helpers: four pages of the hole below 4 GiB that nothing else uses. */
#define IDENTITY_MAP_ADDR 0xfffbc000ull
#define TSS_ADDR          0xfffbd000ull

static const struct {
	int cap;
	const char *name, *since;
} required[] = {
	{KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY", "2.6.25"},
	{KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID", "2.6.29"},
	{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.13"},
	{KVM_CAP_X86_USER_SPACE_MSR, "KVM_CAP_X86_USER_SPACE_MSR", "5.10"},
	{KVM_CAP_X86_MSR_FILTER, "KVM_CAP_X86_MSR_FILTER", "5.10"},
};

int kvm_open(struct kvm *kvm, struct lull_error *err)
{
	*kvm = (struct kvm){.sys_fd = -1, .vm_fd = -1};
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		int e = errno;
		if (e == ENOENT)
			return error_set(
				err, -ENOENT,
				"/dev/kvm: not there; load the module kvm_intel or kvm_amd, or enable virtualization "
				"in the firmware or in the outer hypervisor");
		if (e == EACCES || e == EPERM)
			return error_set(
				err, -e,
				"/dev/kvm: permission denied; become a member of its group (usually kvm) or root");
		return error_sys(err, -e, "/dev/kvm: cannot be opened");
	}
	kvm->sys_fd = fd;
	int version = ioctl(fd, KVM_GET_API_VERSION, 0);
	if (version != KVM_API_VERSION) {
		kvm_close(kvm);
		return error_set(err, -ENODEV, "/dev/kvm: API version %d found, %d needed; is it really KVM?", version,
		                 KVM_API_VERSION);
	}
	for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
		if (kvm_check(kvm, required[i].cap) > 0)
			continue;
		kvm_close(kvm);
		return error_set(err, -ENOTSUP, "/dev/kvm: %s is missing; use a host kernel from %s on",
		                 required[i].name, required[i].since);
	}
	int bytes = ioctl(fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (bytes < (int)sizeof(struct kvm_run)) {
		kvm_close(kvm);
		return error_set(err, -ENODEV, "/dev/kvm: run area of %d bytes, %zu needed", bytes,
		                 sizeof(struct kvm_run));
	}
	kvm->run_bytes = (size_t)bytes;
	int max = kvm_check(kvm, KVM_CAP_MAX_VCPUS);
	kvm->max_vcpus = max <= 0 ? 4 : max > KVM_VCPUS_MAX ? KVM_VCPUS_MAX : (unsigned)max;
	return 0;
}

void kvm_close(struct kvm *kvm)
{
	kvm_destroy_vm(kvm);
	if (kvm->sys_fd >= 0)
		close(kvm->sys_fd);
	kvm->sys_fd = -1;
}

int kvm_create_vm(struct kvm *kvm, struct lull_error *err)
{
	int fd;
	do /* a signal that is pending makes this fail now and then */
		fd = ioctl(kvm->sys_fd, KVM_CREATE_VM, 0);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return error_sys(err, -errno, "KVM_CREATE_VM");
	kvm->vm_fd = fd;
	/* VMX without unrestricted guest needs both before the first vCPU; elsewhere they change nothing. */
	uint64_t identity = IDENTITY_MAP_ADDR;
	if (kvm_check(kvm, KVM_CAP_SET_IDENTITY_MAP_ADDR) > 0 && ioctl(fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0) {
		kvm_destroy_vm(kvm);
		return error_sys(err, -errno, "KVM_SET_IDENTITY_MAP_ADDR");
	}
	if (kvm_check(kvm, KVM_CAP_SET_TSS_ADDR) > 0 && ioctl(fd, KVM_SET_TSS_ADDR, TSS_ADDR) < 0) {
		kvm_destroy_vm(kvm);
		return error_sys(err, -errno, "KVM_SET_TSS_ADDR");
	}
	return 0;
}

void kvm_destroy_vm(struct kvm *kvm)
{
	if (kvm->vm_fd >= 0)
		close(kvm->vm_fd);
	kvm->vm_fd = -1;
}

int kvm_map_memory(struct kvm *kvm, const struct guest_mem *mem, struct lull_error *err)
{
	for (unsigned i = 0; i < mem->count; i++) {
		struct kvm_userspace_memory_region region = {
			.slot = i,
			.guest_phys_addr = mem->regions[i].base,
			.memory_size = mem->regions[i].size,
			.userspace_addr = (uintptr_t)mem->regions[i].hva,
		};
		if (ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
			return error_sys(err, -errno, "KVM_SET_USER_MEMORY_REGION for 0x%llx bytes at 0x%llx",
			                 (unsigned long long)region.memory_size,
			                 (unsigned long long)region.guest_phys_addr);
	}
	return 0;
}

int kvm_check(const struct kvm *kvm, int cap)
{
	int ret = ioctl(kvm->vm_fd >= 0 ? kvm->vm_fd : kvm->sys_fd, KVM_CHECK_EXTENSION, cap);
	return ret < 0 ? 0 : ret;
}

int kvm_enable(struct kvm *kvm, uint32_t cap, uint64_t arg, struct lull_error *err)
{
	struct kvm_enable_cap enable = {.cap = cap, .args = {arg}};
	if (ioctl(kvm->vm_fd, KVM_ENABLE_CAP, &enable) < 0)
		return error_sys(err, -errno, "KVM_ENABLE_CAP(%u, %llu)", cap, (unsigned long long)arg);
	return 0;
}

int kvm_check_mwait(const struct kvm *kvm, struct lull_error *err)
{
	if (kvm_check(kvm, KVM_CAP_X86_DISABLE_EXITS) & KVM_X86_DISABLE_EXITS_MWAIT)
		return 0;
	return error_set(err, -ENOTSUP,
	                 "guest-mwait: this KVM cannot give MWAIT to guests (KVM_CAP_X86_DISABLE_EXITS is %d, without "
	                 "bit 0); leave the option out",
	                 kvm_check(kvm, KVM_CAP_X86_DISABLE_EXITS));
}

int kvm_stats_fd(int vcpu_fd)
{
	int fd = ioctl(vcpu_fd, KVM_GET_STATS_FD, NULL);
	if (fd < 0)
		return -errno;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

int kvm_route_msrs(struct kvm *kvm, bool steal_time, struct lull_error *err)
{
	/* x2APIC MSRs cannot be filtered; without an in-kernel APIC they fail inside KVM, which INVAL turns into exits.
	 */
	uint64_t reasons = KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_FILTER;
	int ret = kvm_enable(kvm, KVM_CAP_X86_USER_SPACE_MSR, reasons, err);
	if (ret < 0)
		return ret;
	static const struct {
		uint32_t base;
		uint8_t denied; /* bit n: MSR base + n comes to us */
		bool reads;     /* reads, too */
	} route[] = {
		{0x10, 1, false},              /* IA32_TSC: moves the guest's TSC, in which it states deadlines */
		{0x3b, 1, false},              /* IA32_TSC_ADJUST: the same */
		{0x1b, 1, true},               /* IA32_APIC_BASE */
		{0x6e0, 1, true},              /* IA32_TSC_DEADLINE: KVM alone would swallow it */
		{MSR_KVM_PV_EOI_EN, 3, true},  /* and MSR_KVM_POLL_CONTROL */
		{MSR_KVM_STEAL_TIME, 1, true}, /* last: not always */
	};
	uint64_t bitmaps[ARRAY_SIZE(route)]; /* KVM reads whole words */
	struct kvm_msr_filter filter = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
	/* Without the attribute that moves the TSC (KVM from before 5.16) we could not do what the guest asks. */
	size_t first = kvm_check(kvm, KVM_CAP_VCPU_ATTRIBUTES) > 0 ? 0 : 2;
	for (size_t i = first; i < ARRAY_SIZE(route) - !steal_time; i++) {
		bitmaps[i] = ~(uint64_t)route[i].denied;
		filter.ranges[i - first] = (struct kvm_msr_filter_range){
			.flags = KVM_MSR_FILTER_WRITE | (route[i].reads ? KVM_MSR_FILTER_READ : 0),
			.base = route[i].base,
			.nmsrs = route[i].denied == 1 ? 1 : 2,
			.bitmap = (uint8_t *)&bitmaps[i],
		};
	}
	if (ioctl(kvm->vm_fd, KVM_X86_SET_MSR_FILTER, &filter) < 0)
		return error_sys(err, -errno, "KVM_X86_SET_MSR_FILTER");
	return 0;
}

int kvm_watch_poll_control(struct kvm *kvm, struct lull_error *err)
{
	uint64_t bitmap = 0;
	struct kvm_msr_filter filter = {
		.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
		.ranges = {{KVM_MSR_FILTER_WRITE, 1, MSR_KVM_POLL_CONTROL, (uint8_t *)&bitmap}},
	};
	int ret = kvm_enable(kvm, KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER, err);
	if (ret == 0 && ioctl(kvm->vm_fd, KVM_X86_SET_MSR_FILTER, &filter) < 0)
		ret = error_sys(err, -errno, "KVM_X86_SET_MSR_FILTER");
	return ret;
}

struct kvm_cpuid2 *kvm_supported_cpuid(const struct kvm *kvm, unsigned extra, struct lull_error *err)
{
	for (unsigned room = 128; room <= 4096; room *= 2) {
		size_t bytes = sizeof(struct kvm_cpuid2) + (room + extra) * sizeof(struct kvm_cpuid_entry2);
		struct kvm_cpuid2 *cpuid = calloc(1, bytes);
		if (!cpuid) {
			error_set(err, -ENOMEM, "cpuid: out of memory");
			return NULL;
		}
		cpuid->nent = room;
		if (ioctl(kvm->sys_fd, KVM_GET_SUPPORTED_CPUID, cpuid) == 0)
			return cpuid;
		int e = errno;
		free(cpuid);
		if (e != E2BIG) {
			error_sys(err, -e, "KVM_GET_SUPPORTED_CPUID");
			return NULL;
		}
	}
	error_set(err, -E2BIG, "KVM_GET_SUPPORTED_CPUID: more than 4096 entries");
	return NULL;
}

uint64_t kvm_tsc_khz(const struct kvm *kvm)
{
	int khz = ioctl(kvm->vm_fd, KVM_GET_TSC_KHZ, 0);
	if (khz > 0)
		return (uint64_t)khz;
	uint64_t ns = clock_ns(), tsc = clock_tsc();
	struct timespec pause = {.tv_nsec = 20000000};
	nanosleep(&pause, NULL);
	ns = clock_ns() - ns;
	tsc = clock_tsc() - tsc;
	return (uint64_t)((unsigned __int128)tsc * 1000000u / ns);
}
