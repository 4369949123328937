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
# The set-up of machines with and without devices, one after the other, RUNS times.
scratch=$(mktemp -d)
truncate -s 64M "$scratch/disk"
tap=
if ip tuntap add lullbench0 mode tap 2> /dev/null; then tap=yes; fi
cleanup() {
	rm -rf "$scratch"
	[ -z "$tap" ] || ip link del lullbench0
}
trap cleanup EXIT
with_devices() { # with_devices KIND COMMAND...: the command with the options of that kind
	kind=$1
	shift
	case $kind in
	none) "$@" --rng off ;;
	rng) "$@" --rng on ;;
	disk) "$@" --rng off --disk "path=$scratch/disk" ;;
	console) "$@" --rng off --console "file=$scratch/console" ;;
	balloon) "$@" --rng off --balloon free-page-reporting,stats=1 ;;
	vsock) "$@" --rng off --vsock "cid=3,socket=$scratch/vsock" ;;
	tap) "$@" --rng off --net tap=lullbench0 ;;
	new-tap) "$@" --rng off --net tap ;;
	all) "$@" --rng on --disk "path=$scratch/disk" --console "file=$scratch/console" --balloon free-page-reporting,stats=1 \
		--vsock "cid=3,socket=$scratch/vsock" ${tap:+--net} ${tap:+tap=lullbench0} ;;
	esac
}
kinds="none rng disk console balloon vsock ${tap:+tap new-tap} all"
run=0
while [ $run -lt "$runs" ]; do
	for kind in $kinds; do
		with_devices "$kind" build/lull run --mem 64M --serial null --log-level debug $guest 2>&1 < /dev/null |
			sed -n 's/.*set-up: .*devices \([0-9.]*\),.*/\1/p' >> "$scratch/times.$kind"
	done
	run=$((run + 1))
done
echo "making devices and opening what they lead to, ms of the set-up:"
printf '  %-8s %6s %6s\n' "" min median
for kind in $kinds; do
	sort -n "$scratch/times.$kind" | awk -v kind="$kind" '{ v[NR] = $1 } END { printf "  %-8s %6.2f %6.2f\n", kind, v[1], v[int((NR + 1) / 2)] }'
done
[ -n "$tap" ] || echo "  no tap can be made here"

echo
printf 'binary: %s KiB, %s\n' "$(($(stat -c %s build/lull) / 1024))" "$(file -b build/lull 2> /dev/null | cut -d, -f1-4)"
memory() { # memory KIND: KiB that are resident beside guest RAM, and of guest RAM
	# Not in a shell of its own: that would be what is measured.
	with_devices "$1" start_idle
	sleep 1
	# Everything resident but the mapping of guest RAM: 64 MiB, which the kernel shows as two, small pages and huge ones.
	own=0 in_guest=0 ram=
	while read -r first second _; do
		case $first in
		*-*) bytes=$((0x${first#*-} - 0x${first%-*})) && ram=$((bytes >= 62 << 20 || bytes == 2 << 20)) ;;
		Rss:) if [ "$ram" = 1 ]; then in_guest=$((in_guest + second)); else own=$((own + second)); fi ;;
		esac
	done < "/proc/$pid/smaps"
	kill -9 $pid
	wait $pid 2> /dev/null || true
}
start_idle() { # start_idle OPTION...
	build/lull run --mem 64M --serial null "$@" build/guests/idle.elf < /dev/null > /dev/null 2>&1 &
	pid=$!
}
memory none
echo "memory with 1 vCPU: $own KiB resident beside guest RAM ($in_guest KiB of that touched)"
bare=$own
memory all
echo "with all of these devices: $own KiB, $((own - bare)) KiB more"
