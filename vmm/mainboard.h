/* SPDX-License-Identifier: Apache-2.0 */
/* mainboard.h - the devices of one machine, wired: addresses to devices, devices to interrupt pins, endings to the VM.
 * Built for each boot and torn down at each reset; what faces the host (serial's other end) belongs to the VM. */
#ifndef LULL_MAINBOARD_H
#define LULL_MAINBOARD_H

#include "board.h"
#include "bus.h"
#include "debug_console.h"
#include "endings.h"
#include "log.h"
#include "machine.h"
#include "poll_hook.h"

struct acpi_pm;
struct balloon_host;
struct chardev;
struct disk_file;
struct event_loop;
struct fw_cfg;
struct irqchip;
struct net_host;
struct serial;
struct virtio_dev;
struct virtio_mmio;
struct vsock_host;
struct lull_error;

struct virtio_slot {
	struct virtio_dev *dev;
	struct virtio_mmio *transport;
};

struct mainboard {
	struct bus pio, mmio;
	struct machine machine;
	struct chardev *chardev;
	struct serial *serial;
	struct acpi_pm *pm;
	struct fw_cfg *fw_cfg;
	struct i8042 i8042;
	struct port_b port_b;
	struct reset_port reset_port;
	struct debug_exit debug_exit;
	struct pvpanic pvpanic;
	struct shutdown_port shutdown_port;
	struct debug_console debug_console;
	struct virtio_slot virtio[MACHINE_VIRTIO_SLOTS];
	unsigned virtio_count;
	struct virtio_dev *balloon;    /* one of them, or NULL */
	struct poll_hooks *poll_hooks; /* the VM's; filled here */
};

/* What the VM keeps for its virtio devices from boot to boot, and what they need of it. All of it outlives the board.
 */
struct mainboard_hosts {
	const struct guest_mem *mem;
	struct event_loop *loop;
	const struct log *log;
	struct poll_hooks *poll_hooks; /* filled with what polling vCPUs can do for the devices */
	struct disk_file *const *disks;
	struct net_host *const *nets;
	struct chardev *console;      /* or NULL */
	struct vsock_host *vsock;     /* or NULL */
	struct balloon_host *balloon; /* or NULL */
	unsigned disk_count, net_count;
	bool rng;
};

/* How many of each virtio device. */
struct mainboard_slots {
	unsigned disks, nets;
	bool console, vsock, rng, balloon;
};

/* The table alone, without a device behind it: enough for `lull dump`. */
int mainboard_describe(struct machine *m, struct lull_error *err);

/* chip and chardev outlive the board. */
int mainboard_init(struct mainboard *b, unsigned vcpus, uint64_t ram_bytes, struct irqchip *chip,
                   struct chardev *chardev, const struct board_sink *sink, const struct log *log,
                   struct lull_error *err);
void mainboard_fini(struct mainboard *b);

/* ---- mainboard_virtio.c: slots are filled in the order of struct mainboard_slots ---- */
int mainboard_describe_virtio(struct machine *m, const struct mainboard_slots *slots, struct lull_error *err);
/* Describes and makes them, after mainboard_init(); mainboard_fini() undoes it. */
int mainboard_plug_virtio(struct mainboard *b, const struct mainboard_hosts *hosts, struct irqchip *chip,
                          struct lull_error *err);
void mainboard_unplug_virtio(struct mainboard *b);

#endif
