# SPDX-License-Identifier: Apache-2.0
# The targets that test, and the two that install what they need first: check and demo.

-include tests/fuzz/fuzz.mk

# The whole of it, as CI runs it.
check:
	$(Q)tests/install-deps.sh test
	$(Q)tests/run.sh all

# Minutes less: no sanitizers, no fuzzing, no nested rig.
check-quick:
	$(Q)tests/run.sh quick

# Needs no /dev/kvm.
check-unit: unit
	$(Q)tests/run.sh unit $(unit_bin)

lint:
	$(Q).ci/lint.sh

demo:
	$(Q)tests/install-deps.sh build
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) $(B)/lull
	$(Q)$(B)/lull demo

# What a variable of the Makefile holds, for scripts: make -s print-HOST_FLAGS
print-%:
	$(info $($*))@:
.PHONY: check check-quick check-unit lint demo

# How late the preempted flag is, and what steal time costs. RUNS=5 SECONDS_EACH=10 CPU=0.
bench-preempted: all
	$(Q)tests/bench/preempted.sh
.PHONY: bench-preempted

# Start-up time, memory and size beside a bare KVM program and QEMU microvm, and what devices add. RUNS=20.
bench-start: all
	$(Q)tests/bench/start.sh
.PHONY: bench-start

# Latency and CPU time of the halt policies and of KVM's own polling. REPETITIONS=5.
bench-halt: all
	$(Q)tests/bench/halt.sh
.PHONY: bench-halt

# What the cost-aware policy promises, measured by replay: target, result, verdict. HALTS: how many to fuzz.
HALTS := 10000000
policy_src := $(wildcard tests/policy/*.c)
$(H)/policy-targets: $(policy_src) tests/policy/targets.h $(H)/liball.a $(H)/flags
	$(call say,CC,$@)
	$(Q)$(CC) $(HOST_FLAGS) -I. $(policy_src) $(H)/liball.a -lfdt -lpthread -o $@
policy-targets: $(H)/policy-targets
	$(Q)$< $(HALTS)
policy-targets-long: HALTS := 100000000
policy-targets-long: policy-targets
.PHONY: policy-targets policy-targets-long

# Random reads of a disk under every way of waiting, beside QEMU microvm. ROUNDS=7 REQUESTS=300.
bench-disk: all
	$(Q)tests/bench/disk.py
.PHONY: bench-disk

# Streams through a tap, of lull and of QEMU microvm, in one run. ROUNDS=5. Needs root.
bench-net: all
	$(Q)tests/bench/net.py
.PHONY: bench-net

# What the preempted flag is worth to a guest's locks under overcommit. RUNS=7 PASSES=60000.
bench-locks: all
	$(Q)tests/bench/locks.sh
.PHONY: bench-locks

# The guest's polling beside lull's: latency and CPU time of two loops between CPUs. REPETITIONS=5 AFFINITY=0:1.
bench-guest-idle: all
	$(Q)tests/bench/guest_idle.sh
.PHONY: bench-guest-idle

# A Debian from its disk in the nested rig: boot, work, power off; kill -9 and power cuts while it writes. An hour and more.
check-debian: all
	$(Q)tests/nested/run.sh --debian
	$(Q)tests/nested/power-cut.sh
.PHONY: check-debian
