/* SPDX-License-Identifier: Apache-2.0 */
/* cli_out.c - lines for people on standard error, which never stall the guest for long: a line is written when there is
 * room for it, waited for a little when it matters, and dropped otherwise. */
#include "cli_out.h"

#include "cli_tty.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	PIECE = 1024,       /* a writable pipe takes this much without blocking */
	PATIENCE_MS = 1000, /* for what must not get lost */
};

/* Keeps lines whole, and one writer's room its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(const char *text, size_t len, int wait_ms)
{
	while (len > 0) {
		struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
		ssize_t n;

		if (poll(&room, 1, wait_ms) != 1)
			return;
		n = write(STDERR_FILENO, text, len < PIECE ? len : PIECE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

/* A raw terminal may not turn a newline into the start of the next line by itself. */
static void put_lines(const char *prefix, const char *text, int wait_ms)
{
	const char *end = cli_tty_is_raw() ? "\r\n" : "\n";
	char line[PIECE];

	pthread_mutex_lock(&lock);
	while (*text) {
		int len = (int)strcspn(text, "\n");
		int n = snprintf(line, sizeof(line), "%s%.*s%s", prefix, len < 900 ? len : 900, text, end);

		put(line, (size_t)n, wait_ms);
		text += len;
		text += *text == '\n';
	}
	pthread_mutex_unlock(&lock);
}

void cli_say(const char *fmt, ...)
{
	char text[900];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put_lines("lull: ", text, PATIENCE_MS);
}

void cli_text(const char *text)
{
	put_lines("", text, PATIENCE_MS);
}

void cli_log(void *ctx, enum lull_log_level level, const char *line)
{
	(void)ctx;
	put_lines("lull: ", line, level == LULL_LOG_ERROR ? PATIENCE_MS : 0);
}
