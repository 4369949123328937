/* SPDX-License-Identifier: Apache-2.0 */
/* time.c - how fast the TSC is, and waiting in ring 3. */
#include "internal.h"

static uint64_t khz;

uint32_t kvm_features(void)
{
	struct cpuid c = cpuid(KVM_CPUID, 0);

	if (c.ebx != 0x4b4d564b || c.ecx != 0x564b4d56 || c.edx != 0x4d)
		return 0;
	return cpuid(KVM_CPUID + 1, 0).eax;
}

uint32_t pm_timer(void)
{
	return in32(PM_TIMER);
}

static uint64_t spin_to_tsc(uint64_t end)
{
	while (rdtsc() < end)
		__builtin_ia32_pause();
	return 0;
}

static uint64_t khz_by_kvmclock(void)
{
	static struct kvm_clock clock __attribute__((aligned(64)));
	uint64_t f;

	if (!(kvm_features() & 1 << KVM_FEATURE_CLOCKSOURCE2))
		return 0;
	wrmsr(MSR_KVM_SYSTEM_TIME, (uint64_t)&clock | 1);
	wrmsr(MSR_KVM_SYSTEM_TIME, 0);
	if (clock.tsc_to_system_mul == 0)
		return 0;
	/* ns = (tsc << shift) * mul >> 32 */
	f = (1000000ull << 32) / clock.tsc_to_system_mul;
	return clock.tsc_shift < 0 ? f << -clock.tsc_shift : f >> clock.tsc_shift;
}

static uint64_t khz_by_pm_timer(void)
{
	uint32_t p0 = pm_timer();
	uint64_t t0 = rdtsc(), cycles;

	ring3(spin_to_tsc, t0 + 20000000);
	p0 = (pm_timer() - p0) & 0xffffff;
	cycles = rdtsc() - t0;
	check(p0 != 0);
	return cycles * (PM_TIMER_HZ / 1000) / p0;
}

uint64_t tsc_khz(void)
{
	if (khz == 0)
		khz = khz_by_kvmclock();
	if (khz == 0)
		khz = khz_by_pm_timer();
	return khz;
}

uint64_t tsc_to_ns(uint64_t cycles)
{
	return cycles * 1000000 / tsc_khz();
}

void delay_us(unsigned us)
{
	ring3(spin_to_tsc, rdtsc() + us * tsc_khz() / 1000);
}

struct spin {
	volatile uint32_t *word;
	uint32_t value;
	uint64_t end;
};

static uint64_t spin_loop(uint64_t arg)
{
	struct spin *s = (struct spin *)arg;

	while (*s->word < s->value) {
		if (rdtsc() > s->end)
			return 0;
		__builtin_ia32_pause();
	}
	return 1;
}

bool spin_until(volatile uint32_t *word, uint32_t value, unsigned timeout_us)
{
	struct spin s = {word, value, rdtsc() + timeout_us * tsc_khz() / 1000};

	return ring3(spin_loop, (uint64_t)&s);
}
