#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Guests that poll themselves, storms against the poll budget, MWAIT, and what the preempted flag is worth to locks. TAP.
# Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=build/guest-idle/test_guest_idle
mkdir -p build/guest-idle

build() {
	make -s build/liblull.a build/lull guests &&
		gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude tests/guest_idle/test_guest_idle.c \
			build/liblull.a -lfdt -luring -lcmocka -lpthread -o $bin
}

build || { echo "not ok - builds"; exit 1; }
CMOCKA_MESSAGE_OUTPUT=TAP $bin 2>&1 | sed -E '/^1\.\.|^TAP /d; s/^((not )?ok) [0-9]+/\1/'

guest() { # guest WORDS GUEST
	timeout -k 2 40 build/lull run --guest-mwait --cpus 2 --mem 64M --debug-exit raw --timeout 30 -p "apic=x2apic cpus=2 $1" \
		"build/guests/$2.elf" </dev/null 2>&1
}
tap() { # tap STATUS TITLE OUTPUT
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2 # $3"; fi
}
if build/lull doctor | grep -q '^ok *guest MWAIT'; then
	out=$(guest want=1 mwait)
	tap $? "--guest-mwait: CPUID has MWAIT" "$out"
	out=$(guest "work=pingpong idle=mwait rounds=50" idle_loops)
	tap $? "--guest-mwait: a guest waits with MWAIT" "$out"
else
	echo "ok - --guest-mwait: a guest waits with MWAIT # SKIP this KVM does not give MWAIT to guests"
	out=$(guest want=1 mwait)
	[ $? = 126 ] && [[ $out == 'lull: guest-mwait: '*KVM_CAP_X86_DISABLE_EXITS* ]] && [ "$(wc -l <<<"$out")" = 1 ]
	tap $? "--guest-mwait: refused in one line" "$out"
fi

if build/lull doctor | grep -q '^ok *steal time'; then
	QUICK=1 RUNS=3 PASSES=20000 tests/bench/locks.sh
else
	echo "ok - locks with the preempted flag # SKIP perf events cannot be used here"
fi
