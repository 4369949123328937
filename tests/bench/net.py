#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams between a tiny guest and a tap: lull's ways of waiting, and QEMU microvm.

All in one run, in turn, medians of ROUNDS (5). Frames of 1514 bytes, and of 64 KiB as Linux hands over TCP (TSO). CPU is that of
all threads of the monitor. Needs root for the tap."""
import os
import re
import shutil
import statistics
import subprocess
import sys

from monitors import cpu_seconds, guests, lull, qemu_microvm, top

rounds = int(os.environ.get("ROUNDS", 5))
tap = "lullbench"
KINDS = (("to the host, 1514 bytes", "bytes=1514 frames=50000", 1514, 0), ("to the host, 64 KiB", "gso=1 bytes=65214 frames=20000", 65214, 1),
         ("to the guest, 1514 bytes", "receive=1 frames=50000", 1514, 0), ("to the guest, 64 KiB", "receive=1 gso=1 frames=20000", 65214, 1))


def lull_command(irqchip, policy):
    return lambda words: [lull, "run", "--debug-exit", "raw", "--serial", "stdio", "--irqchip", irqchip, "--halt-poll", policy, "--net", "tap=" + tap,
                          "--cmdline", words, os.path.join(guests, "net_bench.elf")]


def qemu_command(words):
    devices = ["-netdev", "tap,id=n,ifname=%s,script=no,downscript=no,vnet_hdr=on" % tap, "-device", "virtio-net-device,netdev=n,bus=virtio-mmio-bus.0"]
    return qemu_microvm("net_bench", "128M", devices, words)


def contenders():
    yield "user, sleeps", lull_command("user", "none")
    yield "user, cost", lull_command("user", "cost")
    yield "kernel, sleeps", lull_command("kernel", "none")
    yield "kernel, polls 200 us", lull_command("kernel", "fixed:200000")
    if shutil.which("qemu-system-x86_64"):
        yield "QEMU microvm", qemu_command


def run(command, words, size, gso):
    """MB/s, and CPU time in us for each megabyte."""
    flood = None
    before = cpu_seconds()
    guest = subprocess.Popen(["timeout", "60"] + command("apic=x2apic " + words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    if "receive" in words:
        for line in guest.stdout:
            if "ready" in line:
                break
        flood = subprocess.Popen([os.path.join(top, "build/bench/flood"), tap, str(size), str(gso)])
    out, err = guest.communicate()
    cpu = cpu_seconds() - before
    if flood:
        flood.kill()
        flood.wait()
    found = re.search(r"(\d+) bytes, (\d+) ns", out)
    if not found:
        sys.exit("no figures: %s\n%s%s" % (" ".join(guest.args), out, err))
    size, ns = (int(n) for n in found.groups())
    return size * 1000 / ns, cpu * 1e12 / size


def taps():
    print("| stream | who | MB/s | CPU us per MB |\n|---|---|---|---|")
    for kind, words, size, gso in KINDS:
        table = [(name, command, []) for name, command in contenders()]
        for _ in range(rounds):
            for _, command, figures in table:
                figures.append(run(command, words, size, gso))
        for name, _, figures in table:
            print("| %s | %s | %.0f | %.0f |" % (kind, name, *(statistics.median(f[i] for f in figures) for i in range(2))), flush=True)


def main():
    subprocess.run(["make", "-s", "-C", top, "build/lull", "guests", "build/guests/net_bench.elf", "build/guests/net_bench.mb"], check=True)
    os.makedirs(os.path.join(top, "build/bench"), exist_ok=True)
    subprocess.run(["gcc", "-O2", "-o", os.path.join(top, "build/bench/flood"), os.path.join(top, "tests/bench/flood.c")], check=True)
    subprocess.run(["ip", "tuntap", "add", tap, "mode", "tap", "vnet_hdr"], check=True)
    try:
        subprocess.run("sysctl -qw net.ipv6.conf.%s.disable_ipv6=1; ip link set %s up" % (tap, tap), shell=True, check=True)
        taps()
    finally:
        subprocess.run(["ip", "link", "del", tap], check=False)


main()
