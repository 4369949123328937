# SPDX-License-Identifier: Apache-2.0
# lull: one Makefile, sources by wildcard, everything made goes to build/. V=1 shows commands, WERROR=1 as in CI,
# SAN=address,undefined or SAN=thread builds the unit tests with a sanitizer.

B := build
VERSION := 0.1.0
CC := gcc
MUSL_CC := musl-gcc
Q := $(if $(V),,@)
say = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@echo "  $(1)	$(2)")

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wwrite-strings -Wcast-qual \
	-Wpointer-arith -Wimplicit-fallthrough -Wformat=2 -Wno-format-nonliteral $(if $(WERROR),-Werror)
CLANG_WARN := $(if $(findstring clang,$(CC)),-Wconditional-uninitialized -Wno-gnu-variable-sized-type-not-at-end)
BASE := -std=gnu11 -O2 -g -ffp-contract=off -fno-strict-aliasing -ffp-contract=off -fno-common -fvisibility=hidden -fstack-protector-strong \
	-Iinclude -Ivmm -Idevices -D_GNU_SOURCE -DLULL_VERSION='"$(VERSION)"' -pthread -MMD -MP
CFLAGS ?=
HOST_FLAGS := $(BASE) $(WARN) $(CLANG_WARN) -fPIC $(CFLAGS) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined,-D_FORTIFY_SOURCE=2)
MUSL_FLAGS := $(BASE) $(WARN) -fno-asynchronous-unwind-tables -fPIE -ffunction-sections -fdata-sections -isystem $(B)/sysinclude $(CFLAGS)

CLI := $(wildcard vmm/main.c vmm/options.c vmm/cli*.c)
SRC := $(filter-out $(CLI),$(wildcard vmm/*.c devices/*.c))
BLOB := guest-firmware/blob.S

comma := ,
H := $(B)/host$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter-out gcc,$(CC)),-$(CC))
host_obj := $(SRC:%.c=$(H)/%.o) $(BLOB:%.S=$(H)/%.o)
musl_obj := $(SRC:%.c=$(B)/musl/%.o) $(BLOB:%.S=$(B)/musl/%.o)
cli_obj := $(CLI:%.c=$(B)/musl/%.o)

all: $(B)/lull $(B)/liblull.a $(B)/liblull.so guests
.PHONY: all lib guests unit install clean FORCE
.DELETE_ON_ERROR:

# ---- the command: one static binary on musl; headers of the kernel, libfdt and liburing are seen through links ----
$(B)/sysinclude/.done: Makefile
	$(Q)mkdir -p $(@D)
	$(Q)for d in linux asm-generic; do ln -sfn /usr/include/$$d $(@D)/$$d; done; \
	ln -sfn /usr/include/$$(gcc -print-multiarch)/asm $(@D)/asm; \
	for f in fdt.h libfdt.h libfdt_env.h liburing.h liburing; do ln -sfn /usr/include/$$f $(@D)/$$f; done; touch $@

# Objects are made again when the flags change.
write_stamp = $(Q)mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(B)/flags-%: FORCE
	$(call write_stamp,$($*_STAMP))
$(H)/flags: FORCE
	$(call write_stamp,$(CC) $(HOST_FLAGS))
FORCE:
musl_STAMP := $(MUSL_CC) $(MUSL_FLAGS)
.SECONDARY:

$(B)/musl/%.o: %.c $(B)/sysinclude/.done $(B)/flags-musl
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D); $(MUSL_CC) $(MUSL_FLAGS) -c $< -o $@
$(B)/musl/%.o: %.S $(B)/sysinclude/.done $(B)/guests/demo.elf
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D); $(MUSL_CC) $(MUSL_FLAGS) -I$(B) -c $< -o $@
$(H)/%.o: %.c $(H)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D); $(CC) $(HOST_FLAGS) -c $< -o $@
$(H)/%.o: %.S $(B)/guests/demo.elf
	$(call say,AS,$<)
	$(Q)mkdir -p $(@D); $(CC) $(HOST_FLAGS) -I$(B) -c $< -o $@

# musl-gcc has no -static-pie of its own: the same by hand.
MUSL_LIB := /usr/lib/x86_64-linux-musl
LINK := -static -nostartfiles -Wl,-pie,--no-dynamic-linker,-z,text,-z,relro,-z,now,-z,noexecstack,--gc-sections,--build-id=sha1
LIBS_A = $(shell gcc -print-file-name=libfdt.a) $(shell gcc -print-file-name=liburing.a)
$(B)/lull: $(cli_obj) $(musl_obj)
	$(call say,LD,$@)
	$(Q)$(MUSL_CC) $(LINK) -o $@.full $(MUSL_LIB)/rcrt1.o $(MUSL_LIB)/crti.o $^ $(LIBS_A) $(MUSL_LIB)/crtn.o
	$(Q)strip -o $@ $@.full

# ---- the library: internals localised, so that an application's own bus_add() stays its own ----
lib: $(B)/liblull.a $(B)/liblull.so
$(B)/liblull.a: $(host_obj)
	$(call say,AR,$@)
	$(Q)ld -r -o $(B)/lull-lib.o $^ && objcopy --localize-hidden $(B)/lull-lib.o && rm -f $@ && ar rcs $@ $(B)/lull-lib.o
$(B)/liblull.so: $(host_obj) lull.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,--version-script=lull.map,-z,relro,-z,now,-soname,liblull.so.0 -o $@ $(host_obj) -lfdt -luring -lpthread
# For tests: the same objects, nothing hidden.
$(H)/liball.a: $(host_obj)
	$(Q)rm -f $@ && ar rcs $@ $^

# ---- tiny guests ----
include guest-firmware/guests.mk

# ---- tests ----
unit_src := $(wildcard tests/unit/test_*.c)
unit_bin := $(unit_src:tests/unit/%.c=$(H)/unit/%)
$(H)/unit/%: tests/unit/%.c $(H)/liball.a $(H)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D); $(CC) $(HOST_FLAGS) -Itests -I. $< $(H)/liball.a -lcmocka -lfdt -luring -lpthread -o $@
unit: $(unit_bin)
include tests/tests.mk

$(B)/lull.1: docs/lull.1.scd
	$(Q)scdoc < $< > $@
install: $(B)/lull $(B)/liblull.a $(B)/liblull.so $(if $(shell command -v scdoc),$(B)/lull.1)
	install -D -m 755 $(B)/lull $(DESTDIR)/usr/local/bin/lull
	install -D -m 644 include/lull.h $(DESTDIR)/usr/local/include/lull.h
	install -D -m 644 $(B)/liblull.a $(DESTDIR)/usr/local/lib/liblull.a
	install -D -m 755 $(B)/liblull.so $(DESTDIR)/usr/local/lib/liblull.so.0
	ln -sf liblull.so.0 $(DESTDIR)/usr/local/lib/liblull.so
	[ ! -e $(B)/lull.1 ] || install -D -m 644 $(B)/lull.1 $(DESTDIR)/usr/local/share/man/man1/lull.1

clean:
	rm -rf $(B)

-include $(shell find $(B) -name '*.d' -not -path '*/nested/*' 2>/dev/null)
