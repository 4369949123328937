// SPDX-License-Identifier: Apache-2.0
/* peer.c - the other end of a network interface, for tests/net/run.sh; the guest is net_echo.
 *
 *   peer frames PATH N [late MS] [window W]   listens at PATH, sends N frames of random length and contents, at most W
 * of them unanswered, expects each back unchanged and in order; reads nothing for the first MS milliseconds peer die
 * PATH N                            the same, but closes after N answers peer hold PATH MS sends as much as goes in
 * that time, reads nothing, closes peer udp PORT N                            N datagrams to 127.0.0.1, expects each
 * back; the last one ends the guest peer end IP                                a datagram that ends the guest
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	HEAD = 14 + 16, /* Ethernet, then struct test_frame of net_echo.c */
	FRAME_MAX = 1514,
	PIECE = 4 + FRAME_MAX,
	STALL_MS = 20000, /* no answer for so long: it hangs */
	PORT_END = 9,
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

/* ---- frames: the n-th one is the same whoever makes it ---- */

static uint64_t hash(const uint8_t *p, uint32_t len)
{
	uint64_t h = len, word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	for (; len; p++, len--)
		h = (h ^ *p) * 0x9e3779b97f4a7c15ull;
	return h;
}

/* With its length in front; how long all of it is. */
static uint32_t make_frame(uint8_t *at, uint32_t seq, bool is_last)
{
	uint64_t random = (seq + 1) * 0x9e3779b97f4a7c15ull, sum;
	uint32_t len = HEAD + (uint32_t)(random >> 40) % (FRAME_MAX - HEAD + 1), be = htonl(len), last = is_last;
	uint8_t *f = at + 4;

	memcpy(at, &be, 4);
	memset(f, 0xff, 6);
	memset(f + 6, 0x02, 6);
	f[12] = 0x88;
	f[13] = 0xb5;
	for (uint32_t i = HEAD; i < len; i++)
		f[i] = (uint8_t)(random >> (i % 57));
	sum = hash(f + HEAD, len - HEAD);
	memcpy(f + 14, &seq, 4);
	memcpy(f + 18, &last, 4);
	memcpy(f + 22, &sum, 8);
	return 4 + len;
}

/* ---- the stream ---- */

struct stream {
	int fd;
	uint32_t count, window;
	uint32_t sent, answered; /* frames */
	uint8_t out[PIECE], in[PIECE];
	size_t out_from, out_to, in_have;
};

static int accept_one(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path);
	if (bind(listener, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 1) < 0)
		fail(path);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		fail("accept");
	close(listener);
	return fd;
}

/* False: the socket takes no more now. */
static bool send_some(struct stream *s)
{
	if (s->out_from == s->out_to) {
		if (s->sent == s->count || s->sent - s->answered >= s->window)
			return false;
		s->out_from = 0;
		s->out_to = make_frame(s->out, s->sent, s->sent + 1 == s->count);
		s->sent++;
	}
	ssize_t n = send(s->fd, s->out + s->out_from, s->out_to - s->out_from, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN)
		fail("send");
	s->out_from += n > 0 ? (size_t)n : 0;
	return n > 0;
}

static void check_answer(struct stream *s, uint32_t len)
{
	uint8_t want[PIECE];

	if (make_frame(want, s->answered, s->answered + 1 == s->count) != 4 + len)
		fail("an answer of another length");
	if (memcmp(s->in + 4, want + 10, 6) != 0)
		fail("an answer to somebody else");
	if (memcmp(s->in + 16, want + 16, len - 12) != 0)
		fail("an answer with other contents");
	s->answered++;
}

/* One piece of what is there. */
static bool receive_some(struct stream *s)
{
	uint32_t be, want = 4;

	if (s->in_have >= 4) {
		memcpy(&be, s->in, 4);
		want = 4 + ntohl(be);
		if (want > PIECE)
			fail("an answer that is too long");
	}
	ssize_t n = recv(s->fd, s->in + s->in_have, want - s->in_have, 0);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		fail("recv");
	s->in_have += n > 0 ? (size_t)n : 0;
	if (s->in_have > 4 && s->in_have == want) {
		errno = 0;
		check_answer(s, want - 4);
		s->in_have = 0;
	}
	return n > 0;
}

static void run(struct stream *s, uint32_t stop_at, int late_ms)
{
	int64_t begin = now_ms(), progress = begin;

	while (s->answered < stop_at) {
		bool reads = now_ms() - begin >= late_ms, moved = false;
		while (send_some(s))
			moved = true;
		while (reads && s->answered < stop_at && receive_some(s))
			moved = true;
		progress = moved || !reads ? now_ms() : progress;
		if (moved)
			continue;
		bool may_send = s->out_from != s->out_to;
		struct pollfd pfd = {.fd = s->fd, .events = (short)((may_send ? POLLOUT : 0) | (reads ? POLLIN : 0))};
		poll(&pfd, 1, 10);
		errno = 0;
		if (now_ms() - progress > STALL_MS) {
			fprintf(stderr, "peer: %u sent, %u answered\n", s->sent, s->answered);
			fail("no answer any more");
		}
	}
	int64_t ms = now_ms() - begin;
	printf("%u frames in %lld ms\n", s->answered, (long long)ms);
}

static void frames(int argc, char **argv, bool dies)
{
	static struct stream s;
	int late_ms = 0;

	s.count = (uint32_t)strtoul(argv[3], NULL, 10);
	s.window = UINT32_MAX;
	for (int i = 4; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "late"))
			late_ms = atoi(argv[i + 1]);
		else
			s.window = (uint32_t)strtoul(argv[i + 1], NULL, 10);
	}
	uint32_t stop_at = s.count;
	s.count += dies ? 1000000 : 0; /* the last one never comes */
	s.fd = accept_one(argv[2]);
	run(&s, stop_at, late_ms);
	close(s.fd);
}

static void hold(const char *path, int ms)
{
	static struct stream s = {.count = UINT32_MAX, .window = UINT32_MAX};

	s.fd = accept_one(path);
	for (int64_t end = now_ms() + ms; now_ms() < end;) {
		while (send_some(&s))
			;
		poll(NULL, 0, 10);
	}
	printf("%u frames sent\n", s.sent);
}

/* ---- datagrams ---- */

static void udp(int port, uint32_t count)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t out[1400], in[1500];
	uint32_t answered = 0, tries = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		fail("connect");
	while (answered < count) {
		size_t len = 4 + (answered * 37u) % (sizeof(out) - 4);
		memset(out, (int)answered, sizeof(out));
		memcpy(out, &answered, 4);
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		if (++tries > count + 200)
			fail("too many datagrams are lost");
		send(fd, out, len, 0);
		if (poll(&pfd, 1, 200) <= 0)
			continue;
		ssize_t n = recv(fd, in, sizeof(in), 0);
		if (n < 0) { /* nobody listens yet */
			poll(NULL, 0, 50);
			continue;
		}
		if (n == (ssize_t)len && memcmp(in, out, len) == 0)
			answered++;
	}
	printf("%u datagrams, %u tries\n", answered, tries);
}

static void end_guest(const char *ip)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT_END)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, ip, &to.sin_addr);
	if (sendto(fd, "end", 3, 0, (const struct sockaddr *)&to, sizeof(to)) != 3)
		fail("sendto");
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "frames"))
		frames(argc, argv, false);
	else if (argc >= 4 && !strcmp(argv[1], "die"))
		frames(argc, argv, true);
	else if (argc == 4 && !strcmp(argv[1], "hold"))
		hold(argv[2], atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "udp"))
		udp(atoi(argv[2]), (uint32_t)strtoul(argv[3], NULL, 10));
	else if (argc == 3 && !strcmp(argv[1], "end"))
		end_guest(argv[2]);
	else
		return 2;
	return 0;
}
