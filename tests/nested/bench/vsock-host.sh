#!/bin/sh
# Runs in the emulated host: the same guest under lull and under QEMU with the host's vhost-vsock, in turn.
# $1: bytes each way, $2: rounds.
bytes=$1 rounds=$2 bad=0
for module in vsock vmw_vsock_virtio_transport_common vhost_iotlb vhost vhost_vsock; do
	insmod /files/$module.ko || echo "no $module"
done
line="console=ttyS0 loglevel=3 panic=-1 bench.bytes=$bytes"
# The host's end first, and the guest when it waits.
one() { # one NAME KIND WHERE COMMAND...
	name=$1 kind=$2 where=$3
	shift 3
	rm -f /tmp/s "$where"
	/files/stream "$kind" "$where" "$bytes" >/tmp/s 2>&1 &
	host=$!
	until grep -q waits /tmp/s || ! kill -0 $host; do usleep 50000; done
	if ! "$@" >/tmp/guest 2>&1 </dev/null; then
		kill $host
		echo "$name: ended with an error"
	fi
	wait $host || { bad=1; tail -n 5 /tmp/guest; }
	sed -n "/waits/! s|^stream|$name|p" /tmp/s
}
while [ "$rounds" -gt 0 ]; do
	rounds=$((rounds - 1))
	for chip in user kernel; do
		one lull/$chip unix /tmp/v_5000 lull run --cpus 1 --mem 256M --irqchip $chip --vsock cid=3,socket=/tmp/v \
			--serial stdio --timeout 200 --initrd /files/bench.cpio --cmdline "$line" /guest/vmlinuz-6.12
		rm -f /tmp/v
	done
	one qemu vsock 5000 timeout 200 qemu-system-x86_64 -M microvm,accel=kvm,pic=off,pit=off,rtc=on -cpu host -smp 1 -m 256 \
		-nodefaults -no-user-config -display none -serial stdio -no-reboot -device vhost-vsock-device,guest-cid=3 \
		-kernel /guest/vmlinuz-6.12 -initrd /files/bench.cpio -append "$line reboot=t"
done
echo "bench: end"
exit $bad
