// SPDX-License-Identifier: Apache-2.0
/* vsock_host.c - opens, accepts and connects. Knows no packets. */
#include "vsock_host.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024 /* the host's somaxconn may say less */

static int open_host(struct vsock_host *h, const char *spec, struct lull_error *err)
{
	int ret = vsock_config_parse(&h->config, spec, err);

	return ret < 0 ? ret : unix_listener_open(&h->listener, "vsock", h->config.path, BACKLOG, err);
}

struct vsock_host *vsock_host_open(const char *spec, const struct log *log, struct lull_error *err)
{
	struct vsock_host *h = calloc(1, sizeof(*h));

	if (!h) {
		error_set(err, -ENOMEM, "vsock: out of memory");
		return NULL;
	}
	h->log = log;
	h->listener.fd = -1;
	if (open_host(h, spec, err) == 0)
		return h;
	vsock_host_close(h);
	return NULL;
}

void vsock_host_close(struct vsock_host *h)
{
	if (!h)
		return;
	unix_listener_close(&h->listener);
	vsock_config_free(&h->config);
	free(h);
}

int vsock_host_accept(const struct vsock_host *h)
{
	int fd = accept4(h->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int vsock_host_connect(const struct vsock_host *h, uint32_t port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s_%u", h->config.path, port);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}
