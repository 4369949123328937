/* SPDX-License-Identifier: Apache-2.0 */
/* tap_rig.h - a real tap in a network namespace of our own; the host's side of it is a packet socket. */
#ifndef LULL_TESTS_TAP_RIG_H
#define LULL_TESTS_TAP_RIG_H

#include "net_rig.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

enum {
	TYPE = 0x88b5, /* for experiments: IEEE 802 */
	CONTROL = 4,
};

static const char *why_not; /* there is no tap to be had here */

#define NEEDS_TAP()                                                                                                    \
	do {                                                                                                           \
		if (why_not) {                                                                                         \
			print_message("no tap here: %s\n", why_not);                                                   \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

static inline int enter_namespace(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		why_not = "no network namespace may be made";
		return 0;
	}
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	if (fd < 0)
		why_not = "/dev/net/tun cannot be opened";
	else if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		why_not = "no tap may be made";
	if (fd >= 0)
		close(fd);
	/* Or the kernel sends frames of its own. */
	fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!write(fd, "1", 1);
		close(fd);
	}
	return 0;
}

/* ---- the host's side ---- */

static inline int packet_socket(const char *interface, unsigned type)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)type)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	at.sll_ifindex = (int)if_nametoindex(interface);
	assert_true(fd >= 0 && at.sll_ifindex > 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static inline short interface_flags(const char *interface)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", interface);
	int ret = ioctl(fd, SIOCGIFFLAGS, &ifr);
	close(fd);
	return ret < 0 ? (short)-1 : ifr.ifr_flags;
}

static inline void set_up_or_down(const char *interface, bool up)
{
	struct ifreq ifr = {.ifr_flags = interface_flags(interface)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", interface);
	ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
}

static inline void delete_interface(const char *interface)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} request = {.header = {.nlmsg_len = sizeof(request),
	                        .nlmsg_type = RTM_DELLINK,
	                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK}};
	char answer[512];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	request.info.ifi_index = (int)if_nametoindex(interface);
	assert_int_equal(send(fd, &request, sizeof(request), 0), sizeof(request));
	assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
	close(fd);
	assert_int_equal(if_nametoindex(interface), 0);
}

/* An Ethernet header of ours, then the pattern. */
static inline void make_frame(uint8_t *frame, size_t len, unsigned seed)
{
	memset(frame, 0xff, 6);
	memset(frame + 6, 2, 6);
	frame[12] = TYPE >> 8;
	frame[13] = TYPE & 0xff;
	fill(frame + 14, len - 14, seed);
}

static inline void host_sends(size_t len, unsigned seed)
{
	uint8_t frame[10000];

	make_frame(frame, len, seed);
	assert_int_equal(send(rig.peer, frame, len, 0), len);
}

static inline void assert_host_receives(size_t len, unsigned seed)
{
	uint8_t want[10000], got[10000];
	ssize_t n;

	make_frame(want, len, seed);
	do
		n = recv(rig.peer, got, sizeof(got), MSG_DONTWAIT);
	while (n < 0 && step(100));
	assert_int_equal(n, len);
	assert_memory_equal(got, want, len);
}

static inline void guest_sends_frame(size_t len, unsigned seed)
{
	uint8_t *at = driver_at(&rig.d, rig.tx_at);
	const struct driver_buf buf = {rig.tx_at, (uint32_t)(HEADER + len), false};

	memset(at, 0, HEADER);
	make_frame(at + HEADER, len, seed);
	driver_chain(&rig.ring[TX], &buf, 1);
	driver_kick(&rig.d, TX);
}

/* In buffers of the rig; the first holds the header. */
static inline struct virtio_net_hdr_v1 assert_guest_got(size_t len, unsigned seed, unsigned buffers)
{
	static uint8_t got[1 << 17], want[1 << 17];
	struct virtio_net_hdr_v1 header;
	uint32_t id = 0, bytes = 0;
	size_t done = 0;

	for (unsigned i = 0; i < buffers; i++) {
		assert_true(driver_used(&rig.ring[RX], &id, &bytes));
		memcpy(got + done, driver_at(&rig.d, rig.rx_at + id * (uint64_t)BUF_BYTES), bytes);
		done += bytes;
	}
	assert_int_equal(done, HEADER + len);
	memcpy(&header, got, sizeof(header));
	assert_int_equal(header.num_buffers, buffers);
	make_frame(want, len, seed);
	assert_memory_equal(got + HEADER, want, len);
	return header;
}

static inline void open_tap(const char *spec, uint64_t features)
{
	memset(&rig, 0, sizeof(rig));
	open_rig(spec);
	rig.peer = packet_socket(rig.host->interface, TYPE);
	bring_up(features);
}

static inline void close_tap(void)
{
	tear_down(NULL);
	rig.host = NULL;
}

/* After a test that failed half way. */
static inline int close_rest(void **state)
{
	(void)state;
	if (rig.host)
		close_tap();
	return 0;
}

#define WITH_TAP(test) cmocka_unit_test_teardown(test, close_rest)

#endif
