/* SPDX-License-Identifier: Apache-2.0 */
/* The input is any file with a multiboot 1 header whose magic number and checksum are put right. */
#include "fuzz_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t image[1 << 20];
	struct load_request req = {0};
	if (size < FUZZ_HEAD + 12 || size > sizeof(image))
		return -1;
	size -= FUZZ_HEAD;
	memcpy(image, data + FUZZ_HEAD, size);
	size_t off = (size_t)data[FUZZ_OPTIONS] * 32;
	if (off > 8192 - 12 || off + 12 > size)
		off = (size - 12) & ~(size_t)3;
	uint32_t magic = 0x1badb002, flags, sum;
	memcpy(&flags, image + off + 4, 4);
	if ((data[FUZZ_OPTIONS + 1] & 1) == 0)
		flags = (flags & 7) | (flags & 8 ? 1u << 16 : 0);
	sum = -(magic + flags);
	memcpy(image + off, &magic, 4);
	memcpy(image + off + 4, &flags, 4);
	memcpy(image + off + 8, &sum, 4);
	fuzz_load(data, image, size, &req);
	return 0;
}
