#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The embedding program, against the static and the shared library, and with the thread sanitizer. TAP. Needs /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
flags="-std=gnu11 -O1 -g -Wall -Wextra -Werror -Iinclude tests/lib/test_lull.c"
mkdir -p build/lib-test

only_lull_symbols() {
	other=$(nm "$1" --defined-only "$2" | awk 'NF == 3 && $3 !~ /^lull_/ && $3 !~ /^LULL_/ { print $3 }')
	if [ -z "$other" ]; then
		echo "ok 1 - $2 defines lull_ symbols only"
	else
		echo "not ok 1 - $2 defines lull_ symbols only # $(echo "$other" | head -n 3 | tr '\n' ' ')"
	fi
}

# name, compile words...
embed() {
	name=$1
	shift
	# shellcheck disable=SC2086 # words
	if gcc $flags "$@" -lfdt -luring -lcmocka -lpthread -o "build/lib-test/$name"; then
		LD_LIBRARY_PATH=build CMOCKA_MESSAGE_OUTPUT=TAP "build/lib-test/$name" 2>&1 | sed "s|^\(.*ok [0-9]* - \)|\1$name: |"
	else
		echo "not ok 1 - $name # does not compile"
	fi
}

make -s build/liblull.a build/liblull.so || { echo "not ok 1 - the library builds"; exit 1; }
ln -sf liblull.so build/liblull.so.0
only_lull_symbols -g build/liblull.a
only_lull_symbols -D build/liblull.so
embed static build/liblull.a
embed shared -Lbuild -llull
# The sanitizer cannot tell a localised object apart, so it gets the plain one.
make -s SAN=thread build/host-thread/liball.a || echo "not ok 1 - the library builds with the thread sanitizer"
embed tsan -Dbus_add=own_bus_add -fsanitize=thread build/host-thread/liball.a
SECONDS_IDLE=10 tests/lib/idle.sh
