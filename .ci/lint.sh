#!/bin/bash
# All static checks, as TAP. Each is a function that prints what it found; no output and success mean ok.
set -u
shopt -s nullglob
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

cli=(vmm/main.c vmm/options.c vmm/cli*.c)
sources=(vmm/*.c devices/*.c)
headers=(include/*.h vmm/*.h devices/*.h)
tests=(tests/unit/*.c tests/fuzz/*.c tests/lib/*.c tests/cli/*.c)
guests=(guest-firmware/*/*.c guest-firmware/*/*.h)
read -ra flags < <(make -s print-BASE | sed 's/-DLULL_VERSION=[^ ]* //; s/-MMD -MP//')
flags+=('-DLULL_VERSION="x"')
read -ra gcc_warn < <(make -s print-WARN)
read -ra clang_warn < <(make -s CC=clang print-CLANG_WARN)

# each COMMAND...: runs it for every line of stdin put in place of {}, two at a time.
each() {
	xargs -r -d '\n' -P 2 -I '{}' "$@"
}

# The command line is made with musl in the build proper; here it meets glibc's warnings and clang's too.
gcc_warnings() {
	make -s -j2 WERROR=1 all unit >/dev/null && printf '%s\n' "${cli[@]}" |
		each gcc "${flags[@]}" "${gcc_warn[@]}" -Werror -fPIE -c {} -o /dev/null
}

clang_warnings() {
	make -s -j2 WERROR=1 CC=clang lib unit B=build/lint >/dev/null && printf '%s\n' "${cli[@]}" |
		each clang "${flags[@]}" "${gcc_warn[@]}" "${clang_warn[@]}" -Werror -fPIE -c {} -o /dev/null
}

# Where sizes and offsets come from a guest or a file, no conversion is implicit.
conversions() {
	local files=(vmm/guest_mem.c vmm/image.c vmm/load*.c vmm/cli_value.c devices/virtq*.c)
	printf '%s\n' "${files[@]}" |
		each gcc "${flags[@]}" "${gcc_warn[@]}" -Wconversion -Wno-sign-conversion -Werror -c {} -o /dev/null
}

clang_tidy() {
	printf '%s\n' "${sources[@]}" | each clang-tidy --quiet {} -- "${flags[@]}" "${clang_warn[@]}" 2>/dev/null
}

cpp_check() {
	cppcheck -q -j2 --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 --suppress=missingIncludeSystem \
		-Iinclude -Ivmm -Idevices -DLULL_VERSION='"x"' "${sources[@]}"
}

analyzer() {
	local files=(devices/*.c vmm/guest_mem.c vmm/image.c vmm/load*.c)
	printf '%s\n' "${files[@]}" | each gcc "${flags[@]}" -fanalyzer -Werror -c {} -o /dev/null
}

shell_scripts() {
	git ls-files | while read -r file; do
		[ -f "$file" ] && head -c 60 "$file" | grep -aq '^#!.*sh$' && echo "$file"
	done | grep -v '^tests/nested/init/' | xargs -r shellcheck -S warning
}

# The first include of a file may be the only one: nothing leans on what was included before.
headers_alone() {
	printf '%s\n' "${headers[@]}" | each gcc "${flags[@]}" "${gcc_warn[@]}" -Werror -fsyntax-only -x c {} &&
		clang -fsyntax-only -Wall -Wextra -Werror -x c++ include/lull.h
}

# Initialised or zeroed data that is not constant, of the command and of the library: each such object is named in
# docs/architecture.md as `name` (file.c), or is not there.
mutable_state() {
	local object file symbol bad=1
	while read -r object; do
		[ "$bad" != 1 ] || bad=0
		file=$(basename "${object%.o}.c")
		while read -r symbol; do
			grep -qF "\`${symbol%%.[0-9]*}\` ($file)" docs/architecture.md ||
				{ echo "$file: $symbol is mutable and not in docs/architecture.md"; bad=2; }
		done < <(objdump -t "$object" | awk 'NF > 3 && $(NF-2) ~ /^\.(t?data|t?bss)(\.|$)/ && $(NF-2) !~ /^\.data\.rel\.ro/ && $(NF-1) !~ /^0+$/ { print $NF }')
	done < <(find build/musl/vmm build/musl/devices -name '*.o')
	return $bad
}

# Only the command line ends the process or writes to its streams: the library reports. Comments and strings do not count.
no_exit_in_library() {
	local file found=0
	for file in "${sources[@]}"; do
		[[ " ${cli[*]} " != *" $file "* ]] || continue
		gcc -fpreprocessed -dD -E "$file" 2>/dev/null | grep -v '^#' | sed -E 's/"([^"\\]|\\.)*"//g' |
			grep -E '\b(exit|_exit|_Exit|quick_exit|abort|v?errx?|v?warnx?|v?printf|puts|putchar|perror|assert|system|fork|setlocale)\s*\(|\bstd(out|err)\b' |
			sed "s|^|$file: |" | grep . && found=1
	done
	return $found
}

every_file_is_explained() {
	local file missing=0
	for file in "${sources[@]}" "${headers[@]}"; do
		grep -qwF "$(basename "$file")" docs/architecture.md || { echo "$file is not in docs/architecture.md"; missing=1; }
	done
	return $missing
}

formatting() {
	clang-format --dry-run -Werror "${sources[@]}" "${headers[@]}" "${tests[@]}" "${guests[@]}"
}

licence_lines() {
	! git ls-files '*.c' '*.h' '*.S' '*.mk' '*.pml' Makefile | xargs head -qn 1 | grep -v 'SPDX-License-Identifier: Apache-2.0'
}

# One file that needs no other, with a stack that is not executable and relocations that are read-only.
static_binary() {
	local bytes
	bytes=$(stat -c %s build/lull) || return 1
	[ "$bytes" -lt 524288 ] || { echo "build/lull has $bytes bytes, more than 512 KiB"; return 1; }
	! readelf -lW build/lull | grep -E 'INTERP|GNU_STACK.* RWE ' && readelf -lW build/lull | grep -q GNU_RELRO
}

exported_symbols() {
	[ -e build/liblull.so ] && [ -e build/liblull.a ] || return 1
	! nm -D --defined-only build/liblull.so | awk '$2 != "A" { print $3 }' | grep -v '^lull_' &&
		! nm -g --defined-only build/liblull.a | awk 'NF == 3 { print $3 }' | grep -v '^lull_'
}

readme_example() {
	sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$out/example.c"
	gcc -Wall -Wextra -Werror "$out/example.c" -Iinclude build/liblull.a -lfdt -luring -lpthread -o "$out/example"
}

n=0 failed=0
check() { # check NAME COMMAND
	n=$((n + 1))
	if "$2" >"$out/log" 2>&1; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		sed 's/^/# /' "$out/log"
		failed=1
	fi
}

check "gcc: no warning" gcc_warnings
check "clang: no warning" clang_warnings
check "gcc: no implicit conversion in what parses files and guest data" conversions
check "clang-tidy" clang_tidy
check "cppcheck" cpp_check
check "gcc -fanalyzer on devices, guest memory and loaders" analyzer
check "shellcheck on every script" shell_scripts
check "every header compiles alone" headers_alone
check "include direction" .ci/check-includes.sh
check "no mutable file-scope state beyond docs/architecture.md" mutable_state
check "docs/architecture.md has a line for every file" every_file_is_explained
check "only the command line exits or prints" no_exit_in_library
check "clang-format" formatting
check "licence lines" licence_lines
check "build/lull: static, below 512 KiB, hardened" static_binary
check "the README's example builds" readme_example
check "the library exports lull_ names only" exported_symbols
echo "1..$n"
exit $failed
