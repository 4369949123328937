/* SPDX-License-Identifier: Apache-2.0 */
/* The console's traffic over real pipes and files: output, backpressure, ends. */
#include "chardev_rig.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------------------------ specs */

static void refused(const char *spec, int code, const char *text)
{
	struct lull_error err = {0};
	assert_null(chardev_open(spec, NULL, &err));
	if (err.code != code || !strstr(err.text, text))
		fail_msg("%s: %d \"%s\"", spec, err.code, err.text);
	assert_null(chardev_open(spec, NULL, NULL));
}

static void wrong_specs_are_refused_with_text(void **state)
{
	(void)state;
	int fd[2];
	char spec[32];

	refused("", -EINVAL, "not one of null, fd=IN,OUT");
	refused("nul", -EINVAL, "not one of");
	refused("null=1", -EINVAL, "not one of");
	refused("file", -EINVAL, "not one of");
	refused("file=", -EINVAL, "not one of");
	refused("fd=1", -EINVAL, "as in fd=0,1");
	refused("fd=1,", -EINVAL, "as in fd=0,1");
	refused("fd=1,2x", -EINVAL, "as in fd=0,1");
	refused("fd=0,99999999999", -EINVAL, "as in fd=0,1");
	refused("fd=-2,1", -EINVAL, "as in fd=0,1");
	refused("fd=-1,999", -EBADF, "descriptor 999 is not open");
	refused("file=/nowhere/x", -ENOENT, "/nowhere/x");
	refused("file=/tmp", -EISDIR, "/tmp");
	assert_int_equal(pipe(fd), 0);
	snprintf(spec, sizeof(spec), "fd=%d,-1", fd[1]);
	refused(spec, -EBADF, "not open for reading");
	snprintf(spec, sizeof(spec), "fd=-1,%d", fd[0]);
	refused(spec, -EBADF, "not open for writing");
	close(fd[0]);
	close(fd[1]);
}

static void null_discards_and_never_wakes(void **state)
{
	struct rig *rig = *state;
	rig_open(rig, "null");
	for (int i = 0; i < 100000; i++)
		assert_false(chardev_write(rig->cd, (const uint8_t *)"x", 1));
	chardev_kick_input(rig->cd);
	assert_int_equal(rig_settle(rig), 0);
	assert_int_equal(chardev_dropped(rig->cd), 0);
	assert_string_equal(chardev_path(rig->cd), "");
}

/* ----------------------------------------------------------------------------------- output */

static void the_first_byte_goes_out_at_once(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	rig_write(rig, "x");
	assert_true(rig_step(rig, 0)); /* no timer is involved */
	assert_reads(ends.read, "x");
	close_both(ends);
}

static bool loop_was_woken(const struct rig *rig)
{
	struct pollfd pfd = {.fd = rig->cd->wake.fd, .events = POLLIN};
	return poll(&pfd, 1, 0) > 0;
}

static void a_burst_of_bytes_wakes_the_loop_twice(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	char all[201];

	for (int i = 0; i < 100; i++)
		rig_write(rig, "a");
	assert_true(rig_step(rig, 0));
	for (int i = 0; i < 100; i++)
		rig_write(rig, "b"); /* just after a write: these wait for the timer */
	assert_false(loop_was_woken(rig));
	assert_int_equal(rig_settle(rig), 2); /* the timer writes, the next one finds nothing */
	memset(all, 'a', 100);
	memset(all + 100, 'b', 100);
	all[200] = '\0';
	assert_reads(ends.read, all);
	close_both(ends);
}

static void much_output_does_not_wait_for_the_timer(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	static const uint8_t block[CHARDEV_RING_BYTES / 4];

	rig_write(rig, "x");
	assert_true(rig_step(rig, 0));
	chardev_write(rig->cd, block, sizeof(block) - 1);
	assert_false(loop_was_woken(rig));
	chardev_write(rig->cd, block, 1);
	assert_true(loop_was_woken(rig));
	close_both(ends);
}

static void the_ring_keeps_the_order_around_its_end(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	static uint8_t data[200000];
	size_t sent = 0, seen = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i % 251; /* not the ring's period */
	/* More than the pipe takes, so that something stays in the ring, then on past the ring's end. */
	fcntl(ends.write, F_SETPIPE_SZ, 4096);
	for (int i = 0; i < 3; i++) {
		chardev_write(rig->cd, data + sent, 30000);
		sent += 30000;
		rig_settle(rig);
		if (i == 2)
			assert_true(rig->cd->head > CHARDEV_RING_BYTES);
		for (int drain = 0; seen < sent && (i == 2 || drain < 5); drain++) {
			uint8_t back[4096];
			ssize_t n = read(ends.read, back, sizeof(back));
			assert_memory_equal(back, data + seen, (size_t)n);
			seen += (size_t)n;
			rig_settle(rig);
		}
	}
	assert_int_equal(chardev_dropped(rig->cd), 0);
	close_both(ends);
}

static void unread_pipe_never_blocks_the_writer(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	const uint64_t total = 400000;
	uint64_t arrived = 0;
	uint8_t next = 0, data[4096];

	for (uint64_t i = 0; i < total; i++) {
		uint8_t byte = (uint8_t)i;
		chardev_write(rig->cd, &byte, 1);
		if (i % 1000 == 0)
			while (rig_step(rig, 0))
				;
	}
	rig_settle(rig);
	assert_true(chardev_dropped(rig->cd) > 100000);
	assert_int_equal(rig_settle(rig), 0); /* a full pipe costs nothing */
	assert_false(chardev_write(rig->cd, (const uint8_t *)"x", 1));
	/* What was not dropped arrives, in order. */
	do {
		while (poll(&(struct pollfd){.fd = ends.read, .events = POLLIN}, 1, 0) > 0) {
			ssize_t n = read(ends.read, data, sizeof(data));
			for (ssize_t i = 0; i < n; i++)
				assert_int_equal(data[i], next++);
			arrived += (uint64_t)n;
		}
	} while (rig_settle(rig));
	assert_int_equal(arrived + chardev_dropped(rig->cd), total + 1);
	close_both(ends);
}

static void a_shared_pipe_stays_blocking_for_others(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	rig_write(rig, "x");
	rig_settle(rig);
	assert_int_equal(fcntl(ends.write, F_GETFL) & O_NONBLOCK, 0);
	rig_close(rig);
	assert_true(fcntl(ends.write, F_GETFD) >= 0); /* and open */
	close_both(ends);
}

/* Where the pipe cannot be opened again: with a reader that frees any odd number of bytes, a write must never wait. */
static void a_pipe_that_may_block_is_written_within_its_room(void **state)
{
	(void)state;
	int fd[2];
	static char data[100000];
	struct host_fd host;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	host_fd_init(&host, NULL, NULL);
	host_fd_adopt(&host, fd[1]);
	host.may_block = true;
	host.write_max = 4096;
	alarm(10);
	for (size_t odd = 1; odd < 9000; odd = odd * 3 + 1) {
		ssize_t n;
		while ((n = host_fd_write(&host, data, sizeof(data))) > 0)
			;
		assert_int_equal(n, -EAGAIN);
		assert_int_equal(read(fd[0], data, odd), odd);
	}
	alarm(0);
	host_fd_close(&host, NULL);
	close(fd[0]);
}

static void a_reader_that_leaves_is_no_signal(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	sigset_t pending;

	close(ends.read);
	rig_write(rig, "hello");
	rig_settle(rig);
	rig_write(rig, "world");
	rig_settle(rig);
	assert_int_equal(chardev_dropped(rig->cd), 10);
	assert_int_equal(rig->warnings, 1);
	assert_non_null(strstr(rig->warning, "output is lost (Broken pipe)"));
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
	close(ends.write);
}

static void someone_elses_pending_signal_is_kept(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	sigset_t set, old, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	raise(SIGPIPE);
	close(ends.read);
	rig_write(rig, "hello");
	rig_settle(rig);
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGPIPE));
	assert_int_equal(sigwaitinfo(&set, NULL), SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(ends.write);
}

/* -------------------------------------------------------------------------------- drained() */

static void drained_follows_the_output_once(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	rig->drained = 0;
	assert_true(chardev_write(rig->cd, (const uint8_t *)"ab", 2));
	assert_true(chardev_write(rig->cd, (const uint8_t *)"cd", 2));
	rig_step(rig, 0);
	assert_int_equal(rig->drained, 0);
	assert_true(chardev_write(rig->cd, (const uint8_t *)"ef", 2));
	rig_settle(rig);
	assert_int_equal(rig->drained, 1);
	close_both(ends);
}

static void a_promise_is_kept_when_the_host_takes_nothing(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	static const uint8_t much[CHARDEV_RING_BYTES];

	rig->drained = 0;
	while (chardev_write(rig->cd, much, sizeof(much))) {
		rig_settle(rig);
		assert_true(rig->drained > 0);
		rig->drained = 0;
	}
	close(ends.read); /* and from here on the output is closed */
	rig_settle(rig);
	assert_false(chardev_write(rig->cd, much, 1));
	close(ends.write);
}

static void a_promise_is_kept_when_the_reader_leaves(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	rig->drained = 0;
	close(ends.read);
	assert_true(chardev_write(rig->cd, (const uint8_t *)"x", 1));
	rig_settle(rig);
	rig_step(rig, 1000); /* the timer */
	assert_int_equal(rig->drained, 1);
	close(ends.write);
}

/* --------------------------------------------------------------------------- begin and end */

static void output_before_the_start_is_kept(void **state)
{
	struct rig *rig = *state;
	int fd[2];
	char spec[32];

	assert_int_equal(pipe(fd), 0);
	snprintf(spec, sizeof(spec), "fd=-1,%d", fd[1]);
	rig->cd = chardev_open(spec, NULL, NULL);
	rig_write(rig, "early");
	assert_int_equal(chardev_attach(rig->cd, &rig->loop), 0);
	rig_settle(rig);
	assert_reads(fd[0], "early");
	close(fd[0]);
	close(fd[1]);
}

static void detach_writes_what_is_left(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	rig_write(rig, "last words");
	chardev_detach(rig->cd, 1000);
	assert_reads(ends.read, "last words");
	assert_int_equal(chardev_dropped(rig->cd), 0);
	rig_write(rig, "too late");
	assert_reads(ends.read, "");
	/* And it can begin again. */
	assert_int_equal(chardev_attach(rig->cd, &rig->loop), 0);
	rig_settle(rig);
	assert_reads(ends.read, "too late");
	close_both(ends);
}

static void *read_all(void *arg)
{
	const struct ends *ends = arg;
	char data[1000];
	uintptr_t total = 0;
	ssize_t n;

	while ((n = read(ends->read, data, sizeof(data))) > 0)
		total += (uintptr_t)n;
	return (void *)total; // NOLINT
}

static void detach_waits_for_a_slow_reader(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	static const uint8_t much[CHARDEV_RING_BYTES];
	uint64_t total = 0;
	pthread_t reader;
	void *arrived;

	do {
		total += sizeof(much);
		chardev_write(rig->cd, much, sizeof(much));
		rig_settle(rig);
	} while (rig->cd->output != OUTPUT_BLOCKED);
	assert_int_equal(pthread_create(&reader, NULL, read_all, &ends), 0);
	chardev_detach(rig->cd, 10000);
	total -= chardev_dropped(rig->cd);
	rig_close(rig);
	close(ends.write);
	pthread_join(reader, &arrived);
	assert_int_equal((uintptr_t)arrived, total);
	close(ends.read);
}

static void detach_gives_up_after_its_time(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	static const uint8_t much[CHARDEV_RING_BYTES];

	for (int i = 0; i < 3; i++) {
		chardev_write(rig->cd, much, sizeof(much));
		rig_settle(rig);
	}
	uint64_t before = chardev_dropped(rig->cd);
	alarm(10);
	chardev_detach(rig->cd, 20);
	alarm(0);
	assert_int_equal(chardev_dropped(rig->cd), before + CHARDEV_RING_BYTES);
	close_both(ends);
}

/* ---------------------------------------------------------------------------------- threads */

static void *write_thread(void *arg)
{
	struct chardev *cd = arg;
	for (int i = 0; i < 20000; i++) {
		chardev_write(cd, (const uint8_t *)"0123456789", 10);
		chardev_kick_input(cd);
	}
	return NULL;
}

static void *loop_thread(void *arg)
{
	event_loop_run(arg);
	return NULL;
}

static void many_threads_write_whole_pieces(void **state)
{
	struct rig *rig = *state;
	struct ends ends = pipe_for(rig, true);
	pthread_t loop, reader, writers[3];
	void *arrived;

	pthread_create(&loop, NULL, loop_thread, &rig->loop);
	pthread_create(&reader, NULL, read_all, &ends);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		pthread_create(&writers[i], NULL, write_thread, rig->cd);
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
		pthread_join(writers[i], NULL);
	event_loop_stop(&rig->loop);
	pthread_join(loop, NULL);
	chardev_detach(rig->cd, 10000);
	uint64_t dropped = chardev_dropped(rig->cd);
	rig_close(rig);
	close(ends.write);
	pthread_join(reader, &arrived);
	assert_int_equal((uintptr_t)arrived + dropped, ARRAY_SIZE(writers) * 200000);
	close(ends.read);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_RIG(wrong_specs_are_refused_with_text),
		WITH_RIG(null_discards_and_never_wakes),
		WITH_RIG(the_first_byte_goes_out_at_once),
		WITH_RIG(a_burst_of_bytes_wakes_the_loop_twice),
		WITH_RIG(much_output_does_not_wait_for_the_timer),
		WITH_RIG(the_ring_keeps_the_order_around_its_end),
		WITH_RIG(unread_pipe_never_blocks_the_writer),
		WITH_RIG(a_shared_pipe_stays_blocking_for_others),
		WITH_RIG(a_pipe_that_may_block_is_written_within_its_room),
		WITH_RIG(a_reader_that_leaves_is_no_signal),
		WITH_RIG(someone_elses_pending_signal_is_kept),
		WITH_RIG(drained_follows_the_output_once),
		WITH_RIG(a_promise_is_kept_when_the_host_takes_nothing),
		WITH_RIG(a_promise_is_kept_when_the_reader_leaves),
		WITH_RIG(output_before_the_start_is_kept),
		WITH_RIG(detach_writes_what_is_left),
		WITH_RIG(detach_waits_for_a_slow_reader),
		WITH_RIG(detach_gives_up_after_its_time),
		WITH_RIG(many_threads_write_whole_pieces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
