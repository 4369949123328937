// SPDX-License-Identifier: Apache-2.0
/* fuzz_virtio_mmio.c - the transport, with the entropy device behind it, under any sequence of accesses. */
#include "fuzz_virtio.h"

#include "virtio_rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct fuzz_rig f = {0};

	fuzz_open(&f, virtio_rng_create(NULL), NULL);
	while (in.left) {
		fuzz_step(&f, &in);
		unsigned status = driver_read(&f.d, VIRTIO_MMIO_STATUS);
		invariant(!(status & VIRTIO_CONFIG_S_DRIVER_OK) || (status & VIRTIO_CONFIG_S_FEATURES_OK));
		invariant((f.dev->features & ~driver_offered(&f.d)) == 0);
		invariant(!f.dev->queues[0].live || (status & VIRTIO_CONFIG_S_DRIVER_OK));
	}
	fuzz_close(&f);
	return 0;
}
