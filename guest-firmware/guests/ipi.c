/* SPDX-License-Identifier: Apache-2.0 */
/* ipi.c - fixed and lowest-priority interrupts to other CPUs: physical, logical flat and cluster, broadcast,
 * shorthands. */
#include "guest.h"

enum {
	VECTOR = 0x50,
	CPUS_MAX = 8,
};

static volatile uint32_t hits[CPUS_MAX], total, ready;
static uint32_t cpus;

static void count(unsigned vector, struct irq_frame *frame)
{
	(void)vector;
	(void)frame;
	hits[this_cpu()->id]++;
	__atomic_fetch_add(&total, 1, __ATOMIC_SEQ_CST);
	apic_eoi();
}

static void set_logical_id(bool cluster)
{
	uint32_t id = this_cpu()->id;

	if (apic_x2) {
		check_eq(apic_read(APIC_LDR), (id >> 4) << 16 | 1 << (id & 15));
		return;
	}
	apic_write(APIC_DFR, cluster ? 0x0fffffff : 0xffffffff);
	apic_write(APIC_LDR, (cluster ? (id >> 2) << 4 | 1u << (id & 3) : 1u << id) << 24);
}

static void other(void *cluster)
{
	set_logical_id(cluster != NULL);
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		halt();
}

static uint32_t logical(uint32_t id, bool cluster)
{
	if (apic_x2)
		return (id >> 4) << 16 | 1 << (id & 15);
	return cluster ? (id >> 2) << 4 | 1u << (id & 3) : 1u << id;
}

/* Sends and checks that exactly the CPUs in the mask got one each. */
static void expect(uint32_t dest, uint32_t command, uint32_t mask, const char *what)
{
	uint32_t i;

	total = 0;
	for (i = 0; i < cpus; i++)
		hits[i] = 0;
	apic_send(dest, ICR_ASSERT | VECTOR | command);
	if (!spin_until(&total, (uint32_t)__builtin_popcount(mask), 2000000))
		print("%s: lost\n", what);
	delay_us(300);
	for (i = 0; i < cpus; i++) {
		if (hits[i] != (mask >> i & 1))
			print("%s: cpu %u got %u\n", what, i, hits[i]);
		check_eq(hits[i], mask >> i & 1);
	}
}

static void lowest(bool cluster)
{
	uint32_t i, all = apic_x2 ? (1u << cpus) - 1 : logical(0, cluster) | logical(1, cluster);

	for (i = 0; i < 4; i++) {
		total = 0;
		apic_send(all, ICR_ASSERT | VECTOR | ICR_LOWEST | ICR_LOGICAL);
		check(spin_until(&total, 1, 2000000));
		delay_us(300);
		check_eq(total, 1);
	}
}

static void round(bool cluster)
{
	uint32_t all = (1u << cpus) - 1, i;

	ready = 0;
	set_logical_id(cluster);
	for (i = 1; i < cpus; i++)
		cpu_start(i, other, cluster ? &cpus : NULL);
	check(spin_until(&ready, cpus - 1, 5000000));

	expect(1, 0, 2, "physical");
	expect(0, 0, 1, "physical, self");
	expect(0, ICR_SELF, 1, "self");
	expect(0, ICR_OTHERS, all & ~1u, "others");
	expect(0, ICR_ALL, all, "all");
	expect(apic_x2 ? 0xffffffff : 0xff, 0, all, "physical broadcast");
	expect(apic_x2 ? 0xffffffff : 0xff, ICR_LOGICAL, all, "logical broadcast");
	expect(logical(1, cluster), ICR_LOGICAL, 2, "logical");
	expect(logical(0, cluster) | logical(1, cluster), ICR_LOGICAL, 3, "logical, two");
	expect(cpus + 3, 0, 0, "nobody");
	lowest(cluster);
}

int main(void)
{
	cpus = (uint32_t)param_u64("cpus", 2);
	check(cpus >= 2 && cpus <= CPUS_MAX);
	apic_setup();
	irq_set(VECTOR, count);
	round(false);
	if (!apic_x2)
		round(true);
	return 0;
}
