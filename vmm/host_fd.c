/* SPDX-License-Identifier: Apache-2.0 */
/* host_fd.c - reading and writing what we were given: terminals, pipes, sockets, files. O_NONBLOCK belongs to the open
 * file description, which a shell or another process may share, so that we open the thing again where we can. */
#include "host_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	TERMINAL_WRITE_MAX = 64, /* a terminal that is writable at all has this much room, give or take a newline */
};

void host_fd_init(struct host_fd *host, void (*fn)(void *ctx, uint32_t events), void *ctx)
{
	memset(host, 0, sizeof(*host));
	host->src = (struct event_source){.fd = -1, .fn = fn, .ctx = ctx};
}

static void set_fd(struct host_fd *host, int fd, bool may_block)
{
	struct stat st;

	host->src.fd = fd;
	host->events = 0;
	host->may_block = may_block;
	host->is_socket = host->is_file = false;
	host->write_max = 0;
	if (fstat(fd, &st) < 0)
		return;
	host->is_socket = S_ISSOCK(st.st_mode);
	host->is_file = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode);
	if (may_block && S_ISFIFO(st.st_mode))
		host->write_max = PIPE_BUF;
	else if (may_block && isatty(fd))
		host->write_max = TERMINAL_WRITE_MAX;
}

void host_fd_adopt(struct host_fd *host, int fd)
{
	set_fd(host, fd, false);
}

/* A new open file description of the same pipe or terminal, or -1. Not for the master of a pty: opening that makes
 * another pty. */
static int open_again(int fd, bool for_writing)
{
	char path[32];
	struct stat old, new;
	unsigned pty;

	if (fstat(fd, &old) < 0)
		return -1;
	bool is_terminal = S_ISCHR(old.st_mode) && isatty(fd) && ioctl(fd, TIOCGPTN, &pty) < 0;
	if (!S_ISFIFO(old.st_mode) && !is_terminal)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, (for_writing ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (again < 0)
		return -1;
	if (fstat(again, &new) == 0 && new.st_dev == old.st_dev &&new.st_ino == old.st_ino)
		return again;
	close(again);
	return -1;
}

int host_fd_borrow(struct host_fd *host, int fd, bool for_writing)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	int again = open_again(fd, for_writing);
	if (again >= 0) {
		set_fd(host, again, false);
		return 0;
	}
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	set_fd(host, copy, !(flags & O_NONBLOCK));
	return 0;
}

void host_fd_close(struct host_fd *host, struct event_loop *loop)
{
	if (host->src.fd < 0)
		return;
	if (loop)
		host_fd_wait(host, loop, 0);
	close(host->src.fd);
	host->src.fd = -1;
}

static bool ready(const struct host_fd *host, short events)
{
	struct pollfd pfd = {.fd = host->src.fd, .events = events};

	return poll(&pfd, 1, 0) > 0;
}

ssize_t host_fd_read(const struct host_fd *host, void *data, size_t len)
{
	ssize_t n;

	if (host->is_socket)
		n = recv(host->src.fd, data, len, MSG_DONTWAIT);
	else if (host->may_block && !ready(host, POLLIN))
		return -EAGAIN;
	else
		n = read(host->src.fd, data, len);
	return n < 0 ? -errno : n;
}

/* write() without SIGPIPE and SIGXFSZ, whose dispositions are the application's: both go to the writing thread, so that
 * they can be blocked and taken back here. */
static ssize_t write_quietly(int fd, const void *data, size_t len)
{
	static const struct timespec now = {0, 0};
	sigset_t quiet, old, before;

	sigemptyset(&quiet);
	sigaddset(&quiet, SIGPIPE);
	sigaddset(&quiet, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &quiet, &old);
	sigpending(&before);
	ssize_t n = write(fd, data, len);
	int error = errno;
	int signal = error == EPIPE ? SIGPIPE : SIGXFSZ;
	if (n < 0 && (error == EPIPE || error == EFBIG) && !sigismember(&before, signal)) {
		sigemptyset(&quiet);
		sigaddset(&quiet, signal);
		sigtimedwait(&quiet, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return n < 0 ? -error : n;
}

ssize_t host_fd_write(const struct host_fd *host, const void *data, size_t len)
{
	if (host->is_socket) {
		ssize_t n = send(host->src.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return n < 0 ? -errno : n;
	}
	if (host->may_block && !ready(host, POLLOUT))
		return -EAGAIN;
	return write_quietly(host->src.fd, data, host->write_max && len > host->write_max ? host->write_max : len);
}

int host_fd_wait(struct host_fd *host, struct event_loop *loop, uint32_t events)
{
	if (host->src.fd < 0 || host->events == events)
		return 0;
	int ret = event_loop_set(loop, &host->src, events);
	if (ret == 0)
		host->events = events;
	return ret;
}
