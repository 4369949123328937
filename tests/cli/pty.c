/* SPDX-License-Identifier: Apache-2.0 */
/* pty.c - runs a command as the foreground job of a terminal of its own and plays a script on it.
 *
 * usage: pty COMMAND [ARGUMENT]...   (script on standard input, one step per line)
 *   expect TEXT    wait until TEXT appears in what the terminal shows, after what was expected before
 *   send TEXT      type TEXT (\xNN, \r, \n and \\ are understood)
 *   signal N       send signal number N to the command
 *   mode raw|cooked  wait until the terminal is in that mode; cooked: exactly as it was at first
 *   stopped        wait until the command has stopped
 *   foreground     make the command the foreground job, and continue it
 *   background     make somebody else the foreground job
 *   idle           no thread of the command runs for half a second
 *   exit N         wait until the command has ended with exit code N (128 + n: by signal n)
 * Exit code: 0 when every step worked, else 1, and the step and what the terminal showed are printed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum {
	PATIENCE_MS = 10000
};

static int master, slave;
static pid_t child;
static struct termios at_first;
static char shown[1 << 16];
static size_t shown_len, expected; /* shown[0..expected) has been asked for */

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void listen_for(int ms)
{
	struct pollfd fd = {.fd = master, .events = POLLIN};
	ssize_t n;

	if (poll(&fd, 1, ms) != 1 || shown_len + 1 >= sizeof(shown))
		return;
	n = read(master, shown + shown_len, sizeof(shown) - 1 - shown_len);
	if (n > 0)
		shown_len += (size_t)n;
	shown[shown_len] = '\0';
}

static size_t unescape(char *text)
{
	char *out = text;

	for (char *in = text; *in; in++) {
		if (*in != '\\') {
			*out++ = *in;
		} else if (*++in == 'x') {
			char hex[3] = {in[1], in[2], 0};

			*out++ = (char)strtol(hex, NULL, 16);
			in += 2;
		} else {
			*out++ = *in == 'r' ? '\r' : *in == 'n' ? '\n' : *in;
		}
	}
	*out = '\0';
	return (size_t)(out - text);
}

static bool expect(const char *text)
{
	for (long end = now_ms() + PATIENCE_MS; now_ms() < end; listen_for(50)) {
		char *at = strstr(shown + expected, text);

		if (at) {
			expected = (size_t)(at - shown) + strlen(text);
			return true;
		}
	}
	return false;
}

static bool in_mode(const char *mode)
{
	for (long end = now_ms() + PATIENCE_MS; now_ms() < end; listen_for(20)) {
		struct termios now;
		bool same;

		tcgetattr(slave, &now);
		same = now.c_iflag == at_first.c_iflag && now.c_oflag == at_first.c_oflag &&
		       now.c_cflag == at_first.c_cflag && now.c_lflag == at_first.c_lflag &&
		       memcmp(now.c_cc, at_first.c_cc, sizeof(now.c_cc)) == 0;
		if (strcmp(mode, "cooked") == 0 ? same : !(now.c_lflag & (ICANON | ECHO | ISIG)))
			return true;
	}
	return false;
}

static bool ended(int code)
{
	for (long end = now_ms() + PATIENCE_MS; now_ms() < end; listen_for(20)) {
		int status;

		if (waitpid(child, &status, WNOHANG) != child)
			continue;
		child = 0;
		listen_for(0);
		status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		if (status != code)
			printf("# exit code %d\n", status);
		return status == code;
	}
	return false;
}

static bool stopped(void)
{
	for (long end = now_ms() + PATIENCE_MS; now_ms() < end; listen_for(20)) {
		int status;

		if (waitpid(child, &status, WNOHANG | WUNTRACED) == child)
			return WIFSTOPPED(status);
	}
	return false;
}

/* Context switches and run time of all threads, as one text. */
static void activity(char *text, size_t size)
{
	char command[160];
	FILE *out;
	size_t n;

	snprintf(command, sizeof(command),
	         "cd /proc/%d/task && grep -h ctxt_switches */status; cut -d' ' -f14,15 */stat", (int)child);
	out = popen(command, "r");
	n = fread(text, 1, size - 1, out);
	text[n] = '\0';
	pclose(out);
}

static bool idle(void)
{
	char before[8192], after[8192];

	for (long end = now_ms() + PATIENCE_MS; now_ms() < end;) {
		activity(before, sizeof(before));
		usleep(500000);
		activity(after, sizeof(after));
		if (*before && strcmp(before, after) == 0)
			return true;
	}
	return false;
}

static bool step(char *line)
{
	char *arg = strchr(line, ' ');

	if (arg)
		*arg++ = '\0';
	else
		arg = line + strlen(line);
	if (strcmp(line, "expect") == 0)
		return unescape(arg), expect(arg);
	if (strcmp(line, "send") == 0) {
		ssize_t len = (ssize_t)unescape(arg);

		return write(master, arg, (size_t)len) == len;
	}
	if (strcmp(line, "signal") == 0)
		return kill(child, atoi(arg)) == 0;
	if (strcmp(line, "mode") == 0)
		return in_mode(arg);
	if (strcmp(line, "stopped") == 0)
		return stopped();
	if (strcmp(line, "foreground") == 0)
		return tcsetpgrp(slave, child) == 0 && kill(child, SIGCONT) == 0;
	if (strcmp(line, "background") == 0)
		return tcsetpgrp(slave, getpgrp()) == 0;
	if (strcmp(line, "idle") == 0)
		return idle();
	return strcmp(line, "exit") == 0 && ended(atoi(arg));
}

static void start(char **command)
{
	setsid();
	signal(SIGTTOU, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	grantpt(master);
	unlockpt(master);
	slave = open(ptsname(master), O_RDWR | O_CLOEXEC);
	tcgetattr(slave, &at_first);
	child = fork();
	if (child == 0) {
		setpgid(0, 0);
		tcsetpgrp(slave, getpid());
		for (int fd = 0; fd <= 2; fd++)
			dup2(slave, fd);
		for (int signo = 1; signo < 32; signo++)
			signal(signo, SIG_DFL);
		execvp(command[0], command);
		_exit(127);
	}
	setpgid(child, child);
}

/* As the leader of a session, which the caller may not be able to become. */
static int play(char **command)
{
	char *line = NULL;
	size_t size = 0;
	int number = 0;

	start(command);
	while (getline(&line, &size, stdin) > 0) {
		line[strcspn(line, "\n")] = '\0';
		number++;
		if (!*line || step(line))
			continue;
		listen_for(0);
		printf("# step %d (%s) failed; the terminal showed:\n# ", number, line);
		for (size_t i = 0; i < shown_len; i++)
			printf(shown[i] == '\n' ? "\n# " : "%c", shown[i]);
		putchar('\n');
		fflush(stdout);
		if (child)
			kill(child, SIGKILL);
		return 1;
	}
	if (child)
		kill(child, SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t leader;
	int status;

	if (argc < 2)
		return 1;
	leader = fork();
	if (leader == 0)
		return play(argv + 1);
	return waitpid(leader, &status, 0) == leader && status == 0 ? 0 : 1;
}
