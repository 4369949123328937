/* SPDX-License-Identifier: Apache-2.0 */
/* bus.h - address to device. One bus for I/O ports, one for memory. Filled at set-up, frozen at start, read
 * without locks after. A device sees an offset, a size and a value; it does not know where it lives. */
#ifndef LULL_BUS_H
#define LULL_BUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lull_error;

/* On a vCPU thread, maybe several at once: the device locks. May not block, cannot fail. size is 1, 2, 4 or 8. */
struct bus_ops {
	uint64_t (*read)(void *dev, uint64_t offset, unsigned size);
	void (*write)(void *dev, uint64_t offset, unsigned size, uint64_t value);
};

struct bus_region {
	const char *name;
	uint64_t base, size; /* size > 0, base + size - 1 does not wrap */
	unsigned widths;     /* sum of accepted sizes 1, 2, 4, 8; 0: all. Others read all ones, writes are dropped */
	const struct bus_ops *ops;
	void *dev;
};

#define BUS_REGIONS_MAX 96

struct bus {
	const char *name;
	unsigned count;
	bool frozen;
	struct bus_region regions[BUS_REGIONS_MAX]; /* sorted by base */
	atomic_ulong unclaimed;                     /* accesses that hit no device: any thread */
};

void bus_init(struct bus *bus, const char *name);
int bus_add(struct bus *bus, const struct bus_region *region, struct lull_error *err); /* -EEXIST names both */
void bus_freeze(struct bus *bus);

/* An access that no region takes, or that crosses its end, or has a width it does not accept: false, reads give
 * all ones of that size. */
bool bus_read(struct bus *bus, uint64_t addr, unsigned size, uint64_t *value);
bool bus_write(struct bus *bus, uint64_t addr, unsigned size, uint64_t value);

#endif
