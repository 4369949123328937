// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_rng.c - the entropy device under any sequence of accesses, with its limit and without. */
#include "fuzz_virtio.h"

#include "virtio_rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};
	bool limited = fuzz_take(&in, 1) & 1;

	invariant(event_loop_init(&f.loop) == 0);
	fuzz_open(&f, virtio_rng_create(limited ? &f.loop : NULL), &f.loop);
	while (in.left) {
		switch (fuzz_step(&f, &in)) {
		case 11:
		case 12:
		case 13:
			fuzz_loop(&f, 8);
			break;
		case 14:
		case 15:
			driver_kick(&f.d, 0);
			break;
		}
	}
	fuzz_loop(&f, 8);
	fuzz_close(&f);
	event_loop_fini(&f.loop);
	return 0;
}
