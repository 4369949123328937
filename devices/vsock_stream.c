// SPDX-License-Identifier: Apache-2.0
/* vsock_stream.c - the host's end of a connection: its greeting, and bytes in both directions. Knows no packets. */
#include "virtio_vsock_internal.h"

#include "util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void vsock_close_host(struct vsock_conn *c)
{
	if (c->source.fd < 0)
		return;
	event_loop_set(c->v->loop, &c->source, 0);
	close(c->source.fd);
	c->source.fd = -1;
	c->waits = 0;
}

/* ----------------------------------------------------------------------------- from the guest to the host */

void vsock_drop_rest(struct vsock_conn *c)
{
	c->passed += vsock_rest(c);
	c->rest_from = c->rest_to = c->rest_size = 0;
	free(c->rest);
	c->rest = NULL;
}

/* Is it time that the guest hears what it may send? Half of the room it does not know of is enough. */
static void check_credit(struct vsock_conn *c)
{
	uint32_t known = c->room - (c->got - c->told);

	if (c->state == VSOCK_OPEN && c->passed != c->told && known < c->room / 2 && !vsock_owes(c, VSOCK_OWES_RST))
		c->debts |= VSOCK_OWES_CREDIT;
}

static void say_shut(struct vsock_conn *c, unsigned what)
{
	if ((c->shut | what) == c->shut || c->state != VSOCK_OPEN || vsock_owes(c, VSOCK_OWES_RST))
		return;
	c->shut |= what;
	c->debts |= VSOCK_OWES_SHUTDOWN;
}

/* The host takes no more: it closed its end, or the half that reads. */
static void go_deaf(struct vsock_conn *c)
{
	c->deaf = true;
	vsock_drop_rest(c);
	if (c->state == VSOCK_FLUSHING)
		vsock_leave(c, false);
	else
		say_shut(c, VIRTIO_VSOCK_SHUTDOWN_RCV);
}

/* All bytes of the guest have gone: what was waiting for that? */
static void emptied(struct vsock_conn *c)
{
	vsock_drop_rest(c);
	if (c->state == VSOCK_FLUSHING) {
		vsock_leave(c, false);
	} else if ((c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND) && !c->is_cut) {
		c->is_cut = true;
		shutdown(c->source.fd, SHUT_WR);
	}
}

static void count_passed(struct vsock_conn *c, uint32_t bytes)
{
	c->passed += bytes;
	atomic_fetch_add_explicit(&c->v->host->counters.from_guest, bytes, memory_order_relaxed);
}

void vsock_flush(struct vsock_conn *c)
{
	while (vsock_rest(c)) {
		ssize_t n = send(c->source.fd, c->rest + c->rest_from, vsock_rest(c), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			if (errno != EAGAIN && errno != EINTR)
				go_deaf(c);
			break;
		}
		c->rest_from += (uint32_t)n;
		count_passed(c, (uint32_t)n);
	}
	if (c->state != VSOCK_DEAD && !vsock_rest(c))
		emptied(c);
	check_credit(c);
}

/* Never more than the room that the guest was given, so that it always can be made. */
static bool make_room(struct vsock_conn *c, uint32_t len)
{
	uint32_t have = vsock_rest(c), size = VSOCK_ROOM_MIN;

	if (c->rest_size - c->rest_to >= len)
		return true;
	while (size < have + len)
		size *= 2;
	if (size <= c->rest_size) {
		memmove(c->rest, c->rest + c->rest_from, have);
	} else {
		uint8_t *at = malloc(size);
		if (!at)
			return false;
		if (have)
			memcpy(at, c->rest + c->rest_from, have);
		free(c->rest);
		c->rest = at;
		c->rest_size = size;
	}
	c->rest_from = 0;
	c->rest_to = have;
	return true;
}

static bool keep(struct vsock_conn *c, const struct iovec *iov, unsigned count, uint32_t skip, uint32_t len)
{
	if (!make_room(c, len))
		return false;
	for (unsigned i = 0; i < count; i++) {
		size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
		memcpy(c->rest + c->rest_to, (const uint8_t *)iov[i].iov_base + cut, iov[i].iov_len - cut);
		c->rest_to += (uint32_t)(iov[i].iov_len - cut);
		skip -= (uint32_t)cut;
	}
	atomic_fetch_add_explicit(&c->v->host->counters.waits, 1, memory_order_relaxed);
	return true;
}

void vsock_take(struct vsock_conn *c, struct iovec *iov, unsigned count, uint32_t len)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t n = 0;

	c->got += len;
	if (!c->deaf && !vsock_rest(c)) {
		n = sendmsg(c->source.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			go_deaf(c);
		n = n < 0 ? 0 : n;
		count_passed(c, (uint32_t)n);
	}
	if (c->deaf)
		c->passed += len - (uint32_t)n;
	else if ((uint32_t)n < len && !keep(c, iov, count, (uint32_t)n, len - (uint32_t)n))
		vsock_reset(c);
	check_credit(c);
}

void vsock_follow_shut(struct vsock_conn *c)
{
	if (c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_RCV) {
		c->ended = true;
		c->readable = false;
		if (c->guest_shut == VIRTIO_VSOCK_SHUTDOWN_RCV)
			shutdown(c->source.fd, SHUT_RD);
	}
	if ((c->guest_shut & VIRTIO_VSOCK_SHUTDOWN_SEND) && !vsock_rest(c) && !c->deaf)
		emptied(c);
}

/* ----------------------------------------------------------------------------- from the host to the guest */

static void at_end(struct vsock_conn *c)
{
	c->readable = false;
	c->ended = true;
	say_shut(c, VIRTIO_VSOCK_SHUTDOWN_SEND);
}

uint32_t vsock_give(struct vsock_conn *c, const struct iovec *iov, unsigned count)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
	size_t room = 0;

	for (unsigned i = 0; i < count; i++)
		room += iov[i].iov_len;
	ssize_t n = recvmsg(c->source.fd, &msg, MSG_DONTWAIT);
	if (n > 0) {
		c->readable = (size_t)n == room; /* else it was all, or the loop will say */
		c->sent += (uint32_t)n;
		c->asked = false;
		atomic_fetch_add_explicit(&c->v->host->counters.to_guest, (unsigned long)n, memory_order_relaxed);
		/* A driver that tells nothing unasked is asked. */
		if (!vsock_credit(c) && !c->asked) {
			c->asked = true;
			c->debts |= VSOCK_OWES_QUESTION;
		}
		return (uint32_t)n;
	}
	c->readable = false;
	if (n == 0)
		at_end(c);
	else if (errno != EAGAIN && errno != EINTR)
		vsock_reset(c); /* it closed without reading everything */
	return 0;
}

/* ------------------------------------------------------------------------------------------- greeting */

/* "CONNECT port\n", or nothing we know. */
static bool parse_line(const char *line, size_t bytes, uint32_t *port)
{
	char text[VSOCK_LINE_MAX + 1], *end;

	memcpy(text, line, bytes);
	text[bytes] = '\0';
	if (strncasecmp(text, "CONNECT ", 8) != 0 || text[8] < '0' || text[8] > '9')
		return false;
	unsigned long n = strtoul(text + 8, &end, 10);
	if (*end == '\r')
		end++;
	*port = (uint32_t)n;
	return end == text + bytes - 1 && *end == '\n' && n <= UINT32_MAX;
}

/* No other connection has it with this port of the guest. */
static uint32_t choose_port(struct virtio_vsock *v, uint32_t guest_port)
{
	do
		v->next_port = (v->next_port + 1) % (1u << 30) + (1u << 30);
	while (vsock_find(v, v->next_port, guest_port));
	return v->next_port;
}

/* Takes what belongs to the line and nothing behind it. 1: it is complete; 0: not yet; -1: it will not be. */
static int read_line(struct vsock_conn *c)
{
	char *at = c->line + c->line_bytes;
	ssize_t n = recv(c->source.fd, at, VSOCK_LINE_MAX - c->line_bytes, MSG_DONTWAIT | MSG_PEEK);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	const char *newline = memchr(at, '\n', (size_t)n);
	size_t take = newline ? (size_t)(newline - at) + 1 : (size_t)n;
	if (!take || recv(c->source.fd, at, take, MSG_DONTWAIT) != (ssize_t)take)
		return -1;
	c->line_bytes += (unsigned)take;
	return newline ? 1 : c->line_bytes == VSOCK_LINE_MAX ? -1 : 0;
}

static void greet(struct vsock_conn *c)
{
	uint32_t port;
	int ret = read_line(c);

	if (ret == 0)
		return;
	if (ret < 0 || !parse_line(c->line, c->line_bytes, &port)) {
		atomic_fetch_add_explicit(&c->v->host->counters.refused, 1, memory_order_relaxed);
		log_debug(c->v->host->log, "vsock: a client that did not say CONNECT and a port");
		vsock_leave(c, false);
		return;
	}
	vsock_enter(c, choose_port(c->v, port), port);
	c->state = VSOCK_CALLING;
	c->debts |= VSOCK_OWES_REQUEST;
}

void vsock_answered(struct vsock_conn *c)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "OK %u\n", c->host_port);

	c->state = VSOCK_OPEN;
	c->readable = true;
	atomic_fetch_add_explicit(&c->v->host->counters.opened, 1, memory_order_relaxed);
	if (send(c->source.fd, text, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL) != len)
		go_deaf(c);
}

/* -------------------------------------------------------------------------------------------- events */

/* The host's end was closed. */
static void hang_up(struct vsock_conn *c)
{
	char byte;

	c->hung_up = true;
	if (c->state == VSOCK_OPEN) {
		c->readable = !c->ended;
		if (!c->deaf)
			go_deaf(c);
	} else if (c->state == VSOCK_FLUSHING) {
		vsock_leave(c, false);
	} else if (c->state == VSOCK_CALLING && recv(c->source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
		vsock_reset(c); /* it waits no more, and had nothing to say */
	}
}

void vsock_on_host(void *ctx, uint32_t events)
{
	struct vsock_conn *c = ctx;
	struct virtio_vsock *v = c->v;

	pthread_mutex_lock(&v->dev.queues[VSOCK_RX].lock);
	if (c->state != VSOCK_DEAD && c->source.fd >= 0) {
		if (events & EPOLLOUT && vsock_rest(c))
			vsock_flush(c);
		if (c->state == VSOCK_GREETING)
			greet(c);
		else if (c->state == VSOCK_OPEN && (events & EPOLLIN) && !c->ended)
			c->readable = true;
		if ((events & (EPOLLHUP | EPOLLERR)) && !c->hung_up && c->state != VSOCK_GREETING)
			hang_up(c);
		vsock_settle(c);
		vsock_pump(v);
	}
	pthread_mutex_unlock(&v->dev.queues[VSOCK_RX].lock);
}
