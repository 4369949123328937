#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Start-up time, memory and size: lull beside a bare KVM program and QEMU microvm, in one run.
set -eu
cd "$(dirname "$0")/../.."
runs=${RUNS:-20}
out=build/bench
mkdir -p $out
gcc -O2 -static -o $out/bare tests/bench/bare.c
gcc -O2 -o $out/interleave tests/bench/interleave.c
guest=build/guests/exit_now.mb
set -- "bare KVM program=0,,$out/bare" \
	"lull, user=1,,build/lull,,run,,--mem,,64M,,--serial,,null,,$guest" \
	"lull, kernel=1,,build/lull,,run,,--mem,,64M,,--serial,,null,,--irqchip,,kernel,,$guest"
if command -v qemu-system-x86_64 > /dev/null; then
	set -- "$@" "QEMU microvm=1,,qemu-system-x86_64,,-M,,microvm,accel=kvm,pic=off,pit=off,rtc=off,,-m,,64M,,-nodefaults,,-display,,none,,-no-reboot,,-device,,isa-debug-exit,iobase=0xf4,iosize=4,,-kernel,,$guest"
else
	echo "QEMU is not installed: apt-get install qemu-system-x86 to see it beside lull"
fi
$out/interleave "$runs" "$@"

echo
echo "where lull's time goes (--log-level debug):"
build/lull run --mem 64M --serial null --log-level debug $guest 2>&1 < /dev/null | grep -e 'set-up' || true

echo
printf 'binary: %s KiB, %s\n' "$(($(stat -c %s build/lull) / 1024))" "$(file -b build/lull 2> /dev/null | cut -d, -f1-4)"
build/lull run --mem 64M --serial null build/guests/idle.elf < /dev/null > /dev/null 2>&1 &
pid=$!
sleep 1
# Everything resident but the mapping of guest RAM: 64 MiB, which the kernel shows as two, small pages and huge ones.
own=0 guest=0 ram=
while read -r first second _; do
	case $first in
	*-*) bytes=$((0x${first#*-} - 0x${first%-*})) && ram=$((bytes >= 62 << 20 || bytes == 2 << 20)) ;;
	Rss:) if [ "$ram" = 1 ]; then guest=$((guest + second)); else own=$((own + second)); fi ;;
	esac
done < "/proc/$pid/smaps"
echo "memory with 1 vCPU: $own KiB resident beside guest RAM ($guest KiB of that touched)"
kill -9 $pid
