/* SPDX-License-Identifier: Apache-2.0 */
/* The input is an ELF file with a right identification; PVH notes and multiboot headers are up to the fuzzer. */
#include "fuzz_load.h"

#include <elf.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t image[1 << 20];
	struct load_request req = {0};
	if (size < FUZZ_HEAD || size > sizeof(image))
		return -1;
	size -= FUZZ_HEAD;
	memcpy(image, data + FUZZ_HEAD, size);
	bool is64 = (data[FUZZ_OPTIONS] & 1) != 0;
	if (size >= 4)
		memcpy(image, ELFMAG, SELFMAG);
	if (size >= sizeof(Elf64_Ehdr) && (data[FUZZ_OPTIONS] & 2) == 0) {
		image[EI_CLASS] = is64 ? ELFCLASS64 : ELFCLASS32;
		image[EI_DATA] = ELFDATA2LSB;
		image[offsetof(Elf64_Ehdr, e_type)] = ET_EXEC;
		image[offsetof(Elf64_Ehdr, e_type) + 1] = 0;
		image[offsetof(Elf64_Ehdr, e_machine)] = is64 ? EM_X86_64 : EM_386;
		image[offsetof(Elf64_Ehdr, e_machine) + 1] = 0;
		image[is64 ? offsetof(Elf64_Ehdr, e_phentsize) : offsetof(Elf32_Ehdr, e_phentsize)] =
			is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	}
	fuzz_load(data, image, size, &req);
	return 0;
}
