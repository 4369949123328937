/* SPDX-License-Identifier: Apache-2.0 */
/* chardev_rig.h - a chardev whose loop the test steps itself, so that every wake-up counts and none has to be waited
 * for in hope. */
#ifndef LULL_TESTS_CHARDEV_RIG_H
#define LULL_TESTS_CHARDEV_RIG_H

#include "chardev.h"
#include "chardev_internal.h"
#include "lull.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
	struct event_loop loop;
	struct log log;
	struct chardev *cd;
	struct chardev_user user;
	unsigned warnings;
	char warning[512];

	size_t room; /* the device's */
	size_t got;
	uint8_t input[4096];
	unsigned drained;
	char dir[64]; /* for files */
};

static size_t rig_room(void *ctx)
{
	const struct rig *rig = ctx;
	return rig->room;
}

static void rig_input(void *ctx, const uint8_t *data, size_t len)
{
	struct rig *rig = ctx;
	if (len > rig->room || rig->got + len > sizeof(rig->input))
		fail_msg("%zu bytes into room for %zu", len, rig->room);
	memcpy(rig->input + rig->got, data, len);
	rig->got += len;
	rig->room -= len;
}

static void rig_drained(void *ctx)
{
	struct rig *rig = ctx;
	rig->drained++;
}

static void rig_log(void *ctx, enum lull_log_level level, const char *line)
{
	struct rig *rig = ctx;
	if (level <= LULL_LOG_WARN) {
		rig->warnings++;
		snprintf(rig->warning, sizeof(rig->warning), "%s", line);
	}
}

static void rig_open(struct rig *rig, const char *spec)
{
	struct lull_error err;

	rig->room = sizeof(rig->input);
	rig->cd = chardev_open(spec, &rig->log, &err);
	if (!rig->cd)
		fail_msg("%s: %s", spec, err.text);
	chardev_connect(rig->cd, &rig->user);
	assert_int_equal(chardev_attach(rig->cd, &rig->loop), 0);
}

/* One event, if there is one within the time. */
static bool rig_step(struct rig *rig, int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(rig->loop.epoll_fd, &event, 1, timeout_ms) != 1)
		return false;
	const struct event_source *src = event.data.ptr;
	src->fn(src->ctx, event.events);
	return true;
}

/* Steps until the loop would sleep for ever: nothing is ready and no timer runs. Returns the number of wake-ups;
 * something that keeps waking it fails the test. */
static unsigned rig_settle(struct rig *rig)
{
	unsigned steps = 0;

	while (rig_step(rig, rig->cd->output == OUTPUT_HELD || rig->cd->output == OUTPUT_AWAKE ? 1000 : 0))
		if (++steps == 500)
			fail_msg("the loop never sleeps");
	return steps;
}

static void rig_write(struct rig *rig, const char *text)
{
	chardev_write(rig->cd, (const uint8_t *)text, strlen(text));
}

static void rig_close(struct rig *rig)
{
	if (rig->cd)
		chardev_detach(rig->cd, 0);
	chardev_close(rig->cd);
	rig->cd = NULL;
}

static int rig_set_up(void **state)
{
	static struct rig rig;

	memset(&rig, 0, sizeof(rig));
	rig.log = (struct log){.fn = rig_log, .ctx = &rig, .level = LULL_LOG_DEBUG};
	rig.user = (struct chardev_user){.room = rig_room, .input = rig_input, .drained = rig_drained, .ctx = &rig};
	strcpy(rig.dir, "/tmp/lull-chardev-XXXXXX");
	if (!mkdtemp(rig.dir) || event_loop_init(&rig.loop) < 0)
		return -1;
	*state = &rig;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *rig = *state;

	rig_close(rig);
	event_loop_fini(&rig->loop);
	return rmdir(rig->dir); /* a test that leaves a file behind fails */
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, rig_set_up, rig_tear_down)

/* Reads exactly the text: it is there, or comes by itself (terminals hand over by a kernel thread). */
static inline void assert_reads(int fd, const char *text)
{
	char data[4096];
	size_t want = strlen(text), got = 0;
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	while (poll(&pfd, 1, got < want ? 1000 : 0) > 0) {
		ssize_t n = read(fd, data + got, sizeof(data) - 1 - got);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	data[got] = '\0';
	assert_string_equal(data, text);
}

/* What was typed at a terminal arrives a little later. */
static inline void rig_await_input(struct rig *rig, size_t len)
{
	while (rig->got < len && rig_step(rig, 1000))
		;
}

static inline void assert_got(const struct rig *rig, const char *text)
{
	assert_int_equal(rig->got, strlen(text));
	assert_memory_equal(rig->input, text, rig->got);
}

/* A pipe of which the chardev gets one end. */
struct ends {
	int read, write;
};

static inline struct ends pipe_for(struct rig *rig, bool for_output)
{
	int fd[2];
	char spec[32];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	if (for_output)
		snprintf(spec, sizeof(spec), "fd=-1,%d", fd[1]);
	else
		snprintf(spec, sizeof(spec), "fd=%d,-1", fd[0]);
	rig_open(rig, spec);
	rig_settle(rig);
	return (struct ends){.read = fd[0], .write = fd[1]};
}

static inline void close_both(struct ends ends)
{
	close(ends.read);
	if (ends.write >= 0)
		close(ends.write);
}

/* A name that the test may make and must remove. */
static inline const char *rig_path(const struct rig *rig)
{
	static char path[100];
	snprintf(path, sizeof(path), "%s/console", rig->dir);
	return path;
}

#endif
