/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a flat binary at an address of the fuzzer's choice, or, without that, a file whose format is guessed. */
#include "fuzz_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t addr;
	if (size < FUZZ_HEAD || size > 1 << 20)
		return -1;
	memcpy(&addr, data + FUZZ_HEAD - sizeof(addr), sizeof(addr));
	struct load_request req = {
		.flat = (data[FUZZ_CMDLINE] & 1) != 0,
		.flat_real_mode = (data[FUZZ_CMDLINE] & 2) != 0,
		.flat_addr =
			(data[FUZZ_CMDLINE] & 4) != 0 ? addr & 0x1fffff : (uint64_t)addr << (data[FUZZ_CMDLINE] & 8),
	};
	req.flat_real_mode &= req.flat;
	fuzz_load(data, data + FUZZ_HEAD, size - FUZZ_HEAD, &req);
	return 0;
}
