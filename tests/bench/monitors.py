# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of devices share: where things are, QEMU's command line, and CPU time."""
import os
import resource

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
lull, guests = os.path.join(top, "build/lull"), os.path.join(top, "build/guests")


def qemu_microvm(guest, memory, devices, words):
    """A microvm with as little in it as possible, that ends as the guest says."""
    return ["qemu-system-x86_64", "-M", "microvm,accel=kvm,pic=off,pit=off,rtc=off,ioapic2=off,auto-kernel-cmdline=off",
            "-cpu", "qemu64,-pni,+x2apic,+kvmclock,+kvm-pv-eoi", "-m", memory, "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-global", "virtio-mmio.force-legacy=false"] + devices + [
            "-kernel", os.path.join(guests, guest + ".mb"), "-append", words + " virtio-base=0xfeb00000 virtio-step=0x200"]


def cpu_seconds():
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
