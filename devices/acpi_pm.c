// SPDX-License-Identifier: Apache-2.0
/* acpi_pm.c - PM1a event and control block, PM timer, power button. Knows ports and a wire; what power-off means is
 * its owner's business. ACPI 6.4, 4.8.3. */
#include "acpi_pm.h"

#include "util.h"

#include <pthread.h>

enum {
	PM1_EN_WRITABLE = ACPI_PM1_TMR | ACPI_PM1_GBL | ACPI_PM1_PWRBTN | ACPI_PM1_SLPBTN | ACPI_PM1_RTC,
	PM1_CNT_WRITABLE = ACPI_PM1_BM_RLD | 7u << ACPI_PM1_SLP_TYP_SHIFT,
};

/* Everything but config: any thread, under lock. */
struct acpi_pm {
	struct acpi_pm_config config;
	pthread_mutex_t lock;
	uint16_t status, enable, control;
	bool timer_high; /* bit 31 of the timer when it was last looked at */
	bool sci;        /* level last put on the wire */
};

static uint32_t pm_timer(const struct acpi_pm *pm)
{
	uint64_t ns = pm->config.now_ns(pm->config.ctx);

	return (uint32_t)((unsigned __int128)ns * ACPI_PM_TIMER_HZ / 1000000000u);
}

struct acpi_pm *acpi_pm_create(const struct acpi_pm_config *config)
{
	struct acpi_pm *pm = calloc(1, sizeof(*pm));

	if (!pm)
		return NULL;
	pm->config = *config;
	pthread_mutex_init(&pm->lock, NULL);
	pm->timer_high = pm_timer(pm) >> 31;
	return pm;
}

void acpi_pm_destroy(struct acpi_pm *pm)
{
	if (!pm)
		return;
	pthread_mutex_destroy(&pm->lock);
	free(pm);
}

/* Lock held, so that levels reach the wire in the order in which they arose. */
static void pm_update_sci(struct acpi_pm *pm)
{
	bool level = pm->status & pm->enable;

	if (level == pm->sci)
		return;
	pm->sci = level;
	irq_set(&pm->config.sci, level);
}

/* Lock held: 4.8.3.3, TMR_STS is set when the most significant bit changes, in either direction. */
static uint32_t pm_update_timer(struct acpi_pm *pm)
{
	uint32_t timer = pm_timer(pm);
	bool high = timer >> 31;

	if (high != pm->timer_high) {
		pm->timer_high = high;
		pm->status |= ACPI_PM1_TMR;
	}
	return timer;
}

void acpi_pm_reset(struct acpi_pm *pm)
{
	pthread_mutex_lock(&pm->lock);
	pm_update_timer(pm);
	pm->status = 0;
	pm->enable = 0;
	pm->control = 0;
	pm_update_sci(pm);
	pthread_mutex_unlock(&pm->lock);
}

bool acpi_pm_power_button(struct acpi_pm *pm)
{
	bool enabled;

	pthread_mutex_lock(&pm->lock);
	pm->status |= ACPI_PM1_PWRBTN;
	enabled = pm->enable & ACPI_PM1_PWRBTN;
	pm_update_sci(pm);
	pthread_mutex_unlock(&pm->lock);
	return enabled;
}

static uint64_t acpi_pm_read(void *dev, uint64_t offset, unsigned size)
{
	struct acpi_pm *pm = dev;
	uint64_t window[2]; /* the ports as they read now, little endian; 4 bytes of room behind the last */
	uint64_t value;
	uint32_t timer;

	if (offset >= ACPI_PM_PORTS)
		return 0;
	pthread_mutex_lock(&pm->lock);
	timer = pm_update_timer(pm);
	pm_update_sci(pm);
	window[0] = pm->status | (uint64_t)pm->enable << 16 | (uint64_t)(pm->control | ACPI_PM1_SCI_EN) << 32;
	window[1] = timer;
	pthread_mutex_unlock(&pm->lock);

	value = window[offset / 8] >> (offset % 8 * 8);
	if (offset < 8 && offset % 8 + size > 8)
		value |= window[1] << ((8 - offset) * 8);
	return size < 8 ? value & ((1ull << (size * 8)) - 1) : value;
}

/* Lock held: one byte of the window. */
static void pm_write_byte(struct acpi_pm *pm, uint64_t offset, uint16_t byte)
{
	unsigned shift = offset % 2 * 8;
	uint16_t keep = (uint16_t)(0xff00 >> shift);

	byte = (uint16_t)(byte << shift);
	switch (offset & ~1ull) {
	case ACPI_PM1_STS:
		pm->status &= (uint16_t)~byte;
		break;
	case ACPI_PM1_EN:
		pm->enable = (pm->enable & keep) | (byte & PM1_EN_WRITABLE);
		break;
	case ACPI_PM1_CNT:
		pm->control = (pm->control & keep) | (byte & PM1_CNT_WRITABLE);
		break;
	}
}

static void acpi_pm_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct acpi_pm *pm = dev;
	bool sleep = false;

	pthread_mutex_lock(&pm->lock);
	pm_update_timer(pm);
	for (unsigned i = 0; i < size; i++) {
		uint16_t byte = value >> (i * 8) & 0xff;

		pm_write_byte(pm, offset + i, byte);
		/* SLP_EN is written, never stored: 4.8.3.2.1. */
		if (offset + i == ACPI_PM1_CNT + 1 && byte & (ACPI_PM1_SLP_EN >> 8))
			sleep = true;
	}
	pm_update_sci(pm);
	if (pm->control >> ACPI_PM1_SLP_TYP_SHIFT != pm->config.s5_type)
		sleep = false;
	pthread_mutex_unlock(&pm->lock);

	if (sleep)
		pm->config.power_off(pm->config.ctx);
}

const struct bus_ops acpi_pm_ops = {acpi_pm_read, acpi_pm_write};
