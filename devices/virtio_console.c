// SPDX-License-Identifier: Apache-2.0
/* virtio_console.c - between two queues and a chardev: output on the thread that notified, input on the loop's. */
#include "virtio_console.h"

#include "chardev.h"
#include "util.h"

#include <linux/virtio_console.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
	RX = 0,
	TX = 1,
	QUEUE_MAX = 64,
	PIECE = 1 << 15,      /* that is written at a time */
	KICK_COST = 1 << 18,  /* of one kick, in bytes */
	CHAIN_COST = 1 << 12, /* what a chain costs besides its bytes */
	PATIENCE_NS = 200000000,
};

struct virtio_console {
	struct virtio_dev dev;
	struct chardev *cd; /* constant */
	/* Under the receive queue's lock: the buffer that the next input goes to. */
	struct virtq_chain input;
	struct iovec input_iov[QUEUE_MAX];
	bool has_input;
	/* Under the transmit queue's lock: the buffer that is being written. */
	struct virtq_chain output;
	struct iovec output_iov[QUEUE_MAX];
	bool has_output;
	unsigned at_iov; /* of output */
	size_t at_byte;  /* of that iovec */
	bool waits;      /* for drained() */
	bool drops;      /* the host's time is up, until it takes something */
	/* Of the loop's thread but for being set. Runs when output has to wait. */
	struct event_loop *loop;
	struct event_source patience;
};

static struct virtio_console *console_of(struct virtio_dev *dev)
{
	return container_of(dev, struct virtio_console, dev);
}

/* ------------------------------------------------------------------ output; the queue's lock is held */

static void end_output(struct virtio_console *con)
{
	virtq_push(&con->dev.queues[TX].ring, con->output.head, 0);
	con->has_output = false;
}

static int next_output(struct virtio_console *con)
{
	con->output.iov = con->output_iov;
	con->output.iov_max = QUEUE_MAX;
	con->at_iov = 0;
	con->at_byte = 0;
	int ret = virtq_pop(&con->dev.queues[TX].ring, &con->output);
	con->has_output = ret > 0;
	if (ret < 0)
		virtio_broken(&con->dev, TX, "a chain that cannot be");
	return ret;
}

static void start_patience(const struct virtio_console *con)
{
	const struct itimerspec when = {.it_value = {.tv_nsec = PATIENCE_NS}};

	timerfd_settime(con->patience.fd, 0, &when, NULL);
}

/* Gives a piece of it to the chardev; how many bytes. 0: it takes no more before it calls drained(). */
static uint32_t write_piece(struct virtio_console *con)
{
	const struct iovec *iov = &con->output.iov[con->at_iov];
	size_t len = iov->iov_len - con->at_byte, room = con->drops ? SIZE_MAX : chardev_room(con->cd);

	if (!room) {
		if (!con->waits)
			start_patience(con);
		con->waits = true;
		return 0;
	}
	len = len < room ? len : room;
	len = len < PIECE ? len : PIECE;
	chardev_write(con->cd, (const uint8_t *)iov->iov_base + con->at_byte, len);
	con->at_byte += len;
	if (con->at_byte == iov->iov_len) {
		con->at_iov++;
		con->at_byte = 0;
	}
	return (uint32_t)len;
}

/* Until the ring is empty, which is true, the chardev is full, or the budget is used up. */
static bool write_all(struct virtio_console *con, int64_t *budget)
{
	while (*budget > 0) {
		if (!con->has_output) {
			int ret = next_output(con);
			if (ret <= 0)
				return ret == 0;
			*budget -= CHAIN_COST;
		}
		while (con->at_iov<con->output.readable && * budget> 0) {
			uint32_t done = write_piece(con);
			if (!done)
				return false;
			*budget -= done;
		}
		if (con->at_iov == con->output.readable)
			end_output(con);
	}
	con->dev.up.again(con->dev.up.ctx, TX);
	return false;
}

static void serve_output(struct virtio_console *con)
{
	struct virtq *ring = &con->dev.queues[TX].ring;
	int64_t budget = KICK_COST;

	do
		virtq_kick_off(ring);
	while (write_all(con, &budget) && virtq_kick_on(ring));
	virtio_flush(&con->dev, TX);
}

/* The host takes bytes again, or has had its time. */
static void go_on(struct virtio_console *con, bool drops)
{
	struct virtio_queue *q = &con->dev.queues[TX];

	pthread_mutex_lock(&q->lock);
	if (!drops || con->waits)
		con->drops = drops;
	con->waits = false;
	if (q->live)
		serve_output(con);
	pthread_mutex_unlock(&q->lock);
}

static void on_drained(void *ctx)
{
	struct virtio_console *con = ctx;

	if (con->dev.queues) /* else its transport is still to come */
		go_on(con, false);
}

static void on_patience_over(void *ctx, uint32_t events)
{
	struct virtio_console *con = ctx;
	uint64_t count;

	(void)events;
	(void)!read(con->patience.fd, &count, sizeof(count));
	go_on(con, true);
}

/* ------------------------------------------------------------------- input, on the loop's thread */

/* The queue's lock is held. */
static bool find_input(struct virtio_console *con)
{
	struct virtq *ring = &con->dev.queues[RX].ring;
	int ret;

	con->input.iov = con->input_iov;
	con->input.iov_max = QUEUE_MAX;
	virtq_kick_off(ring);
	do
		ret = virtq_pop(ring, &con->input);
	while (ret == 0 && virtq_kick_on(ring));
	con->has_input = ret > 0;
	if (ret < 0)
		virtio_broken(&con->dev, RX, "a chain that cannot be");
	if (ret > 0 && !con->input.writable) {
		con->has_input = false;
		virtq_push(ring, con->input.head, 0);
		virtio_broken(&con->dev, RX, "a buffer for input that cannot be written");
	}
	return con->has_input;
}

static size_t on_room(void *ctx)
{
	struct virtio_console *con = ctx;
	struct virtio_queue *q = con->dev.queues ? &con->dev.queues[RX] : NULL;
	size_t room = 0;

	if (!q) /* its transport is still to come */
		return 0;
	pthread_mutex_lock(&q->lock);
	if (q->live && (con->has_input || find_input(con)))
		room = con->input.writable_bytes;
	pthread_mutex_unlock(&q->lock);
	return room;
}

/* After a reset since on_room() there is no buffer, and the bytes are lost with everything else of that time. */
static void on_input(void *ctx, const uint8_t *data, size_t len)
{
	struct virtio_console *con = ctx;
	struct virtio_queue *q = &con->dev.queues[RX];

	pthread_mutex_lock(&q->lock);
	if (q->live && con->has_input) {
		uint32_t done = (uint32_t)virtq_write(&con->input, 0, data, len);
		virtq_push(&q->ring, con->input.head, done);
		con->has_input = false;
		virtio_flush(&con->dev, RX);
	}
	pthread_mutex_unlock(&q->lock);
}

/* ------------------------------------------------------------------------------------------- device */

static void kick(struct virtio_dev *dev, unsigned n)
{
	struct virtio_console *con = console_of(dev);

	if (n == TX)
		serve_output(con);
	else
		chardev_kick_input(con->cd);
}

static void drain(struct virtio_dev *dev, unsigned n)
{
	struct virtio_console *con = console_of(dev);

	if (n == TX) {
		if (con->has_output)
			end_output(con);
		con->waits = con->drops = false;
	}
	if (n == RX && con->has_input) {
		virtq_push(&dev->queues[RX].ring, con->input.head, 0);
		con->has_input = false;
	}
}

static void config_write(struct virtio_dev *dev, uint32_t offset, const void *data, uint32_t len)
{
	/* 5.3.6.1: the low byte of emerg_wr, whatever the status says. */
	if (offset == offsetof(struct virtio_console_config, emerg_wr) && len)
		chardev_write(console_of(dev)->cd, data, 1);
}

static void destroy(struct virtio_dev *dev)
{
	struct virtio_console *con = console_of(dev);

	chardev_disconnect(con->cd);
	if (con->patience.fd >= 0) {
		event_loop_set(con->loop, &con->patience, 0);
		close(con->patience.fd);
	}
	free(con);
}

static const struct virtio_dev_ops ops = {
	.name = "virtio-console",
	.id = VIRTIO_ID_CONSOLE,
	.queue_max = QUEUE_MAX,
	.config_bytes = sizeof(struct virtio_console_config),
	.kick = kick,
	.drain = drain,
	.config_write = config_write,
	.destroy = destroy,
};

struct virtio_dev *virtio_console_create(struct chardev *cd, struct event_loop *loop)
{
	struct virtio_console *con = calloc(1, sizeof(*con));

	if (!con)
		return NULL;
	con->dev.ops = &ops;
	con->dev.offered = UINT64_C(1) << VIRTIO_CONSOLE_F_EMERG_WRITE;
	con->dev.queue_count = 2;
	con->cd = cd;
	con->loop = loop;
	con->patience = (struct event_source){.fn = on_patience_over, .ctx = con};
	con->patience.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (con->patience.fd < 0 || event_loop_set(loop, &con->patience, EPOLLIN) < 0) {
		if (con->patience.fd >= 0)
			close(con->patience.fd);
		free(con);
		return NULL;
	}
	const struct chardev_user user = {on_room, on_input, on_drained, con};
	chardev_connect(cd, &user);
	return &con->dev;
}
