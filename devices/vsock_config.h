/* SPDX-License-Identifier: Apache-2.0 */
/* vsock_config.h - what `--vsock` says, as text and as values. */
#ifndef LULL_VSOCK_CONFIG_H
#define LULL_VSOCK_CONFIG_H

#include <stdint.h>

struct lull_error;

enum {
	VSOCK_CID_HOST = 2,
	VSOCK_CID_MIN = 3, /* virtio 1.2, 5.10.4: what is below is reserved */
};

struct vsock_config {
	uint32_t cid; /* the guest's */
	char *path;   /* owned, or NULL; short enough for "_PORT" behind it */
};

/* "cid=N,socket=PATH"; ",," in the path stands for a comma. -EINVAL with a text. */
int vsock_config_parse(struct vsock_config *config, const char *spec, struct lull_error *err);
void vsock_config_free(struct vsock_config *config);

#endif
