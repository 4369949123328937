/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.c - sends frames into an interface as fast as it takes them, until it is killed: flood INTERFACE BYTES GSO.
 * GSO 1: TCP that the other side may take in one piece, as the guest's net_bench sends it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	static unsigned char frame[sizeof(struct virtio_net_hdr) + 65536];
	static const unsigned char head[14] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9};
	if (argc != 4)
		return 2;
	unsigned bytes = (unsigned)atoi(argv[2]), one = 1;
	int gso = atoi(argv[3]), fd = socket(AF_PACKET, SOCK_RAW, 0);
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[1])};
	struct virtio_net_hdr *header = (void *)frame;
	unsigned char *at = frame + sizeof(*header), *ip = at + 14, *tcp = ip + 20;

	if (bytes < 60 || bytes > 65536 || !to.sll_ifindex || fd < 0)
		return 2;
	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return 1;
	memcpy(at, head, sizeof(head));
	if (gso) {
		*header = (struct virtio_net_hdr){
			VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4, 54, 1448, 34, 16};
		at[12] = 8;
		*(unsigned short *)(void *)(ip + 2) = htons((unsigned short)(bytes - 14));
		ip[0] = 0x45;
		ip[8] = 64;
		ip[9] = 6;
		memcpy(ip + 12, "\xc0\0\2\x09\xc0\0\2\2", 8);
		tcp[12] = 0x50;
		tcp[13] = 0x10;
	} else {
		at[12] = 0x88;
		at[13] = 0xb5;
	}
	for (;;) {
		if (send(fd, frame, sizeof(*header) + bytes, 0) < 0 && errno != ENOBUFS && errno != EAGAIN) {
			perror("flood");
			return 1;
		}
	}
}
