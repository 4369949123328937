/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a bzImage whose magic numbers, version and 64-bit flag are put right. */
#include "fuzz_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t image[1 << 20];
	struct load_request req = {0};
	if (size < FUZZ_HEAD || size > sizeof(image))
		return -1;
	size -= FUZZ_HEAD;
	memcpy(image, data + FUZZ_HEAD, size);
	if (size > 0x238) {
		memcpy(image + 0x1fe, "\x55\xaa", 2);
		memcpy(image + 0x202, "HdrS", 4);
	}
	if (size > 0x238 && (data[FUZZ_OPTIONS] & 1) == 0) {
		image[0x207] = 2;
		image[0x206] |= 0xc;
		image[0x211] |= 1;
		image[0x236] |= 1;
	}
	fuzz_load(data, image, size, &req);
	return 0;
}
