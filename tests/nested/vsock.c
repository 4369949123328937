// SPDX-License-Identifier: Apache-2.0
/*
 * vsock.c - the guest's program for the vsock scenarios: vsock HOST-PORT COUNT. Gives back what comes in on port 7,
 * opens COUNT connections to a port of the host, at most 100 at a time, sends each a text and its end and expects both
 * back. Ends when that is done and somebody has connected to port 9. The host's side is tests/vsock/peer.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

enum {
	ECHO = 7,
	END = 9,
	BYTES = 5000, /* of each call */
	WINDOW = 100,
	PIECE = 4096,
	STALL_MS = 30000,
};

enum kind {
	LISTENER,
	ENDER,
	SERVED,
	CALL,
};

struct conn {
	enum kind kind;
	int fd;
	uint32_t seed, sent, got;
	uint8_t data[PIECE]; /* SERVED: from..to is to go back */
	uint32_t from, to;
	bool at_end;
};

static int epoll;
static uint32_t calls, called, answered, served;

static void fail(const char *what)
{
	printf("GUEST vsock=%s: %s (%u of %u calls, %u served)\n", what, strerror(errno), answered, calls, served);
	exit(1);
}

static void watch(struct conn *c, int op, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	if (epoll_ctl(epoll, op, c->fd, &e) < 0)
		fail("epoll");
}

static struct conn *add(enum kind kind, int fd, uint32_t events)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (fd < 0 || !c)
		fail("socket");
	c->kind = kind;
	c->fd = fd;
	watch(c, EPOLL_CTL_ADD, events);
	return c;
}

static void end(struct conn *c)
{
	close(c->fd);
	free(c);
}

static void listen_at(enum kind kind, unsigned port)
{
	struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1024) < 0)
		fail("listen");
	add(kind, fd, EPOLLIN);
}

static uint8_t byte_at(uint32_t seed, uint32_t n)
{
	return (uint8_t)((n ^ n >> 8) * 31 + seed * 7);
}

static void call(unsigned port)
{
	const struct timeval patience = {.tv_sec = STALL_MS / 1000}; /* instead of Linux's two seconds: this may be slow */
	struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = port};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof(patience)) < 0 ||
	    (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS))
		fail("connect");
	add(CALL, fd, EPOLLIN | EPOLLOUT)->seed = called++;
}

static void serve(struct conn *c)
{
	ssize_t n;

	for (;;) {
		if (c->from == c->to && !c->at_end) {
			n = recv(c->fd, c->data, PIECE, 0);
			if (n < 0 && errno != EAGAIN)
				fail("recv");
			if (n < 0)
				break;
			c->at_end = n == 0;
			c->from = 0;
			c->to = (uint32_t)n;
		}
		if (c->from == c->to) {
			served++;
			end(c);
			return;
		}
		n = send(c->fd, c->data + c->from, c->to - c->from, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			fail("send");
		if (n < 0)
			break;
		c->from += (uint32_t)n;
	}
	watch(c, EPOLL_CTL_MOD, c->from == c->to ? EPOLLIN : EPOLLOUT);
}

static void go_on(struct conn *c)
{
	uint8_t data[PIECE];
	ssize_t n = 1;

	while (c->sent < BYTES && n > 0) {
		uint32_t len = BYTES - c->sent < PIECE ? BYTES - c->sent : PIECE;
		for (uint32_t i = 0; i < len; i++)
			data[i] = byte_at(c->seed, c->sent + i);
		n = send(c->fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			fail("send of a call");
		c->sent += n > 0 ? (uint32_t)n : 0;
		if (c->sent == BYTES) {
			shutdown(c->fd, SHUT_WR);
			watch(c, EPOLL_CTL_MOD, EPOLLIN);
		}
	}
	while ((n = recv(c->fd, data, sizeof(data), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (data[i] != byte_at(c->seed, c->got + (uint32_t)i))
				fail("other bytes");
		c->got += (uint32_t)n;
	}
	if (n < 0 && errno != EAGAIN)
		fail("recv of a call");
	if (n < 0)
		return;
	if (c->got != BYTES)
		fail("an early end");
	answered++;
	end(c);
}

int main(int argc, char **argv)
{
	const struct rlimit limit = {10000, 10000};
	unsigned port = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	struct epoll_event e;
	bool ended = false;

	calls = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	setrlimit(RLIMIT_NOFILE, &limit);
	epoll = epoll_create1(0);
	listen_at(LISTENER, ECHO);
	listen_at(ENDER, END);
	printf("GUEST vsock=ready\n");
	fflush(stdout);
	while (!ended || answered < calls) {
		while (called < calls && called - answered < WINDOW)
			call(port);
		if (epoll_wait(epoll, &e, 1, STALL_MS) != 1)
			fail("hangs");
		struct conn *c = e.data.ptr;
		if (c->kind == LISTENER || c->kind == ENDER) {
			int fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK);
			ended |= c->kind == ENDER;
			if (c->kind == LISTENER)
				add(SERVED, fd, EPOLLIN);
		} else if (c->kind == SERVED) {
			serve(c);
		} else {
			go_on(c);
		}
	}
	printf("GUEST vsock=ok calls=%u served=%u\n", answered, served);
	return 0;
}
