/* SPDX-License-Identifier: Apache-2.0 */
/* cli_net.c - starts passt at one end of a socket, says how it ended, and lets none survive us. One that we cannot
 * stop, because we were killed, sees the socket close and ends by itself. */
#include "cli_net.h"

#include "cli_out.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PASST_FD = 3, /* its end of the socket, for it */
	WORDS_MAX = 64,
	STOP_MS = 1000,
};

extern char **environ;

/* "passt" or "passt=WORDS", maybe with more behind a comma. Returns what is behind "passt", or NULL. */
static const char *behind_passt(const char *spec)
{
	if (strncmp(spec, "passt", 5) != 0 || (spec[5] && spec[5] != ',' && spec[5] != '='))
		return NULL;
	return spec + 5;
}

/* Copies the words for passt, in which ",," is a comma, and returns what is behind them. */
static const char *take_words(const char *spec, char *words)
{
	if (*spec == '=')
		spec++;
	for (; *spec && (*spec != ',' || spec[1] == ','); spec++) {
		spec += *spec == ',';
		*words++ = *spec;
	}
	*words = '\0';
	return spec;
}

/* Its own process group: Ctrl-C and Ctrl-Z are for us, and the guest needs its network to shut down. */
static int spawn(struct cli_passt *p, int fd, char *const argv[])
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, pipe;

	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &pipe);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", 0, 0);
	posix_spawn_file_actions_adddup2(&files, fd, PASST_FD);
	int ret = -posix_spawnp(&p->pid, argv[0], &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return ret;
}

static int start_words(struct cli_passt *p, int fd, const char *words)
{
	char *argv[WORDS_MAX + 1] = {NULL}, *line, *word;
	unsigned argc = 0;

	if (asprintf(&line, "passt --foreground --quiet --fd %d %s", PASST_FD, words) < 0)
		return -ENOMEM;
	for (char *rest = line; (word = strsep(&rest, " "));)
		if (*word && argc < WORDS_MAX)
			argv[argc++] = word;
	int ret = argv[0] ? spawn(p, fd, argv) : -EINVAL;
	if (ret == -ENOENT)
		cli_say("net passt: is not installed; on Debian: apt install passt");
	else if (ret)
		cli_say("net passt: cannot be started: %s", strerror(-ret));
	free(line);
	return ret;
}

static int start(struct cli_passt *p, const char *behind)
{
	char *words = strdup(behind);
	int fds[2] = {-1, -1}, ret = words ? 0 : -ENOMEM;

	*p = (struct cli_passt){.pid = -1, .fd = -1};
	const char *rest = words ? take_words(behind, words) : NULL;
	if (ret == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		ret = -errno;
	if (ret < 0)
		cli_say("net passt: %s", strerror(-ret));
	p->fd = fds[0];
	if (ret == 0)
		ret = start_words(p, fds[1], words);
	if (ret == 0 && asprintf(&p->text, "fd=%d,name=passt%s", p->fd, rest) < 0) {
		p->text = NULL;
		ret = -ENOMEM;
	}
	if (fds[1] >= 0)
		close(fds[1]);
	free(words);
	return ret;
}

int cli_net_open(struct cli_net *net, struct lull_config *config)
{
	net->passt_count = 0;
	for (uint32_t i = 0; i < config->net_count; i++) {
		const char *behind = behind_passt(config->nets[i]);

		net->texts[i] = config->nets[i];
		if (!behind)
			continue;
		struct cli_passt *p = &net->passt[net->passt_count++];
		int ret = start(p, behind);
		if (ret) {
			cli_net_close(net);
			return ret;
		}
		net->texts[i] = p->text;
	}
	config->nets = net->texts;
	return 0;
}

static void say_ended(int status)
{
	if (WIFSIGNALED(status))
		cli_say("net passt: the process was ended by signal %d (%s) while the guest ran", WTERMSIG(status),
		        strsignal(WTERMSIG(status)));
	else
		cli_say("net passt: the process ended with status %d while the guest ran", WEXITSTATUS(status));
}

static void stop(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) == pid) {
		say_ended(status);
		return;
	}
	kill(pid, SIGTERM);
	for (unsigned ms = 0; ms < STOP_MS; ms++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return;
		usleep(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

void cli_net_close(struct cli_net *net)
{
	for (unsigned i = 0; i < net->passt_count; i++) {
		struct cli_passt *p = &net->passt[i];
		if (p->pid > 0)
			stop(p->pid);
		if (p->fd >= 0)
			close(p->fd);
		free(p->text);
	}
	net->passt_count = 0;
}

void cli_net_say(const struct lull_config *config, const struct lull_vm *vm)
{
	for (uint32_t i = 0; i < config->net_count; i++)
		if (strcmp(config->nets[i], "tap") == 0 || strncmp(config->nets[i], "tap,", 4) == 0)
			cli_say("net %u: %s", i, lull_vm_net_interface(vm, i));
}
