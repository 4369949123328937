# SPDX-License-Identifier: Apache-2.0
# fuzz.mk - libFuzzer targets of what reads files. make fuzz-build; make fuzz-run FUZZ_SECONDS=60.

FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZ_DIR := $(B)/fuzz
fuzz_names := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_load_*.c tests/fuzz/fuzz_virt*.c)) fuzz_trace
fuzz_load_src := $(wildcard vmm/load*.c) vmm/image.c vmm/guest_mem.c vmm/error.c
FUZZ_FLAGS := -std=gnu11 -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -Iinclude -Ivmm -Idevices -Itests -D_GNU_SOURCE $(WARN)

fuzz-build: $(fuzz_names:%=$(FUZZ_DIR)/%) $(FUZZ_DIR)/seeds/.done
fuzz-run: fuzz-build
	$(Q)tests/fuzz/run.sh $(FUZZ_DIR) $(FUZZ_SECONDS) $(fuzz_names)
.PHONY: fuzz-build fuzz-run

$(FUZZ_DIR)/fuzz_load_%: tests/fuzz/fuzz_load_%.c tests/fuzz/fuzz_load.h $(fuzz_load_src) $(wildcard vmm/*.h) include/lull.h
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D); $(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $< $(fuzz_load_src) -o $@
$(FUZZ_DIR)/seeds/.done: tests/fuzz/seeds.c tests/hostile/images.h
	$(Q)mkdir -p $(@D); $(CC) -std=gnu11 -O1 -Itests -D_GNU_SOURCE $(WARN) $< -o $(FUZZ_DIR)/make-seeds && \
	$(FUZZ_DIR)/make-seeds $(@D) && touch $@
fuzz_trace_src := $(wildcard vmm/policy*.c) vmm/trace.c vmm/sim.c vmm/sim_random.c vmm/workload.c vmm/replay.c vmm/error.c
$(FUZZ_DIR)/fuzz_trace: tests/fuzz/fuzz_trace.c $(fuzz_trace_src) $(wildcard vmm/*.h) include/lull.h
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D) $(@D)/seeds/fuzz_trace; $(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $< $(fuzz_trace_src) -o $@
fuzz_virtio_src := $(wildcard devices/virtq.c devices/virtio*.c devices/disk_*.c devices/net_*.c vmm/chardev*.c) devices/rate_limit.c devices/balloon_host.c \
	devices/words.c $(wildcard devices/vsock_*.c) vmm/unix_listener.c vmm/host_fd.c vmm/guest_mem.c vmm/event_loop.c vmm/error.c vmm/log.c
$(FUZZ_DIR)/fuzz_virt%: tests/fuzz/fuzz_virt%.c tests/fuzz/fuzz_virtio.h tests/fakes/virtq_driver.h $(fuzz_virtio_src) $(wildcard vmm/*.h devices/*.h)
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D) $(@D)/seeds/$(@F); $(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $< $(fuzz_virtio_src) -luring -o $@
