/* SPDX-License-Identifier: Apache-2.0 */
/* disk_config.h - what `--disk` says, as text and as values. */
#ifndef LULL_DISK_CONFIG_H
#define LULL_DISK_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

enum disk_engine {
	DISK_ENGINE_ANY, /* io_uring where the host lets us */
	DISK_ENGINE_SYNC,
	DISK_ENGINE_IO_URING,
};

#define DISK_SERIAL_BYTES 20 /* virtio 1.2, 5.2.6: not terminated when all are used */
#define DISK_QUEUES_MAX   16u

struct disk_config {
	char *path; /* owned */
	char serial[DISK_SERIAL_BYTES + 1];
	bool read_only, direct;
	unsigned queues;
	enum disk_engine engine;
	uint64_t bytes_per_second, ops_per_second; /* 0: no limit */
};

/* "path=FILE[,ro][,direct][,serial=TEXT][,queues=N][,engine=sync|io_uring][,rate=BYTES][,iops=N]" or with the file's
 * name alone in front; ",," in a name stands for a comma. -EINVAL with a text. */
int disk_config_parse(struct disk_config *config, const char *spec, struct lull_error *err);
void disk_config_free(struct disk_config *config);

#endif
