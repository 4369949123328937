/* SPDX-License-Identifier: Apache-2.0 */
/* cli_net.h - network interfaces that need more than a text: passt, a process for each. The library starts none, so the
 * command does and hands a socket over. */
#ifndef LULL_CLI_NET_H
#define LULL_CLI_NET_H

#include "options.h"

#include <sys/types.h>

/* Main thread only. */
struct cli_passt {
	pid_t pid;
	int fd;     /* our end; the library makes its own of it */
	char *text; /* what the library is told */
};

struct cli_net {
	const char *texts[OPTIONS_NETS_MAX];
	struct cli_passt passt[OPTIONS_NETS_MAX];
	unsigned passt_count;
};

/* Starts what config->nets asks for and lets them point here. -errno, after a line. */
int cli_net_open(struct cli_net *net, struct lull_config *config);
/* After the VM has gone, or before it came. */
void cli_net_close(struct cli_net *net);

/* The names of interfaces that were made for this VM. */
void cli_net_say(const struct lull_config *config, const struct lull_vm *vm);

#endif
