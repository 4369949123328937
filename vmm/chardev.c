/* SPDX-License-Identifier: Apache-2.0 */
/* chardev.c - the traffic between a device and the host: a ring for output, backpressure for input. What the host's end
 * is and how it was opened is chardev_open.c's. */
#include "chardev.h"

#include "chardev_internal.h"
#include "util.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
	/* The first byte is written at once; bytes that follow within this time share one write. A guest writes a burst
	 * byte by byte, one exit each, and must not wake us for every one. */
	HOLD_NS = 250000,
	RING_HURRY = CHARDEV_RING_BYTES / 4, /* do not wait for the timer any longer */
	INPUT_CHUNK = 256,
};

static void wake_loop(struct chardev *cd)
{
	uint64_t one = 1;

	(void)!write(cd->wake.fd, &one, sizeof(one));
}

/* ------------------------------------------------------------------------------ the device */

static size_t device_room(struct chardev *cd)
{
	pthread_mutex_lock(&cd->user_lock);
	size_t room = cd->user.room ? cd->user.room(cd->user.ctx) : 0;
	pthread_mutex_unlock(&cd->user_lock);
	return room;
}

static void device_input(struct chardev *cd, const uint8_t *data, size_t len)
{
	pthread_mutex_lock(&cd->user_lock);
	if (cd->user.input)
		cd->user.input(cd->user.ctx, data, len);
	pthread_mutex_unlock(&cd->user_lock);
}

static void device_drained(struct chardev *cd)
{
	pthread_mutex_lock(&cd->user_lock);
	if (cd->user.drained)
		cd->user.drained(cd->user.ctx);
	pthread_mutex_unlock(&cd->user_lock);
}

void chardev_connect(struct chardev *cd, const struct chardev_user *user)
{
	pthread_mutex_lock(&cd->user_lock);
	cd->user = *user;
	pthread_mutex_unlock(&cd->user_lock);
	chardev_kick_input(cd);
}

void chardev_disconnect(struct chardev *cd)
{
	pthread_mutex_lock(&cd->user_lock);
	memset(&cd->user, 0, sizeof(cd->user));
	pthread_mutex_unlock(&cd->user_lock);
}

/* ---------------------------------------------------------------------------------- output */

static void count_dropped(struct chardev *cd, uint64_t bytes)
{
	atomic_fetch_add_explicit(&cd->dropped, bytes, memory_order_relaxed);
}

static size_t ring_put(struct chardev *cd, const uint8_t *data, size_t len)
{
	size_t room = CHARDEV_RING_BYTES - (cd->head - cd->tail);
	size_t at = cd->head % CHARDEV_RING_BYTES, to_end = CHARDEV_RING_BYTES - at;

	if (len > room)
		len = room;
	size_t first = len < to_end ? len : to_end;
	memcpy(cd->ring + at, data, first);
	memcpy(cd->ring, data + first, len - first);
	cd->head += (uint32_t)len;
	return len;
}

static size_t ring_used(const struct chardev *cd)
{
	return cd->head - cd->tail;
}

static void ring_take(struct chardev *cd, size_t len)
{
	cd->tail += (uint32_t)len;
	if (cd->tail == cd->head)
		cd->tail = cd->head = 0; /* the next burst finds warm memory */
}

bool chardev_write(struct chardev *cd, const uint8_t *data, size_t len)
{
	if (cd->discards)
		return false;
	pthread_mutex_lock(&cd->lock);
	size_t taken = cd->output == OUTPUT_CLOSED ? 0 : ring_put(cd, data, len);
	bool moves = cd->output != OUTPUT_CLOSED && cd->output != OUTPUT_BLOCKED;
	bool kick = cd->output == OUTPUT_IDLE || (cd->output == OUTPUT_HELD && ring_used(cd) >= RING_HURRY);
	if (kick)
		cd->output = OUTPUT_AWAKE;
	pthread_mutex_unlock(&cd->lock);
	if (taken < len)
		count_dropped(cd, len - taken);
	if (kick)
		wake_loop(cd);
	return moves;
}

size_t chardev_room(struct chardev *cd)
{
	if (cd->discards)
		return SIZE_MAX;
	pthread_mutex_lock(&cd->lock);
	size_t room = cd->output == OUTPUT_CLOSED ? SIZE_MAX : CHARDEV_RING_BYTES - ring_used(cd);
	pthread_mutex_unlock(&cd->lock);
	return room;
}

/* The loop's decision about where the output stands; a CLOSED output stays closed. */
static void set_output(struct chardev *cd, enum output_state state)
{
	pthread_mutex_lock(&cd->lock);
	if (cd->output != OUTPUT_CLOSED)
		cd->output = state;
	pthread_mutex_unlock(&cd->lock);
}

static void drop_all(struct chardev *cd, enum output_state state)
{
	pthread_mutex_lock(&cd->lock);
	count_dropped(cd, ring_used(cd));
	ring_take(cd, ring_used(cd));
	if (cd->output != OUTPUT_CLOSED)
		cd->output = state;
	pthread_mutex_unlock(&cd->lock);
}

static void warn_lost(struct chardev *cd, int error)
{
	if (cd->has_warned)
		return;
	cd->has_warned = true;
	errno = error;
	log_warn(cd->log, "%s %s: output is lost (%m)", cd->what, cd->spec);
}

/* What a failed write means: 1 go on, 0 done for ever, -EAGAIN wait for another client. */
static int output_error(struct chardev *cd, size_t len, int error)
{
	if (cd->listener.fd >= 0) {
		chardev_socket_hang_up(cd);
		return -EAGAIN;
	}
	warn_lost(cd, error);
	if (cd->out.is_file) {
		count_dropped(cd, len);
		pthread_mutex_lock(&cd->lock);
		ring_take(cd, len);
		pthread_mutex_unlock(&cd->lock);
		return 1;
	}
	host_fd_close(&cd->out, cd->loop);
	drop_all(cd, OUTPUT_CLOSED);
	return 0;
}

/* One write to the host: 1 something went, 0 nothing is left, -EAGAIN the host takes nothing now. */
static int write_some(struct chardev *cd)
{
	pthread_mutex_lock(&cd->lock);
	size_t at = cd->tail % CHARDEV_RING_BYTES, len = ring_used(cd);
	pthread_mutex_unlock(&cd->lock);

	if (!len)
		return 0;
	if (cd->out.src.fd < 0)
		return -EAGAIN;
	if (len > CHARDEV_RING_BYTES - at)
		len = CHARDEV_RING_BYTES - at;
	ssize_t n = host_fd_write(&cd->out, cd->ring + at, len);
	if (n == -EAGAIN)
		return -EAGAIN;
	if (n == -EINTR)
		return 1;
	if (n < 0)
		return output_error(cd, len, (int)-n);
	pthread_mutex_lock(&cd->lock);
	ring_take(cd, (size_t)n);
	pthread_mutex_unlock(&cd->lock);
	return 1;
}

static void hold_output(struct chardev *cd)
{
	const struct itimerspec in = {.it_value = {.tv_nsec = HOLD_NS}};

	set_output(cd, OUTPUT_HELD);
	timerfd_settime(cd->timer.fd, 0, &in, NULL);
}

/* The loop's thread, output AWAKE. Two writes reach the end of the ring and its beginning; whatever came meanwhile
 * waits for the timer, so that a busy guest cannot keep the loop here. */
static void flush_output(struct chardev *cd)
{
	int ret = write_some(cd);

	if (ret == 1)
		ret = write_some(cd);
	if (ret == -EAGAIN) {
		int error = host_fd_wait(&cd->out, cd->loop, EPOLLOUT);
		if (error == 0) {
			set_output(cd, OUTPUT_BLOCKED);
			device_drained(cd); /* for what was promised before */
			return;
		}
		output_error(cd, 0, -error);
	}
	host_fd_wait(&cd->out, cd->loop, 0);
	hold_output(cd);
}

void chardev_resume_output(struct chardev *cd)
{
	pthread_mutex_lock(&cd->lock);
	bool resume = cd->output == OUTPUT_BLOCKED;
	if (resume)
		cd->output = OUTPUT_AWAKE;
	pthread_mutex_unlock(&cd->lock);
	if (resume)
		flush_output(cd);
}

void chardev_on_output(void *ctx, uint32_t events)
{
	(void)events;
	chardev_resume_output(ctx);
}

void chardev_on_timer(void *ctx, uint32_t events)
{
	struct chardev *cd = ctx;
	uint64_t count;

	(void)events;
	(void)!read(cd->timer.fd, &count, sizeof(count));
	pthread_mutex_lock(&cd->lock);
	bool over = cd->output == OUTPUT_HELD;
	bool empty = !ring_used(cd);
	if (over)
		cd->output = empty ? OUTPUT_IDLE : OUTPUT_AWAKE;
	bool closed = cd->output == OUTPUT_CLOSED;
	pthread_mutex_unlock(&cd->lock);
	if (over && !empty)
		flush_output(cd);
	else if (over || closed)
		device_drained(cd);
}

/* ----------------------------------------------------------------------------------- input */

static void end_input(struct chardev *cd)
{
	if (cd->listener.fd >= 0)
		chardev_socket_hang_up(cd);
	else
		host_fd_close(&cd->in, cd->loop);
}

/* True while the device has no room; it will kick us. */
static bool wait_for_room(struct chardev *cd)
{
	/* Announce first, then look again: a kick in between is seen by one of the two. */
	atomic_store(&cd->input_waits, true);
	if (device_room(cd)) {
		atomic_store(&cd->input_waits, false);
		return false;
	}
	host_fd_wait(&cd->in, cd->loop, 0);
	return true;
}

void chardev_pump_input(struct chardev *cd)
{
	uint8_t data[INPUT_CHUNK];

	while (cd->in.src.fd >= 0) {
		size_t room = device_room(cd);
		if (!room && wait_for_room(cd))
			return;
		if (!room)
			continue;
		size_t want = room < sizeof(data) ? room : sizeof(data);
		ssize_t n = host_fd_read(&cd->in, data, want);
		if (n > 0)
			device_input(cd, data, (size_t)n);
		else if (n != -EAGAIN && n != -EINTR)
			return end_input(cd);
		if (n == (ssize_t)want || n == -EINTR)
			continue;
		if (host_fd_wait(&cd->in, cd->loop, EPOLLIN) < 0)
			end_input(cd); /* a file: it gave less than it was asked for, which is its end */
		return;
	}
}

void chardev_on_input(void *ctx, uint32_t events)
{
	(void)events;
	chardev_pump_input(ctx);
}

void chardev_kick_input(struct chardev *cd)
{
	if (atomic_load(&cd->input_waits) && atomic_exchange(&cd->input_waits, false))
		wake_loop(cd);
}

void chardev_on_wake(void *ctx, uint32_t events)
{
	struct chardev *cd = ctx;
	uint64_t count;

	(void)events;
	(void)!read(cd->wake.fd, &count, sizeof(count));
	pthread_mutex_lock(&cd->lock);
	bool awake = cd->output == OUTPUT_AWAKE;
	pthread_mutex_unlock(&cd->lock);
	if (awake)
		flush_output(cd);
	chardev_pump_input(cd);
}

/* ------------------------------------------------------------------------- begin and end */

int chardev_attach(struct chardev *cd, struct event_loop *loop)
{
	int ret = 0;

	if (cd->wake.fd < 0)
		return 0;
	cd->loop = loop;
	ret = event_loop_set(loop, &cd->wake, EPOLLIN);
	if (ret == 0)
		ret = event_loop_set(loop, &cd->timer, EPOLLIN);
	/* Edge: a connection that cannot be accepted (no descriptors left) must not spin. */
	if (ret == 0 && cd->listener.fd >= 0)
		ret = event_loop_set(loop, &cd->listener, EPOLLIN | EPOLLET);
	if (ret < 0) {
		chardev_detach(cd, 0);
		return ret;
	}
	set_output(cd, OUTPUT_AWAKE);
	wake_loop(cd); /* the loop looks at both directions */
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool wait_writable(struct chardev *cd, int64_t deadline_ms)
{
	struct pollfd pfd = {.fd = cd->out.src.fd, .events = POLLOUT};
	int64_t left = deadline_ms - now_ms();

	if (pfd.fd < 0 || left <= 0)
		return false;
	return poll(&pfd, 1, (int)left) != 0; /* EINTR: look again */
}

void chardev_detach(struct chardev *cd, unsigned timeout_ms)
{
	int64_t deadline_ms = now_ms() + timeout_ms;
	int ret;

	if (!cd->loop)
		return;
	do
		ret = write_some(cd);
	while (ret == 1 || (ret == -EAGAIN && wait_writable(cd, deadline_ms)));
	drop_all(cd, OUTPUT_BLOCKED);
	device_drained(cd);
	host_fd_wait(&cd->in, cd->loop, 0);
	host_fd_wait(&cd->out, cd->loop, 0);
	event_loop_set(cd->loop, &cd->listener, 0);
	event_loop_set(cd->loop, &cd->timer, 0);
	event_loop_set(cd->loop, &cd->wake, 0);
	cd->loop = NULL;
}

uint64_t chardev_dropped(const struct chardev *cd)
{
	return atomic_load_explicit(&cd->dropped, memory_order_relaxed);
}

const char *chardev_path(const struct chardev *cd)
{
	return cd->path;
}
