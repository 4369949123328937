/* SPDX-License-Identifier: Apache-2.0 */
/* chardev_socket.c - a unix stream socket with one client at a time. */
#include "chardev_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int set_address(const struct chardev *cd, struct sockaddr_un *address, const char *path, struct lull_error *err)
{
	size_t len = strlen(path);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (!len)
		return error_set(err, -EINVAL, "%s socket: the path is empty", cd->what);
	if (len >= sizeof(address->sun_path))
		return error_set(err, -ENAMETOOLONG, "%s socket %s: the path has %zu characters, a socket takes %zu",
		                 cd->what, path, len, sizeof(address->sun_path) - 1);
	memcpy(address->sun_path, path, len);
	return 0;
}

/* Removes a socket file that nobody serves any more. Refuses everything else. */
static int remove_stale(const struct chardev *cd, const struct sockaddr_un *address, struct lull_error *err)
{
	const char *path = address->sun_path;
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer);
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : error_sys(err, -errno, "%s socket %s", cd->what, path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -EEXIST,
		                 "%s socket %s: exists and is not a socket; remove it or take another path", cd->what,
		                 path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, -errno, "%s socket %s", cd->what, path);
	int error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
	bool has_peer = !error && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0;
	close(fd);
	if (error == ECONNREFUSED)
		return unlink(path) == 0 || errno == ENOENT
		               ? 0
		               : error_sys(err, -errno, "stale %s socket %s", cd->what, path);
	if (has_peer)
		return error_set(err, -EADDRINUSE, "%s socket %s: in use by process %d", cd->what, path, (int)peer.pid);
	if (!error || error == EAGAIN)
		return error_set(err, -EADDRINUSE, "%s socket %s: in use by another process", cd->what, path);
	return error == ENOENT ? 0 : error_sys(err, -error, "%s socket %s: is it in use", cd->what, path);
}

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
	struct sockaddr_un address;
	struct stat st;
	int ret;

	ret = set_address(cd, &address, path, err);
	if (ret == 0)
		ret = remove_stale(cd, &address, err);
	if (ret < 0)
		return ret;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, -errno, "%s socket %s", cd->what, path);
	cd->listener = (struct event_source){.fd = fd, .fn = on_connection, .ctx = cd};
	/* Linux gives the file the mode of the descriptor. The umask is the whole process's, and not ours to change. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return error_sys(err, -errno, "%s socket %s", cd->what, path);
	if (lstat(path, &st) == 0) {
		cd->has_socket_file = true;
		cd->socket_dev = st.st_dev;
		cd->socket_ino = st.st_ino;
	}
	memcpy(cd->path, path, strlen(path) + 1);
	if (listen(fd, 4) < 0)
		return error_sys(err, -errno, "%s socket %s", cd->what, path);
	return 0;
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
	struct stat st;

	if (cd->listener.fd < 0)
		return;
	close(cd->listener.fd);
	if (cd->has_socket_file && lstat(cd->path, &st) == 0 && st.st_dev == cd->socket_dev &&
	    st.st_ino == cd->socket_ino)
		unlink(cd->path);
}
