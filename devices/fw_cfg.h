/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fw_cfg.h - the part of QEMU's firmware configuration device that test kernels use: a 16-bit selector and a stream of
 * bytes per key (QEMU docs/specs/fw_cfg). No DMA, no files, nothing writable.
 */
#ifndef LULL_FW_CFG_H
#define LULL_FW_CFG_H

#include "bus.h"

enum {
	FW_CFG_SIGNATURE = 0x00, /* "QEMU" */
	FW_CFG_ID = 0x01,        /* u32: 1, the register interface */
	FW_CFG_RAM_SIZE = 0x03,  /* u64 */
	FW_CFG_NB_CPUS = 0x05,   /* u16 */
	FW_CFG_MAX_CPUS = 0x0f,  /* u16 */
};
#define FW_CFG_PORTS 2

struct fw_cfg;

struct fw_cfg *fw_cfg_create(unsigned vcpus, uint64_t ram_bytes); /* NULL: out of memory */
void fw_cfg_destroy(struct fw_cfg *cfg);                          /* NULL is fine */
void fw_cfg_reset(struct fw_cfg *cfg);

/* For a region of FW_CFG_PORTS ports, widths 1 and 2: the selector is written as 2 bytes at 0, data is read byte by
 * byte at 1. A key that is not there, and every key after its last byte, reads 0: so does 0x11 (kernel data), whose
 * size, key 8, is 0. */
extern const struct bus_ops fw_cfg_ops;

#endif
