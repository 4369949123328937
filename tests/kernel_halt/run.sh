#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --irqchip kernel: the limit of KVM's poll window follows the policy, the switches and the guest. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=build/kernel-halt/test_kernel_halt
mkdir -p build/kernel-halt
build() {
	make -s build/host/liball.a build/guests/idle.elf build/guests/idle_tick.elf build/guests/tick_then_idle.elf &&
		gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Ivmm -Idevices \
			tests/kernel_halt/test_kernel_halt.c build/host/liball.a -lfdt -luring -lcmocka -lpthread -o $bin
}

build || { echo "not ok 1 - builds"; exit 1; }
CMOCKA_MESSAGE_OUTPUT=TAP $bin 2>&1
