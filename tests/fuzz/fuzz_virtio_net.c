// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_net.c - a network device under any sequence of accesses, with a socket whose peer writes what the bytes
 * say, or with a made-up tap of three pairs that answers what they say. */
#include "fuzz_virtio.h"

#include "net_host.h"
#include "virtio_net.h"

#include <errno.h>
#include <linux/virtio_net.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	PAIRS = 3,
};

static struct fuzz_input in;

/* ---- the made-up tap ---- */

static int whim(void)
{
	static const int answers[] = {0, 0, 0, 0, 0, -EAGAIN, -EINVAL, -EPIPE};

	return answers[fuzz_take(&in, 1) % ARRAY_SIZE(answers)];
}

static ssize_t fake_next(struct net_host *h, unsigned pair, bool ample)
{
	int ret = in.left ? whim() : -EAGAIN;

	if (ret < 0 || ample)
		return ret;
	if (!h->parked[pair].bytes)
		h->parked[pair].bytes = NET_HEADER_BYTES + fuzz_take(&in, 2) % NET_FRAME_MAX;
	return (ssize_t)h->parked[pair].bytes;
}

static bool fake_pending(const struct net_host *h, unsigned pair)
{
	return h->parked[pair].bytes;
}

static ssize_t fake_receive(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	size_t bytes = h->parked[pair].bytes, done = 0;

	if (!bytes)
		bytes = fuzz_take(&in, 2) % (NET_HEADER_BYTES + NET_FRAME_MAX);
	h->parked[pair].bytes = 0;
	for (unsigned i = 0; i < count && done < bytes; i++) {
		size_t n = iov[i].iov_len < bytes - done ? iov[i].iov_len : bytes - done;
		memset(iov[i].iov_base, 0x5a, n);
		done += n;
	}
	int ret = in.left ? whim() : 0;
	return ret < 0 ? ret : (ssize_t)bytes;
}

/* Reads every byte, as a system call would. */
static int fake_send(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	static volatile uint8_t sum;

	(void)h, (void)pair;
	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < iov[i].iov_len; at++)
			sum = (uint8_t)(sum + ((const uint8_t *)iov[i].iov_base)[at]);
	int ret = whim();
	return ret == 0 && fuzz_take(&in, 1) % 8 == 0 ? 1 : ret;
}

static int fake_flush(struct net_host *h, unsigned pair)
{
	(void)h, (void)pair;
	return whim() == 0 ? 0 : -EAGAIN;
}

static int fake_set_offloads(struct net_host *h, uint64_t features)
{
	(void)h, (void)features;
	return 0;
}

static int fake_use_pair(struct net_host *h, unsigned pair, bool use)
{
	(void)h, (void)pair, (void)use;
	return 0;
}

static const struct net_host_ops fake_ops = {
	.next = fake_next,
	.pending = fake_pending,
	.receive = fake_receive,
	.send = fake_send,
	.flush = fake_flush,
	.set_offloads = fake_set_offloads,
	.use_pair = fake_use_pair,
};

static struct net_host *open_fake(void)
{
	struct net_host *h = calloc(1, sizeof(*h));

	h->ops = &fake_ops;
	h->pairs = PAIRS;
	h->mtu = NET_MTU_DEFAULT;
	h->offers = 1ull << VIRTIO_NET_F_GUEST_CSUM | 1ull << VIRTIO_NET_F_GUEST_TSO4 | 1ull << VIRTIO_NET_F_CSUM;
	for (unsigned i = 0; i < NET_PAIRS_MAX; i++)
		h->fds[i] = i < PAIRS ? eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	return h;
}

static struct net_host *open_socket(int *peer)
{
	int fds[2];
	char spec[32];

	invariant(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	snprintf(spec, sizeof(spec), "fd=%d", fds[0]);
	struct net_host *h = net_host_open(spec, NULL, NULL);
	invariant(h);
	close(fds[0]);
	*peer = fds[1];
	return h;
}

/* ---- the peer and the loop ---- */

/* A frame, mostly, else any length and any bytes. */
static void peer_writes(int peer)
{
	uint8_t data[4096];
	size_t n = fuzz_take(&in, 1) * 16;
	uint32_t length = (uint32_t)n;

	if (peer < 0)
		return;
	memset(data, 1, sizeof(data));
	if (fuzz_take(&in, 1) % 8 == 0)
		length = (uint32_t)fuzz_take(&in, 4);
	length = __builtin_bswap32(length);
	send(peer, &length, sizeof(length), MSG_DONTWAIT | MSG_NOSIGNAL);
	send(peer, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Receive buffers as a driver makes them, and both notifications. */
static void offer(struct fuzz_rig *f)
{
	const struct driver_buf buf = {FUZZ_BUFFERS, (uint32_t)(12 + fuzz_take(&in, 1) * 16), true};

	if (f->rings[0].desc)
		driver_chain(&f->rings[0], &buf, 1);
	driver_kick(&f->d, 0);
	driver_kick(&f->d, 1);
}

static void peer_reads(int peer)
{
	static uint8_t all[1 << 16];

	while (peer >= 0 && recv(peer, all, sizeof(all), MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_rig f = {0};
	int peer = -1;

	in = (struct fuzz_input){data, size};
	bool is_socket = fuzz_take(&in, 1) & 1;
	struct net_host *host = is_socket ? open_socket(&peer) : open_fake();
	invariant(event_loop_init(&f.loop) == 0);
	fuzz_open(&f, virtio_net_create(host, &f.loop), &f.loop);
	fuzz_bring_up(&f, fuzz_take(&in, 8));
	while (in.left) {
		switch (fuzz_step(&f, &in)) {
		case 11:
			fuzz_loop(&f, 4);
			break;
		case 12:
			peer_writes(peer);
			fuzz_loop(&f, 4);
			break;
		case 13:
			peer_reads(peer);
			break;
		case 14:
			offer(&f);
			break;
		case 15:
			if (peer >= 0 && fuzz_take(&in, 1) < 8)
				shutdown(peer, SHUT_RDWR);
			break;
		}
	}
	fuzz_loop(&f, 4);
	fuzz_close(&f);
	net_host_close(host);
	event_loop_fini(&f.loop);
	if (peer >= 0)
		close(peer);
	return 0;
}
