/* SPDX-License-Identifier: Apache-2.0 */
/* cli_out.h - lines for people on standard error, which never stall the guest for long. */
#ifndef LULL_CLI_OUT_H
#define LULL_CLI_OUT_H

#include "lull.h"

/* "lull: " + text + newline. Any thread. */
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Several lines as they are. Any thread. */
void cli_text(const char *text);

/* For lull_config.log. Any thread; a line that nobody reads in time is dropped. */
void cli_log(void *ctx, enum lull_log_level level, const char *line);

#endif
