#!/bin/bash
# Feeds the machine's tables to the tools of others: every ACPI table to iasl, taken apart and put together again, the
# device tree to dtc, there and back. Neither may find an error or a warning. TAP on standard output; no /dev/kvm needed.
set -u
cd "$(dirname "$0")/.." || exit 1
for tool in iasl dtc "${CC:=gcc}"; do
	command -v "$tool" >/dev/null || { echo "1..0 # SKIP the tables: no $tool"; exit 77; }
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
lull=$PWD/build/lull
writer=$dir/write_tables
tests=0 failed=0

report() { # report STATUS NAME
	tests=$((tests + 1))
	if [ "$1" = 0 ]; then
		echo "ok $tests - $2"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $tests - $2"
	sed 's/^/# /' "$dir/why"
}

# A table taken apart without complaint, put together without complaint, and the same bytes again behind the header.
iasl_likes() { # iasl_likes FILE
	local base=$1 asl=${1%.dat}.dsl aml=${1%.dat}.aml
	rm -f "$asl" "$aml"
	iasl -d "$base" >"$dir/why" 2>&1 || return 1
	if grep -Ei 'error|warning|incorrect|invalid|unknown' "$dir/why" >"$dir/found" && [ -s "$dir/found" ]; then return 1; fi
	iasl -oa -p "${aml%.aml}" "$asl" >"$dir/why" 2>&1 || return 1
	grep -q 'Compilation successful\. 0 Errors, 0 Warnings' "$dir/why" || return 1
	cmp -i 36 "$base" "$aml" >"$dir/why" 2>&1
}

acpi_tables() { # acpi_tables NAME: all in $dir
	local table status=0
	for table in XSDT FACP FACS APIC DSDT; do
		iasl_likes "$dir/$table.dat" || { status=1; echo "in $table" >>"$dir/why"; break; }
	done
	report $status "$1"
}

dtc_likes() { # dtc_likes FILE NAME
	local status=0
	dtc -I dtb -O dts -o "$dir/tree.dts" "$1" >"$dir/why" 2>&1 &&
		dtc -I dts -O dtb -o "$dir/again.dtb" "$dir/tree.dts" >>"$dir/why" 2>&1 &&
		dtc -I dtb -O dts -o "$dir/again.dts" "$dir/again.dtb" >>"$dir/why" 2>&1 || status=1
	[ -s "$dir/why" ] && status=1
	cmp "$dir/tree.dts" "$dir/again.dts" >>"$dir/why" 2>&1 || status=1
	report $status "$2"
}

sources=(vmm/{machine,machine_text,acpi,acpi_dsdt,aml,table_buf,fdt,mptable,error}.c)
"$CC" -std=gnu11 -O1 -D_GNU_SOURCE -Iinclude -Ivmm -Idevices -Itests tests/write_tables.c \
	"${sources[@]}" -lfdt -o "$writer" >"$dir/why" 2>&1
report $? "writer builds"

for vcpus in 1 2 16 300 512; do
	for virtio in 0 1 8; do
		name="$vcpus vCPUs, $virtio virtio devices"
		"$writer" "$dir" $vcpus 256 $virtio 2>"$dir/why" || { report 1 "$name"; continue; }
		acpi_tables "ACPI: $name"
		dtc_likes "$dir/tree.dtb" "device tree: $name"
	done
done
for ram in 64 2048 4096 16384; do
	"$writer" "$dir" 2 $ram 1 2>"$dir/why" || { report 1 "$ram MiB RAM"; continue; }
	dtc_likes "$dir/tree.dtb" "device tree: $ram MiB RAM"
done

# The same by the command, as people get them.
if [ -x "$lull" ]; then
	status=0
	for table in XSDT FACP FACS APIC DSDT; do
		"$lull" dump $table -o "$dir/$table.dat" --cpus 4 --mem 512M 2>"$dir/why" || { status=1; break; }
	done
	if [ $status = 0 ]; then acpi_tables "lull dump SIGNATURE"; else report 1 "lull dump SIGNATURE"; fi
	"$lull" dump fdt -o "$dir/tree.dtb" --cpus 4 --mem 512M -p 'quiet panic=-1' 2>"$dir/why"
	dtc_likes "$dir/tree.dtb" "lull dump fdt"
	grep -q 'bootargs = "quiet panic=-1"' "$dir/tree.dts" 2>"$dir/why"
	report $? "lull dump fdt has the command line"
	"$lull" dump acpi --cpus 4 --mem 512M 2>"$dir/why" >"$dir/acpi"
	[ "$(head -c 8 "$dir/acpi")" = 'RSD PTR ' ]
	report $? "lull dump acpi starts with the RSDP"
	"$lull" dump e820 --mem 4G >"$dir/why" 2>&1
	grep -q '^0x100000000 .* RAM$' "$dir/why"
	report $? "lull dump e820"
	"$lull" dump machine --cpus 4 >"$dir/why" 2>&1
	grep -Eq '^port .* 4  edge +serial ' "$dir/why"
	report $? "lull dump machine"
else
	tests=$((tests + 1))
	echo "ok $tests - lull dump # SKIP build/lull is not there"
fi
echo "1..$tests"
[ $failed = 0 ]
