#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench-vsock.sh [MIB [ROUNDS]] - vsock streams of lull and of QEMU microvm with the kernel's vhost-vsock, the same stock
# guest in turn in one emulated host. Everything is emulated, so only lines beside each other can be compared.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${NESTED_BUILD:-$(cd "$here/../.." && pwd)/build/nested}
mib=${1:-16} rounds=${2:-3}

"$here/prepare.sh"
files=(--file "$out/pump" --file "$here/vsock-rounds.sh")
for file in "$out"/bench-modules/6.12/*; do files+=(--file "$file"); done
# The comment has run.sh bring QEMU along.
"$here/run.sh" --limit 1500 "${files[@]}" --cmd "exec /bin/sh /files/vsock-rounds.sh $((mib << 20)) $rounds # qemu-system"
