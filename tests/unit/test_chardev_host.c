/* SPDX-License-Identifier: Apache-2.0 */
/* The console's host ends: ptys, terminals and files, with somebody at the other end and without. */
#include "chardev_rig.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>

/* -------------------------------------------------------------------------------------- pty */

static int open_slave(struct rig *rig)
{
	int fd = open(chardev_path(rig->cd), O_RDWR | O_NOCTTY | O_NONBLOCK);
	assert_true(fd >= 0);
	return fd;
}

static void enter_arrives_as_cr(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, "pty");
	int user = open_slave(rig);
	assert_int_equal(write(user, "ls\r\n\x03\x04", 6), 6);
	rig_await_input(rig, 6);
	assert_got(rig, "ls\r\n\x03\x04");
	close(user);
}

static void a_pty_shows_output_unchanged_and_echoes_nothing(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, "pty");
	int user = open_slave(rig);
	rig_write(rig, "a\r\nb\rc\n\x03");
	rig_settle(rig);
	assert_reads(user, "a\r\nb\rc\n\x03");
	assert_got(rig, "");
	close(user);
}

static void a_pty_that_nobody_opened_costs_no_wakeups(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, "pty");
	rig_settle(rig);
	close(open_slave(rig));
	assert_int_equal(rig_settle(rig), 0);
	close(open_slave(rig)); /* somebody came and went */
	assert_int_equal(rig_settle(rig), 0);
	int user = open_slave(rig);
	rig_write(rig, "hello again");
	rig_settle(rig);
	assert_reads(user, "hello again");
	close(user);
}

static void a_pty_that_nobody_reads_drops_and_goes_on(void **state)
{
	struct rig *rig = *state;
	uint64_t arrived = 0, total = 0;
	char data[4096];

	rig_open(rig, "pty");
	for (int i = 0; i < 2000; i++) {
		rig_write(rig, "0123456789012345678901234567890123456789012345678901234567890123");
		total += 64;
		while (i % 16 == 0 && rig_step(rig, 0))
			;
	}
	rig_settle(rig);
	assert_true(chardev_dropped(rig->cd) > 0);
	assert_int_equal(rig_settle(rig), 0);
	int user = open_slave(rig);
	for (int tries = 0; tries < 1000 && arrived + chardev_dropped(rig->cd) < total; tries++) {
		poll(&(struct pollfd){.fd = user, .events = POLLIN}, 1, 10);
		ssize_t n = read(user, data, sizeof(data));
		arrived += n > 0 ? (uint64_t)n : 0;
		while (rig_step(rig, 0))
			;
	}
	assert_int_equal(arrived + chardev_dropped(rig->cd), total);
	close(user);
}

/* ------------------------------------------------------------------------ a shared terminal */

struct terminal {
	int master, slave;
};

static struct terminal make_terminal(void)
{
	struct terminal terminal = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)};
	char path[64];

	assert_true(terminal.master >= 0);
	assert_int_equal(unlockpt(terminal.master), 0);
	assert_int_equal(ptsname_r(terminal.master, path, sizeof(path)), 0);
	terminal.slave = open(path, O_RDWR | O_NOCTTY);
	assert_true(terminal.slave >= 0);
	return terminal;
}

static void a_terminal_keeps_its_mode_and_flags(void **state)
{
	struct rig *rig = *state;
	struct terminal terminal = make_terminal();
	struct termios before, after;
	char spec[32];

	tcgetattr(terminal.slave, &before);
	snprintf(spec, sizeof(spec), "fd=%d,%d", terminal.slave, terminal.slave);
	rig_open(rig, spec);
	rig_write(rig, "out");
	assert_int_equal(write(terminal.master, "in\n", 3), 3);
	rig_await_input(rig, 3);
	rig_settle(rig);
	assert_got(rig, "in\n");
	tcgetattr(terminal.slave, &after);
	assert_int_equal(before.c_lflag, after.c_lflag);
	assert_int_equal(before.c_iflag, after.c_iflag);
	assert_int_equal(fcntl(terminal.slave, F_GETFL) & O_NONBLOCK, 0);
	assert_int_not_equal(rig->cd->out.may_block, true);
	close(terminal.master);
	close(terminal.slave);
}

static void a_terminal_that_hangs_up_costs_no_wakeups(void **state)
{
	struct rig *rig = *state;
	struct terminal terminal = make_terminal();
	char spec[32];

	snprintf(spec, sizeof(spec), "fd=%d,%d", terminal.slave, terminal.slave);
	rig_open(rig, spec);
	rig_settle(rig);
	close(terminal.master);
	while (rig->cd->in.src.fd >= 0 && rig_step(rig, 1000))
		;
	assert_int_equal(rig->cd->in.src.fd, -1);
	rig_write(rig, "gone");
	rig_settle(rig);
	assert_int_equal(chardev_dropped(rig->cd), 4);
	rig_step(rig, 100);
	assert_int_equal(rig_settle(rig), 0);
	close(terminal.slave);
}

/* The master of a pty cannot be opened again, so that this is the path of bounded writes. */
static void a_blocking_descriptor_never_blocks_the_loop(void **state)
{
	struct rig *rig = *state;
	struct terminal terminal = make_terminal();
	struct termios raw;
	char spec[32];
	static const uint8_t much[CHARDEV_RING_BYTES];

	tcgetattr(terminal.slave, &raw);
	cfmakeraw(&raw);
	tcsetattr(terminal.slave, TCSANOW, &raw);
	fcntl(terminal.master, F_SETFL, 0);
	snprintf(spec, sizeof(spec), "fd=%d,%d", terminal.master, terminal.master);
	rig_open(rig, spec);
	assert_true(rig->cd->out.may_block);
	alarm(10);
	chardev_write(rig->cd, much, sizeof(much));
	while (rig->cd->output != OUTPUT_BLOCKED)
		rig_step(rig, 1000);
	assert_int_equal(rig_settle(rig), 0);
	assert_int_equal(write(terminal.slave, "x", 1), 1);
	rig_await_input(rig, 1);
	assert_got(rig, "x");
	chardev_detach(rig->cd, 5);
	alarm(0);
	assert_true(chardev_dropped(rig->cd) > 0);
	close(terminal.master);
	close(terminal.slave);
}

/* ------------------------------------------------------------------------------------ files */

static const char *file_spec(const struct rig *rig)
{
	static char spec[160];
	snprintf(spec, sizeof(spec), "file=%s", rig_path(rig));
	return spec;
}

static void assert_file(const struct rig *rig, const char *text)
{
	int fd = open(rig_path(rig), O_RDONLY | O_NONBLOCK);
	assert_reads(fd, text);
	close(fd);
}

static void a_file_begins_empty_and_gets_the_output(void **state)
{
	struct rig *rig = *state;
	int fd = open(rig_path(rig), O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "old old old", 11), 11);
	close(fd);
	rig_open(rig, file_spec(rig));
	rig_write(rig, "one\r\n");
	rig_settle(rig);
	rig_write(rig, "two\r\n");
	rig_settle(rig);
	assert_file(rig, "one\r\ntwo\r\n");
	unlink(rig_path(rig));
}

static void a_fifo_that_nobody_reads_yet_does_not_block(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(mkfifo(rig_path(rig), 0600), 0);
	alarm(10);
	rig_open(rig, file_spec(rig));
	rig_write(rig, "hello");
	rig_settle(rig);
	alarm(0);
	assert_file(rig, "hello");
	unlink(rig_path(rig));
}

/* A limit on the file's size stands for a disk that is full; it has a signal of its own. */
static void a_full_disk_is_counted_and_said_once(void **state)
{
	struct rig *rig = *state;
	struct rlimit old, small;

	rig_open(rig, file_spec(rig));
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){.rlim_cur = 4, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	rig_write(rig, "012345");
	rig_settle(rig);
	rig_write(rig, "67");
	rig_settle(rig);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(chardev_dropped(rig->cd), 4);
	assert_int_equal(rig->warnings, 1);
	assert_non_null(strstr(rig->warning, "output is lost (File too large)"));
	rig_write(rig, "89"); /* there is room again */
	rig_settle(rig);
	assert_file(rig, "012389");
	assert_int_equal(rig->warnings, 1);
	unlink(rig_path(rig));
}

static void a_device_without_space_is_given_up(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, "file=/dev/full");
	rig_write(rig, "0123");
	rig_settle(rig);
	rig_write(rig, "45");
	rig_settle(rig);
	assert_int_equal(chardev_dropped(rig->cd), 6);
	assert_int_equal(rig->warnings, 1);
	assert_non_null(strstr(rig->warning, "No space left on device"));
}

/* ---------------------------------------------------------------------------------- closing */

static unsigned descriptors(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 200; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void closing_gives_every_descriptor_back(void **state)
{
	struct rig *rig = *state;
	char socket[128];
	int pair[2];
	char fds[32];

	assert_int_equal(pipe(pair), 0);
	snprintf(fds, sizeof(fds), "fd=%d,%d", pair[0], pair[1]);
	snprintf(socket, sizeof(socket), "socket=%s", rig_path(rig));
	const char *const specs[] = {"null", "pty", "file=/dev/null", fds, socket};
	unsigned before = descriptors();
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		rig_open(rig, specs[i]);
		rig_write(rig, "x");
		rig_settle(rig);
		rig_close(rig);
		assert_int_equal(descriptors(), before);
	}
	chardev_close(NULL);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(enter_arrives_as_cr),
		WITH_RIG(a_pty_shows_output_unchanged_and_echoes_nothing),
		WITH_RIG(a_pty_that_nobody_opened_costs_no_wakeups),
		WITH_RIG(a_pty_that_nobody_reads_drops_and_goes_on),
		WITH_RIG(a_terminal_keeps_its_mode_and_flags),
		WITH_RIG(a_terminal_that_hangs_up_costs_no_wakeups),
		WITH_RIG(a_blocking_descriptor_never_blocks_the_loop),
		WITH_RIG(a_file_begins_empty_and_gets_the_output),
		WITH_RIG(a_fifo_that_nobody_reads_yet_does_not_block),
		WITH_RIG(a_full_disk_is_counted_and_said_once),
		WITH_RIG(a_device_without_space_is_given_up),
		WITH_RIG(closing_gives_every_descriptor_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
