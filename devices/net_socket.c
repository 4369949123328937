// SPDX-License-Identifier: Apache-2.0
/* net_socket.c - a stream socket as the other end, in the framing of QEMU's `-netdev stream`, which passt speaks: four
 * bytes of length, big-endian, then the frame. It has no headers, so there is nothing to offload. */
#include "net_host.h"

#include "error.h"
#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	LENGTH_BYTES = 4,
	INPUT_BYTES = 1 << 17, /* more than a frame; only what is used of it costs memory */
	SEND_PIECES = 260,     /* a chain is no longer than its queue, 256 */
	FLUSH_MS = 200,
	FLUSH_TRIES = 20,
};

struct net_stream {
	/* The receiver's. */
	uint8_t input[INPUT_BYTES];
	size_t from, to; /* what is in there */
	/* The sender's: the rest of a frame of which the socket took a part. */
	uint8_t rest[LENGTH_BYTES + NET_FRAME_MAX];
	size_t rest_from, rest_to;
};

/* ---------------------------------------------------------------------------------------- receiving */

/* Bytes of the frame at the front, or 0 while its length is not there. */
static size_t front(const struct net_stream *s)
{
	uint32_t length;

	if (s->to - s->from < LENGTH_BYTES)
		return 0;
	memcpy(&length, s->input + s->from, sizeof(length));
	return LENGTH_BYTES + (size_t)ntohl(length);
}

/* 0: something came; -errno. */
static int fill(struct net_host *h)
{
	struct net_stream *s = h->stream;

	if (s->from == s->to) {
		s->from = s->to = 0;
	} else if (INPUT_BYTES - s->from < LENGTH_BYTES + NET_FRAME_MAX) {
		memmove(s->input, s->input + s->from, s->to - s->from);
		s->to -= s->from;
		s->from = 0;
	}
	ssize_t n = recv(h->fds[0], s->input + s->to, INPUT_BYTES - s->to, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -EPIPE;
	s->to += (size_t)n;
	return 0;
}

static ssize_t socket_next(struct net_host *h, unsigned pair, bool ample)
{
	struct net_stream *s = h->stream;

	(void)pair, (void)ample;
	for (;;) {
		size_t bytes = front(s);
		if (bytes > LENGTH_BYTES + NET_FRAME_MAX)
			return -EPIPE; /* where its next frame starts is not known */
		if (bytes && s->to - s->from >= bytes) {
			if (bytes >= LENGTH_BYTES + NET_FRAME_MIN)
				return (ssize_t)(bytes - LENGTH_BYTES + NET_HEADER_BYTES);
			s->from += bytes;
			atomic_fetch_add_explicit(&h->rx.dropped, 1, memory_order_relaxed);
			continue;
		}
		int ret = fill(h);
		if (ret < 0)
			return ret;
	}
}

static bool socket_pending(const struct net_host *h, unsigned pair)
{
	(void)pair;
	return h->stream->from != h->stream->to;
}

/* Fills the room with an empty header and the frame. */
static ssize_t socket_receive(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	static const uint8_t header[NET_HEADER_BYTES];
	struct net_stream *s = h->stream;
	size_t bytes = front(s) - LENGTH_BYTES + NET_HEADER_BYTES, done = 0;
	const uint8_t *frame = s->input + s->from + LENGTH_BYTES;

	(void)pair;
	for (unsigned i = 0; i < count && done < bytes; i++) {
		for (size_t at = 0; at < iov[i].iov_len && done < bytes;) {
			bool in_header = done < NET_HEADER_BYTES;
			size_t n = (in_header ? NET_HEADER_BYTES : bytes) - done;
			n = n < iov[i].iov_len - at ? n : iov[i].iov_len - at;
			memcpy((uint8_t *)iov[i].iov_base + at, in_header ? header : frame + done - NET_HEADER_BYTES,
			       n);
			at += n;
			done += n;
		}
	}
	s->from += bytes - NET_HEADER_BYTES + LENGTH_BYTES;
	return (ssize_t)bytes;
}

/* ------------------------------------------------------------------------------------------ sending */

static int send_error(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM ? -EAGAIN : -EPIPE;
}

static int socket_flush(struct net_host *h, unsigned pair)
{
	struct net_stream *s = h->stream;

	(void)pair;
	while (s->rest_from < s->rest_to) {
		ssize_t n =
			send(h->fds[0], s->rest + s->rest_from, s->rest_to - s->rest_from, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return send_error(errno);
		s->rest_from += (size_t)n;
	}
	return 0;
}

/* Keeps what is behind the first `sent` bytes. */
static int keep_rest(struct net_stream *s, const struct iovec *iov, unsigned count, size_t sent)
{
	s->rest_from = s->rest_to = 0;
	for (unsigned i = 0; i < count; i++) {
		size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;
		memcpy(s->rest + s->rest_to, (const uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
		s->rest_to += iov[i].iov_len - skip;
		sent -= skip;
	}
	return 1;
}

static int socket_send(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	struct iovec out[SEND_PIECES];
	struct msghdr msg = {.msg_iov = out};
	size_t skip = NET_HEADER_BYTES, bytes = 0;
	unsigned n = 1;

	(void)pair;
	for (unsigned i = 0; i < count && n < SEND_PIECES; i++) {
		size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
		skip -= cut;
		if (iov[i].iov_len == cut)
			continue;
		out[n].iov_base = (uint8_t *)iov[i].iov_base + cut;
		out[n].iov_len = iov[i].iov_len - cut;
		bytes += out[n++].iov_len;
	}
	if (bytes > NET_FRAME_MAX)
		return -EMSGSIZE;
	uint32_t length = htonl((uint32_t)bytes);
	out[0] = (struct iovec){&length, LENGTH_BYTES};
	msg.msg_iovlen = n;
	ssize_t sent = sendmsg(h->fds[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return send_error(errno);
	return (size_t)sent == LENGTH_BYTES + bytes ? 0 : keep_rest(h->stream, out, n, (size_t)sent);
}

/* ------------------------------------------------------------------------------------------ opening */

/* A frame that the socket took a part of is finished if the peer takes it soon. */
static void finish_frame(struct net_host *h)
{
	struct pollfd pfd = {.fd = h->fds[0], .events = POLLOUT};

	for (unsigned tries = FLUSH_TRIES; tries && !atomic_load(&h->gone) && socket_flush(h, 0) == -EAGAIN; tries--)
		poll(&pfd, 1, FLUSH_MS / FLUSH_TRIES);
}

static void socket_close(struct net_host *h)
{
	if (!h->stream)
		return;
	finish_frame(h);
	free(h->stream);
}

static const struct net_host_ops socket_ops = {
	.next = socket_next,
	.pending = socket_pending,
	.receive = socket_receive,
	.send = socket_send,
	.flush = socket_flush,
	.close = socket_close,
};

int net_socket_adopt(struct net_host *h, struct lull_error *err)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (getsockopt(h->fds[0], SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
		return error_set(err, -EINVAL, "net %s: neither a tap nor a connected stream socket", h->name);
	h->ops = &socket_ops;
	h->stream = calloc(1, sizeof(*h->stream));
	return h->stream ? 0 : error_set(err, -ENOMEM, "net %s: out of memory", h->name);
}

int net_socket_open(struct net_host *h, struct lull_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = h->config.target;

	snprintf(h->name, sizeof(h->name), "socket %s", path);
	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(err, -ENAMETOOLONG, "net %s: a socket's path has at most %zu characters", h->name,
		                 sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	h->fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (h->fds[0] < 0)
		return error_sys(err, -errno, "net %s", h->name);
	if (connect(h->fds[0], (const struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == ECONNREFUSED || errno == ENOENT
		               ? error_set(err, -errno, "net %s: nobody listens there; start the other end first",
		                           h->name)
		               : error_sys(err, -errno, "net %s", h->name);
	return net_socket_adopt(h, err);
}
