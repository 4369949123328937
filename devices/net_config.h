/* SPDX-License-Identifier: Apache-2.0 */
/* net_config.h - what `--net` says, as text and as values. */
#ifndef LULL_NET_CONFIG_H
#define LULL_NET_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct lull_error;

enum net_kind {
	NET_NONE,
	NET_TAP,    /* an interface of the host: target is its name, NULL: a new one */
	NET_FD,     /* a descriptor: a tap or a connected stream socket */
	NET_SOCKET, /* target is the path of a unix stream socket that somebody listens on */
	NET_PASST,  /* a process that the command starts; not for the library */
};

#define NET_PAIRS_MAX 7u /* each has two queues, and there is one for control */
#define NET_MTU_MIN   68u
#define NET_MTU_MAX   65521u /* a frame with its header is no longer than 65535 bytes */

struct net_config {
	enum net_kind kind;
	char *target; /* owned, or NULL */
	char *name;   /* owned, or NULL: what messages call it */
	int fd;
	bool has_mac;
	uint8_t mac[6];
	unsigned mtu; /* 0: nothing said */
	unsigned pairs;
	uint64_t bytes_per_second; /* each way; 0: no limit */
};

/* "tap=NAME", "tap", "fd=N", "socket=PATH" or "passt", then any of ",mac=XX:XX:XX:XX:XX:XX", ",mtu=N", ",queues=N",
 * ",rate=BYTES", ",name=TEXT"; ",," in a value stands for a comma. -EINVAL with a text. */
int net_config_parse(struct net_config *config, const char *spec, struct lull_error *err);
void net_config_free(struct net_config *config);

#endif
