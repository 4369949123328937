/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vsock_host.h - the host's end of a vsock device: unix sockets. Who connects to PATH and writes "CONNECT port\n"
 * reaches a port of the guest; what the guest connects to arrives at PATH_port. The listening socket lives as long as
 * the VM, so that a reset of the guest takes no name away.
 */
#ifndef LULL_VSOCK_HOST_H
#define LULL_VSOCK_HOST_H

#include "unix_listener.h"
#include "vsock_config.h"

#include <stdatomic.h>

struct log;
struct lull_error;

struct vsock_counters {
	atomic_uint now;         /* connections of this moment */
	atomic_ulong opened;     /* of all time, from both sides */
	atomic_ulong refused;    /* that the other side, or the limit, did not let be */
	atomic_ulong resets;     /* that ended without both sides having said so */
	atomic_ulong to_guest;   /* bytes */
	atomic_ulong from_guest; /* bytes that the host's sockets took */
	atomic_ulong waits;      /* times bytes of the guest had to wait for the host */
};

struct vsock_host {
	/* Constant. */
	struct vsock_config config;
	const struct log *log;
	struct unix_listener listener;
	/* Any thread. */
	atomic_bool interrupted; /* connections were cut, and no driver has been told */
	struct vsock_counters counters;
};

/* spec is the text of `--vsock`. Says what is wrong and what to do about it. */
struct vsock_host *vsock_host_open(const char *spec, const struct log *log, struct lull_error *err);
void vsock_host_close(struct vsock_host *h); /* NULL is fine */

/* A descriptor that does not block, or -errno. */
int vsock_host_accept(const struct vsock_host *h);
int vsock_host_connect(const struct vsock_host *h, uint32_t port); /* -EAGAIN: who listens has no room now */

#endif
