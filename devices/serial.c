/* SPDX-License-Identifier: Apache-2.0 */
/* serial.c - 16550A (National PC16550D data sheet, section numbers below). It does not know where it lives or what the
 * host's end is. What it transmits is in the chardev's ring at once; line speed and format have no effect. */
#include "serial.h"

#include "chardev.h"
#include "util.h"

#include <pthread.h>
#include <string.h>

enum {
	REG_DATA, /* RBR, THR; DLL when DLAB */
	REG_IER,  /* DLM when DLAB */
	REG_IIR,  /* written: FCR */
	REG_LCR,
	REG_MCR,
	REG_LSR,
	REG_MSR,
	REG_SCR,
};

enum {
	IER_RECEIVE = 0x01,
	IER_TRANSMIT = 0x02,
	IER_LINE = 0x04,
	IER_MODEM = 0x08,
	IER_MASK = 0x0f,

	IIR_MODEM = 0x00,
	IIR_NONE = 0x01,
	IIR_TRANSMIT = 0x02,
	IIR_RECEIVE = 0x04,
	IIR_LINE = 0x06,
	IIR_TIMEOUT = 0x0c,
	IIR_FIFO = 0xc0,

	FCR_ENABLE = 0x01,
	FCR_CLEAR_RECEIVE = 0x02,
	FCR_KEPT = 0xc9, /* enable, DMA mode, trigger level */

	LCR_DLAB = 0x80,

	MCR_DTR = 0x01,
	MCR_RTS = 0x02,
	MCR_OUT1 = 0x04,
	MCR_OUT2 = 0x08,
	MCR_LOOP = 0x10,
	MCR_MASK = 0x1f,

	LSR_DATA = 0x01,
	LSR_OVERRUN = 0x02,
	LSR_EMPTY = 0x60, /* THRE and TEMT */

	MSR_CTS = 0x10,
	MSR_DSR = 0x20,
	MSR_RI = 0x40,
	MSR_DCD = 0x80,
	MSR_DELTAS = 0x0f, /* DCTS, DDSR, TERI, DDCD: the lines' bits shifted down by 4 */

	FIFO_BYTES = 16,
	DIVISOR_AT_RESET = 12, /* 9600 baud */
};

struct serial {
	struct irq_line line;
	struct chardev *cd;

	pthread_mutex_t lock; /* everything below; vCPU threads and the I/O thread */
	uint8_t ier, fcr, lcr, mcr, msr, scr;
	uint16_t divisor;
	bool has_overrun;
	bool is_level_high; /* of the wire */

	uint8_t fifo[FIFO_BYTES];
	unsigned first, count;
	bool is_timeout; /* bytes below the trigger level, and no more are coming */

	bool is_thre_pending; /* as IIR tells it */
	/* Bytes just written count as still on the line: the wire rises for THRE when the host took them, not for each.
	 * A driver that fills the FIFO in its handler then finds the next THRE in IIR, or has turned it off. Otherwise
	 * every byte would leave a rise behind, and with it an interrupt that has nothing to say. */
	bool is_thre_held;
};

/* ------------------------------------------------------------------------------- interrupts */

static bool has_fifo(const struct serial *s)
{
	return s->fcr & FCR_ENABLE;
}

static unsigned capacity(const struct serial *s)
{
	return has_fifo(s) ? FIFO_BYTES : 1;
}

static unsigned trigger(const struct serial *s)
{
	static const unsigned levels[] = {1, 4, 8, 14};

	return has_fifo(s) ? levels[s->fcr >> 6] : 1;
}

/* The pending, enabled cause of highest priority (table II). */
static uint8_t cause(const struct serial *s)
{
	if ((s->ier & IER_LINE) && s->has_overrun)
		return IIR_LINE;
	if ((s->ier & IER_RECEIVE) && s->count >= trigger(s))
		return IIR_RECEIVE;
	if ((s->ier & IER_RECEIVE) && s->is_timeout)
		return IIR_TIMEOUT;
	if ((s->ier & IER_TRANSMIT) && s->is_thre_pending)
		return IIR_TRANSMIT;
	if ((s->ier & IER_MODEM) && (s->msr & MSR_DELTAS))
		return IIR_MODEM;
	return IIR_NONE;
}

static void set_wire(struct serial *s, bool level)
{
	if (level != s->is_level_high) {
		s->is_level_high = level;
		irq_set(&s->line, level);
	}
}

static void update_wire(struct serial *s)
{
	uint8_t now = cause(s);
	bool modem = (s->ier & IER_MODEM) && (s->msr & MSR_DELTAS);

	set_wire(s, now == IIR_TRANSMIT && s->is_thre_held ? modem : now != IIR_NONE);
}

/* --------------------------------------------------------------------------------- receiver */

/* After bytes came or went: what is left below the trigger level is reported at once. The time of four characters that
 * the data sheet waits (8.5) would only delay what somebody types. */
static void update_timeout(struct serial *s)
{
	s->is_timeout = s->count;
}

static void receive(struct serial *s, uint8_t byte)
{
	if (s->count == capacity(s)) {
		s->has_overrun = true;
		if (!has_fifo(s))
			s->fifo[s->first] = byte; /* the register is overwritten, a FIFO keeps what it has */
		return;
	}
	s->fifo[(s->first + s->count++) % FIFO_BYTES] = byte;
}

static void clear_receiver(struct serial *s)
{
	s->first = s->count = 0;
	s->is_timeout = false;
}

static uint8_t read_data(struct serial *s)
{
	if (!s->count)
		return 0;
	uint8_t byte = s->fifo[s->first];
	s->first = (s->first + 1) % FIFO_BYTES;
	s->count--;
	/* Reading ends the timeout, and what is left makes another: a rise that an edge-triggered input can see. */
	s->is_timeout = false;
	update_wire(s);
	update_timeout(s);
	return byte;
}

/* ------------------------------------------------------------------------------ transmitter */

static void transmit(struct serial *s, uint8_t byte)
{
	bool drains_later = false;

	s->is_thre_pending = false;
	update_wire(s);
	if (s->mcr & MCR_LOOP) {
		receive(s, byte);
		update_timeout(s);
	} else {
		drains_later = chardev_write(s->cd, &byte, 1);
	}
	s->is_thre_pending = true;
	s->is_thre_held = has_fifo(s) && drains_later;
}

static void release_thre(struct serial *s)
{
	s->is_thre_held = false;
	update_wire(s);
}

/* ------------------------------------------------------------------------------ modem lines */

static uint8_t modem_lines(const struct serial *s)
{
	uint8_t mcr = s->mcr;

	if (!(mcr & MCR_LOOP))
		return MSR_CTS | MSR_DSR | MSR_DCD;
	return (mcr & MCR_RTS ? MSR_CTS : 0) | (mcr & MCR_DTR ? MSR_DSR : 0) | (mcr & MCR_OUT1 ? MSR_RI : 0) |
	       (mcr & MCR_OUT2 ? MSR_DCD : 0);
}

static void write_mcr(struct serial *s, uint8_t value)
{
	s->mcr = value & MCR_MASK;
	uint8_t lines = modem_lines(s), changed = (lines ^ s->msr) & ~MSR_DELTAS;
	if (lines & MSR_RI)
		changed &= ~MSR_RI; /* TERI: only the trailing edge */
	s->msr = lines | (s->msr & MSR_DELTAS) | changed >> 4;
}

/* -------------------------------------------------------------------------------- registers */

static uint8_t read_iir(struct serial *s)
{
	uint8_t iir = cause(s);

	if (iir == IIR_TRANSMIT)
		s->is_thre_pending = false;
	return iir | (has_fifo(s) ? IIR_FIFO : 0);
}

static uint8_t read_lsr(struct serial *s)
{
	uint8_t lsr = LSR_EMPTY | (s->count ? LSR_DATA : 0) | (s->has_overrun ? LSR_OVERRUN : 0);

	s->has_overrun = false;
	return lsr;
}

static uint8_t read_msr(struct serial *s)
{
	uint8_t msr = s->msr;

	s->msr &= ~MSR_DELTAS;
	return msr;
}

static void write_ier(struct serial *s, uint8_t value)
{
	if (value & ~s->ier & IER_TRANSMIT) {
		/* The transmitter is empty, and turning the interrupt on says so again. */
		s->is_thre_pending = true;
		s->is_thre_held = false;
	}
	s->ier = value & IER_MASK;
}

static void write_fcr(struct serial *s, uint8_t value)
{
	if ((value ^ s->fcr) & FCR_ENABLE) {
		clear_receiver(s);
		s->is_thre_held = false;
	}
	if (!(value & FCR_ENABLE)) {
		s->fcr = 0;
		return;
	}
	if (value & FCR_CLEAR_RECEIVE)
		clear_receiver(s);
	s->fcr = value & FCR_KEPT;
}

static uint8_t read_register(struct serial *s, unsigned reg)
{
	bool dlab = s->lcr & LCR_DLAB;

	switch (reg) {
	case REG_DATA:
		return dlab ? s->divisor & 0xff : read_data(s);
	case REG_IER:
		return dlab ? s->divisor >> 8 : s->ier;
	case REG_IIR:
		return read_iir(s);
	case REG_LCR:
		return s->lcr;
	case REG_MCR:
		return s->mcr;
	case REG_LSR:
		return read_lsr(s);
	case REG_MSR:
		return read_msr(s);
	default:
		return s->scr;
	}
}

static void write_register(struct serial *s, unsigned reg, uint8_t value)
{
	bool dlab = s->lcr & LCR_DLAB;

	switch (reg) {
	case REG_DATA:
		if (dlab)
			s->divisor = (s->divisor & 0xff00) | value;
		else
			transmit(s, value);
		break;
	case REG_IER:
		if (dlab)
			s->divisor = (uint16_t)((s->divisor & 0xff) | value << 8);
		else
			write_ier(s, value);
		break;
	case REG_IIR:
		write_fcr(s, value);
		break;
	case REG_LCR:
		s->lcr = value;
		break;
	case REG_MCR:
		write_mcr(s, value);
		break;
	case REG_SCR:
		s->scr = value;
		break;
	default: /* LSR and MSR: for factory tests only */
		break;
	}
}

static size_t room_locked(const struct serial *s)
{
	/* In loopback the host's bytes wait outside. */
	return s->mcr & MCR_LOOP ? 0 : capacity(s) - s->count;
}

static uint64_t bus_read_register(void *dev, uint64_t offset, unsigned size)
{
	struct serial *s = dev;

	(void)size;
	pthread_mutex_lock(&s->lock);
	uint8_t value = read_register(s, offset & (SERIAL_WINDOW_BYTES - 1));
	update_wire(s);
	bool has_room = room_locked(s);
	pthread_mutex_unlock(&s->lock);
	if (has_room && offset == REG_DATA)
		chardev_kick_input(s->cd);
	return value;
}

static void bus_write_register(void *dev, uint64_t offset, unsigned size, uint64_t value)
{
	struct serial *s = dev;

	(void)size;
	pthread_mutex_lock(&s->lock);
	write_register(s, offset & (SERIAL_WINDOW_BYTES - 1), (uint8_t)value);
	update_wire(s);
	bool has_room = room_locked(s);
	pthread_mutex_unlock(&s->lock);
	if (has_room && (offset == REG_IIR || offset == REG_MCR)) /* FIFOs cleared or enabled, loopback left */
		chardev_kick_input(s->cd);
}

const struct bus_ops serial_bus_ops = {
	.read = bus_read_register,
	.write = bus_write_register,
};

/* ----------------------------------------------------------------------- the chardev's calls */

static size_t on_room(void *ctx)
{
	struct serial *s = ctx;

	pthread_mutex_lock(&s->lock);
	size_t room = room_locked(s);
	pthread_mutex_unlock(&s->lock);
	return room;
}

static void on_input(void *ctx, const uint8_t *data, size_t len)
{
	struct serial *s = ctx;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < len; i++)
		receive(s, data[i]);
	update_timeout(s);
	update_wire(s);
	pthread_mutex_unlock(&s->lock);
}

static void on_drained(void *ctx)
{
	struct serial *s = ctx;

	pthread_mutex_lock(&s->lock);
	release_thre(s);
	pthread_mutex_unlock(&s->lock);
}

/* ----------------------------------------------------------------------------- begin and end */

static void reset_registers(struct serial *s)
{
	s->ier = s->fcr = s->lcr = s->mcr = s->scr = 0;
	s->msr = modem_lines(s);
	s->divisor = DIVISOR_AT_RESET;
	s->has_overrun = s->is_thre_pending = s->is_thre_held = false;
	clear_receiver(s);
}

struct serial *serial_create(struct irq_line line, struct chardev *cd)
{
	struct serial *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->line = line;
	s->cd = cd;
	pthread_mutex_init(&s->lock, NULL);
	reset_registers(s);
	chardev_connect(cd,
	                &(struct chardev_user){.room = on_room, .input = on_input, .drained = on_drained, .ctx = s});
	return s;
}

void serial_destroy(struct serial *serial)
{
	if (!serial)
		return;
	chardev_disconnect(serial->cd);
	pthread_mutex_destroy(&serial->lock);
	free(serial);
}

void serial_reset(struct serial *serial)
{
	pthread_mutex_lock(&serial->lock);
	reset_registers(serial);
	update_wire(serial);
	pthread_mutex_unlock(&serial->lock);
	chardev_kick_input(serial->cd);
}
