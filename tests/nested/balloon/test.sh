#!/bin/sh
# test.sh IRQCHIP [OPTION]... - in the emulated host: Debian 6.12 with a balloon of 64 MiB that reports free pages. At least
# half of what it used for 200 MiB of files must come back to this host. Exit code 0: it did.
chip=$1
shift
dir=/tmp/balloon
rm -rf $dir && mkdir $dir && mkfifo $dir/in
exec 4<>$dir/in
lull run --cpus 2 --mem 512M --irqchip "$chip" --timeout 170 --serial stdio --initrd /balloon/initrd \
	--balloon size=64M,free-page-reporting,stats=1 --stats $dir/stats --stats-interval 1 \
	--cmdline 'console=ttyS0 loglevel=5 panic=-1' "$@" /guest/vmlinuz-6.12 <&4 >$dir/out 2>$dir/err &
pid=$!

finish() { # finish CODE
	cat $dir/out
	cat $dir/err >&2
	tail -n 1 $dir/stats
	exit "$1"
}
fail() {
	echo "FAIL $*" >&2
	kill -9 $pid 2>/dev/null
	finish 1
}
resident() { awk '/^VmRSS:/ { now = $2 } END { print now + 0 }' /proc/$pid/status; } # KiB
said() { grep -q "^GUEST $1" $dir/out; }
below() { now=$(resident) && [ "$now" -le "$1" ]; }
told() { tail -n 1 $dir/stats | grep -q "$1"; }
await() { # await SECONDS COMMAND...
	n=$(($1 * 5))
	shift
	until "$@"; do
		n=$((n - 1))
		[ $n -gt 0 ] && kill -0 $pid 2>/dev/null || return 1
		usleep 200000
	done
}

await 100 said filled || fail "the guest does not fill memory"
await 10 told '"actual_bytes":67108864' || fail "the balloon has not its size"
await 10 told '"guest":{.*"free_bytes":[1-9].*"total_bytes":[1-9]' || fail "the guest does not tell its figures"
told '"ignored_pages":0,"failures":0,' || fail "pages were ignored or kept"
full=$(resident)
[ "$full" -ge $((200 * 1024)) ] || fail "$full KiB are resident when 200 MiB are used"
echo >&4
await 20 said freed || fail "the guest does not free its file"
await 40 below $((full - 100 * 1024)) || fail "$now KiB are resident after a file of 200 MiB was freed, $full before"
echo "$full KiB resident with the file, $now KiB after it was freed"
echo >&4
wait $pid || fail "exit code $?"
grep 'GUEST FAIL' $dir/out && fail "the guest complains"
said end || fail "the guest did not end"
finish 0
