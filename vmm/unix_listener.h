/* SPDX-License-Identifier: Apache-2.0 */
/* unix_listener.h - a unix stream socket that listens at a path of the host's, and its file. */
#ifndef LULL_UNIX_LISTENER_H
#define LULL_UNIX_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

struct lull_error;

struct unix_listener {
	int fd; /* does not block; -1: none */
	struct sockaddr_un address;
	dev_t dev; /* which file we made: another process may have taken the name since */
	ino_t ino;
	bool has_file;
};

/* Replaces the file of a socket that nobody serves any more, and refuses everything else that is there. what names the
 * device in messages. After a failure unix_listener_close() is harmless. */
int unix_listener_open(struct unix_listener *l, const char *what, const char *path, int backlog,
                       struct lull_error *err);
/* Removes the file if it is still ours. */
void unix_listener_close(struct unix_listener *l);

#endif
