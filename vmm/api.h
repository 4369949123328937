/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - what the files that implement lull.h share. */
#ifndef LULL_API_H
#define LULL_API_H

#include "lull.h"

/* The caller's configuration, whatever its version, with the defaults filled in. Strings stay the caller's. */
int api_import_config(struct lull_config *dst, const struct lull_config *src, struct lull_error *err);

#endif
