/* SPDX-License-Identifier: Apache-2.0 */
/* load_fixture.h - a guest without a VM for the loader tests; the machine description is a fake of two e820 entries. */
#ifndef TESTS_LOAD_FIXTURE_H
#define TESTS_LOAD_FIXTURE_H

#include "load.h"

#include "lull.h"
#include "util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hostile/images.h"

struct fixture {
	struct guest_mem mem;
	struct machine machine;
	struct image kernel, initrd;
	struct load_request req;
	struct boot_state out;
	struct lull_error err;
};

/* Fakes of machine.c and acpi.c. */
unsigned machine_e820(const struct machine *m, struct e820_entry out[E820_MAX])
{
	out[0] = (struct e820_entry){0, MACHINE_EBDA, 1};
	out[1] = (struct e820_entry){MACHINE_HIGH_BASE, m->ram[0].size - MACHINE_HIGH_BASE, 1};
	return 2;
}

int acpi_build(const struct machine *m, void *buf, size_t size, struct lull_error *err)
{
	(void)m;
	(void)err;
	assert_int_equal(size, MACHINE_ACPI_MAX);
	memcpy(buf, "RSD PTR abcdefghijklmnopqrstuvwxyz12", 36);
	return 36;
}

static inline void fixture_init(struct fixture *f, uint64_t ram)
{
	memset(f, 0, sizeof(*f));
	if (guest_mem_init(&f->mem, ram, false, &f->err) != 0)
		fail_msg("%s", f->err.text);
	f->machine.ram_count = 1;
	f->machine.ram[0].size = f->mem.regions[0].size;
	f->req = (struct load_request){.cmdline = "", .machine = &f->machine, .mem = &f->mem, .kernel = &f->kernel};
}

static inline void fixture_fini(struct fixture *f)
{
	guest_mem_fini(&f->mem);
}

static inline int try_load(struct fixture *f, const struct test_image *img)
{
	image_from_memory(&f->kernel, "/dir/test", img->bytes, img->size);
	memset(&f->err, 0, sizeof(f->err));
	return load_kernel(&f->req, &f->out, &f->err);
}

static inline void load_ok(struct fixture *f, const struct test_image *img)
{
	if (try_load(f, img) != 0)
		fail_msg("%s", f->err.text);
}

/* It is refused in one line that names the file and contains text. */
static inline void load_fails(struct fixture *f, const struct test_image *img, const char *prefix, const char *text)
{
	int ret = try_load(f, img);
	assert_true(ret < 0);
	assert_int_equal(ret, f->err.code);
	if (strncmp(f->err.text, prefix, strlen(prefix)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", f->err.text, prefix);
	if (strstr(f->err.text, text) == NULL)
		fail_msg("\"%s\" does not contain \"%s\"", f->err.text, text);
	for (const char *c = f->err.text; *c != '\0'; c++)
		assert_true((unsigned char)*c >= ' ');
}

static inline const uint8_t *at(const struct fixture *f, uint64_t addr)
{
	const uint8_t *p = guest_mem_at(&f->mem, gpa(addr), 1);
	assert_non_null(p);
	return p;
}

static inline uint32_t at32(const struct fixture *f, uint64_t addr)
{
	uint32_t v;
	assert_int_equal(guest_mem_read(&f->mem, gpa(addr), &v, sizeof(v)), 0);
	return v;
}

static inline uint64_t at64(const struct fixture *f, uint64_t addr)
{
	uint64_t v;
	assert_int_equal(guest_mem_read(&f->mem, gpa(addr), &v, sizeof(v)), 0);
	return v;
}

static inline const char *text_at(const struct fixture *f, uint64_t addr)
{
	return (const char *)at(f, addr);
}

#endif
