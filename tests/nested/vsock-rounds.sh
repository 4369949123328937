#!/bin/sh
# Runs in the emulated host: the same guest under lull and under QEMU with the host's vhost-vsock, in turn.
# $1: bytes each way, $2: rounds.
bytes=$1 rounds=$2 bad=0
read -r order </files/load
for module in $order; do
	insmod "/files/$module.ko" || echo "no $module"
done
line="console=ttyS0 loglevel=3 panic=-1 lull.pump=5000,$bytes"
received() { # received FILE: MB/s of who received there
	sed -n 's/^pump: received \([0-9]*\) bytes in \([0-9.]*\) s, all of them right.*/\1 \2/p' "$1" |
		awk '{ printf "%.1f MB/s", $1 / $2 / 1e6; n++ } END { exit n != 1 }'
}
one() { # one NAME END COMMAND...
	name=$1 end=$2
	shift 2
	# It listens long before the guest is up.
	/files/pump listen "$end" "$bytes" >/tmp/host 2>&1 &
	host=$!
	"$@" >/tmp/guest 2>&1 </dev/null
	if to=$(received /tmp/guest) && wait $host && from=$(received /tmp/host); then
		echo "$name: to the guest $to, from the guest $from"
		return
	fi
	kill $host
	bad=1
	echo "$name: failed"
	tail -n 5 /tmp/guest /tmp/host
}
while [ "$rounds" -gt 0 ]; do
	rounds=$((rounds - 1))
	for chip in user kernel; do
		rm -f /tmp/v /tmp/v_5000
		one lull/$chip unix:/tmp/v_5000 lull run --cpus 1 --mem 256M --irqchip $chip --vsock cid=3,socket=/tmp/v \
			--serial stdio --timeout 200 --initrd /guest/initrd-6.12 --cmdline "$line" /guest/vmlinuz-6.12
	done
	one qemu vsock:5000 timeout 200 qemu-system-x86_64 -M microvm,accel=kvm,pic=off,pit=off,rtc=on -cpu host -smp 1 -m 256 \
		-nodefaults -no-user-config -display none -serial stdio -no-reboot -device vhost-vsock-device,guest-cid=3 \
		-kernel /guest/vmlinuz-6.12 -initrd /guest/initrd-6.12 -append "$line reboot=t"
done
exit $bad
