/* SPDX-License-Identifier: Apache-2.0 */
/* The console's input over real pipes, files and sockets: backpressure and ends, and what they cost. */
#include "chardev_rig.h"

#include <sys/socket.h>

/* ----------------------------------------------------------------------------------- input */

static void input_reaches_the_device(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, false);
	assert_int_equal(write(ends.write, "abc", 3), 3);
	assert_true(rig_step(rig, 0));
	assert_got(rig, "abc");
	assert_int_equal(fcntl(ends.read, F_GETFL) & O_NONBLOCK, 0);
	close_both(ends);
}

static void closed_stdin_costs_no_wakeups(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, false);
	assert_int_equal(write(ends.write, "abc", 3), 3);
	close(ends.write);
	assert_true(rig_settle(rig) <= 3);
	assert_got(rig, "abc");
	chardev_kick_input(rig->cd);
	assert_int_equal(rig_settle(rig), 0);
	close(ends.read);
}

static void a_full_device_costs_no_wakeups(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, false);

	rig->room = 2;
	assert_int_equal(write(ends.write, "abcde", 5), 5);
	assert_true(rig_settle(rig) <= 2);
	assert_got(rig, "ab");
	close(ends.write); /* neither does the hang-up, while there is something to read */
	assert_int_equal(rig_settle(rig), 0);
	rig->room = 1;
	chardev_kick_input(rig->cd);
	chardev_kick_input(rig->cd);
	assert_int_equal(rig_settle(rig), 1);
	assert_got(rig, "abc");
	rig->room = 100;
	chardev_kick_input(rig->cd);
	rig_settle(rig);
	assert_got(rig, "abcde");
	assert_int_equal(rig_settle(rig), 0);
	close(ends.read);
}

static unsigned room_calls;

/* The guest takes its byte between the two looks of the loop. */
static size_t room_that_comes_late(void *ctx)
{
	struct rig *rig = ctx;
	if (++room_calls == 2) {
		rig->room = 10;
		chardev_kick_input(rig->cd);
	}
	return rig->room;
}

static void room_that_appears_while_giving_up_is_seen(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, false);

	rig->room = 0;
	room_calls = 0;
	rig->user.room = room_that_comes_late;
	chardev_connect(rig->cd, &rig->user);
	assert_int_equal(write(ends.write, "x", 1), 1);
	rig_settle(rig);
	assert_got(rig, "x");
	close_both(ends);
}

static void a_device_that_connects_later_gets_what_waits(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, false);
	chardev_disconnect(rig->cd);
	assert_int_equal(write(ends.write, "x", 1), 1);
	rig_settle(rig);
	assert_got(rig, "");
	chardev_connect(rig->cd, &rig->user);
	rig_settle(rig);
	assert_got(rig, "x");
	close_both(ends);
}

static void a_file_is_read_to_its_end(void **state)
{
	struct rig *rig = *state;
	FILE *file = tmpfile();
	char spec[32];

	fputs("one\ntwo\n", file);
	rewind(file);
	snprintf(spec, sizeof(spec), "fd=%d,-1", fileno(file));
	rig_open(rig, spec);
	rig->room = 3;
	rig_settle(rig);
	assert_got(rig, "one");
	rig->room = 100;
	chardev_kick_input(rig->cd);
	rig_settle(rig);
	assert_got(rig, "one\ntwo\n");
	assert_int_equal(rig->cd->in.src.fd, -1);
	chardev_kick_input(rig->cd);
	assert_int_equal(rig_settle(rig), 0);
	fclose(file);
}

static void dev_null_as_input_is_an_end(void **state)
{
	struct rig *rig = *state;
	int fd = open("/dev/null", O_RDWR);
	char spec[32];

	snprintf(spec, sizeof(spec), "fd=%d,%d", fd, fd);
	rig_open(rig, spec);
	rig_write(rig, "gone");
	rig_settle(rig);
	assert_int_equal(rig->cd->in.src.fd, -1);
	assert_int_equal(chardev_dropped(rig->cd), 0);
	close(fd);
}

static void one_descriptor_serves_both_directions(void **state)
{
	struct rig *rig = *state;
	int fd[2];
	char spec[32];
	static const uint8_t much[CHARDEV_RING_BYTES];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	snprintf(spec, sizeof(spec), "fd=%d,%d", fd[0], fd[0]);
	rig_open(rig, spec);
	/* Wait for both at the same time: the socket is full, and nothing was typed. */
	for (int i = 0; i < 20; i++) {
		chardev_write(rig->cd, much, sizeof(much));
		rig_settle(rig);
	}
	assert_int_equal(rig->cd->output, OUTPUT_BLOCKED);
	assert_int_equal(write(fd[1], "x", 1), 1);
	rig_settle(rig);
	assert_got(rig, "x");
	assert_int_equal(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
	close(fd[1]);
	rig_settle(rig);
	assert_int_equal(rig_settle(rig), 0);
	close(fd[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(input_reaches_the_device),
		WITH_RIG(closed_stdin_costs_no_wakeups),
		WITH_RIG(a_full_device_costs_no_wakeups),
		WITH_RIG(room_that_appears_while_giving_up_is_seen),
		WITH_RIG(a_device_that_connects_later_gets_what_waits),
		WITH_RIG(a_file_is_read_to_its_end),
		WITH_RIG(dev_null_as_input_is_an_end),
		WITH_RIG(one_descriptor_serves_both_directions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
