// SPDX-License-Identifier: Apache-2.0
/*
 * stream.c - bytes through a vsock, both ways, one after the other.
 * In the host: stream unix PATH BYTES | stream vsock PORT BYTES waits for the guest and prints MB/s of each way.
 * In the guest: stream guest PORT BYTES.
 */
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

#define PIECE 65536

static uint64_t pieces[PIECE / 8];

static void die(const char *what)
{
	printf("stream: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Each word is its number, so that nothing can be lost, doubled or moved. */
static void send_all(int fd, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		for (uint64_t i = 0; i < PIECE / 8; i++)
			pieces[i] = at / 8 + i;
		for (size_t done = 0; done < PIECE;) {
			ssize_t n = write(fd, (char *)pieces + done, PIECE - done);
			if (n <= 0)
				die("write");
			done += (size_t)n;
		}
	}
}

static void receive_all(int fd, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		for (size_t done = 0; done < PIECE;) {
			ssize_t n = read(fd, (char *)pieces + done, PIECE - done);
			if (n <= 0)
				die("read");
			done += (size_t)n;
		}
		for (uint64_t i = 0; i < PIECE / 8; i++)
			if (pieces[i] != at / 8 + i) {
				errno = EILSEQ;
				die("a wrong byte");
			}
	}
}

/* One byte: all is there. */
static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		die("write");
}

static void await(int fd)
{
	char byte;
	if (read(fd, &byte, 1) != 1)
		die("read");
}

static int take(int fd, const struct sockaddr *addr, socklen_t size)
{
	if (fd < 0 || bind(fd, addr, size) < 0 || listen(fd, 1) < 0)
		die("listen");
	printf("stream: waits\n");
	fflush(stdout);
	int conn = accept(fd, NULL, NULL);
	if (conn < 0)
		die("accept");
	return conn;
}

static int host_end(const char *kind, const char *where)
{
	struct sockaddr_vm vm = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	if (!strcmp(kind, "unix")) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", where);
		return take(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&un, sizeof(un));
	}
	vm.svm_port = (unsigned)atoi(where);
	return take(socket(AF_VSOCK, SOCK_STREAM, 0), (struct sockaddr *)&vm, sizeof(vm));
}

static int guest_end(const char *port)
{
	struct sockaddr_vm vm = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = (unsigned)atoi(port)};
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&vm, sizeof(vm)) < 0)
		die("connect");
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	uint64_t bytes = strtoull(argv[3], NULL, 10) / PIECE * PIECE;
	if (!strcmp(argv[1], "guest")) {
		int fd = guest_end(argv[2]);
		receive_all(fd, bytes);
		tell(fd);
		await(fd);
		send_all(fd, bytes);
		await(fd);
		return 0;
	}
	int fd = host_end(argv[1], argv[2]);
	double t0 = now_s();
	send_all(fd, bytes);
	await(fd);
	double t1 = now_s();
	tell(fd);
	receive_all(fd, bytes);
	double t2 = now_s();
	tell(fd);
	printf("stream: to the guest %.1f MB/s, from the guest %.1f MB/s\n", (double)bytes / (t1 - t0) / 1e6,
	       (double)bytes / (t2 - t1) / 1e6);
	return 0;
}
