// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_console.c - a console under any sequence of accesses, between a driver and two pipes. */
#include "fuzz_virtio.h"

#include "chardev.h"
#include "virtio_console.h"

#include <fcntl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_pipe(int fds[2])
{
	invariant(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buffer[1 << 16];
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};
	int input[2], output[2];
	char spec[32];

	make_pipe(input);
	make_pipe(output);
	snprintf(spec, sizeof(spec), "fd=%d,%d", input[0], output[1]);
	struct chardev *cd = chardev_open_as("console", spec, NULL, NULL);
	invariant(cd && event_loop_init(&f.loop) == 0);
	fuzz_open(&f, virtio_console_create(cd, &f.loop), &f.loop);
	chardev_attach(cd, &f.loop);
	while (in.left) {
		switch (fuzz_step(&f, &in)) {
		case 11:
		case 12:
			fuzz_loop(&f, 8);
			break;
		case 13:
			(void)!write(input[1], buffer, fuzz_take(&in, 1) * 8);
			fuzz_loop(&f, 8);
			break;
		case 14:
			(void)!read(output[0], buffer, sizeof(buffer));
			break;
		case 15:
			driver_kick(&f.d, 0);
			driver_kick(&f.d, 1);
			break;
		}
	}
	fuzz_loop(&f, 8);
	fuzz_close(&f);
	chardev_detach(cd, 0);
	chardev_close(cd);
	event_loop_fini(&f.loop);
	for (unsigned i = 0; i < 2; i++) {
		close(input[i]);
		close(output[i]);
	}
	return 0;
}
