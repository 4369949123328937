#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random 4 KiB reads, one at a time, by a tiny guest that halts until each is there: lull's ways of waiting, KVM's, and QEMU microvm.
Then sequential reads and writes of 128 KiB.

All in one run, in turn, medians of ROUNDS (7) rounds of REQUESTS (300) each; real-time priority where that is allowed, since a busy
host measures nothing. IMAGE=FILE or a new file of 64 MiB beside this repository's build. CPU is that of all threads of the monitor."""
import os
import re
import shutil
import statistics
import subprocess
import sys

from monitors import cpu_seconds, guests, lull, qemu_microvm, top

plain = os.path.join(top, "build/bench/plain")  # lull without completions by the vCPU that waits for them
rounds, requests = int(os.environ.get("ROUNDS", 7)), int(os.environ.get("REQUESTS", 300))
image = os.environ.get("IMAGE", os.path.join(top, "build/bench-disk.img"))


def lull_command(irqchip, policy, disk, command=lull):
    return lambda words: [command, "run", "--debug-exit", "raw", "--serial", "stdio", "--irqchip", irqchip, "--halt-poll", policy,
                          "--disk", "path=%s,%s" % (image, disk), "--cmdline", words, os.path.join(guests, "blk_bench.elf")]


def qemu_command(cache):
    devices = ["-object", "iothread,id=io", "-drive", "id=d,file=%s,format=raw,if=none,aio=io_uring,cache=%s" % (image, cache),
               "-device", "virtio-blk-device,drive=d,iothread=io,bus=virtio-mmio-bus.0"]
    return lambda words: qemu_microvm("blk_bench", "64M", devices, words)


def contenders():
    """Where, who, and the command line for the words that the guest gets."""
    for where, disk, cache in (("O_DIRECT", "direct,", "none"), ("page cache", "", "writeback")):
        through = "%s, through the I/O thread"
        yield where, through % "user, sleeps", lull_command("user", "none", disk + "engine=io_uring", plain + "/lull")
        yield where, through % "user, cost", lull_command("user", "cost", disk + "engine=io_uring", plain + "/lull")
        yield where, through % "kernel, sleeps", lull_command("kernel", "none", disk + "engine=io_uring", plain + "/lull")
        yield where, through % "kernel, polls 200 us", lull_command("kernel", "fixed:200000", disk + "engine=io_uring", plain + "/lull")
        yield where, "user, sleeps", lull_command("user", "none", disk + "engine=io_uring")
        yield where, "user, polls 400 us", lull_command("user", "fixed:400000", disk + "engine=io_uring")
        yield where, "user, cost", lull_command("user", "cost", disk + "engine=io_uring")
        yield where, "user, system calls", lull_command("user", "none", disk + "engine=sync")
        yield where, "kernel, sleeps", lull_command("kernel", "none", disk + "engine=io_uring")
        yield where, "kernel, polls 200 us", lull_command("kernel", "fixed:200000", disk + "engine=io_uring")
        if shutil.which("qemu-system-x86_64"):
            yield where, "QEMU microvm", qemu_command(cache)


def run(command, words):
    """The guest's figures (four times in ns, then MB/s), and the CPU time in s."""
    front = ["chrt", "-f", "10"] if os.geteuid() == 0 else []
    before = cpu_seconds()
    done = subprocess.run(front + ["timeout", "30"] + command("apic=x2apic ack=1 " + words), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    found = re.search(r"median (\d+) ns, p90 (\d+) ns, p99 (\d+) ns, least (\d+) ns, \d+ a second, (\d+) MB", done.stdout)
    if not found:
        sys.exit("no figures: %s\n%s%s" % (" ".join(done.args), done.stdout, done.stderr))
    return [int(ns) for ns in found.groups()], cpu_seconds() - before


def main():
    if not os.path.exists(image):
        with open(image, "wb") as out:
            for _ in range(64):
                out.write(os.urandom(1 << 20))
            os.fsync(out.fileno())
    subprocess.run(["make", "-s", "-C", top, "B=" + plain, "CFLAGS=-DPOLL_HOOKS_MAX=0", plain + "/lull"], check=True)
    subprocess.run(["make", "-s", "-C", top, "build/lull", "build/guests/blk_bench.elf", "build/guests/blk_bench.mb"], check=True)
    latency()
    throughput()


def latency():
    table = [(where, name, command, [], []) for where, name, command in contenders()]
    for _ in range(rounds):
        for _, _, command, times, cpu in table:
            few = run(command, "requests=10")[1]
            figures, many = run(command, "requests=%d" % requests)
            times.append(figures)
            cpu.append((many - few) / (requests - 10))
    print("| file | who | median us | p90 | p99 | least | CPU us per read |\n|---|---|---|---|---|---|---|")
    for where, name, _, times, cpu in table:
        ns = [statistics.median(t[i] for t in times) / 1000 for i in range(4)]
        print("| %s | %s | %.0f | %.0f | %.0f | %.0f | %.0f |" % (where, name, *ns, statistics.median(cpu) * 1e6))


def throughput():
    table = [(where, name, command, [], []) for where, name, command in contenders()]
    for _ in range(rounds):
        for _, _, command, reads, writes in table:
            for write, speeds in ((0, reads), (1, writes)):
                figures, _ = run(command, "requests=%d bytes=131072 order=sequential write=%d" % (requests, write))
                speeds.append(figures[4])
    print("\n| file | who | reads, MB/s | writes, MB/s |\n|---|---|---|---|")
    for where, name, _, reads, writes in table:
        print("| %s | %s | %.0f | %.0f |" % (where, name, statistics.median(reads), statistics.median(writes)))


main()
