/* SPDX-License-Identifier: Apache-2.0 */
/* pump.c - moves so many bytes over a TCP connection and then as many back; whoever receives knows what has to come and
 * compares each word.
 *
 *	pump listen PORT BYTES             receives, then sends
 *	pump connect ADDRESS PORT BYTES    sends, then receives
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	WORDS = 8192
};

static uint64_t word(uint64_t i)
{
	i *= 0x9e3779b97f4a7c15ull;
	return i ^ i >> 29;
}

static void die(const char *what)
{
	printf("pump: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void send_all(int fd, uint64_t bytes)
{
	static uint64_t buf[WORDS];
	uint64_t at = 0;
	double begin = now();

	while (at < bytes) {
		uint64_t size = bytes - at < sizeof(buf) ? bytes - at : sizeof(buf);

		for (uint64_t i = 0; i < size / 8; i++)
			buf[i] = word(at / 8 + i);
		for (uint64_t done = 0; done < size;) {
			ssize_t n = send(fd, (char *)buf + done, size - done, MSG_NOSIGNAL);

			if (n <= 0)
				die("send");
			done += (uint64_t)n;
		}
		at += size;
	}
	printf("pump: sent %llu bytes in %.1f s\n", (unsigned long long)bytes, now() - begin);
}

static void receive_all(int fd, uint64_t bytes)
{
	static uint64_t buf[WORDS];
	uint64_t at = 0;
	double begin = now();

	while (at < bytes) {
		uint64_t size = bytes - at < sizeof(buf) ? bytes - at : sizeof(buf);

		for (uint64_t done = 0; done < size;) {
			ssize_t n = recv(fd, (char *)buf + done, size - done, 0);

			if (n < 0)
				die("recv");
			if (n == 0) {
				printf("pump: the connection ended after %llu bytes\n",
				       (unsigned long long)(at + done));
				exit(1);
			}
			done += (uint64_t)n;
		}
		for (uint64_t i = 0; i < size / 8; i++)
			if (buf[i] != word(at / 8 + i)) {
				printf("pump: wrong data at byte %llu\n", (unsigned long long)(at + i * 8));
				exit(1);
			}
		at += size;
	}
	printf("pump: received %llu bytes in %.1f s, all of them right\n", (unsigned long long)bytes, now() - begin);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (fd < 0)
		die("socket");
	if (argc == 4 && strcmp(argv[1], "listen") == 0) {
		uint64_t bytes = strtoull(argv[3], NULL, 0) & ~7ull;
		int in;

		to.sin_port = htons((uint16_t)atoi(argv[2]));
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&to, sizeof(to)) || listen(fd, 1))
			die("listen");
		in = accept(fd, NULL, NULL);
		if (in < 0)
			die("accept");
		receive_all(in, bytes);
		send_all(in, bytes);
		shutdown(in, SHUT_WR);
		/* Not gone before the other side has all. */
		while (recv(in, &one, sizeof(one), 0) > 0)
			;
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "connect") == 0) {
		uint64_t bytes = strtoull(argv[4], NULL, 0) & ~7ull;

		to.sin_port = htons((uint16_t)atoi(argv[3]));
		if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1)
			die(argv[2]);
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
			die("connect");
		send_all(fd, bytes);
		receive_all(fd, bytes);
		return 0;
	}
	fprintf(stderr, "usage: pump listen PORT BYTES | pump connect ADDRESS PORT BYTES\n");
	return 2;
}
