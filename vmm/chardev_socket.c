/* SPDX-License-Identifier: Apache-2.0 */
/* chardev_socket.c - a unix stream socket with one client at a time. */
#include "chardev_internal.h"

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* While the device has no room nobody waits for the client's input, and so nobody sees it leave. */
static bool client_is_gone(const struct chardev *cd)
{
	struct pollfd pfd = {.fd = cd->out.src.fd}; /* hang-up and error come unasked */

	return poll(&pfd, 1, 0) > 0;
}

static void take_client(struct chardev *cd, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* epoll takes a descriptor once, and we wait for both directions */

	if (copy < 0) {
		log_warn(cd->log, "%s %s: client refused (%m)", cd->what, cd->spec);
		close(fd);
		return;
	}
	host_fd_adopt(&cd->in, fd);
	host_fd_adopt(&cd->out, copy);
	log_debug(cd->log, "%s %s: client connected", cd->what, cd->spec);
	chardev_resume_output(cd);
	chardev_pump_input(cd);
}

static void on_connection(void *ctx, uint32_t events)
{
	static const char busy[] = "lull: another client is connected\r\n";
	struct chardev *cd = ctx;
	int fd;

	(void)events;
	while ((fd = accept4(cd->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (cd->out.src.fd >= 0 && client_is_gone(cd))
			chardev_socket_hang_up(cd);
		if (cd->out.src.fd < 0) {
			take_client(cd, fd);
		} else {
			(void)!send(fd, busy, sizeof(busy) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			close(fd);
		}
	}
	if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		log_warn(cd->log, "%s %s: cannot accept a client (%m)", cd->what, cd->spec);
}

int chardev_socket_open(struct chardev *cd, const char *path, struct lull_error *err)
{
	int ret = unix_listener_open(&cd->socket, cd->what, path, 4, err);

	cd->listener = (struct event_source){.fd = cd->socket.fd, .fn = on_connection, .ctx = cd};
	if (ret == 0)
		memcpy(cd->path, path, strlen(path) + 1);
	return ret;
}

void chardev_socket_hang_up(struct chardev *cd)
{
	if (cd->out.src.fd >= 0)
		log_debug(cd->log, "%s %s: client gone", cd->what, cd->spec);
	host_fd_close(&cd->in, cd->loop);
	host_fd_close(&cd->out, cd->loop);
}

void chardev_socket_close(struct chardev *cd)
{
	if (cd->listener.fd >= 0)
		unix_listener_close(&cd->socket);
}
