/* SPDX-License-Identifier: Apache-2.0 */
/* chardev.h - the host's end of a serial port or console: bytes in, bytes out, bounded, never blocking a vCPU. */
#ifndef LULL_CHARDEV_H
#define LULL_CHARDEV_H

#include "event_loop.h"
#include "log.h"

#include <stddef.h>

struct chardev;
struct lull_error;

/* spec: "null", "fd=IN,OUT" (either may be -1; not closed, not changed: O_NONBLOCK would be shared with others),
 * "file=PATH" (truncated, no input), "pty", "socket=PATH" (unix stream socket, one client at a time, a stale socket
 * file is replaced, removed at the end). log must live as long. The host end outlives a machine reset. */
struct chardev *chardev_open(const char *spec, const struct log *log, struct lull_error *err);
/* The same for something else than the serial port: messages start with `what`, a literal. */
struct chardev *chardev_open_as(const char *what, const char *spec, const struct log *log, struct lull_error *err);
/* Starts and ends the traffic; loop's thread or while it does not run. */
int chardev_attach(struct chardev *cd, struct event_loop *loop);
/* Writes out what is buffered, for at most timeout_ms, drops and counts the rest, then lets go of the loop. */
void chardev_detach(struct chardev *cd, unsigned timeout_ms);
void chardev_close(struct chardev *cd);

/* The device's end; every call comes on the loop's thread, or from chardev_detach(). The device may call
 * chardev_write() and chardev_kick_input() with its own lock held, but not connect and disconnect. */
struct chardev_user {
	size_t (*room)(void *ctx);
	void (*input)(void *ctx, const uint8_t *data, size_t len); /* at most as many bytes as room() said */
	void (*drained)(void *ctx);                                /* may be NULL; see chardev_write() */
	void *ctx;
};
void chardev_connect(struct chardev *cd, const struct chardev_user *user);
void chardev_disconnect(struct chardev *cd); /* any thread: no call is running once it returns */

/* Any thread, never blocks: puts bytes into a ring of 64 KiB that the loop writes out; what does not fit is dropped and
 * counted. True: drained() follows within about a millisecond, once the bytes went out and no more came, or when it
 * turns out that the host takes nothing. False: it does not (the output is discarded, blocked or gone). */
bool chardev_write(struct chardev *cd, const uint8_t *data, size_t len);
/* Any thread: how many bytes chardev_write() takes now without dropping any; SIZE_MAX when they lead nowhere anyway.
 * After 0 drained() follows as soon as there is more room, which may be never. */
size_t chardev_room(struct chardev *cd);
/* Any thread: room() may have grown. */
void chardev_kick_input(struct chardev *cd);

uint64_t chardev_dropped(const struct chardev *cd);
const char *chardev_path(const struct chardev *cd); /* pty or socket path, else "" */

#endif
