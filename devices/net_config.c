// SPDX-License-Identifier: Apache-2.0
/* net_config.c - reads what `--net` says. Opens nothing. */
#include "net_config.h"

#include "error.h"
#include "util.h"
#include "words.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

enum takes {
	TAKES_NO_VALUE,
	TAKES_VALUE,
	TAKES_EITHER,
};

struct key {
	const char *name;
	enum takes takes;
	int (*set)(struct net_config *c, const char *value, struct lull_error *err);
};

static int no_memory(struct lull_error *err)
{
	return error_set(err, -ENOMEM, "net: out of memory");
}

static int set_kind(struct net_config *c, enum net_kind kind, const char *target, struct lull_error *err)
{
	if (c->kind != NET_NONE)
		return error_set(err, -EINVAL, "net: two host ends for one interface; give one --net for each");
	c->kind = kind;
	if (!*target)
		return 0;
	c->target = strdup(target);
	return c->target ? 0 : no_memory(err);
}

static int set_tap(struct net_config *c, const char *value, struct lull_error *err)
{
	if (strlen(value) >= IFNAMSIZ || strpbrk(value, "/ %"))
		return error_set(err, -EINVAL, "net: tap '%s': not the name of an interface", value);
	return set_kind(c, NET_TAP, value, err);
}

static int set_fd(struct net_config *c, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n > INT32_MAX)
		return error_set(err, -EINVAL, "net: fd '%s': give the number of an open descriptor", value);
	c->fd = (int)n;
	return set_kind(c, NET_FD, "", err);
}

static int set_socket(struct net_config *c, const char *value, struct lull_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "net: the path of the socket is empty");
	return set_kind(c, NET_SOCKET, value, err);
}

static int set_passt(struct net_config *c, const char *value, struct lull_error *err)
{
	return set_kind(c, NET_PASST, value, err);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_mac(const char *text, uint8_t mac[6])
{
	for (unsigned i = 0; i < 6; i++, text += 3) {
		int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
		if (low < 0 || text[2] != (i < 5 ? ':' : '\0'))
			return false;
		mac[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int set_mac(struct net_config *c, const char *value, struct lull_error *err)
{
	static const uint8_t zero[6];

	if (!parse_mac(value, c->mac))
		return error_set(err, -EINVAL, "net: mac '%s': give six bytes such as 02:00:00:00:00:01", value);
	if ((c->mac[0] & 1) || !memcmp(c->mac, zero, sizeof(zero)))
		return error_set(err, -EINVAL,
		                 "net: mac %s: is not the address of one interface; its first byte is even", value);
	c->has_mac = true;
	return 0;
}

static int set_mtu(struct net_config *c, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n < NET_MTU_MIN || n > NET_MTU_MAX)
		return error_set(err, -EINVAL, "net: mtu '%s': give %u to %u", value, NET_MTU_MIN, NET_MTU_MAX);
	c->mtu = (unsigned)n;
	return 0;
}

static int set_queues(struct net_config *c, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n < 1 || n > NET_PAIRS_MAX)
		return error_set(err, -EINVAL, "net: queues '%s': give 1 to %u", value, NET_PAIRS_MAX);
	c->pairs = (unsigned)n;
	return 0;
}

static int set_rate(struct net_config *c, const char *value, struct lull_error *err)
{
	if (!words_size(value, &c->bytes_per_second) || !c->bytes_per_second)
		return error_set(err, -EINVAL, "net: rate '%s': give bytes per second above 0, such as 10M", value);
	return 0;
}

static int set_name(struct net_config *c, const char *value, struct lull_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "net: the name is empty");
	free(c->name);
	c->name = strdup(value);
	return c->name ? 0 : no_memory(err);
}

static const struct key keys[] = {
	{"tap", TAKES_EITHER, set_tap},       {"fd", TAKES_VALUE, set_fd},     {"socket", TAKES_VALUE, set_socket},
	{"passt", TAKES_NO_VALUE, set_passt}, {"mac", TAKES_VALUE, set_mac},   {"mtu", TAKES_VALUE, set_mtu},
	{"queues", TAKES_VALUE, set_queues},  {"rate", TAKES_VALUE, set_rate}, {"name", TAKES_VALUE, set_name},
};

static int set_word(void *ctx, const char *word, bool is_first, struct lull_error *err)
{
	struct net_config *c = ctx;
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	(void)is_first;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strlen(keys[i].name) != len || strncmp(keys[i].name, word, len) != 0)
			continue;
		if (equals ? keys[i].takes == TAKES_NO_VALUE : keys[i].takes == TAKES_VALUE)
			return error_set(err, -EINVAL, "net: %s %s", keys[i].name,
			                 equals ? "takes no value" : "needs a value");
		return keys[i].set(c, equals ? equals + 1 : "", err);
	}
	return error_set(
		err, -EINVAL,
		"net: '%s' is not known; give tap=NAME, tap, fd=N, socket=PATH or passt, and any of mac=ADDRESS, "
		"mtu=N, queues=N, rate=BYTES, name=TEXT",
		word);
}

static int check(const struct net_config *c, const char *spec, struct lull_error *err)
{
	if (c->kind == NET_NONE)
		return error_set(err, -EINVAL,
		                 "net '%s': leads nowhere; give tap=NAME, tap, fd=N, socket=PATH or passt", spec);
	if (c->pairs > 1 && c->kind != NET_TAP)
		return error_set(err, -EINVAL, "net '%s': only a tap has several queues; leave queues out", spec);
	return 0;
}

int net_config_parse(struct net_config *config, const char *spec, struct lull_error *err)
{
	*config = (struct net_config){.fd = -1, .pairs = 1};
	int ret = words_each("net", spec, set_word, config, err);
	if (ret == 0)
		ret = check(config, spec, err);
	if (ret < 0)
		net_config_free(config);
	return ret;
}

void net_config_free(struct net_config *config)
{
	free(config->target);
	free(config->name);
	config->target = config->name = NULL;
}
