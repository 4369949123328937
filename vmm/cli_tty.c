/* SPDX-License-Identifier: Apache-2.0 */
/* cli_tty.c - the terminal: raw while the guest has it, as it was before on every way out, fatal signals included. One
 * process has one terminal, so its state is at file scope; the signal handler needs it there. */
#include "cli_tty.h"

#include <signal.h>
#include <stdatomic.h>
#include <termios.h>
#include <unistd.h>

static struct termios before; /* written while raw is false */
static bool saved;            /* before is valid */
static atomic_bool raw;

/* What ends a process by default and is not taken by the run loop. */
static const int fatal_signals[] = {
	SIGSEGV, SIGBUS,  SIGILL,    SIGFPE,  SIGABRT, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ, SIGALRM,
	SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGHUP, SIGINT,  SIGQUIT, SIGTERM,
};

/* Entered with all signals blocked, SIGTTOU too: tcsetattr() works from the background then. */
static void restore_and_die(int signo)
{
	if (atomic_exchange(&raw, false))
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(signo); /* SA_RESETHAND: the default action, once this handler returns */
}

static void guard_fatal_signals(void)
{
	struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(fatal_signals[0]); i++)
		if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(fatal_signals[i], &action, NULL);
}

static bool in_foreground(void)
{
	pid_t group = tcgetpgrp(STDIN_FILENO);

	return group < 0 || group == getpgrp(); /* < 0: a terminal without job control */
}

bool cli_tty_may_read(void)
{
	return !isatty(STDIN_FILENO) || in_foreground();
}

static bool looks_raw(const struct termios *now)
{
	return !(now->c_lflag & (ICANON | ECHO | ISIG));
}

bool cli_tty_enter(void)
{
	struct termios now, guest;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !in_foreground() || tcgetattr(STDIN_FILENO, &now) < 0) {
		atomic_store(&raw, false); /* whoever has the terminal now has set it */
		return false;
	}
	if (cli_tty_is_raw() && looks_raw(&now))
		return true;
	atomic_store(&raw, false);
	guest = now;
	if (!saved || !looks_raw(&now)) /* raw since we had it: nobody has set it in between */
		before = now;
	saved = true;
	cfmakeraw(&guest);
	/* Output stays processed: guests that end lines with a bare newline are readable, \r\n is still \r\n. */
	guest.c_oflag = now.c_oflag;
	guard_fatal_signals();
	atomic_store(&raw, true);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &guest) < 0) {
		atomic_store(&raw, false);
		return false;
	}
	return true;
}

void cli_tty_leave(void)
{
	sigset_t ttou, old;

	if (!cli_tty_is_raw())
		return;
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &ttou, &old);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	atomic_store(&raw, false);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

bool cli_tty_is_raw(void)
{
	return atomic_load(&raw);
}
