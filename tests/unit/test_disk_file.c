// SPDX-License-Identifier: Apache-2.0
/* test_disk_file.c - opening, locking and measuring real files, and requests that come back short, late or not at all.
 */
#include "disk_file.h"

#include "lull.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	/* Not in /tmp, which may be a tmpfs without direct I/O. */
	snprintf(dir, sizeof(dir), "build/disk-test.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static unsigned n;
	char *p = path[n++ % 4];

	snprintf(p, 128, "%s/%s", dir, name);
	return p;
}

static const char *make_file(const char *name, off_t bytes)
{
	const char *path = in_dir(name);
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	close(fd);
	return path;
}

static struct disk_file *open_disk(const char *path, const char *more, struct lull_error *err)
{
	char spec[256];

	snprintf(spec, sizeof(spec), "path=%s%s", path, more);
	return disk_file_open(spec, NULL, err);
}

static void refused(const char *path, const char *more, const char *says)
{
	struct lull_error err = {0};
	struct disk_file *f = open_disk(path, more, &err);

	assert_null(f);
	if (!strstr(err.text, says) || !strstr(err.text, path))
		fail_msg("%s", err.text);
}

/* ------------------------------------------------------------------------------------------- opening */

static void a_file_is_measured(void **state)
{
	struct disk_file *f = open_disk(make_file("a", 12345 * 512), "", NULL);

	(void)state;
	assert_non_null(f);
	assert_int_equal(f->bytes, 12345 * 512);
	assert_int_equal(f->block_bytes, 512);
	assert_true(f->physical_bytes >= 512);
	assert_int_equal(fcntl(f->fd, F_GETFL) & (O_NONBLOCK | O_DIRECT), 0);
	assert_int_equal(fcntl(f->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	disk_file_close(f);
	struct stat st;
	assert_int_equal(stat(in_dir("a"), &st), 0);
	assert_int_equal(st.st_size, 12345 * 512); /* asking what it can do left it as it was */
	assert_int_equal(st.st_blocks, 0);
}

static void what_cannot_be_a_disk_is_named(void **state)
{
	(void)state;
	refused(in_dir("not-there"), "", "No such file");
	refused(dir, ",ro", "it is a directory");
	assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
	refused(in_dir("pipe"), "", "it is a pipe");
	refused("/dev/null", "", "it is a character device");
	refused(make_file("empty", 0), "", "it is empty");
	refused(make_file("odd", 1000), "", "not a multiple of 512");
	refused(make_file("small", 511), "", "not a multiple of 512");
}

static void writing_needs_permission(void **state)
{
	const char *path = make_file("protected", 512);

	(void)state;
	assert_int_equal(chmod(path, 0400), 0);
	if (access(path, W_OK) == 0)
		skip(); /* root may do anything */
	refused(path, "", "add ,ro to only read it");
}

/* ------------------------------------------------------------------------------------------- locking */

static void a_disk_has_one_writer_or_many_readers(void **state)
{
	const char *path = make_file("locked", 512);
	struct disk_file *a = open_disk(path, "", NULL);

	(void)state;
	assert_non_null(a);
	refused(path, "", "in use");
	refused(path, ",ro", "in use");
	disk_file_close(a);
	a = open_disk(path, ",ro", NULL);
	struct disk_file *b = open_disk(path, ",ro", NULL);
	assert_true(a && b);
	refused(path, "", "in use");
	disk_file_close(a);
	refused(path, "", "in use");
	disk_file_close(b);
	a = open_disk(path, ",direct", NULL); /* a second descriptor, and the lock stays */
	assert_non_null(a);
	refused(path, "", "in use");
	disk_file_close(a);
	assert_non_null(a = open_disk(path, "", NULL));
	disk_file_close(a);
}

static void who_has_the_lock_is_named(void **state)
{
	const char *path = make_file("held", 512);
	int ready[2];
	char text[64], byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		struct disk_file *f = open_disk(path, "", NULL);
		(void)!write(ready[1], f ? "y" : "n", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	snprintf(text, sizeof(text), "(pid %d) has it locked", (int)child);
	refused(path, "", text);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	struct disk_file *f = open_disk(path, "", NULL); /* it went with its owner */
	assert_non_null(f);
	disk_file_close(f);
	close(ready[0]);
	close(ready[1]);
}

/* --------------------------------------------------------------------------- requests, with failures */

/* What each call returns, in turn: a number of bytes at most, or -errno. */
static struct {
	int64_t results[8];
	unsigned at, calls;
	int fd, mode, flags;
} script;

static int64_t step(int fd)
{
	int64_t r = script.at < ARRAY_SIZE(script.results) ? script.results[script.at++] : 0;

	script.calls++;
	script.fd = fd;
	if (r < 0)
		errno = (int)-r;
	return r;
}

static struct iovec cut[8];

static int shorten(const struct iovec *iov, int count, int64_t bytes)
{
	int n = 0;

	for (; n < count && bytes > 0; n++) {
		cut[n] = iov[n];
		if ((int64_t)cut[n].iov_len > bytes)
			cut[n].iov_len = (size_t)bytes;
		bytes -= (int64_t)cut[n].iov_len;
	}
	return n;
}

static ssize_t short_read(int fd, const struct iovec *iov, int count, off_t offset)
{
	int64_t r = step(fd);

	return r <= 0 ? (r < 0 ? -1 : 0) : preadv(fd, cut, shorten(iov, count, r), offset);
}

static ssize_t short_write(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	int64_t r = step(fd);

	script.flags = flags;
	return r <= 0 ? (r < 0 ? -1 : 0) : pwritev(fd, cut, shorten(iov, count, r), offset);
}

static int no_sync(int fd)
{
	return step(fd) < 0 ? -1 : 0;
}

static int no_allocate(int fd, int mode, off_t offset, off_t bytes)
{
	(void)offset, (void)bytes;
	script.mode = mode;
	return step(fd) < 0 ? -1 : 0;
}

static const struct disk_calls scripted = {short_read, short_write, no_sync, no_allocate};

enum {
	BYTES = 2048,
	AT = 1024,
};

static int run_scripted(struct disk_file *f, enum disk_op op, uint8_t *data, const int64_t *results, unsigned count)
{
	/* Three pieces of different size. */
	struct iovec iov[] = {{data, 100}, {data + 100, 1000}, {data + 1100, BYTES - 1100}};
	bool moves = op == DISK_READ || op == DISK_WRITE;
	struct disk_io io = {
		.op = op, .offset = AT, .left = BYTES, .iov = iov, .iov_count = moves ? 3 : 0, .keep_blocks = true};

	memset(&script, 0, sizeof(script));
	memcpy(script.results, results, count * sizeof(*results));
	f->calls = &scripted;
	disk_io_begin(f, &io);
	return disk_io_run(f, &io);
}

#define RUN(f, op, data, ...)                                                                                          \
	run_scripted(f, op, data, (const int64_t[]){__VA_ARGS__}, ARRAY_SIZE(((const int64_t[]){__VA_ARGS__})))

static void short_and_interrupted_transfers_are_resumed(void **state)
{
	struct disk_file *f = open_disk(make_file("short", 8192), "", NULL);
	uint8_t data[BYTES], back[BYTES];

	(void)state;
	for (unsigned i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	assert_int_equal(RUN(f, DISK_WRITE, data, -EINTR, 1, 99, -EAGAIN, 500, 501, BYTES), 0);
	assert_int_equal(script.calls, 7);
	memset(back, 0, sizeof(back));
	assert_int_equal(RUN(f, DISK_READ, back, 101, -EINTR, -EINTR, 999, -EAGAIN, 1, BYTES), 0);
	assert_memory_equal(data, back, BYTES);
	disk_file_close(f);
}

static void failures_of_the_host_are_reported(void **state)
{
	struct disk_file *f = open_disk(make_file("fails", 8192), "", NULL);
	uint8_t data[BYTES] = {0};

	(void)state;
	assert_int_equal(RUN(f, DISK_WRITE, data, -EIO), -EIO);
	assert_int_equal(RUN(f, DISK_WRITE, data, 512, -ENOSPC), -ENOSPC);
	assert_int_equal(RUN(f, DISK_WRITE, data, 512, -EDQUOT), -EDQUOT);
	assert_int_equal(RUN(f, DISK_READ, data, -EIO), -EIO);
	assert_int_equal(RUN(f, DISK_READ, data, 512, 0), -EIO); /* the file was cut off */
	assert_int_equal(RUN(f, DISK_FLUSH, data, -EIO), -EIO);
	assert_int_equal(RUN(f, DISK_FLUSH, data, -EINTR, 0), 0);
	assert_int_equal(RUN(f, DISK_DISCARD, data, -EOPNOTSUPP), -EOPNOTSUPP);
	assert_int_equal(script.mode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
	assert_int_equal(RUN(f, DISK_ZERO, data, -EOPNOTSUPP, 0), 0); /* zeros that stay, then a hole */
	assert_int_equal(script.calls, 2);
	assert_int_equal(script.mode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
	assert_int_equal(RUN(f, DISK_ZERO, data, 0), 0);
	assert_int_equal(script.mode, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
	disk_file_close(f);
}

static void a_host_that_says_again_for_ever_fails_in_the_end(void **state)
{
	struct disk_io io = {.op = DISK_READ, .left = 512, .iov = &(struct iovec){NULL, 512}, .iov_count = 1};
	unsigned tries = 0;
	int ret;

	(void)state;
	while ((ret = disk_io_next(&io, -EAGAIN)) > 0)
		tries++;
	assert_int_equal(ret, -EIO);
	assert_in_range(tries, 10, 1000);
}

static void a_result_larger_than_the_request_is_no_success(void **state)
{
	struct disk_io io = {.op = DISK_READ, .left = 512, .iov = &(struct iovec){NULL, 512}, .iov_count = 1};

	(void)state;
	assert_int_equal(disk_io_next(&io, 513), -EIO);
}

static void a_write_can_be_made_to_last(void **state)
{
	struct disk_file *f = open_disk(make_file("dsync", 8192), "", NULL);
	uint8_t data[512] = "lasting", back[8];
	struct iovec iov = {data, sizeof(data)};
	struct disk_io io = {.op = DISK_WRITE, .left = 512, .iov = &iov, .iov_count = 1, .dsync = true};

	(void)state;
	disk_io_begin(f, &io);
	assert_int_equal(disk_io_run(f, &io), 0); /* the system's own call */
	assert_int_equal(pread(f->fd, back, 8, 0), 8);
	assert_string_equal((char *)back, "lasting");
	iov = (struct iovec){data, sizeof(data)};
	io = (struct disk_io){.op = DISK_WRITE, .left = 512, .iov = &iov, .iov_count = 1, .dsync = true};
	f->calls = &scripted;
	memset(&script, 0, sizeof(script));
	script.results[0] = 512;
	disk_io_begin(f, &io);
	assert_int_equal(disk_io_run(f, &io), 0);
	assert_int_equal(script.flags, RWF_DSYNC);
	disk_file_close(f);
}

/* ------------------------------------------------------------------------------------------- direct */

static void what_is_not_aligned_goes_through_the_page_cache(void **state)
{
	struct lull_error err;
	struct disk_file *f = open_disk(make_file("direct", 65536), ",direct", &err);
	uint8_t *data = aligned_alloc(4096, 8192), back[4096];

	(void)state;
	if (!f) {
		assert_non_null(strstr(err.text, "leave out direct"));
		free(data);
		skip();
	}
	assert_int_equal(fcntl(f->fd, F_GETFL) & O_DIRECT, O_DIRECT);
	assert_int_equal(fcntl(f->page_fd, F_GETFL) & O_DIRECT, 0);
	memset(data, 0x5a, 8192);
	const struct {
		uint8_t *at;
		uint64_t offset;
		bool direct;
	} cases[] = {{data, 0, true}, {data, 4096, true}, {data + 1, 8192, false}, {data, 100, false}};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct iovec iov = {cases[i].at, 4096};
		struct disk_io io = {
			.op = DISK_WRITE, .offset = cases[i].offset, .left = 4096, .iov = &iov, .iov_count = 1};
		disk_io_begin(f, &io);
		assert_int_equal(io.fd, cases[i].direct ? f->fd : f->page_fd);
		assert_int_equal(disk_io_run(f, &io), 0);
		assert_int_equal(pread(f->page_fd, back, 4096, (off_t)cases[i].offset), 4096);
		assert_memory_equal(back, data, 4096);
	}
	/* Short, then not aligned any more; and a host whose wishes we got wrong. */
	struct iovec iov = {data, 4096};
	struct disk_io io = {.op = DISK_READ, .left = 4096, .iov = &iov, .iov_count = 1};
	disk_io_begin(f, &io);
	assert_int_equal(disk_io_next(&io, 512), 1);
	assert_int_equal(io.fd, f->page_fd);
	io = (struct disk_io){.op = DISK_READ, .left = 4096, .iov = &iov, .iov_count = 1};
	disk_io_begin(f, &io);
	io.fd = f->fd;
	assert_int_equal(disk_io_next(&io, -EINVAL), 1);
	assert_int_equal(io.fd, f->page_fd);
	assert_int_equal(disk_io_next(&io, -EINVAL), -EINVAL);
	disk_file_close(f);
	free(data);
}

static void holes_are_punched(void **state)
{
	struct disk_file *f = open_disk(make_file("holes", 1 << 20), "", NULL);
	uint8_t *data = malloc(1 << 20);
	struct stat st;

	(void)state;
	if (!f->can_punch) {
		free(data);
		disk_file_close(f);
		skip();
	}
	memset(data, 1, 1 << 20);
	assert_int_equal(pwrite(f->fd, data, 1 << 20, 0), 1 << 20);
	for (enum disk_op op = DISK_DISCARD; op <= DISK_ZERO; op++) {
		struct disk_io io = {.op = op, .offset = op == DISK_ZERO ? 0 : 512 << 10, .left = 256 << 10};
		disk_io_begin(f, &io);
		assert_int_equal(disk_io_run(f, &io), 0);
	}
	assert_int_equal(pread(f->fd, data, 1 << 20, 0), 1 << 20);
	assert_int_equal(data[0] | data[(256 << 10) - 1] | data[512 << 10] | data[(768 << 10) - 1], 0);
	assert_true(data[256 << 10] && data[(512 << 10) - 1] && data[768 << 10]);
	assert_int_equal(fstat(f->fd, &st), 0);
	assert_int_equal(st.st_size, 1 << 20);
	assert_true(st.st_blocks < 2048);
	free(data);
	disk_file_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_measured),
		cmocka_unit_test(what_cannot_be_a_disk_is_named),
		cmocka_unit_test(writing_needs_permission),
		cmocka_unit_test(a_disk_has_one_writer_or_many_readers),
		cmocka_unit_test(who_has_the_lock_is_named),
		cmocka_unit_test(short_and_interrupted_transfers_are_resumed),
		cmocka_unit_test(failures_of_the_host_are_reported),
		cmocka_unit_test(a_host_that_says_again_for_ever_fails_in_the_end),
		cmocka_unit_test(a_result_larger_than_the_request_is_no_success),
		cmocka_unit_test(a_write_can_be_made_to_last),
		cmocka_unit_test(what_is_not_aligned_goes_through_the_page_cache),
		cmocka_unit_test(holes_are_punched),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
