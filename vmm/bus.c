/* SPDX-License-Identifier: Apache-2.0 */
/* bus.c - address to device: a sorted array, searched by halves. Knows nothing of what the devices are. */
#include "bus.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static uint64_t mask(unsigned size)
{
	return size < 8 ? (UINT64_C(1) << (8 * size)) - 1 : UINT64_MAX;
}

static uint64_t last(const struct bus_region *region)
{
	return region->base + (region->size - 1);
}

/* How many regions begin at addr or below: the only one that can hold addr is the one before that place. */
static unsigned count_up_to(const struct bus *bus, uint64_t addr)
{
	unsigned low = 0, high = bus->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		if (bus->regions[middle].base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The region that takes this access. KVM splits an access at a page boundary, so that sizes of 3, 5, 6 and 7 do come:
 * no device sees them. */
static const struct bus_region *find(const struct bus *bus, uint64_t addr, unsigned size)
{
	unsigned at = count_up_to(bus, addr);

	if (!at || !size || size > 8 || (size & (size - 1)))
		return NULL;
	const struct bus_region *region = &bus->regions[at - 1];
	uint64_t offset = addr - region->base;
	if (offset >= region->size || region->size - offset < size)
		return NULL;
	return !region->widths || (region->widths & size) ? region : NULL;
}

void bus_init(struct bus *bus, const char *name)
{
	memset(bus, 0, sizeof(*bus));
	bus->name = name;
}

static int overlap(const struct bus *bus, const struct bus_region *region, const struct bus_region *other,
                   struct lull_error *err)
{
	return error_set(err, -EEXIST,
	                 "%s bus: %s at 0x%" PRIx64 "-0x%" PRIx64 " overlaps %s at 0x%" PRIx64 "-0x%" PRIx64, bus->name,
	                 region->name, region->base, last(region), other->name, other->base, last(other));
}

int bus_add(struct bus *bus, const struct bus_region *region, struct lull_error *err)
{
	uint64_t end;

	if (bus->frozen)
		return error_set(err, -EBUSY, "%s bus: %s comes after the start", bus->name, region->name);
	if (!region->size || add_overflow(region->base, region->size - 1, &end))
		return error_set(err, -EINVAL, "%s bus: %s at 0x%" PRIx64 " with 0x%" PRIx64 " bytes is no range",
		                 bus->name, region->name, region->base, region->size);
	if (bus->count == BUS_REGIONS_MAX)
		return error_set(err, -ENOSPC, "%s bus: %s is one device too many (limit %d)", bus->name, region->name,
		                 BUS_REGIONS_MAX);

	unsigned at = count_up_to(bus, region->base);
	struct bus_region *place = &bus->regions[at];
	if (at && last(place - 1) >= region->base)
		return overlap(bus, region, place - 1, err);
	if (at < bus->count && place->base <= end)
		return overlap(bus, region, place, err);
	memmove(place + 1, place, (bus->count - at) * sizeof(*place));
	*place = *region;
	bus->count++;
	return 0;
}

void bus_freeze(struct bus *bus)
{
	bus->frozen = true;
}

bool bus_read(struct bus *bus, uint64_t addr, unsigned size, uint64_t *value)
{
	const struct bus_region *region = find(bus, addr, size);

	if (!region) {
		*value = mask(size);
		atomic_fetch_add_explicit(&bus->unclaimed, 1, memory_order_relaxed);
		return false;
	}
	*value = region->ops->read(region->dev, addr - region->base, size) & mask(size);
	return true;
}

bool bus_write(struct bus *bus, uint64_t addr, unsigned size, uint64_t value)
{
	const struct bus_region *region = find(bus, addr, size);

	if (!region) {
		atomic_fetch_add_explicit(&bus->unclaimed, 1, memory_order_relaxed);
		return false;
	}
	region->ops->write(region->dev, addr - region->base, size, value & mask(size));
	return true;
}
