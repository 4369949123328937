#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench-vsock.sh [MIB [ROUNDS]] - vsock streams of lull and of QEMU microvm with the kernel's vhost-vsock, the same stock
# guest in turn in one emulated host. Everything is emulated, so only lines beside each other can be compared.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${NESTED_BUILD:-$root/build/nested}
mib=${1:-16} rounds=${2:-3}

"$here/prepare.sh"
tree=$out/tree.bench
rm -rf "$tree" && mkdir -p "$tree"/{bin,modules,proc,dev}
make -s -C "$root" build/sysinclude/.done build/lull
musl-gcc -O2 -static -Wall -Wextra -isystem "$root/build/sysinclude" -D_GNU_SOURCE "$here/bench/stream.c" -o "$out/stream"
cp /bin/busybox "$out/stream" "$tree/bin/"
ln -s busybox "$tree/bin/sh"
cp "$out"/guest-modules/6.12/* "$tree/modules/"
cp "$here/bench/vsock-guest" "$tree/init" && chmod 755 "$tree/init"
(cd "$tree" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) >"$out/bench.cpio"
rm -rf "$tree"
files=(--file "$out/stream" --file "$out/bench.cpio" --file "$here/bench/vsock-host.sh")
for module in "$out"/bench-modules/6.12/*.ko; do files+=(--file "$module"); done
"$here/run.sh" --limit 1500 "${files[@]}" --cmd "/bin/sh /files/vsock-host.sh $((mib << 20)) $rounds; end=\$?; : qemu-system; exit \$end"
