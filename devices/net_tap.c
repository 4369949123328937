// SPDX-License-Identifier: Apache-2.0
/* net_tap.c - an interface of the host as the other end: Documentation/networking/tuntap.rst. The kernel speaks
 * virtio's header, so checksums and segmentation pass through undone. */
#include "net_host.h"

#include "error.h"
#include "log.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Newer than some kernel headers: segmentation of UDP by the sender, Linux 6.2, virtio 1.3. */
enum {
	TUN_USO4 = 0x20,
	TUN_USO6 = 0x40,
	FEATURE_GUEST_USO4 = 54,
	FEATURE_GUEST_USO6 = 55,
	FEATURE_HOST_USO = 56,
};

#define BIT64(n) (UINT64_C(1) << (n))

/* -------------------------------------------------------------------------------------- frames */

static int error_of(int error)
{
	/* EBADFD: the interface was deleted. */
	return error == EBADFD || error == EBADF || error == ENODEV ? -EPIPE : error == EINTR ? -EAGAIN : -error;
}

/* Without ample room a frame is read to where it is whole, so that it can wait for room. */
static ssize_t tap_next(struct net_host *h, unsigned pair, bool ample)
{
	struct net_parked *parked = &h->parked[pair];

	if (parked->bytes)
		return (ssize_t)parked->bytes;
	if (ample)
		return 0;
	if (!parked->data)
		parked->data = malloc(NET_HEADER_BYTES + NET_FRAME_MAX);
	if (!parked->data)
		return -EAGAIN;
	ssize_t n = read(h->fds[pair], parked->data, NET_HEADER_BYTES + NET_FRAME_MAX);
	if (n < 0)
		return error_of(errno);
	parked->bytes = (size_t)n;
	return n;
}

static bool tap_pending(const struct net_host *h, unsigned pair)
{
	return h->parked[pair].bytes != 0;
}

static ssize_t take_parked(struct net_parked *parked, const struct iovec *iov, unsigned count)
{
	size_t done = 0, bytes = parked->bytes;

	for (unsigned i = 0; i < count && done < bytes; i++) {
		size_t n = iov[i].iov_len < bytes - done ? iov[i].iov_len : bytes - done;
		memcpy(iov[i].iov_base, parked->data + done, n);
		done += n;
	}
	parked->bytes = 0;
	return (ssize_t)bytes;
}

static ssize_t tap_receive(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	if (h->parked[pair].bytes)
		return take_parked(&h->parked[pair], iov, count);
	ssize_t n = readv(h->fds[pair], iov, (int)count);
	return n < 0 ? error_of(errno) : n;
}

static int tap_send(struct net_host *h, unsigned pair, const struct iovec *iov, unsigned count)
{
	return writev(h->fds[pair], iov, (int)count) < 0 ? error_of(errno) : 0;
}

/* ---------------------------------------------------------------------------------------- offloads */

static int tap_set_offloads(struct net_host *h, uint64_t features)
{
	static const struct {
		unsigned feature, flag;
	} map[] = {
		{VIRTIO_NET_F_GUEST_TSO4, TUN_F_TSO4},   {VIRTIO_NET_F_GUEST_TSO6, TUN_F_TSO6},
		{VIRTIO_NET_F_GUEST_ECN, TUN_F_TSO_ECN}, {VIRTIO_NET_F_GUEST_UFO, TUN_F_UFO},
		{FEATURE_GUEST_USO4, TUN_USO4},          {FEATURE_GUEST_USO6, TUN_USO6},
	};
	unsigned flags = 0;

	/* 5.1.3.1: all of them build on the first. */
	if (features & BIT64(VIRTIO_NET_F_GUEST_CSUM)) {
		flags = TUN_F_CSUM;
		for (size_t i = 0; i < ARRAY_SIZE(map); i++)
			flags |= features & h->offers & BIT64(map[i].feature) ? map[i].flag : 0;
	}
	return ioctl(h->fds[0], TUNSETOFFLOAD, flags) < 0 ? -errno : 0;
}

/* What this kernel can do, found out by trying; leaves everything off. */
static uint64_t find_offloads(int fd)
{
	const unsigned tso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
	uint64_t offers = 0;

	if (ioctl(fd, TUNSETOFFLOAD, tso) == 0)
		offers = BIT64(VIRTIO_NET_F_CSUM) | BIT64(VIRTIO_NET_F_GUEST_CSUM) | BIT64(VIRTIO_NET_F_HOST_TSO4) |
		         BIT64(VIRTIO_NET_F_HOST_TSO6) | BIT64(VIRTIO_NET_F_GUEST_TSO4) |
		         BIT64(VIRTIO_NET_F_GUEST_TSO6);
	if (offers && ioctl(fd, TUNSETOFFLOAD, tso | TUN_F_TSO_ECN) == 0)
		offers |= BIT64(VIRTIO_NET_F_HOST_ECN) | BIT64(VIRTIO_NET_F_GUEST_ECN);
	if (offers && ioctl(fd, TUNSETOFFLOAD, tso | TUN_F_UFO) == 0)
		offers |= BIT64(VIRTIO_NET_F_HOST_UFO) | BIT64(VIRTIO_NET_F_GUEST_UFO);
	if (offers && ioctl(fd, TUNSETOFFLOAD, tso | TUN_USO4 | TUN_USO6) == 0)
		offers |= BIT64(FEATURE_HOST_USO) | BIT64(FEATURE_GUEST_USO4) | BIT64(FEATURE_GUEST_USO6);
	ioctl(fd, TUNSETOFFLOAD, 0);
	return offers;
}

static int tap_use_pair(struct net_host *h, unsigned pair, bool use)
{
	struct ifreq ifr = {.ifr_flags = use ? IFF_ATTACH_QUEUE : IFF_DETACH_QUEUE};

	if (h->pairs == 1)
		return 0;
	/* EINVAL: it is so already. */
	return ioctl(h->fds[pair], TUNSETQUEUE, &ifr) < 0 && errno != EINVAL ? -errno : 0;
}

static const struct net_host_ops tap_ops = {
	.next = tap_next,
	.pending = tap_pending,
	.receive = tap_receive,
	.send = tap_send,
	.set_offloads = tap_set_offloads,
	.use_pair = tap_use_pair,
};

/* ----------------------------------------------------------------------------------------- opening */

/* Headers of virtio's length and byte order on every queue. */
static int set_up_queue(const struct net_host *h, int fd, struct lull_error *err)
{
	int header = NET_HEADER_BYTES, one = 1;

	if (ioctl(fd, TUNSETVNETHDRSZ, &header) < 0)
		return error_sys(err, -errno, "net %s: its headers cannot have virtio's length", h->name);
	ioctl(fd, TUNSETVNETLE, &one); /* x86 is little-endian anyway */
	return 0;
}

static unsigned query_mtu(const char *interface)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", interface);
	int ret = fd < 0 ? -1 : ioctl(fd, SIOCGIFMTU, &ifr);
	if (fd >= 0)
		close(fd);
	return ret < 0 || ifr.ifr_mtu <= 0 ? NET_MTU_DEFAULT : (unsigned)ifr.ifr_mtu;
}

/* An interface we made has nobody else who could set it up. */
static int bring_up(const struct net_host *h, struct lull_error *err)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 ? -errno : 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", h->interface);
	if (ret == 0 && h->config.mtu) {
		ifr.ifr_mtu = (int)h->config.mtu;
		ret = ioctl(fd, SIOCSIFMTU, &ifr) < 0 ? -errno : 0;
	}
	if (ret == 0)
		ret = ioctl(fd, SIOCGIFFLAGS, &ifr) < 0 ? -errno : 0;
	ifr.ifr_flags |= IFF_UP;
	if (ret == 0)
		ret = ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return ret < 0 ? error_sys(err, ret, "net %s: cannot be brought up", h->name) : 0;
}

static int finish(struct net_host *h, struct lull_error *err)
{
	h->ops = &tap_ops;
	h->offers = find_offloads(h->fds[0]);
	if (h->is_new) {
		int ret = bring_up(h, err);
		if (ret < 0)
			return ret;
	}
	unsigned mtu = query_mtu(h->interface);
	h->mtu = mtu > h->mtu ? mtu : h->mtu;
	log_info(h->log, "net %s: %s%s", h->name, h->is_new ? "made " : "found ", h->interface);
	return 0;
}

static int attach_error(const struct net_host *h, int error, struct lull_error *err)
{
	switch (error) {
	case EPERM:
		return error_set(err, -error,
		                 "net %s: not allowed; have it made for you: ip tuntap add NAME mode tap user USER, or "
		                 "use passt",
		                 h->name);
	case EBUSY:
		return error_set(err, -error, "net %s: another process uses it", h->name);
	case EINVAL:
		return error_set(err, -error,
		                 "net %s: is not a tap, or was made for another number of queues (multi_queue)",
		                 h->name);
	default:
		return error_sys(err, -error, "net %s", h->name);
	}
}

/* One queue of the interface that h->interface names; a pattern there becomes a name. */
static int attach(struct net_host *h, unsigned pair, struct lull_error *err)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return error_sys(err, -errno, "net %s: /dev/net/tun%s", h->name,
		                 errno == ENOENT ? " (is the module tun loaded?)" : "");
	h->fds[pair] = fd;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", h->interface);
	if (h->config.pairs > 1)
		ifr.ifr_flags |= IFF_MULTI_QUEUE;
	int ret = ioctl(fd, TUNSETIFF, &ifr);
	if (ret < 0 && errno == EINVAL && h->config.pairs == 1) {
		/* One that was made for several queues can be used with one. */
		ifr.ifr_flags |= IFF_MULTI_QUEUE;
		ret = ioctl(fd, TUNSETIFF, &ifr);
	}
	if (ret < 0)
		return attach_error(h, errno, err);
	snprintf(h->interface, sizeof(h->interface), "%s", ifr.ifr_name);
	return set_up_queue(h, fd, err);
}

int net_tap_open(struct net_host *h, struct lull_error *err)
{
	const char *name = h->config.target;

	snprintf(h->name, sizeof(h->name), "tap %s", name ? name : "of its own");
	snprintf(h->interface, sizeof(h->interface), "%s", name ? name : "lull%d");
	h->is_new = !name || if_nametoindex(name) == 0;
	for (unsigned i = 0; i < h->config.pairs; i++) {
		int ret = attach(h, i, err);
		if (ret < 0)
			return ret;
		snprintf(h->name, sizeof(h->name), "tap %s", h->interface);
	}
	h->pairs = h->config.pairs;
	return finish(h, err);
}

int net_tap_adopt(struct net_host *h, struct lull_error *err)
{
	struct ifreq ifr = {0};
	int flags = fcntl(h->fds[0], F_GETFL);

	if (ioctl(h->fds[0], TUNGETIFF, &ifr) < 0)
		return error_set(err, -EINVAL, "net %s: neither a tap nor a connected stream socket", h->name);
	if ((ifr.ifr_flags & (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)) != (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
		return error_set(err, -EINVAL, "net %s: a tap has to be made with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR",
		                 h->name);
	if (flags < 0 || fcntl(h->fds[0], F_SETFL, flags | O_NONBLOCK) < 0)
		return error_sys(err, -errno, "net %s", h->name);
	snprintf(h->interface, sizeof(h->interface), "%s", ifr.ifr_name);
	int ret = set_up_queue(h, h->fds[0], err);
	return ret < 0 ? ret : finish(h, err);
}
