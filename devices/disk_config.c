// SPDX-License-Identifier: Apache-2.0
/* disk_config.c - reads what `--disk` says. Opens nothing. */
#include "disk_config.h"

#include "error.h"
#include "util.h"
#include "words.h"

#include <errno.h>
#include <string.h>

struct key {
	const char *name;
	bool takes_value;
	int (*set)(struct disk_config *c, const char *value, struct lull_error *err);
};

static int set_path(struct disk_config *c, const char *value, struct lull_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "disk: the path is empty");
	free(c->path);
	c->path = strdup(value);
	return c->path ? 0 : error_set(err, -ENOMEM, "disk: out of memory");
}

static int set_ro(struct disk_config *c, const char *value, struct lull_error *err)
{
	(void)value, (void)err;
	c->read_only = true;
	return 0;
}

static int set_direct(struct disk_config *c, const char *value, struct lull_error *err)
{
	(void)value, (void)err;
	c->direct = true;
	return 0;
}

static int set_serial(struct disk_config *c, const char *value, struct lull_error *err)
{
	if (strlen(value) > DISK_SERIAL_BYTES)
		return error_set(err, -EINVAL, "disk: serial '%s' has more than %d characters", value,
		                 DISK_SERIAL_BYTES);
	for (const char *p = value; *p; p++)
		if (*p <= ' ' || *p > '~')
			return error_set(err, -EINVAL, "disk: a serial is made of visible ASCII characters");
	snprintf(c->serial, sizeof(c->serial), "%s", value);
	return 0;
}

static int set_queues(struct disk_config *c, const char *value, struct lull_error *err)
{
	uint64_t n;

	if (!words_size(value, &n) || n < 1 || n > DISK_QUEUES_MAX)
		return error_set(err, -EINVAL, "disk: queues '%s': give 1 to %u", value, DISK_QUEUES_MAX);
	c->queues = (unsigned)n;
	return 0;
}

static int set_engine(struct disk_config *c, const char *value, struct lull_error *err)
{
	if (!strcmp(value, "sync"))
		c->engine = DISK_ENGINE_SYNC;
	else if (!strcmp(value, "io_uring"))
		c->engine = DISK_ENGINE_IO_URING;
	else
		return error_set(err, -EINVAL, "disk: engine '%s': give sync or io_uring", value);
	return 0;
}

static int set_rate(struct disk_config *c, const char *value, struct lull_error *err)
{
	if (!words_size(value, &c->bytes_per_second) || !c->bytes_per_second)
		return error_set(err, -EINVAL, "disk: rate '%s': give bytes per second above 0, such as 50M", value);
	return 0;
}

static int set_iops(struct disk_config *c, const char *value, struct lull_error *err)
{
	if (!words_size(value, &c->ops_per_second) || !c->ops_per_second)
		return error_set(err, -EINVAL, "disk: iops '%s': give requests per second above 0, such as 1000",
		                 value);
	return 0;
}

static const struct key keys[] = {
	{"path", true, set_path},     {"ro", false, set_ro},        {"direct", false, set_direct},
	{"serial", true, set_serial}, {"queues", true, set_queues}, {"engine", true, set_engine},
	{"rate", true, set_rate},     {"iops", true, set_iops},
};

static int set_word(void *ctx, const char *word, bool is_first, struct lull_error *err)
{
	struct disk_config *c = ctx;
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strlen(keys[i].name) != len || strncmp(keys[i].name, word, len) != 0)
			continue;
		if (!equals && keys[i].takes_value)
			break;
		if (equals && !keys[i].takes_value)
			return error_set(err, -EINVAL, "disk: %s takes no value", keys[i].name);
		return keys[i].set(c, equals ? equals + 1 : "", err);
	}
	if (is_first && !equals)
		return set_path(c, word, err);
	return error_set(err, -EINVAL,
	                 "disk: '%s' is not known; give path=FILE and any of ro, direct, serial=TEXT, queues=N, "
	                 "engine=sync|io_uring, rate=BYTES, iops=N",
	                 word);
}

int disk_config_parse(struct disk_config *config, const char *spec, struct lull_error *err)
{
	*config = (struct disk_config){.queues = 1};
	int ret = words_each("disk", spec, set_word, config, err);
	if (ret == 0 && !config->path)
		ret = error_set(err, -EINVAL, "disk '%s': no file is named; give path=FILE", spec);
	if (ret < 0)
		disk_config_free(config);
	return ret;
}

void disk_config_free(struct disk_config *config)
{
	free(config->path);
	config->path = NULL;
}
