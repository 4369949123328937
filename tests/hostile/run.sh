#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - wrong and hostile input to the command: each case gives exactly one line on stderr that begins with "lull: " and
# says what is wrong, nothing on stdout, and exit code 126, within 5 seconds. TAP on stdout; 77 without /dev/kvm.
set -u
cd "$(dirname "$0")/../.." || exit 1
lull=${LULL:-build/lull}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
if [ ! -x "$lull" ]; then
	echo "Bail out! $lull is not there: make it first"
	exit 1
fi
if ! "$lull" doctor >/dev/null 2>&1 && [ ! -w /dev/kvm ]; then
	echo "1..0 # SKIP /dev/kvm cannot be used"
	exit 77
fi
${CC:-cc} -std=gnu11 -O1 -Itests/hostile -D_GNU_SOURCE tests/hostile/mkimage.c -o "$tmp/mkimage" || exit 1
i=$tmp/images
mkdir "$i" && "$tmp/mkimage" "$i" || exit 1

count=0 failures=0
# The command to run; cases that need another environment put something in front.
front=()

report() { # name reason
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1 # $2"
		sed 's/^/#   /' "$tmp/err" | head -5
		failures=$((failures + 1))
	fi
}

skip() {
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# bad NAME TEXT ARGUMENT...: lull run ARGUMENT... is refused, and TEXT (a pattern of grep -E) is in the line.
bad() {
	local name=$1 text=$2 rc reason=
	shift 2
	timeout -s KILL 5 "${front[@]}" "$lull" run "$@" </dev/null >"$tmp/out" 2>"$tmp/err"
	rc=$?
	if [ $rc -eq 137 ]; then
		reason="not over after 5 s"
	elif [ $rc -ne 126 ]; then
		reason="exit code $rc"
	elif [ -s "$tmp/out" ]; then
		reason="something on stdout"
	elif [ "$(wc -l <"$tmp/err")" -ne 1 ] || [ -n "$(tail -c 1 "$tmp/err")" ]; then
		reason="not exactly one line"
	elif ! grep -qE '^lull: [[:print:]]+$' "$tmp/err"; then
		reason="the line does not begin with 'lull: ', or is not printable"
	elif ! grep -qE -e "$text" "$tmp/err"; then
		reason="the line does not say '$text'"
	fi
	report "$name" "$reason"
}

# ---- files
bad "missing file" "absent: .*No such file" "$i/absent"
bad "empty name" "empty" ""
bad "directory" "is a directory" "$i"
bad "file as directory" "Not a directory" "$i/text/x"
bad "name too long" "File ?name too long" "$i/$(printf '%0300d' 0)"
ln -s loop "$i/loop"
bad "symlink loop" "[Ss]ymbolic link" "$i/loop"
ln -s nowhere "$i/dangling"
bad "dangling symlink" "No such file" "$i/dangling"
mkfifo "$i/fifo"
bad "fifo" "is a fifo" "$i/fifo"
bad "character device" "character device" /dev/zero
: >"$i/empty"
bad "empty file" "is empty" "$i/empty"
bad "control characters in the name" "a\\?b" "$i/a
b"
bad "one byte" "1 bytes is too short" "$i/one-byte"
bad "only zeros" "only zeros" "$i/zeros"
bad "text" "text file" "$i/text"
bad "script" "a script" "$i/script"
bad "HTML page" "HTML page" "$i/html"
bad "gzip" "gzip file: unpack it first" "$i/gzip"
bad "xz" "xz file" "$i/xz"
bad "zstd" "zstd file" "$i/zstd"
bad "ARM64 image" "ARM64" "$i/arm64"
bad "RISC-V image" "RISC-V" "$i/riscv"
bad "EFI zboot image" "zboot" "$i/zboot"
bad "qcow2 disk" "qcow2" "$i/qcow2"
bad "ISO image" "ISO" "$i/iso"
bad "ext4 file system" "ext2/3/4" "$i/ext4"
bad "boot sector" "starts with --flat-mode real" "$i/bootsector"
bad "initramfs as kernel" "give the kernel, and this file as --initrd" "$i/cpio"
bad "the shell" "ELF" /bin/sh
head -c 100000 /dev/urandom | sed 's/^/\x01/' >"$i/random"
bad "random bytes" "kernel" "$i/random"
truncate -s 20G "$i/sparse"
bad "20 GiB of nothing" "only zeros" "$i/sparse"

# ---- bzImage
bad "bzImage cut after the magic number" "truncated" "$i/bz-cut-magic"
bad "bzImage cut in the header" "truncated" "$i/bz-cut-header"
bad "bzImage cut before the kernel" "truncated.*needs 5120 bytes, has 1024" "$i/bz-cut-kernel"
bad "bzImage with an old protocol" "boot protocol 2.08" "$i/bz-old"
bad "bzImage of 32 bits" "32-bit" "$i/bz-32bit"
bad "bzImage with a wrong alignment" "kernel_alignment" "$i/bz-alignment"
bad "bzImage with a huge init_size" "3 GiB" "$i/bz-init-size"
bad "bzImage at the end of the address space" "wants to be at" "$i/bz-wraps"
bad "bzImage in too little memory" "at least 17 MiB" --mem 16M "$i/bz-good"
bad "command line too long for the kernel" "command line is too long" --cmdline "$(printf '%02100d' 0)" "$i/bz-good"

# ---- ELF
bad "ELF cut after the magic number" "truncated" "$i/elf-cut-magic"
bad "ELF cut after the identification" "truncated" "$i/elf-cut-ident"
bad "ELF cut in the header" "truncated" "$i/elf-cut-header"
bad "ELF cut in the program headers" "truncated: the program headers" "$i/elf-cut-table"
bad "ELF cut in a segment" "truncated: segment 0 ends beyond the file: needs 69632 bytes, has 6144" "$i/elf-cut-segment"
bad "ELF for ARM64" "64-bit ARM" "$i/elf-arm64"
bad "ELF object" "object file" "$i/elf-object"
bad "ELF shared object" "position-independent" "$i/elf-pie"
bad "ELF core dump" "core dump" "$i/elf-core"
bad "ELF with 65535 program headers" "65535 program headers" "$i/elf-phnum"
bad "ELF with program headers far away" "end beyond the file" "$i/elf-phoff"
bad "ELF with tiny program headers" "program headers of 1 bytes" "$i/elf-phentsize"
bad "ELF of class 9" "class is 9" "$i/elf-class"
bad "ELF of the other byte order" "big-endian" "$i/elf-big-endian"
bad "ELF with overlapping segments" "segment 1 .* overlaps segment 0" "$i/elf-overlap"
bad "ELF with a wrapping segment" "wraps around" "$i/elf-wrap"
bad "ELF with a wrapping file offset" "impossible file offset" "$i/elf-wrap-file"
bad "ELF with 3 GiB of .bss" "3 GiB" "$i/elf-bss-3g"
bad "ELF with .bss up to the end of everything" "devices|wraps" "$i/elf-bss-all"
bad "ELF with more bytes in the file than in memory" "in the file but" "$i/elf-filesz"
bad "ELF entered outside of itself" "lies in no segment" "$i/elf-entry"
bad "ELF over lull's tables" "lies on the boot stack" "$i/elf-tables"
bad "ELF over the ACPI tables" "lies on the ACPI tables" "$i/elf-acpi"
bad "ELF over the devices" "where the devices live" "$i/elf-devices"
bad "ELF above all memory" "at least 3073 MiB" "$i/elf-high"
bad "ELF with nothing to load" "nothing to load" "$i/elf-nothing"
bad "ELF dynamically linked" "dynamically linked" "$i/elf-dynamic"
bad "PVH entry outside" "PVH entry point 0x10 " "$i/pvh-entry"
bad "PVH notes without end" "notes" "$i/pvh-notes"
bad "64 KiB of command line" "command line is too long" --cmdline "$(printf '%070000d' 0)" "$i/elf-good"

# ---- multiboot and flat
bad "multiboot 1 with unknown demands" "flags 0x80" "$i/mb1-flags"
bad "multiboot 1 without addresses" "without load addresses" "$i/mb1-no-address"
bad "multiboot 1 with a wrong checksum" "wrong checksum" "$i/mb1-checksum"
bad "multiboot 1 entered outside of itself" "outside of itself" "$i/mb1-entry"
bad "multiboot 1 with contradicting addresses" "cannot be at" "$i/mb1-address"
bad "multiboot 1 with 4 GiB of .bss" "3 GiB" "$i/mb1-bss"
bad "multiboot 2 that demands a framebuffer" "framebuffer" "$i/mb2-framebuffer"
bad "multiboot 2 with a tag of 3 bytes" "tag 4 has only 3 bytes" "$i/mb2-tag-size"
bad "multiboot 2 with a header of 4 GiB" "multiboot 2 header" "$i/mb2-length"
bad "flat binary beyond memory" "at least 257 MiB" --flat-addr 256M "$i/flat"
bad "flat binary over lull's tables" "lies on" --flat-addr 0x9000 "$i/flat"
bad "flat binary in real mode above 1 MiB" "below 1 MiB" --flat-mode real --flat-addr 0x200000 "$i/flat"
bad "flat binary above 4 GiB" "4 GiB" --flat-addr 0x100000000 "$i/flat"
bad "flat address that is no number" "--flat-addr" --flat-addr here "$i/flat"
bad "flat binary in a mode that is none" "--flat-mode" --flat-mode protected "$i/flat"

# ---- initrd
bad "initrd missing" "initrd .*absent: .*No such file" --initrd "$i/absent" "$i/elf-good"
bad "initrd is a directory" "initrd .* is a directory" --initrd "$i" "$i/elf-good"
bad "initrd is empty" "initrd .* is empty" --initrd "$i/empty" "$i/elf-good"
bad "initrd is a fifo" "initrd .* is a fifo" --initrd "$i/fifo" "$i/elf-good"
bad "initrd larger than memory" "initrd .*do not fit" --initrd "$i/sparse" "$i/elf-good"
truncate -s 15M "$i/big"
bad "initrd and kernel larger than memory" "initrd .*no room" --mem 16M --initrd "$i/big" "$i/elf-good"

# ---- memory and CPUs
bad "no memory" "" --mem 0 "$i/elf-good"
bad "1 KiB of memory" "1024 bytes is too little|at least" --mem 1K "$i/elf-good"
bad "memory not in pages" "4096|page" --mem 4097K "$i/elf-good"
bad "more memory than the host has" "more than this host has" --mem 1000000G "$i/elf-good"
bad "more memory than a number holds" "--mem" --mem 99999999999999999999G "$i/elf-good"
bad "negative memory" "--mem" --mem -1 "$i/elf-good"
bad "memory in words" "--mem" --mem lots "$i/elf-good"
bad "memory with a wrong suffix" "--mem" --mem 12Q "$i/elf-good"
bad "memory without a number" "--mem" --mem "" "$i/elf-good"
bad "0 CPUs" "--cpus" --cpus 0 "$i/elf-good"
bad "1000 CPUs" "1000" --cpus 1000 "$i/elf-good"
bad "4294967297 CPUs" "4294967297|--cpus" --cpus 4294967297 "$i/elf-good"
bad "-1 CPUs" "--cpus" --cpus -1 "$i/elf-good"
bad "half a CPU" "--cpus" --cpus 0.5 "$i/elf-good"
bad "affinity to a CPU that is not there" "affinity|CPU" --cpu-affinity 99999 "$i/elf-good"
bad "affinity in words" "affinity" --cpu-affinity all "$i/elf-good"

# ---- options
bad "no kernel" "no kernel"
bad "two kernels" "one argument too many" "$i/elf-good" "$i/elf-good"
bad "unknown option" "--bogus" --bogus "$i/elf-good"
bad "unknown short option" "-Z" -Z "$i/elf-good"
bad "option without its value" "--cpus" --cpus
bad "option given twice" "twice" --mem 64M --mem 128M "$i/elf-good"
bad "irqchip that is none" "--irqchip" --irqchip apic "$i/elf-good"
bad "poll policy that is none" "policy" --halt-poll magic "$i/elf-good"
bad "fixed poll without a number" "poll" --halt-poll fixed: "$i/elf-good"
bad "negative fixed poll" "poll" --halt-poll fixed:-1 "$i/elf-good"
bad "serial port that is none" "--serial" --serial modem "$i/elf-good"
bad "serial file in no directory" "No such file" --serial "file=$i/no/where" "$i/elf-good"
bad "serial socket on a file" "socket" --serial "socket=$i/text" "$i/elf-good"
bad "serial socket with a long name" "socket" --serial "socket=$i/$(printf '%0200d' 0)" "$i/elf-good"
bad "time limit of no time" "--timeout" --timeout 0 "$i/elf-good"
bad "negative time limit" "--timeout" --timeout -5 "$i/elf-good"
bad "log level that is none" "--log-level" --log-level loud "$i/elf-good"
bad "reboot action that is none" "--on-reboot" --on-reboot maybe "$i/elf-good"

# ---- the host
front=(bash -c 'ulimit -v 300000; exec "$@"' -)
bad "address space limited" "cannot map|memory" --mem 1G "$i/elf-good"
front=(bash -c 'ulimit -n 4; exec "$@"' -)
bad "file descriptors limited" "open files|descriptors" "$i/elf-good"
front=(bash -c 'exec 0<&-; exec "$@"' -)
bad "stdin closed" "text file" "$i/text"
cp "$lull" "$tmp/lull"
lull=$tmp/lull
if [ "$(id -u)" -ne 0 ]; then
	skip "/dev/kvm without permission" "needs root"
	skip "kernel without permission" "needs root"
	skip "/dev/kvm missing" "needs root"
	skip "/dev/kvm is something else" "needs root"
else
	chmod 000 "$i/gzip"
	front=(setpriv --bounding-set -all)
	bad "kernel without permission" "gzip: .*Permission denied" "$i/gzip"
	front=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	if "${front[@]}" test -w /dev/kvm; then
		skip "/dev/kvm without permission" "everybody may use it here"
	else
		bad "/dev/kvm without permission" "/dev/kvm.*[Pp]ermission" "$i/elf-good"
	fi
	if unshare -m true 2>/dev/null; then
		mkdir "$tmp/dev"
		# shellcheck disable=SC2016
		front=(unshare -m bash -c 'mount --bind "$0" /dev && exec "$@"' "$tmp/dev")
		bad "/dev/kvm missing" "/dev/kvm" "$i/elf-good"
		front=(unshare -m bash -c 'mount --bind /dev/null /dev/kvm && exec "$@"' -)
		bad "/dev/kvm is something else" "/dev/kvm" "$i/elf-good"
	else
		skip "/dev/kvm missing" "no mount namespaces here"
		skip "/dev/kvm is something else" "no mount namespaces here"
	fi
fi

echo "1..$count"
[ $failures -eq 0 ]
