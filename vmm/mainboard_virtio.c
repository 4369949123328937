// SPDX-License-Identifier: Apache-2.0
/* mainboard_virtio.c - the virtio slots of the board: which device is where, made anew for each boot. */
#include "mainboard.h"

#include "error.h"
#include "ioapic.h"
#include "irqchip.h"
#include "util.h"
#include "virtio_balloon.h"
#include "virtio_blk.h"
#include "virtio_console.h"
#include "virtio_mmio.h"
#include "virtio_net.h"
#include "virtio_rng.h"
#include "virtio_vsock.h"

#include <errno.h>

static int describe(struct machine *m, const char *name, struct lull_error *err)
{
	unsigned slot = 0;

	while (machine_find(m, MACHINE_VIRTIO_MMIO, slot))
		slot++;
	if (slot == MACHINE_VIRTIO_SLOTS)
		return error_set(
			err, -ENOSPC,
			"%s: the board has room for %u virtio devices; leave one out, maybe the entropy device", name,
			MACHINE_VIRTIO_SLOTS);
	const struct machine_entry entry = {MACHINE_VIRTIO_MMIO,
	                                    name,
	                                    true,
	                                    MACHINE_VIRTIO_BASE + slot * MACHINE_VIRTIO_SIZE,
	                                    MACHINE_VIRTIO_SIZE,
	                                    (int)(MACHINE_VIRTIO_GSI + slot),
	                                    false};
	return machine_add(m, &entry, err);
}

int mainboard_describe_virtio(struct machine *m, const struct mainboard_slots *slots, struct lull_error *err)
{
	int ret = 0;

	for (unsigned i = 0; i < slots->disks && ret == 0; i++)
		ret = describe(m, "virtio-blk", err);
	for (unsigned i = 0; i < slots->nets && ret == 0; i++)
		ret = describe(m, "virtio-net", err);
	if (ret == 0 && slots->console)
		ret = describe(m, "virtio-console", err);
	if (ret == 0 && slots->vsock)
		ret = describe(m, "virtio-vsock", err);
	if (ret == 0 && slots->rng)
		ret = describe(m, "virtio-rng", err);
	return ret == 0 && slots->balloon ? describe(m, "virtio-balloon", err) : ret;
}

/* Takes over dev, which is NULL when there was no memory for it. */
static int plug(struct mainboard *b, struct virtio_dev *dev, const struct mainboard_hosts *hosts, struct irqchip *chip,
                struct lull_error *err)
{
	if (!dev)
		return error_set(err, -ENOMEM, "virtio: out of memory");
	struct virtio_slot *slot = &b->virtio[b->virtio_count];
	const struct machine_entry *entry = machine_find(&b->machine, MACHINE_VIRTIO_MMIO, b->virtio_count);
	const struct virtio_mmio_config config = {
		.dev = dev,
		.mem = hosts->mem,
		.line = ioapic_line(chip->ioapic, (unsigned)entry->gsi),
		.loop = hosts->loop,
		.log = hosts->log,
	};
	slot->dev = dev;
	slot->transport = virtio_mmio_create(&config);
	b->virtio_count++;
	if (!slot->transport)
		return error_set(err, -ENOMEM, "%s: out of memory", dev->ops->name);
	const struct bus_region region = {entry->name, entry->base,          entry->size,
	                                  0,           &virtio_mmio_bus_ops, slot->transport};
	return bus_add(&b->mmio, &region, err);
}

/* What lies below 1 MiB is small, and lull's own tables are there. */
static int plug_balloon(struct mainboard *b, const struct mainboard_hosts *hosts, struct irqchip *chip,
                        struct lull_error *err)
{
	struct virtio_dev *dev = virtio_balloon_create(hosts->balloon, hosts->mem, MACHINE_HIGH_BASE, hosts->loop);
	int ret = plug(b, dev, hosts, chip, err);

	if (ret == 0)
		b->balloon = dev;
	return ret;
}

int mainboard_plug_virtio(struct mainboard *b, const struct mainboard_hosts *hosts, struct irqchip *chip,
                          struct lull_error *err)
{
	b->poll_hooks = hosts->poll_hooks;
	const struct mainboard_slots slots = {.disks = hosts->disk_count,
	                                      .nets = hosts->net_count,
	                                      .console = hosts->console,
	                                      .vsock = hosts->vsock,
	                                      .rng = hosts->rng,
	                                      .balloon = hosts->balloon};
	int ret = mainboard_describe_virtio(&b->machine, &slots, err);

	for (unsigned i = 0; i < hosts->disk_count && ret == 0; i++) {
		struct virtio_dev *dev = virtio_blk_create(hosts->disks[i], hosts->loop);
		ret = plug(b, dev, hosts, chip, err);
		if (ret == 0) {
			const struct poll_hook hook = virtio_blk_poll_hook(dev);
			poll_hooks_add(hosts->poll_hooks, &hook);
		}
	}
	for (unsigned i = 0; i < hosts->net_count && ret == 0; i++)
		ret = plug(b, virtio_net_create(hosts->nets[i], hosts->loop), hosts, chip, err);
	if (ret == 0 && hosts->console)
		ret = plug(b, virtio_console_create(hosts->console, hosts->loop), hosts, chip, err);
	if (ret == 0 && hosts->vsock)
		ret = plug(b, virtio_vsock_create(hosts->vsock, hosts->loop), hosts, chip, err);
	if (ret == 0 && hosts->rng)
		ret = plug(b, virtio_rng_create(hosts->loop), hosts, chip, err);
	if (ret == 0 && hosts->balloon)
		ret = plug_balloon(b, hosts, chip, err);
	return ret;
}

void mainboard_unplug_virtio(struct mainboard *b)
{
	b->balloon = NULL;
	while (b->virtio_count) {
		struct virtio_slot *slot = &b->virtio[--b->virtio_count];
		virtio_mmio_destroy(slot->transport);
		slot->dev->ops->destroy(slot->dev);
	}
	if (b->poll_hooks)
		b->poll_hooks->count = 0;
}
