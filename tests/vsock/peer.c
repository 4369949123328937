// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - the host's programs for tests/vsock/run.sh; the guest is vsock_echo, or Linux with tests/nested/vsock.c.
 *
 * - peer echo PATH N BYTES WINDOW [PORT]: N connections to the guest, at most WINDOW at a time and, when WINDOW is N,
 *   all open before the first byte; each sends BYTES, ends its half, and reads it all back
 * - peer serve PATH N BACKLOG: takes N connections at PATH, gives each back what it sent after its end
 * - peer never PATH MS: one connection sends and never reads for MS milliseconds and others work; then it reads, and
 *   everything is there
 * - peer sink PATH: a guest that never reads stops the sender; others work
 * - peer die PATH N: N connections of a process that is killed amid the traffic; others work
 * - peer refused PATH PORT: the guest says no
 * - peer restart PATH: a reset of the machine cuts connections, and the socket stays
 * - peer hold PATH: says "open" and, when it is, "cut"
 * - peer end PATH: ends the guest
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	STALL_MS = 20000, /* nothing happens for so long: it hangs */
	PIECE = 32768,
	ECHO = 7,
	SINK = 2,
	END = 9,
};

struct conn {
	int fd;
	uint32_t seed, sent, got;
	char line[32];
	unsigned line_bytes;
	bool is_open;
	uint8_t *kept; /* serve */
};

static void fail(const char *what)
{
	fprintf(stderr, "peer: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
	exit(1);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static uint8_t byte_at(uint32_t seed, uint32_t n)
{
	return (uint8_t)((n ^ n >> 8 ^ n >> 16) * 31 + seed * 7);
}

static int dial(const char *path, unsigned port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char line[32];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), len;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		fail(path);
	len = snprintf(line, sizeof(line), "CONNECT %u\n", port);
	if (send(fd, line, (size_t)len, MSG_NOSIGNAL) != len)
		fail("send of the line");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* 1: the guest agreed; 0: not yet; -1: it said no. */
static int read_ok(struct conn *c)
{
	while (!c->is_open) {
		ssize_t n = recv(c->fd, c->line + c->line_bytes, 1, 0);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0 || c->line_bytes + 2 > sizeof(c->line))
			return -1;
		c->is_open = c->line[c->line_bytes++] == '\n';
	}
	return strncmp(c->line, "OK ", 3) == 0 ? 1 : -1;
}

/* What goes now; false: the socket is full. */
static bool send_some(struct conn *c, uint32_t total)
{
	uint8_t data[PIECE];
	uint32_t len = total - c->sent < PIECE ? total - c->sent : PIECE;

	for (uint32_t i = 0; i < len; i++)
		data[i] = byte_at(c->seed, c->sent + i);
	ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN)
		fail("send");
	c->sent += n > 0 ? (uint32_t)n : 0;
	return n == (ssize_t)len;
}

/* Verifies what is there. 1: more may come; 0: the end. */
static int read_some(struct conn *c)
{
	uint8_t data[PIECE];
	ssize_t n;

	while ((n = recv(c->fd, data, sizeof(data), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (data[i] != byte_at(c->seed, c->got + (uint32_t)i))
				fail("other bytes came back");
		c->got += (uint32_t)n;
	}
	if (n < 0 && errno != EAGAIN)
		fail("recv");
	errno = 0;
	return n < 0;
}

static void wait_for(int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	if (poll(&pfd, 1, STALL_MS) != 1)
		fail("it hangs");
}

/* One after the other: opened, or not. */
static struct conn open_one(const char *path, unsigned port)
{
	struct conn c = {.fd = dial(path, port), .seed = (uint32_t)getpid()};
	int ret;

	while ((ret = read_ok(&c)) == 0)
		wait_for(c.fd, POLLIN);
	if (ret < 0)
		fail("the guest refused");
	return c;
}

/* ---- echo: many at a time ---- */

static void watch(int epoll, struct conn *c, int op, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	if (epoll_ctl(epoll, op, c->fd, &e) < 0)
		fail("epoll_ctl");
}

/* True: it is done. */
static bool echo_step(int epoll, struct conn *c, uint32_t bytes, bool *ready)
{
	if (!c->is_open) {
		if (read_ok(c) < 0)
			fail("the guest refused");
		*ready = c->is_open;
		return false;
	}
	while (c->sent < bytes && send_some(c, bytes))
		;
	if (c->sent == bytes) {
		shutdown(c->fd, SHUT_WR);
		watch(epoll, c, EPOLL_CTL_MOD, EPOLLIN);
	}
	if (read_some(c))
		return false;
	if (c->got != bytes)
		fail("it ended too early");
	close(c->fd);
	return true;
}

static void begin(int epoll, struct conn *c)
{
	watch(epoll, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void echo(const char *path, uint32_t count, uint32_t bytes, uint32_t window, unsigned port)
{
	struct conn *conns = calloc(count, sizeof(*conns));
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t made = 0, done = 0, ready = 0;
	bool all_first = window >= count;
	int64_t start = now_ms();
	struct epoll_event e;

	while (done < count) {
		if (made < count && made - done < window) {
			conns[made] = (struct conn){.fd = dial(path, port), .seed = made};
			watch(epoll, &conns[made++], EPOLL_CTL_ADD, EPOLLIN);
			if (made - done < window && made < count && made % 16)
				continue;
		}
		int n = epoll_wait(epoll, &e, 1, made < count && made - done < window ? 0 : STALL_MS);
		if (n == 0 && made < count && made - done < window)
			continue;
		if (n != 1) {
			fprintf(stderr, "peer: %u made, %u agreed, %u done\n", made, ready, done);
			fail("it hangs");
		}
		struct conn *c = e.data.ptr;
		bool is_ready = false;
		done += echo_step(epoll, c, bytes, &is_ready);
		ready += is_ready;
		if (is_ready && !all_first)
			begin(epoll, c);
		if (is_ready && all_first && ready == count)
			for (uint32_t i = 0; i < count; i++)
				begin(epoll, &conns[i]);
	}
	printf("%u connections, %u bytes each, %lld ms\n", count, bytes, (long long)(now_ms() - start));
	free(conns);
	close(epoll);
}

/* ---- serve ---- */

static void listen_at(int *fd, const char *path, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path);
	if (bind(*fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(*fd, backlog) < 0)
		fail(path);
}

static bool serve_step(struct conn *c)
{
	ssize_t n;

	while (!c->is_open && (n = recv(c->fd, c->kept + c->got, PIECE - c->got, 0)) != 0) {
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			fail("recv");
		c->got += (uint32_t)n;
	}
	c->is_open = true; /* it has said everything */
	if (send(c->fd, c->kept, c->got, MSG_NOSIGNAL) != (ssize_t)c->got)
		fail("send of the answer");
	close(c->fd);
	free(c->kept);
	return true;
}

static void serve(const char *path, uint32_t count, int backlog)
{
	struct conn *conns = calloc(count, sizeof(*conns)), listener = {0};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t taken = 0, done = 0;
	struct epoll_event e;

	listen_at(&listener.fd, path, backlog);
	watch(epoll, &listener, EPOLL_CTL_ADD, EPOLLIN);
	while (done < count) {
		if (epoll_wait(epoll, &e, 1, taken ? STALL_MS : 5 * STALL_MS) != 1) { /* it may have to boot */
			fprintf(stderr, "peer: %u taken, %u done\n", taken, done);
			fail("it hangs");
		}
		if (e.data.ptr != &listener) {
			done += serve_step(e.data.ptr);
			continue;
		}
		int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 || taken == count)
			fail("accept");
		conns[taken] = (struct conn){.fd = fd, .kept = malloc(PIECE)};
		watch(epoll, &conns[taken++], EPOLL_CTL_ADD, EPOLLIN);
	}
	unlink(path);
	printf("%u connections served\n", done);
	free(conns);
}

/* ---- those that do not do their part ---- */

/* As much as goes; ends when nothing went for a while. */
static void fill_up(struct conn *c, int quiet_ms)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLOUT};

	while (poll(&pfd, 1, quiet_ms) == 1)
		while (send_some(c, UINT32_MAX))
			;
	errno = 0;
}

static void never(const char *path, int ms)
{
	struct conn c = open_one(path, ECHO);

	fill_up(&c, 500);
	uint32_t sent = c.sent;
	printf("it waits\n");
	fflush(stdout);
	poll(NULL, 0, ms);
	echo(path, 50, 3000, 5, ECHO);
	fill_up(&c, 50);
	if (c.sent != sent)
		fail("somebody took what nobody could hold");
	shutdown(c.fd, SHUT_WR);
	while (read_some(&c))
		wait_for(c.fd, POLLIN);
	if (c.got != c.sent)
		fail("bytes are lost");
	printf("%u bytes were on their way, and all came back\n", c.got);
}

static void sink(const char *path)
{
	struct conn c = open_one(path, SINK);

	fill_up(&c, 500);
	echo(path, 20, 5000, 5, ECHO);
	printf("a guest that reads nothing has %u bytes waiting\n", c.sent);
	close(c.fd);
	echo(path, 20, 5000, 5, ECHO);
}

static void die(const char *path, uint32_t count)
{
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		fail("pipe");
	pid_t child = fork();
	if (child == 0) {
		struct conn *conns = calloc(count, sizeof(*conns));
		for (uint32_t i = 0; i < count; i++)
			conns[i] = open_one(path, i % 2 ? ECHO : SINK);
		for (uint32_t i = 0;; i++) {
			send_some(&conns[i % count], UINT32_MAX);
			if (i % 3)
				read_some(&conns[i % count]);
			if (i == 4 * count)
				(void)!write(ready[1], "x", 1);
		}
	}
	if (read(ready[0], &byte, 1) != 1)
		fail("the child");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	errno = 0;
	echo(path, 50, 5000, 10, ECHO);
}

static void refused(const char *path, unsigned port)
{
	struct conn c = {.fd = dial(path, port)};
	int ret;

	while ((ret = read_ok(&c)) == 0)
		wait_for(c.fd, POLLIN);
	errno = 0;
	if (ret > 0)
		fail("the guest agreed");
}

/* It hears of it, whatever it answers. */
static void end_guest(const char *path)
{
	struct conn c = {.fd = dial(path, END)};

	while (read_ok(&c) == 0)
		wait_for(c.fd, POLLIN);
}

/* Until the connection is cut. */
static void wait_cut(struct conn *c)
{
	ssize_t n;
	char byte;

	do
		wait_for(c->fd, POLLIN);
	while ((n = recv(c->fd, &byte, 1, 0)) > 0);
	if (n < 0 && errno != ECONNRESET)
		fail("recv");
	errno = 0;
	close(c->fd);
}

/* The guest resets the machine when it is asked to end with a connection open, and then ends. */
static void restart(const char *path)
{
	struct conn c = open_one(path, ECHO), end = {.fd = dial(path, END)};

	wait_cut(&c);
	wait_cut(&end);
	echo(path, 20, 5000, 5, ECHO);
	refused(path, END);
}

/* Says that it has one, and waits for its end. */
static void hold(const char *path)
{
	struct conn c = open_one(path, ECHO);

	printf("open\n");
	fflush(stdout);
	wait_cut(&c);
	printf("cut\n");
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	const char *what = argc > 2 ? argv[1] : "";
	unsigned n = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (!strcmp(what, "echo") && argc >= 6)
		echo(argv[2], n, (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]),
		     argc > 6 ? (unsigned)atoi(argv[6]) : ECHO);
	else if (!strcmp(what, "serve") && argc == 5)
		serve(argv[2], n, atoi(argv[4]));
	else if (!strcmp(what, "never") && argc == 4)
		never(argv[2], (int)n);
	else if (!strcmp(what, "sink"))
		sink(argv[2]);
	else if (!strcmp(what, "die") && argc == 4)
		die(argv[2], n);
	else if (!strcmp(what, "refused") && argc == 4)
		refused(argv[2], n);
	else if (!strcmp(what, "restart"))
		restart(argv[2]);
	else if (!strcmp(what, "hold"))
		hold(argv[2]);
	else if (!strcmp(what, "end"))
		end_guest(argv[2]);
	else
		return 2;
	return 0;
}
