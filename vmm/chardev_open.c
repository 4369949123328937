/* SPDX-License-Identifier: Apache-2.0 */
/* chardev_open.c - what a chardev's specification means, and the opening and closing of it. */
#include "chardev_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------- the kinds */

static int open_null(struct chardev *cd, const char *arg, struct lull_error *err)
{
	(void)arg;
	(void)err;
	cd->discards = true;
	return 0;
}

static int parse_fd(const char **text, char end)
{
	char *rest;

	errno = 0;
	long fd = strtol(*text, &rest, 10);
	if (errno || rest == *text || *rest != end || fd < -1 || fd > INT32_MAX)
		return -EINVAL;
	*text = rest + 1;
	return (int)fd;
}

static int borrow(struct chardev *cd, struct host_fd *host, int fd, struct lull_error *err)
{
	bool for_writing = host == &cd->out;
	int refused = for_writing ? O_RDONLY : O_WRONLY;

	if (fd < 0)
		return 0;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return error_set(err, -EBADF, "%s %s: descriptor %d is not open", cd->what, cd->spec, fd);
	if ((flags & O_ACCMODE) == refused)
		return error_set(err, -EBADF, "%s %s: descriptor %d is not open for %s", cd->what, cd->spec, fd,
		                 for_writing ? "writing" : "reading");
	int ret = host_fd_borrow(host, fd, for_writing);
	return ret < 0 ? error_sys(err, ret, "%s %s: descriptor %d", cd->what, cd->spec, fd) : 0;
}

static int open_fd(struct chardev *cd, const char *arg, struct lull_error *err)
{
	int in = parse_fd(&arg, ','), out = in == -EINVAL ? in : parse_fd(&arg, '\0');

	if (out == -EINVAL)
		return error_set(err, -EINVAL, "%s %s: two descriptor numbers are needed, as in fd=0,1", cd->what,
		                 cd->spec);
	cd->discards = out < 0;
	int ret = borrow(cd, &cd->in, in, err);
	return ret < 0 ? ret : borrow(cd, &cd->out, out, err);
}

static int open_file(struct chardev *cd, const char *path, struct lull_error *err)
{
	const int flags = O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

	int fd = open(path, O_WRONLY | flags, 0666);
	if (fd < 0 && errno == ENXIO) /* a FIFO that nobody reads yet */
		fd = open(path, O_RDWR | flags, 0666);
	if (fd < 0)
		return error_sys(err, -errno, "%s file %s", cd->what, path);
	host_fd_adopt(&cd->out, fd);
	return 0;
}

/* Bytes pass the slave unchanged in both directions: no echo, no CR to LF, no Ctrl-C. */
static int make_raw(int slave)
{
	struct termios termios;

	if (tcgetattr(slave, &termios) < 0)
		return -errno;
	cfmakeraw(&termios);
	return tcsetattr(slave, TCSANOW, &termios) < 0 ? -errno : 0;
}

static int open_pty(struct chardev *cd, const char *arg, struct lull_error *err)
{
	int ret;

	(void)arg;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (master < 0)
		return error_sys(err, -errno, "%s pty", cd->what);
	host_fd_adopt(&cd->in, master);
	if (grantpt(master) < 0 || unlockpt(master) < 0)
		return error_sys(err, -errno, "%s pty", cd->what);
	ret = ptsname_r(master, cd->path, sizeof(cd->path));
	if (ret != 0)
		return error_sys(err, -ret, "%s pty", cd->what);
	cd->pty_slave = open(cd->path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (cd->pty_slave < 0)
		return error_sys(err, -errno, "%s pty %s", cd->what, cd->path);
	ret = make_raw(cd->pty_slave);
	if (ret < 0)
		return error_sys(err, ret, "%s pty %s", cd->what, cd->path);
	int copy =
		fcntl(master, F_DUPFD_CLOEXEC, 0); /* epoll takes a descriptor once, and we wait for both directions */
	if (copy < 0)
		return error_sys(err, -errno, "%s pty %s", cd->what, cd->path);
	host_fd_adopt(&cd->out, copy);
	return 0;
}

static const struct kind {
	const char *name;
	bool has_argument;
	int (*open)(struct chardev *cd, const char *arg, struct lull_error *err);
} kinds[] = {
	{"null", false, open_null},
	{"fd", true, open_fd},
	{"file", true, open_file},
	{"pty", false, open_pty},
	{"socket", true, chardev_socket_open},
};

/* ------------------------------------------------------------------------- open and close */

static const struct kind *find_kind(const char *spec, const char **arg)
{
	size_t len = strcspn(spec, "=");

	*arg = spec[len] ? spec + len + 1 : NULL;
	for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		bool fits = kind->has_argument ? *arg && **arg : !*arg;
		if (fits && strlen(kind->name) == len && !memcmp(kind->name, spec, len))
			return kind;
	}
	return NULL;
}

static struct chardev *allocate(const char *what, const char *spec, const struct log *log)
{
	struct chardev *cd = calloc(1, sizeof(*cd));

	if (!cd)
		return NULL;
	cd->log = log;
	cd->what = what;
	cd->pty_slave = -1;
	cd->output = OUTPUT_BLOCKED;
	cd->wake = (struct event_source){.fd = -1, .fn = chardev_on_wake, .ctx = cd};
	cd->timer = (struct event_source){.fd = -1, .fn = chardev_on_timer, .ctx = cd};
	cd->listener.fd = -1;
	host_fd_init(&cd->in, chardev_on_input, cd);
	host_fd_init(&cd->out, chardev_on_output, cd);
	pthread_mutex_init(&cd->lock, NULL);
	pthread_mutex_init(&cd->user_lock, NULL);
	cd->spec = strdup(spec);
	return cd;
}

/* What the traffic needs; nothing when there is none. */
static int allocate_traffic(struct chardev *cd)
{
	if (cd->discards && cd->in.src.fd < 0)
		return 0;
	cd->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cd->timer.fd = cd->wake.fd < 0 ? -1 : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (cd->timer.fd < 0)
		return -errno;
	cd->ring = malloc(CHARDEV_RING_BYTES);
	return cd->ring ? 0 : -ENOMEM;
}

struct chardev *chardev_open_as(const char *what, const char *spec, const struct log *log, struct lull_error *err)
{
	const char *arg;
	const struct kind *kind = find_kind(spec, &arg);

	if (!kind) {
		error_set(err, -EINVAL, "%s %s: not one of null, fd=IN,OUT, file=PATH, pty, socket=PATH", what, spec);
		return NULL;
	}
	struct chardev *cd = allocate(what, spec, log);
	if (!cd || !cd->spec) {
		error_set(err, -ENOMEM, "%s %s: out of memory", what, spec);
		goto undo;
	}
	if (kind->open(cd, arg, err) < 0)
		goto undo;
	int ret = allocate_traffic(cd);
	if (ret == 0)
		return cd;
	error_sys(err, ret, "%s %s", what, spec);
undo:
	chardev_close(cd);
	return NULL;
}

struct chardev *chardev_open(const char *spec, const struct log *log, struct lull_error *err)
{
	return chardev_open_as("serial", spec, log, err);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void chardev_close(struct chardev *cd)
{
	if (!cd)
		return;
	chardev_detach(cd, 0);
	host_fd_close(&cd->in, NULL);
	host_fd_close(&cd->out, NULL);
	chardev_socket_close(cd);
	close_fd(cd->pty_slave);
	close_fd(cd->timer.fd);
	close_fd(cd->wake.fd);
	pthread_mutex_destroy(&cd->lock);
	pthread_mutex_destroy(&cd->user_lock);
	free(cd->ring);
	free(cd->spec);
	free(cd);
}
