// SPDX-License-Identifier: Apache-2.0
/* net_host.c - the opening and the end of a network interface's host end, of whatever kind. */
#include "net_host.h"

#include "error.h"
#include "log.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A descriptor of ours for one that stays the caller's. */
static int adopt_fd(struct net_host *h, struct lull_error *err)
{
	struct stat st;

	snprintf(h->name, sizeof(h->name), "fd %d", h->config.fd);
	if (fstat(h->config.fd, &st) < 0)
		return error_sys(err, -errno, "net %s", h->name);
	h->fds[0] = fcntl(h->config.fd, F_DUPFD_CLOEXEC, 3);
	if (h->fds[0] < 0)
		return error_sys(err, -errno, "net %s", h->name);
	if (S_ISSOCK(st.st_mode))
		return net_socket_adopt(h, err);
	if (S_ISCHR(st.st_mode))
		return net_tap_adopt(h, err);
	return error_set(err, -EINVAL, "net %s: neither a tap nor a connected stream socket", h->name);
}

static int open_kind(struct net_host *h, struct lull_error *err)
{
	switch (h->config.kind) {
	case NET_TAP:
		return net_tap_open(h, err);
	case NET_SOCKET:
		return net_socket_open(h, err);
	case NET_FD:
		return adopt_fd(h, err);
	default:
		return error_set(err, -EINVAL,
		                 "net passt: the library starts no process; start passt and give its socket as fd=N or "
		                 "socket=PATH");
	}
}

static void choose_mac(struct net_host *h)
{
	memcpy(h->mac, h->config.mac, sizeof(h->mac));
	if (h->config.has_mac)
		return;
	(void)!getrandom(h->mac, sizeof(h->mac), 0);
	h->mac[0] = (uint8_t)((h->mac[0] & 0xfc) | 2); /* of one interface, administered locally */
}

static int open_host(struct net_host *h, const char *spec, struct lull_error *err)
{
	int ret = net_config_parse(&h->config, spec, err);

	if (ret == 0)
		ret = open_kind(h, err);
	if (ret < 0)
		return ret;
	if (h->config.name)
		snprintf(h->name, sizeof(h->name), "%s", h->config.name);
	if (h->config.mtu > h->mtu)
		h->mtu = h->config.mtu;
	choose_mac(h);
	return 0;
}

struct net_host *net_host_open(const char *spec, const struct log *log, struct lull_error *err)
{
	struct net_host *h = calloc(1, sizeof(*h));

	if (!h) {
		error_set(err, -ENOMEM, "net: out of memory");
		return NULL;
	}
	h->log = log;
	h->mtu = NET_MTU_DEFAULT;
	h->pairs = 1;
	for (unsigned i = 0; i < NET_PAIRS_MAX; i++)
		h->fds[i] = -1;
	if (open_host(h, spec, err) == 0)
		return h;
	net_host_close(h);
	return NULL;
}

void net_host_close(struct net_host *h)
{
	if (!h)
		return;
	if (h->ops && h->ops->close)
		h->ops->close(h);
	for (unsigned i = 0; i < NET_PAIRS_MAX; i++) {
		if (h->fds[i] >= 0)
			close(h->fds[i]);
		free(h->parked[i].data);
	}
	net_config_free(&h->config);
	free(h);
}

bool net_host_lost(struct net_host *h)
{
	if (atomic_exchange(&h->gone, true))
		return false;
	log_warn(h->log, "net %s: its other end has gone; the guest's link is down", h->name);
	return true;
}
