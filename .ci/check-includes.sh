#!/bin/bash
# Who may include whom: the direction of dependencies in docs/architecture.md, file by file. Prints what breaks it.
set -u
cd "$(dirname "$0")/.." || exit 1

layer() { # layer STEM: which layer a file belongs to
	case $1 in
	lull) echo api ;;
	main | options | cli | cli_*) echo cli ;;
	util | error | log | clock | stats | kvm_stats | wake | bus | irq | poll_hook | guest_mem | event_loop | text_file | thread | host_fd | unix_listener | chardev*) echo base ;;
	machine* | acpi | acpi_dsdt | aml | fdt | mptable | boot_tables | table_buf) echo tables ;;
	image | load*) echo load ;;
	steal | steal_thread | preempt_watch | halt | halt_kernel | policy* | trace | power | budget | contention | cpu_wait | host_cost) echo halt ;;
	sim | sim_* | workload | replay) echo replay ;;
	kvm | guest_cpuid) echo kvm ;;
	irqchip*) echo irqchip ;;
	vcpu*) echo vcpu ;;
	mainboard*) echo board ;;
	vm | vm_* | api | dump | doctor*) echo vm ;;
	*) echo "?" ;;
	esac
}

# layer: the layers it may include beside itself. Devices see the base and nothing of the VM; the layers above see devices
# only where they are chips or the board; nobody sees the command line, and it sees the public interface only.
declare -A may=(
	[cli]="api"
	[base]="api"
	[device]="base"
	[tables]="base api"
	[load]="base tables"
	[halt]="base api"
	[replay]="base api halt"
	[kvm]="base api"
	[irqchip]="base kvm device vcpu"
	[vcpu]="base api kvm halt load tables irqchip device"
	[board]="base api tables irqchip device"
	[vm]="base api tables load halt kvm irqchip vcpu board device"
)

bad=0
for file in vmm/*.[ch] devices/*.[ch]; do
	stem=$(basename "${file%.*}")
	from=device
	[[ $file != vmm/* ]] || from=$(layer "$stem")
	if [ "$from" = '?' ]; then
		echo "$file: which layer? Name it in .ci/check-includes.sh and docs/architecture.md"
		bad=1
		continue
	fi
	first=
	while read -r header; do
		if [ -e "devices/$header" ]; then to=device
		elif [ -e "vmm/$header" ] || [ -e "include/$header" ]; then to=$(layer "${header%.h}")
		else echo "$file: $header is in no folder of ours"; bad=1; continue
		fi
		: "${first:=$header}"
		if [ "$to" != "$from" ] && [[ " ${may[$from]} " != *" $to "* ]]; then
			echo "$file ($from) may not include $header ($to)"
			bad=1
		fi
	done < <(sed -n 's/^#include "\(.*\)"/\1/p' "$file")
	if [[ $file == *.c ]] && [ -e "${file%.c}.h" ] && [[ $first != "$stem.h" && $first != "${stem}_internal.h" ]]; then
		echo "$file: its first include is $first, not $stem.h"
		bad=1
	fi
done
if grep -n '#include "' include/lull.h; then
	echo "include/lull.h includes something of ours"
	bad=1
fi
exit $bad
