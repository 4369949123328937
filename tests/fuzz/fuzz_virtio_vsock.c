// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_vsock.c - a socket device under any sequence of accesses and packets, between a driver and programs of
 * the host that come, write, read and go. */
#include "fuzz_virtio.h"

#include "virtio_vsock.h"
#include "vsock_host.h"

#include <linux/virtio_vsock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	CLIENTS = 4,
	CID = 3,
	PORT = 5, /* somebody listens */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vsock_host *host;
static int listener = -1;

/* Once per process: names of its own, and they stay. */
static void open_host(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char spec[64];

	snprintf(spec, sizeof(spec), "cid=%d,socket=/tmp/fuzz-vsock.%d", CID, (int)getpid());
	host = vsock_host_open(spec, NULL, NULL);
	invariant(host);
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/fuzz-vsock.%d_%d", (int)getpid(), PORT);
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	invariant(bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 2) == 0);
}

/* A program of the host connects, or takes a connection of the guest. */
static int client(struct fuzz_input *in)
{
	char line[] = "CONNECT 7\nabc";
	int fd = fuzz_take(in, 1) % 2 ? accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;

	if (fd >= 0)
		return fd;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&host->listener.address, sizeof(host->listener.address)) == 0) {
		line[8] = (char)('0' + fuzz_take(in, 1) % 16);
		send(fd, line, fuzz_take(in, 1) % sizeof(line), MSG_NOSIGNAL);
	}
	return fd;
}

static void use_client(int *fd, struct fuzz_input *in)
{
	static char buffer[1 << 16];

	switch (fuzz_take(in, 1) % 6) {
	case 0:
		shutdown(*fd, (int)fuzz_take(in, 1) % 3);
		break;
	case 1:
		close(*fd);
		*fd = -1;
		break;
	case 2:
		(void)!recv(*fd, buffer, fuzz_take(in, 2) + 1, MSG_DONTWAIT);
		break;
	default:
		send(*fd, buffer, fuzz_take(in, 2), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

/* A packet whose fields are mostly right; ports of the host's connections are found by counting. */
static void packet(struct fuzz_rig *f, struct fuzz_input *in)
{
	uint8_t word = (uint8_t)fuzz_take(in, 1);
	struct virtio_vsock_hdr h = {
		.src_cid = word & 1 ? fuzz_take(in, 8) : CID,
		.dst_cid = word & 2 ? fuzz_take(in, 8) : 2,
		.src_port = 7 + (uint32_t)fuzz_take(in, 1) % 3,
		.dst_port = word & 4 ? (1u << 30) + 1 + (uint32_t)fuzz_take(in, 1) % 8 : PORT,
		.len = word & 8 ? (uint32_t)fuzz_take(in, 2) : 0,
		.type = word & 16 ? (uint16_t)fuzz_take(in, 2) : VIRTIO_VSOCK_TYPE_STREAM,
		.op = (uint16_t)(fuzz_take(in, 1) % 9),
		.flags = (uint32_t)fuzz_take(in, 1),
		.buf_alloc = word & 32 ? (uint32_t)fuzz_take(in, 4) : 1u << 16,
		.fwd_cnt = word & 64 ? (uint32_t)fuzz_take(in, 4) : 0,
	};
	const struct driver_buf bufs[] = {{FUZZ_BUFFERS, sizeof(h), false}, {FUZZ_BUFFERS + 4096, h.len, false}};

	if (!f->rings[1].desc)
		return;
	guest_mem_write(&f->d.mem, gpa(FUZZ_BUFFERS), &h, sizeof(h));
	driver_chain(&f->rings[1], bufs, h.len ? 2 : 1);
	driver_kick(&f->d, 1);
}

static void receive_buffers(struct fuzz_rig *f, struct fuzz_input *in)
{
	const struct driver_buf buf = {FUZZ_BUFFERS + 0x8000, 44 + (uint32_t)fuzz_take(in, 1) * 16, true};

	for (unsigned i = 0; i < 3 && f->rings[0].desc; i++)
		driver_chain(&f->rings[0], &buf, 1);
	driver_kick(&f->d, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};
	int fds[CLIENTS] = {-1, -1, -1, -1}, fd;

	if (!host)
		open_host();
	invariant(event_loop_init(&f.loop) == 0);
	fuzz_open(&f, virtio_vsock_create(host, &f.loop), &f.loop);
	if (fuzz_take(&in, 1) % 4)
		fuzz_bring_up(&f, 0);
	while (in.left) {
		unsigned kind = fuzz_step(&f, &in);
		int *c = &fds[kind ? fuzz_take(&in, 1) % CLIENTS : 0];
		if (kind == 11)
			fuzz_loop(&f, 32);
		else if (kind == 12)
			receive_buffers(&f, &in);
		else if (kind == 13 || kind == 14)
			packet(&f, &in);
		else if (kind == 15 && *c < 0)
			*c = client(&in);
		else if (kind == 15)
			use_client(c, &in);
	}
	fuzz_loop(&f, 32);
	for (unsigned i = 0; i < CLIENTS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
	fuzz_close(&f);
	/* Who was not taken by then is not there for the next run. */
	while ((fd = accept4(host->listener.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0 ||
	       (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
	atomic_store(&host->interrupted, false);
	invariant(atomic_load(&host->counters.now) == 0);
	event_loop_fini(&f.loop);
	return 0;
}
