/* SPDX-License-Identifier: Apache-2.0 */
/* The console's host ends: ptys, terminals, sockets and files, with somebody at the other end and without. */
#include "chardev_rig.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* ----------------------------------------------------------------------------------- socket */

static const char *socket_path(const struct rig *rig)
{
	static char path[100];
	snprintf(path, sizeof(path), "%s/console", rig->dir);
	return path;
}

static const char *socket_spec(const struct rig *rig)
{
	static char spec[160];
	snprintf(spec, sizeof(spec), "socket=%s", socket_path(rig));
	return spec;
}

static struct sockaddr_un address_of(const struct rig *rig)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path(rig));
	return address;
}

static int client(const struct rig *rig)
{
	struct sockaddr_un address = address_of(rig);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int server(const struct rig *rig)
{
	struct sockaddr_un address = address_of(rig);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void a_client_talks_both_ways(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	assert_string_equal(chardev_path(rig->cd), socket_path(rig));
	int fd = client(rig);
	assert_int_equal(write(fd, "in", 2), 2);
	rig_write(rig, "out");
	rig_settle(rig);
	assert_got(rig, "in");
	assert_reads(fd, "out");
	close(fd);
}

static void the_first_client_sees_what_was_said_before(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	rig_write(rig, "boot ");
	rig_settle(rig);
	rig_write(rig, "log");
	assert_int_equal(rig_settle(rig), 0); /* nobody is there: nothing to wake for */
	int fd = client(rig);
	rig_settle(rig);
	assert_reads(fd, "boot log");
	close(fd);
}

static void second_client_is_refused(void **state)
{
	struct rig *rig = *state;
	char byte;

	rig_open(rig, socket_spec(rig));
	int first = client(rig);
	rig_settle(rig);
	int second = client(rig);
	rig_settle(rig);
	assert_reads(second, "lull: another client is connected\r\n");
	assert_int_equal(read(second, &byte, 1), 0);
	rig_write(rig, "still here");
	rig_settle(rig);
	assert_reads(first, "still here");
	close(first);
	close(second);
}

static void a_client_can_come_back(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	for (int i = 0; i < 20; i++) {
		int fd = client(rig);
		rig_settle(rig);
		rig_write(rig, "hello");
		rig_settle(rig);
		assert_reads(fd, "hello");
		close(fd);
		rig_settle(rig);
		assert_int_equal(rig_settle(rig), 0);
	}
	assert_int_equal(rig->warnings, 0);
	assert_int_equal(chardev_dropped(rig->cd), 0);
}

static void a_client_that_left_unseen_gives_way(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	rig->room = 1;
	int first = client(rig);
	assert_int_equal(write(first, "abc", 3), 3);
	rig_settle(rig);
	assert_got(rig, "a");
	close(first); /* the device has no room: nobody looks at its input */
	assert_int_equal(rig_settle(rig), 0);
	int second = client(rig);
	rig_settle(rig);
	rig_write(rig, "welcome");
	rig_settle(rig);
	assert_reads(second, "welcome");
	close(second);
}

static void a_client_that_does_not_read_stops_nobody(void **state)
{
	struct rig *rig = *state;
	static const uint8_t much[CHARDEV_RING_BYTES];

	rig_open(rig, socket_spec(rig));
	int fd = client(rig);
	for (int i = 0; i < 20; i++) {
		chardev_write(rig->cd, much, sizeof(much));
		rig_settle(rig);
	}
	assert_true(chardev_dropped(rig->cd) > 0);
	assert_int_equal(write(fd, "x", 1), 1);
	rig_settle(rig);
	assert_got(rig, "x");
	close(fd);
	rig_settle(rig);
	assert_int_equal(rig->warnings, 0);
}

static void stale_socket_is_replaced(void **state)
{
	struct rig *rig = *state;
	close(server(rig)); /* its file stays, as after a crash */
	rig_open(rig, socket_spec(rig));
	int fd = client(rig);
	rig_write(rig, "x");
	rig_settle(rig);
	assert_reads(fd, "x");
	close(fd);
}

static void refused(const char *spec, int code, const char *text)
{
	struct lull_error err = {0};
	assert_null(chardev_open(spec, NULL, &err));
	if (err.code != code || !strstr(err.text, text))
		fail_msg("%s: %d \"%s\"", spec, err.code, err.text);
}

static void live_socket_is_refused_and_named(void **state)
{
	struct rig *rig = *state;
	char text[256];
	int fd = server(rig);

	snprintf(text, sizeof(text), "%s: in use by process %d", socket_path(rig), (int)getpid());
	refused(socket_spec(rig), -EADDRINUSE, text);
	refused(socket_spec(rig), -EADDRINUSE, "in use"); /* its backlog is full now */
	refused(socket_spec(rig), -EADDRINUSE, "in use");
	assert_int_equal(access(socket_path(rig), F_OK), 0);
	close(fd);
	unlink(socket_path(rig));
}

static void what_is_not_a_socket_is_kept(void **state)
{
	struct rig *rig = *state;
	int fd = open(socket_path(rig), O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "precious", 8), 8);
	refused(socket_spec(rig), -EEXIST, "is not a socket");
	assert_int_equal(lseek(fd, 0, SEEK_END), 8);
	assert_int_equal(access(socket_path(rig), F_OK), 0);
	close(fd);
	unlink(socket_path(rig));
}

static void a_path_that_is_too_long_says_so(void **state)
{
	(void)state;
	char spec[200] = "socket=/tmp/";
	memset(spec + 12, 'x', 180);
	spec[192] = '\0';
	refused(spec, -ENAMETOOLONG, "the path has 185 characters, a socket takes 107");
	refused("socket=/nowhere/at/all", -ENOENT, "/nowhere/at/all");
}

static void only_the_owner_may_connect(void **state)
{
	struct rig *rig = *state;
	struct stat st;
	mode_t old = umask(0);

	rig_open(rig, socket_spec(rig));
	umask(old);
	assert_int_equal(stat(socket_path(rig), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void the_socket_file_goes_with_its_chardev(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	rig_close(rig);
	assert_int_equal(access(socket_path(rig), F_OK), -1);
	/* Unless the name belongs to another by now. */
	rig_open(rig, socket_spec(rig));
	assert_int_equal(unlink(socket_path(rig)), 0);
	int other = server(rig);
	rig_close(rig);
	assert_int_equal(access(socket_path(rig), F_OK), 0);
	close(other);
	unlink(socket_path(rig));
}

static void a_connection_that_cannot_be_accepted_costs_no_wakeups(void **state)
{
	struct rig *rig = *state;
	struct rlimit old, none;

	rig_open(rig, socket_spec(rig));
	rig_settle(rig);
	int fd = client(rig);
	getrlimit(RLIMIT_NOFILE, &old);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	rig_settle(rig);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(rig->warnings, 1);
	assert_non_null(strstr(rig->warning, "cannot accept a client (Too many open files)"));
	close(fd);
}

/* ------------------------------------------------------------------------------------ files */

static const char *file_spec(const struct rig *rig)
{
	static char spec[160];
	snprintf(spec, sizeof(spec), "file=%s", socket_path(rig));
	return spec;
}

static void assert_file(const struct rig *rig, const char *text)
{
	int fd = open(socket_path(rig), O_RDONLY | O_NONBLOCK);
	assert_reads(fd, text);
	close(fd);
}

static void a_file_begins_empty_and_gets_the_output(void **state)
{
	struct rig *rig = *state;
	int fd = open(socket_path(rig), O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "old old old", 11), 11);
	close(fd);
	rig_open(rig, file_spec(rig));
	rig_write(rig, "one\r\n");
	rig_settle(rig);
	rig_write(rig, "two\r\n");
	rig_settle(rig);
	assert_file(rig, "one\r\ntwo\r\n");
	unlink(socket_path(rig));
}

static void a_fifo_that_nobody_reads_yet_does_not_block(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(mkfifo(socket_path(rig), 0600), 0);
	alarm(10);
	rig_open(rig, file_spec(rig));
	rig_write(rig, "hello");
	rig_settle(rig);
	alarm(0);
	assert_file(rig, "hello");
	unlink(socket_path(rig));
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
	unlink(socket_path(rig));
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
		WITH_RIG(a_client_talks_both_ways),
		WITH_RIG(the_first_client_sees_what_was_said_before),
		WITH_RIG(second_client_is_refused),
		WITH_RIG(a_client_can_come_back),
		WITH_RIG(a_client_that_left_unseen_gives_way),
		WITH_RIG(a_client_that_does_not_read_stops_nobody),
		WITH_RIG(stale_socket_is_replaced),
		WITH_RIG(live_socket_is_refused_and_named),
		WITH_RIG(what_is_not_a_socket_is_kept),
		WITH_RIG(a_path_that_is_too_long_says_so),
		WITH_RIG(only_the_owner_may_connect),
		WITH_RIG(the_socket_file_goes_with_its_chardev),
		WITH_RIG(a_connection_that_cannot_be_accepted_costs_no_wakeups),
		WITH_RIG(a_file_begins_empty_and_gets_the_output),
		WITH_RIG(a_fifo_that_nobody_reads_yet_does_not_block),
		WITH_RIG(a_full_disk_is_counted_and_said_once),
		WITH_RIG(a_device_without_space_is_given_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
