/* SPDX-License-Identifier: Apache-2.0 */
/* What image.c opens and refuses, and reads that go beyond the end or meet a file that shrank. */
#include "image.h"

#include "lull.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void open_fails(const char *path, const char *text)
{
	struct image image;
	struct lull_error err;
	assert_true(image_open(&image, "kernel", path, &err) < 0);
	if (strstr(err.text, text) == NULL || strncmp(err.text, "kernel", 6) != 0)
		fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
	image_close(&image);
}

static void files_that_cannot_be_images(void **state)
{
	(void)state;
	char dir[] = "/tmp/lull-test-XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	open_fails(dir, "is a directory");
	open_fails("", "the file name is empty");
	open_fails("/dev/null", "is a character device");
	snprintf(path, sizeof(path), "%s/x\ny", dir);
	open_fails(path, "x?y: cannot open it: No such file");
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	open_fails(path, "is a fifo");
	unlink(path);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	open_fails(path, "is empty");
	assert_int_equal(write(fd, "0123456789", 10), 10);
	struct image image;
	char buf[10];
	assert_int_equal(image_open(&image, "kernel", path, NULL), 0);
	assert_int_equal(image.size, 10);
	assert_int_equal(image_read(&image, 3, buf, 7), 0);
	assert_memory_equal(buf, "3456789", 7);
	assert_int_equal(image_read(&image, 3, buf, 8), -ENODATA);
	assert_int_equal(image_read(&image, 11, buf, 0), -ENODATA);
	assert_int_equal(image_read(&image, UINT64_MAX, buf, 2), -ENODATA);
	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(image_read(&image, 3, buf, 7), -ENODATA); /* it shrank */
	image_close(&image);
	close(fd);
	unlink(path);
	rmdir(dir);
}

static void a_long_path_does_not_hide_the_reason(void **state)
{
	(void)state;
	char path[4000];
	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	open_fails(path, "...: cannot open it: File name too long");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_cannot_be_images),
		cmocka_unit_test(a_long_path_does_not_hide_the_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
