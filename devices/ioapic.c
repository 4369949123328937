/* SPDX-License-Identifier: Apache-2.0 */
/* ioapic.c - 24 pins, an index and a data register. Knows no CPU: what it has to say leaves as an MSI message. */
#include "ioapic.h"

#include "util.h"

#include <pthread.h>

/* Offsets in the page. */
enum {
	IO_SELECT = 0x00,
	IO_WINDOW = 0x10,
	IO_EOI = 0x40,
};

/* Indirect registers: 82093AA data sheet, 3.2. */
enum {
	REG_ID = 0x00,
	REG_VERSION = 0x01,
	REG_ARBITRATION = 0x02,
	REG_REDIRECTION = 0x10,
};

#define VERSION (0x20u | (IOAPIC_PINS - 1) << 16)
#define ID_BITS 0x0f000000u

/* Redirection entry: 82093AA data sheet, 3.2.4. */
#define ENTRY_VECTOR     0xffull
#define ENTRY_MODE       (7ull << 8)
#define ENTRY_LOGICAL    (1ull << 11)
#define ENTRY_STATUS     (1ull << 12) /* always reads idle: a message takes no time */
#define ENTRY_POLARITY   (1ull << 13)
#define ENTRY_REMOTE_IRR (1ull << 14)
#define ENTRY_LEVEL      (1ull << 15)
#define ENTRY_MASKED     (1ull << 16)
#define ENTRY_DEST_SHIFT 56
#define ENTRY_WRITABLE                                                                                                 \
	(ENTRY_VECTOR | ENTRY_MODE | ENTRY_LOGICAL | ENTRY_POLARITY | ENTRY_LEVEL | ENTRY_MASKED |                     \
	 0xffull << ENTRY_DEST_SHIFT)

/* Delivery modes that matter here. */
enum {
	MODE_FIXED = 0,
	MODE_LOWEST = 1,
	MODE_NMI = 4,
};

struct ioapic {
	pthread_mutex_t lock;
	struct ioapic_out out; /* constant */
	/* Under lock. */
	uint8_t select;
	uint32_t id;
	uint32_t high;    /* bit per pin: its input */
	uint32_t latched; /* bit per pin: an edge that was not delivered yet */
	uint64_t entry[IOAPIC_PINS];
};

static unsigned mode_of(uint64_t entry)
{
	return entry >> 8 & 7;
}

/* SMI, NMI, INIT and ExtINT are edges even where the entry says level. */
static bool is_level(uint64_t entry)
{
	return (entry & ENTRY_LEVEL) && mode_of(entry) <= MODE_LOWEST;
}

static struct msi_msg message(uint64_t entry)
{
	struct msi_msg msg = {
		.address = 0xfee00000ull | entry >> ENTRY_DEST_SHIFT << 12,
		.data = (uint32_t)(entry & (ENTRY_VECTOR | ENTRY_MODE)),
	};

	if (mode_of(entry) == MODE_LOWEST)
		msg.address |= 1u << 3; /* redirection hint */
	if (entry & ENTRY_LOGICAL)
		msg.address |= 1u << 2;
	if (is_level(entry))
		msg.data |= 1u << 15 | 1u << 14; /* level, asserted */
	return msg;
}

/* Delivers what pin has to say, if it has and may. */
static void service(struct ioapic *io, unsigned pin)
{
	uint64_t *entry = &io->entry[pin];
	uint32_t bit = 1u << pin;
	bool level = is_level(*entry);
	struct msi_msg msg;

	if (*entry & ENTRY_MASKED)
		return;
	if (level ? !(io->high & bit) || (*entry & ENTRY_REMOTE_IRR) : !(io->latched & bit))
		return;
	msg = message(*entry);
	if (!io->out.deliver(io->out.ctx, &msg))
		return;
	if (level)
		*entry |= ENTRY_REMOTE_IRR;
	else
		io->latched &= ~bit;
}

static void tell_route(struct ioapic *io, unsigned pin)
{
	uint64_t entry = io->entry[pin];
	struct msi_msg msg = message(entry);

	if (io->out.route)
		io->out.route(io->out.ctx, pin, &msg, entry & ENTRY_MASKED, is_level(entry));
}

static void reset_locked(struct ioapic *io)
{
	io->select = 0;
	io->id = 0;
	io->latched = 0;
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		io->entry[pin] = ENTRY_MASKED;
		tell_route(io, pin);
	}
}

struct ioapic *ioapic_create(const struct ioapic_out *out)
{
	struct ioapic *io = calloc(1, sizeof(*io));

	if (!io)
		return NULL;
	pthread_mutex_init(&io->lock, NULL);
	io->out = *out;
	reset_locked(io);
	return io;
}

void ioapic_destroy(struct ioapic *io)
{
	if (!io)
		return;
	pthread_mutex_destroy(&io->lock);
	free(io);
}

void ioapic_reset(struct ioapic *io)
{
	pthread_mutex_lock(&io->lock);
	reset_locked(io);
	pthread_mutex_unlock(&io->lock);
}

/* ------------------------------------------------------------------------------- registers */

/* True, and its pin, when the index means half of a redirection entry. */
static bool select_pin(const struct ioapic *io, unsigned *pin)
{
	if (io->select < REG_REDIRECTION)
		return false;
	*pin = (io->select - REG_REDIRECTION) / 2u;
	return *pin < IOAPIC_PINS;
}

static uint32_t read_window(const struct ioapic *io)
{
	unsigned pin;

	switch (io->select) {
	case REG_ID:
	case REG_ARBITRATION: /* loaded with the ID whenever that is written */
		return io->id;
	case REG_VERSION:
		return VERSION;
	default:
		if (select_pin(io, &pin))
			return (uint32_t)(io->entry[pin] >> (io->select & 1) * 32);
		return 0;
	}
}

/* Remote IRR follows the trigger mode: an entry that is made edge loses it, which is how Linux ends a level interrupt
 * on chips without an EOI register. An edge latched before the entry was made level is the level's now. */
static void write_entry(struct ioapic *io, unsigned pin, unsigned half, uint32_t value)
{
	uint64_t written = 0xffffffffull << half * 32 & ENTRY_WRITABLE;
	uint64_t entry = (io->entry[pin] & ~written) | ((uint64_t)value << half * 32 & written);

	if (is_level(entry))
		io->latched &= ~(1u << pin);
	else
		entry &= ~ENTRY_REMOTE_IRR;
	io->entry[pin] = entry;
	tell_route(io, pin);
	service(io, pin);
}

static void write_window(struct ioapic *io, uint32_t value)
{
	unsigned pin;

	if (io->select == REG_ID)
		io->id = value & ID_BITS;
	else if (select_pin(io, &pin))
		write_entry(io, pin, io->select & 1, value);
}

static void eoi_locked(struct ioapic *io, uint8_t vector)
{
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		if (!(io->entry[pin] & ENTRY_REMOTE_IRR) || (io->entry[pin] & ENTRY_VECTOR) != vector)
			continue;
		io->entry[pin] &= ~ENTRY_REMOTE_IRR;
		service(io, pin);
	}
}

/* The index register is 8 bits wide and takes any access; the others are 32 bits. */
static uint64_t ioapic_read(void *dev, uint64_t offset, unsigned size)
{
	struct ioapic *io = dev;
	uint64_t value = 0;

	pthread_mutex_lock(&io->lock);
	if (offset == IO_SELECT)
		value = io->select;
	else if (offset == IO_WINDOW && size == 4)
		value = read_window(io);
	pthread_mutex_unlock(&io->lock);
	return value;
}

static void ioapic_write(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct ioapic *io = dev;

	pthread_mutex_lock(&io->lock);
	if (offset == IO_SELECT)
		io->select = (uint8_t)value;
	else if (offset == IO_WINDOW && size == 4)
		write_window(io, (uint32_t)value);
	else if (offset == IO_EOI && size == 4)
		eoi_locked(io, (uint8_t)value);
	pthread_mutex_unlock(&io->lock);
}

const struct bus_ops ioapic_bus_ops = {
	.read = ioapic_read,
	.write = ioapic_write,
};

/* ----------------------------------------------------------------------------------- wires */

void ioapic_set_pin(struct ioapic *io, unsigned pin, bool level)
{
	uint32_t bit;

	invariant(pin < IOAPIC_PINS);
	bit = 1u << pin;
	pthread_mutex_lock(&io->lock);
	if (level && !(io->high & bit) && !is_level(io->entry[pin]))
		io->latched |= bit;
	io->high = level ? io->high | bit : io->high & ~bit;
	service(io, pin);
	pthread_mutex_unlock(&io->lock);
}

static void set_line(void *chip, unsigned pin, bool level)
{
	ioapic_set_pin(chip, pin, level);
}

struct irq_line ioapic_line(struct ioapic *io, unsigned pin)
{
	invariant(pin < IOAPIC_PINS);
	return (struct irq_line){.set = set_line, .chip = io, .pin = pin};
}

void ioapic_eoi(struct ioapic *io, uint8_t vector)
{
	pthread_mutex_lock(&io->lock);
	eoi_locked(io, vector);
	pthread_mutex_unlock(&io->lock);
}

bool ioapic_has_nmi(struct ioapic *io)
{
	bool found = false;

	pthread_mutex_lock(&io->lock);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++)
		found |= !(io->entry[pin] & ENTRY_MASKED) && mode_of(io->entry[pin]) == MODE_NMI;
	pthread_mutex_unlock(&io->lock);
	return found;
}

void ioapic_describe(struct ioapic *io, char *text, size_t size)
{
	size_t at = 0;

	if (!size)
		return;
	text[0] = '\0';
	pthread_mutex_lock(&io->lock);
	for (unsigned pin = 0; pin < IOAPIC_PINS; pin++) {
		uint64_t entry = io->entry[pin];
		bool high = io->high & 1u << pin, latched = io->latched & 1u << pin;
		int n;

		if ((entry & ENTRY_MASKED) && !high && !latched)
			continue;
		n = snprintf(text + at, size - at, "ioapic pin %u: entry %016llx%s%s%s%s\n", pin,
		             (unsigned long long)entry, entry & ENTRY_MASKED ? ", masked" : "", high ? ", high" : "",
		             latched ? ", edge waiting" : "", entry & ENTRY_REMOTE_IRR ? ", remote IRR" : "");
		if (n < 0 || (size_t)n >= size - at)
			break;
		at += (size_t)n;
	}
	pthread_mutex_unlock(&io->lock);
}
