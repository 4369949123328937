/* SPDX-License-Identifier: Apache-2.0 */
/* cli_input.h - from standard input through the Ctrl-a keys into the pipe that is the guest's serial input. */
#ifndef LULL_CLI_INPUT_H
#define LULL_CLI_INPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_key {
	CLI_KEY_NONE,
	CLI_KEY_HELP,  /* Ctrl-a h */
	CLI_KEY_STATS, /* Ctrl-a s */
	CLI_KEY_STOP,  /* Ctrl-a x */
};

/* One byte typed. Puts what the guest gets into out, and its count into *len; Ctrl-a Ctrl-a is one Ctrl-a, and before
 * any other key that means nothing to us Ctrl-a is passed on with it. *escaped: zero at first. */
enum cli_key cli_input_key(bool *escaped, uint8_t byte, uint8_t out[2], size_t *len);

/* Main thread only. */
struct cli_input {
	int in;           /* stdin, or a private descriptor for it; -1: ended or not used */
	int pipe_in;      /* what the guest reads; the caller's to close */
	int pipe_out;     /* non-blocking */
	bool paused;      /* stdin is a terminal that belongs to somebody else now */
	bool escaped;     /* Ctrl-a was the last key */
	size_t len, done; /* buf[done..len) is still to go into the pipe */
	uint8_t buf[2 * 4096];
	void (*key)(void *ctx, enum cli_key key);
	void *ctx;
};

/* 0 or -errno. keys are looked for only when the terminal is raw. */
int cli_input_open(struct cli_input *input, void (*key)(void *ctx, enum cli_key key), void *ctx);
void cli_input_close(struct cli_input *input);

/* Fills two poll entries; a descriptor there is nothing to expect from gets -1 and so costs nothing. */
void cli_input_before_poll(const struct cli_input *input, struct pollfd fds[2]);
void cli_input_after_poll(struct cli_input *input, const struct pollfd fds[2]);

#endif
