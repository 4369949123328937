#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the host gets back through the balloon, with both interrupt controllers and both kinds of memory. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! [ -w /dev/kvm ]; then
	echo "1..0 # SKIP no access to /dev/kvm"
	exit 0
fi
make -s build/liblull.a guests && mkdir -p build/balloon-test && gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Iinclude \
	tests/balloon/test_balloon.c build/liblull.a -lfdt -luring -lpthread -o build/balloon-test/test_balloon ||
	{ echo "not ok 1 - build"; exit 1; }
exec build/balloon-test/test_balloon build/guests/balloon.elf
