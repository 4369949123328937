/* SPDX-License-Identifier: Apache-2.0 */
/* The console as a unix socket: clients that come, leave, push and do not read, and files that are in the way. */
#include "chardev_rig.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ----------------------------------------------------------------------------------- socket */

static const char *socket_spec(const struct rig *rig)
{
	static char spec[160];
	snprintf(spec, sizeof(spec), "socket=%s", rig_path(rig));
	return spec;
}

static struct sockaddr_un address_of(const struct rig *rig)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig_path(rig));
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
	assert_string_equal(chardev_path(rig->cd), rig_path(rig));
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

static void output_to_a_client_that_left_unseen_is_kept_for_the_next(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	rig->room = 1;
	int first = client(rig);
	assert_int_equal(write(first, "abc", 3), 3);
	rig_settle(rig);
	close(first);
	rig_write(rig, "for the next");
	rig_settle(rig);
	assert_int_equal(rig_settle(rig), 0);
	int second = client(rig);
	rig_settle(rig);
	assert_reads(second, "for the next");
	assert_int_equal(rig->warnings, 0);
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

	snprintf(text, sizeof(text), "%s: in use by process %d", rig_path(rig), (int)getpid());
	refused(socket_spec(rig), -EADDRINUSE, text);
	refused(socket_spec(rig), -EADDRINUSE, "in use"); /* its backlog is full now */
	refused(socket_spec(rig), -EADDRINUSE, "in use");
	assert_int_equal(access(rig_path(rig), F_OK), 0);
	close(fd);
	unlink(rig_path(rig));
}

static void what_is_not_a_socket_is_kept(void **state)
{
	struct rig *rig = *state;
	int fd = open(rig_path(rig), O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "precious", 8), 8);
	refused(socket_spec(rig), -EEXIST, "is not a socket");
	assert_int_equal(lseek(fd, 0, SEEK_END), 8);
	assert_int_equal(access(rig_path(rig), F_OK), 0);
	close(fd);
	unlink(rig_path(rig));
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
	assert_int_equal(stat(rig_path(rig), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void the_socket_file_goes_with_its_chardev(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, socket_spec(rig));
	rig_close(rig);
	assert_int_equal(access(rig_path(rig), F_OK), -1);
	/* Unless the name belongs to another by now. */
	rig_open(rig, socket_spec(rig));
	assert_int_equal(unlink(rig_path(rig)), 0);
	int other = server(rig);
	rig_close(rig);
	assert_int_equal(access(rig_path(rig), F_OK), 0);
	close(other);
	unlink(rig_path(rig));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(a_client_talks_both_ways),
		WITH_RIG(the_first_client_sees_what_was_said_before),
		WITH_RIG(second_client_is_refused),
		WITH_RIG(a_client_can_come_back),
		WITH_RIG(a_client_that_left_unseen_gives_way),
		WITH_RIG(output_to_a_client_that_left_unseen_is_kept_for_the_next),
		WITH_RIG(a_client_that_does_not_read_stops_nobody),
		WITH_RIG(stale_socket_is_replaced),
		WITH_RIG(live_socket_is_refused_and_named),
		WITH_RIG(what_is_not_a_socket_is_kept),
		WITH_RIG(a_path_that_is_too_long_says_so),
		WITH_RIG(only_the_owner_may_connect),
		WITH_RIG(the_socket_file_goes_with_its_chardev),
		WITH_RIG(a_connection_that_cannot_be_accepted_costs_no_wakeups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
