#!/bin/sh
# Installs the Debian packages that are missing and says which. `build`: what it takes to make build/lull; `test`: also
# what `make check` needs. `debian`: what makes the image of tests/nested/run.sh --debian. docs/dependencies.md gives the reason for each.
set -eu

build='gcc libc6-dev linux-libc-dev make musl-tools libfdt-dev liburing-dev'
check='libcmocka-dev clang clang-tidy clang-format libclang-rt-dev cppcheck shellcheck spin device-tree-compiler
	acpica-tools qemu-system-x86 busybox-static cpio xz-utils e2fsprogs git procps python3
	iproute2 iputils-ping passt'

case ${1:-} in
build) wanted=$build ;;
test) wanted="$build $check" ;;
debian) wanted='debootstrap e2fsprogs' ;;
*) echo "usage: install-deps.sh build|test|debian" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "no dpkg here: please install what these Debian packages contain: $wanted"
	exit 0
fi

missing=
for package in $wanted; do
	# The word after the name is "installed", or the package is not there or only half.
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
if [ -z "$missing" ]; then
	echo "packages: nothing to install"
	exit 0
fi

root=
[ "$(id -u)" = 0 ] || root=sudo
echo "packages: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # $missing is a list, $root may be empty
if ! { $root apt-get update && $root apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log"
	echo "packages: apt-get failed" >&2
	exit 1
fi
