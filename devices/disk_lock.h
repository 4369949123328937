/* SPDX-License-Identifier: Apache-2.0 */
/* disk_lock.h - one writer or many readers of a disk, over all VMs of a host. */
#ifndef LULL_DISK_LOCK_H
#define LULL_DISK_LOCK_H

struct disk_config;
struct log;
struct lull_error;

/* An open file description lock on every byte: shared for a disk that is only read. It lasts until the last descriptor
 * of fd's description is closed. -EBUSY names who has it. Where locks do not work, there is a warning and no lock. */
int disk_lock(int fd, const struct disk_config *config, const struct log *log, struct lull_error *err);

#endif
