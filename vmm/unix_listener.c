/* SPDX-License-Identifier: Apache-2.0 */
/* unix_listener.c - listening at a path without taking it away from anybody. Knows nothing of who connects. */
#include "unix_listener.h"

#include "error.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int set_address(struct sockaddr_un *address, const char *what, const char *path, struct lull_error *err)
{
	size_t len = strlen(path);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (!len)
		return error_set(err, -EINVAL, "%s socket: the path is empty", what);
	if (len >= sizeof(address->sun_path))
		return error_set(err, -ENAMETOOLONG, "%s socket %s: the path has %zu characters, a socket takes %zu",
		                 what, path, len, sizeof(address->sun_path) - 1);
	memcpy(address->sun_path, path, len);
	return 0;
}

/* Removes a socket file that nobody serves any more. Refuses everything else. */
static int remove_stale(const struct sockaddr_un *address, const char *what, struct lull_error *err)
{
	const char *path = address->sun_path;
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer);
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : error_sys(err, -errno, "%s socket %s", what, path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -EEXIST,
		                 "%s socket %s: exists and is not a socket; remove it or take another path", what,
		                 path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, -errno, "%s socket %s", what, path);
	int error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
	bool has_peer = !error && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0;
	close(fd);
	if (error == ECONNREFUSED)
		return unlink(path) == 0 || errno == ENOENT ? 0
		                                            : error_sys(err, -errno, "stale %s socket %s", what, path);
	if (has_peer)
		return error_set(err, -EADDRINUSE, "%s socket %s: in use by process %d", what, path, (int)peer.pid);
	if (!error || error == EAGAIN)
		return error_set(err, -EADDRINUSE, "%s socket %s: in use by another process", what, path);
	return error == ENOENT ? 0 : error_sys(err, -error, "%s socket %s: is it in use", what, path);
}

int unix_listener_open(struct unix_listener *l, const char *what, const char *path, int backlog, struct lull_error *err)
{
	struct stat st;
	int ret;

	*l = (struct unix_listener){.fd = -1};
	ret = set_address(&l->address, what, path, err);
	if (ret == 0)
		ret = remove_stale(&l->address, what, err);
	if (ret < 0)
		return ret;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return error_sys(err, -errno, "%s socket %s", what, path);
	/* Linux gives the file the mode of the descriptor. The umask is the whole process's, and not ours to change. */
	if (fchmod(l->fd, 0600) < 0 || bind(l->fd, (const struct sockaddr *)&l->address, sizeof(l->address)) < 0)
		return error_sys(err, -errno, "%s socket %s", what, path);
	if (lstat(path, &st) == 0) {
		l->has_file = true;
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	return listen(l->fd, backlog) < 0 ? error_sys(err, -errno, "%s socket %s", what, path) : 0;
}

void unix_listener_close(struct unix_listener *l)
{
	struct stat st;

	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	if (l->has_file && lstat(l->address.sun_path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->address.sun_path);
}
