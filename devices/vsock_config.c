// SPDX-License-Identifier: Apache-2.0
/* vsock_config.c - reads what `--vsock` says. Opens nothing. */
#include "vsock_config.h"

#include "error.h"
#include "util.h"
#include "words.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

#define PATH_MAX_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("_4294967295"))

static int set_cid(struct vsock_config *c, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n < VSOCK_CID_MIN || n >= UINT32_MAX)
		return error_set(err, -EINVAL, "vsock: cid '%s': give a number from %d to %u", value, VSOCK_CID_MIN,
		                 UINT32_MAX - 1);
	c->cid = (uint32_t)n;
	return 0;
}

static int set_socket(struct vsock_config *c, const char *value, struct lull_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "vsock: the path of the socket is empty");
	if (strlen(value) > PATH_MAX_BYTES)
		return error_set(err, -EINVAL,
		                 "vsock: socket %s: the path has %zu characters, %zu leave room for _PORT behind it",
		                 value, strlen(value), PATH_MAX_BYTES);
	free(c->path);
	c->path = strdup(value);
	return c->path ? 0 : error_set(err, -ENOMEM, "vsock: out of memory");
}

static int set_word(void *ctx, const char *word, bool is_first, struct lull_error *err)
{
	struct vsock_config *c = ctx;
	(void)is_first;
	if (!strncmp(word, "cid=", 4))
		return set_cid(c, word + 4, err);
	if (!strncmp(word, "socket=", 7))
		return set_socket(c, word + 7, err);
	return error_set(err, -EINVAL, "vsock: '%s' is not known; give cid=N,socket=PATH", word);
}

int vsock_config_parse(struct vsock_config *config, const char *spec, struct lull_error *err)
{
	*config = (struct vsock_config){0};
	int ret = words_each("vsock", spec, set_word, config, err);
	if (ret == 0 && (!config->cid || !config->path))
		ret = error_set(err, -EINVAL, "vsock '%s': %s is missing; give cid=N,socket=PATH", spec,
		                config->cid ? "socket" : "cid");
	if (ret < 0)
		vsock_config_free(config);
	return ret;
}

void vsock_config_free(struct vsock_config *config)
{
	free(config->path);
	config->path = NULL;
}
