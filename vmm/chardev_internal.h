/* SPDX-License-Identifier: Apache-2.0 */
/* chardev_internal.h - shared by chardev.c (traffic), chardev_open.c (what a spec means) and chardev_socket.c only. */
#ifndef LULL_CHARDEV_INTERNAL_H
#define LULL_CHARDEV_INTERNAL_H

#include "chardev.h"
#include "host_fd.h"
#include "unix_listener.h"

#include <pthread.h>
#include <stdatomic.h>

#define CHARDEV_RING_BYTES 65536u

/* Where the output stands. Any thread under `lock`; only a write leaves IDLE. */
enum output_state {
	OUTPUT_IDLE,    /* nothing to do: a write wakes the loop */
	OUTPUT_AWAKE,   /* the loop was told */
	OUTPUT_HELD,    /* just written: what comes now waits for the timer */
	OUTPUT_BLOCKED, /* the host takes nothing: nobody connected, a full pipe, or detached */
	OUTPUT_CLOSED,  /* the host will never take anything again */
};

struct chardev {
	const struct log *log;
	const char *what; /* "serial" and the like; it and spec name it in messages */
	char *spec;
	char path[128];
	bool discards; /* output leads nowhere by intention; constant */

	/* The loop's thread, or any while the loop does not run. */
	struct event_loop *loop;
	struct event_source wake, timer, listener;
	struct host_fd in, out;
	int pty_slave;               /* kept open: without any opener the master would hang up all the time */
	struct unix_listener socket; /* listener's, when there is one */
	bool has_warned;

	pthread_mutex_t user_lock; /* held during calls into the device, whose lock nests inside */
	struct chardev_user user;  /* under user_lock */
	atomic_bool input_waits;   /* for room; set by the loop, taken by whoever kicks */

	pthread_mutex_t lock;     /* innermost */
	enum output_state output; /* under lock */
	uint32_t head, tail;      /* under lock, free-running; bytes from tail to head belong to the loop */
	uint8_t *ring;
	_Atomic uint64_t dropped;
};

/* chardev.c, on the loop's thread. */
void chardev_pump_input(struct chardev *cd);
void chardev_resume_output(struct chardev *cd); /* the host takes bytes again */

/* chardev_socket.c */
int chardev_socket_open(struct chardev *cd, const char *path, struct lull_error *err);
void chardev_socket_hang_up(struct chardev *cd); /* the client, if any; the loop's thread */
void chardev_socket_close(struct chardev *cd);

/* The sources' callbacks. */
void chardev_on_wake(void *ctx, uint32_t events);
void chardev_on_timer(void *ctx, uint32_t events);
void chardev_on_input(void *ctx, uint32_t events);
void chardev_on_output(void *ctx, uint32_t events);

#endif
