/* SPDX-License-Identifier: Apache-2.0 */
/* cli_input.c - from standard input through the Ctrl-a keys into the pipe that is the guest's serial input. Reads only
 * when everything read before has found room in the pipe, and never again once the input has ended. */
#include "cli_input.h"

#include "cli_tty.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
	CTRL_A = 1
};

enum cli_key cli_input_key(bool *escaped, uint8_t byte, uint8_t out[2], size_t *len)
{
	bool second = *escaped;

	*len = 0;
	*escaped = byte == CTRL_A && !second;
	if (*escaped)
		return CLI_KEY_NONE;
	if (second) {
		switch (byte) {
		case 'h':
			return CLI_KEY_HELP;
		case 's':
			return CLI_KEY_STATS;
		case 'x':
			return CLI_KEY_STOP;
		case CTRL_A:
			break;
		default:
			out[(*len)++] = CTRL_A;
		}
	}
	out[(*len)++] = byte;
	return CLI_KEY_NONE;
}

/* A terminal may be read empty by others between poll() and read(): ours must not block, and O_NONBLOCK on the one we
 * inherited would be seen by them. */
static int open_stdin(void)
{
	int own = -1;

	if (isatty(STDIN_FILENO))
		own = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own < 0 ? STDIN_FILENO : own;
}

int cli_input_open(struct cli_input *input, void (*key)(void *ctx, enum cli_key key), void *ctx)
{
	int pipe_ends[2];

	if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	*input = (struct cli_input){.pipe_in = pipe_ends[0], .pipe_out = pipe_ends[1], .key = key, .ctx = ctx};
	input->in = open_stdin();
	input->paused = !cli_tty_may_read();
	return 0;
}

static void end_of_input(struct cli_input *input)
{
	if (input->in > STDERR_FILENO)
		close(input->in);
	input->in = -1;
}

void cli_input_close(struct cli_input *input)
{
	end_of_input(input);
	close(input->pipe_in);
	close(input->pipe_out);
}

void cli_input_before_poll(const struct cli_input *input, struct pollfd fds[2])
{
	bool full = input->done < input->len;

	fds[0] = (struct pollfd){.fd = full || input->paused ? -1 : input->in, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = full ? input->pipe_out : -1, .events = POLLOUT};
}

static void flush(struct cli_input *input)
{
	while (input->done < input->len) {
		ssize_t n = write(input->pipe_out, input->buf + input->done, input->len - input->done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) { /* the VM has let go of its end: nobody will read this */
			input->done = input->len;
			end_of_input(input);
			return;
		}
		input->done += (size_t)n;
	}
}

static void filter(struct cli_input *input, const uint8_t *bytes, size_t count)
{
	input->len = input->done = 0;
	for (size_t i = 0; i < count; i++) {
		uint8_t *out = input->buf + input->len;
		enum cli_key key = CLI_KEY_NONE;
		size_t len = 1;

		if (cli_tty_is_raw())
			key = cli_input_key(&input->escaped, bytes[i], out, &len);
		else
			*out = bytes[i];
		input->len += len;
		if (key != CLI_KEY_NONE)
			input->key(input->ctx, key);
	}
}

void cli_input_after_poll(struct cli_input *input, const struct pollfd fds[2])
{
	uint8_t bytes[4096];
	ssize_t n;

	if (fds[1].revents)
		flush(input);
	if (!fds[0].revents || input->in < 0)
		return;
	n = read(input->in, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* end of file, hang-up or a descriptor that cannot be read */
		end_of_input(input);
		return;
	}
	filter(input, bytes, (size_t)n);
	flush(input);
}
