/* SPDX-License-Identifier: Apache-2.0 */
/* The input is any file with a multiboot 2 header whose magic number, architecture and checksum are put right. */
#include "fuzz_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t image[1 << 20];
	struct load_request req = {0};
	if (size < FUZZ_HEAD + 16 || size > sizeof(image))
		return -1;
	size -= FUZZ_HEAD;
	memcpy(image, data + FUZZ_HEAD, size);
	size_t off = (size_t)data[FUZZ_OPTIONS] * 128;
	if (off + 16 > size)
		off = (size - 16) & ~(size_t)7;
	uint32_t magic = 0xe85250d6, machine = data[FUZZ_OPTIONS + 1] == 255 ? 4 : 0, length, sum;
	memcpy(&length, image + off + 8, 4);
	if ((data[FUZZ_OPTIONS + 1] & 1) == 0)
		length &= 0xfff;
	sum = -(magic + machine + length);
	memcpy(image + off, &magic, 4);
	memcpy(image + off + 4, &machine, 4);
	memcpy(image + off + 8, &length, 4);
	memcpy(image + off + 12, &sum, 4);
	fuzz_load(data, image, size, &req);
	return 0;
}
