/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_flat.c - bytes that go to an address and start there. Long mode: RSI = zero page, RDI = start_info, RDX = device
 * tree, RSP at the boot stack. Real mode: CS:IP is the address, SS:SP = 0000:7000, and of lull's low tables there are
 * only the command line and the device tree, so that a boot sector at 0x7c00 has its place.
 */
#include "load_internal.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>

#define FLAT_REAL_ADDR 0x7c00ull
#define FLAT_LONG_ADDR MACHINE_HIGH_BASE

static int check_addr(struct load *l, uint64_t addr, bool real)
{
	if (real && addr >= MACHINE_HIGH_BASE)
		return error_set(
			l->err, -EINVAL,
			"a flat binary in real mode starts below 1 MiB, 0x%" PRIx64 " is too high (--flat-addr)", addr);
	if (!real && addr >= LOAD_REACH)
		return error_set(l->err, -EINVAL,
		                 "a flat binary starts below 4 GiB, 0x%" PRIx64 " is too high (--flat-addr)", addr);
	return 0;
}

int load_flat(struct load *l)
{
	const struct load_request *req = l->req;
	bool real = req->flat_real_mode;
	uint64_t addr = req->flat_addr;
	if (addr == 0)
		addr = real ? FLAT_REAL_ADDR : FLAT_LONG_ADDR;
	l->real_mode = real;
	int ret = check_addr(l, addr, real);
	if (ret == 0)
		ret = load_claim(l, addr, req->kernel->size, "the flat binary", LOAD_ONLY);
	if (ret == 0)
		ret = load_copy(l, 0, req->kernel->size, addr, "the flat binary", LOAD_ONLY);
	if (ret == 0)
		ret = load_cmdline(l, NULL, UINT64_MAX);
	if (ret == 0)
		ret = load_initrd(l, PLACE_HIGH, LOAD_REACH);
	if (ret == 0 && !real)
		ret = load_start_info(l);
	if (ret == 0 && !real)
		ret = load_zero_page(l, NULL, 0, addr);
	if (ret != 0)
		return ret;
	struct boot_state *out = l->out;
	out->entry = addr;
	if (real) {
		out->mode = BOOT_REAL;
		out->stack = MACHINE_ZERO_PAGE;
		out->protocol = "flat binary, real mode";
		return 0;
	}
	out->mode = BOOT_LONG;
	out->stack = MACHINE_BOOT_STACK;
	out->rdi = MACHINE_BOOT_INFO;
	out->rsi = MACHINE_ZERO_PAGE;
	out->rdx = MACHINE_FDT;
	out->protocol = "flat binary, long mode";
	return 0;
}
