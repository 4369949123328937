/* SPDX-License-Identifier: Apache-2.0 */
/* blk_bench.c - reads of 4 KiB, one at a time, the CPU halted until each is there: how long from the notification until
 * after the handler, in ns. requests= how many, bytes= how large, order=sequential instead of random, write=1.
 * ack=1: the handler asks for the reason and acknowledges it, as drivers do that know nothing of edges. */
#include "bench.h"
#include "virtio.h"

enum {
	PLACES = 4096,
};

static struct blk b;
static uint64_t *sectors;
static volatile uint32_t pv_eoi;
static volatile uint32_t bench_arrived __asm__("bench_arrived");

/* r14: the device's registers if they are to be asked, or 0. */
_Static_assert(VIRTIO_INTERRUPT_STATUS == 0x60 && VIRTIO_INTERRUPT_ACK == 0x64, "as below");
__attribute__((naked)) static void on_done(void)
{
	__asm__ volatile("incl bench_arrived\n\t"
	                 "testq %r14, %r14\n\t"
	                 "jz 2f\n\t"
	                 "push %rax\n\t"
	                 "movl 0x60(%r14), %eax\n\t"
	                 "movl %eax, 0x64(%r14)\n\t"
	                 "pop %rax\n"
	                 "2:\n\t" BENCH_EOI_IRETQ);
}

/* Lets the device know and waits until `count` interrupts have come. The first may come with the notification. */
static void kick_and_wait(uint32_t count, uint64_t ack_base)
{
	register volatile uint32_t *word BENCH_PV_EOI_WORD = &pv_eoi;
	register uint64_t base __asm__("r14") = ack_base;

	__asm__ volatile("sti\n\t"
	                 "movl %[queue], (%[notify])\n"
	                 "1: cli\n\t"
	                 "cmpl %[count], bench_arrived\n\t"
	                 "je 2f\n\t"
	                 "sti\n\t"
	                 "hlt\n\t"
	                 "jmp 1b\n"
	                 "2:"
	                 :
	                 : [queue] "r"(0), [notify] "r"(b.v.base + VIRTIO_QUEUE_NOTIFY), [count] "r"(count), "r"(word),
	                   "r"(base)
	                 : "memory", "cc");
}

static uint64_t each; /* sectors of a request */

static uint64_t choose(uint64_t places)
{
	uint64_t x = 88172645463325252ull;

	for (unsigned i = 0; i < PLACES; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sectors[i] = x % places * each;
	}
	return 0;
}

static uint64_t in_order(uint64_t places)
{
	for (unsigned i = 0; i < PLACES; i++)
		sectors[i] = i % places * each;
	return 0;
}

static uint64_t *times;

/* The times, sorted: in ring 3, by the slowest algorithm that is short. */
static uint64_t sort(uint64_t n)
{
	for (uint64_t gap = n / 2; gap; gap /= 2)
		for (uint64_t i = gap; i < n; i++) {
			uint64_t t = times[i], j = i;

			for (; j >= gap && times[j - gap] > t; j -= gap)
				times[j] = times[j - gap];
			times[j] = t;
		}
	return 0;
}

int main(void)
{
	uint32_t n = (uint32_t)param_u64("requests", 1000), bytes = (uint32_t)param_u64("bytes", 4096), i;
	uint32_t type = param_u64("write", 0) ? BLK_OUT : BLK_IN;
	uint64_t start, whole, ack_base;
	void *data;

	apic_setup_as(true);
	tsc_khz();
	blk_start(&b, 0, VIRTIO_BLK_F_FLUSH); /* or each write would have to last */
	ack_base = param_u64("ack", 0) ? b.v.base : 0;
	each = bytes / 512;
	data = virtio_alloc(bytes, 4096);
	sectors = virtio_alloc(PLACES * sizeof(*sectors), 8);
	times = virtio_alloc(n * sizeof(*times), 8);
	ring3(param_is("order", "sequential") ? in_order : choose, blk_sectors(&b) / each);
	check_eq(blk_request(&b, type, 0, data, bytes), BLK_OK);
	virtio_write(&b.v, VIRTIO_INTERRUPT_ACK, virtio_read(&b.v, VIRTIO_INTERRUPT_STATUS));
	irq_direct(VIRTIO_VECTOR + b.v.slot, on_done);
	bench_pv_eoi(&pv_eoi);
	/* The chain stays in the table: from now on only the sector and the index change. */
	uint16_t head = b.q.avail->ring[(b.q.avail->idx - 1) & (b.q.size - 1)];
	for (i = 0; i < b.q.size; i++)
		b.q.avail->ring[i] = head;
	whole = rdtsc();
	for (i = 0; i < n; i++) {
		b.header->sector = sectors[i % PLACES];
		start = rdtsc();
		b.q.avail->idx++;
		kick_and_wait(i + 1, ack_base);
		times[i] = rdtsc() - start;
	}
	whole = rdtsc() - whole;
	bench_pv_eoi_off();
	check_eq(*b.status, BLK_OK);
	ring3(sort, n);
	serial_print("%u requests: median %lu ns, p90 %lu ns, p99 %lu ns, least %lu ns, %lu a second, %lu MB/s\n", n,
	             tsc_to_ns(times[n / 2]), tsc_to_ns(times[n * 9 / 10]), tsc_to_ns(times[n * 99 / 100]),
	             tsc_to_ns(times[0]), (uint64_t)n * 1000000000 / tsc_to_ns(whole),
	             (uint64_t)n * bytes * 1000 / tsc_to_ns(whole));
	return 0;
}
