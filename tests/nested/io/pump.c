/* SPDX-License-Identifier: Apache-2.0 */
/* pump.c - moves so many bytes over a connection and then as many back; whoever receives knows what has to come and
 * compares each word.
 *
 *	pump listen PORT|unix:PATH|vsock:PORT BYTES          receives, then sends
 *	pump connect ADDRESS PORT|host vsock:PORT BYTES      sends, then receives
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

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
	printf("pump: sent %llu bytes in %.3f s\n", (unsigned long long)bytes, now() - begin);
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
	printf("pump: received %llu bytes in %.3f s, all of them right\n", (unsigned long long)bytes, now() - begin);
}

/* A socket for this end, and the address. host: NULL for any. */
static int open_end(const char *host, const char *end, struct sockaddr_storage *to, socklen_t *size)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct sockaddr_un *un = (struct sockaddr_un *)to;
	struct sockaddr_vm *vm = (struct sockaddr_vm *)to;

	memset(to, 0, sizeof(*to));
	if (strncmp(end, "unix:", 5) == 0) {
		un->sun_family = AF_UNIX;
		snprintf(un->sun_path, sizeof(un->sun_path), "%s", end + 5);
		*size = sizeof(*un);
	} else if (strncmp(end, "vsock:", 6) == 0) {
		vm->svm_family = AF_VSOCK;
		vm->svm_cid = host ? VMADDR_CID_HOST : VMADDR_CID_ANY;
		vm->svm_port = (unsigned)atoi(end + 6);
		*size = sizeof(*vm);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(end));
		if (host && inet_pton(AF_INET, host, &in->sin_addr) != 1)
			die(host);
		*size = sizeof(*in);
	}
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	return fd;
}

int main(int argc, char **argv)
{
	struct sockaddr_storage to;
	socklen_t size;
	int one = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "listen") == 0) {
		uint64_t bytes = strtoull(argv[3], NULL, 0) & ~7ull;
		int fd = open_end(NULL, argv[2], &to, &size), in;

		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&to, size) || listen(fd, 1))
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
		int fd = open_end(argv[2], argv[3], &to, &size);

		if (connect(fd, (struct sockaddr *)&to, size))
			die("connect");
		send_all(fd, bytes);
		receive_all(fd, bytes);
		return 0;
	}
	fprintf(stderr, "usage: pump listen END BYTES | pump connect ADDRESS END BYTES; see pump.c\n");
	return 2;
}
