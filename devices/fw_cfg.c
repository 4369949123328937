// SPDX-License-Identifier: Apache-2.0
/* fw_cfg.c - QEMU's firmware configuration keys, the few that test kernels read. */
#include "fw_cfg.h"

#include "util.h"

#include <pthread.h>

/* Any vCPU thread, under lock. */
struct fw_cfg {
	pthread_mutex_t lock;
	unsigned vcpus;
	uint64_t ram_bytes;
	uint16_t key;
	unsigned position; /* next byte of the key's value */
};

struct fw_cfg *fw_cfg_create(unsigned vcpus, uint64_t ram_bytes)
{
	struct fw_cfg *cfg = calloc(1, sizeof(*cfg));

	if (!cfg)
		return NULL;
	pthread_mutex_init(&cfg->lock, NULL);
	cfg->vcpus = vcpus;
	cfg->ram_bytes = ram_bytes;
	return cfg;
}

void fw_cfg_destroy(struct fw_cfg *cfg)
{
	if (!cfg)
		return;
	pthread_mutex_destroy(&cfg->lock);
	free(cfg);
}

void fw_cfg_reset(struct fw_cfg *cfg)
{
	pthread_mutex_lock(&cfg->lock);
	cfg->key = 0;
	cfg->position = 0;
	pthread_mutex_unlock(&cfg->lock);
}

/* Every value fits 8 bytes, little endian; what follows it reads 0 either way. */
static uint64_t fw_cfg_value(const struct fw_cfg *cfg)
{
	switch (cfg->key) {
	case FW_CFG_SIGNATURE:
		return 'Q' | 'E' << 8 | 'M' << 16 | 'U' << 24;
	case FW_CFG_ID:
		return 1;
	case FW_CFG_RAM_SIZE:
		return cfg->ram_bytes;
	case FW_CFG_NB_CPUS:
	case FW_CFG_MAX_CPUS:
		return cfg->vcpus;
	}
	return 0;
}

static uint64_t fw_cfg_read(void *dev, uint64_t offset, unsigned size)
{
	struct fw_cfg *cfg = dev;
	uint64_t value = 0;

	if (offset != 1 || size != 1)
		return 0;
	pthread_mutex_lock(&cfg->lock);
	if (cfg->position < sizeof(value)) {
		value = fw_cfg_value(cfg) >> (8 * cfg->position) & 0xff;
		cfg->position++;
	}
	pthread_mutex_unlock(&cfg->lock);
	return value;
}

static void fw_cfg_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct fw_cfg *cfg = dev;

	if (offset != 0 || size != 2)
		return;
	pthread_mutex_lock(&cfg->lock);
	cfg->key = (uint16_t)value;
	cfg->position = 0;
	pthread_mutex_unlock(&cfg->lock);
}

const struct bus_ops fw_cfg_ops = {fw_cfg_read, fw_cfg_write};
