#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py - lull killed at random moments while the guest blk_records writes: what it has acknowledged must be in the file,
and the file must be free for the next one at once. TAP. Needs /dev/kvm.

    tests/disk/kill.py [--rounds N] [--seed N]
"""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LULL = os.environ.get("LULL", TOP + "/build/lull")
GUEST = TOP + "/build/guests/blk_records.elf"
RECORD, SLOTS, BATCH = 8192, 64, 4
WORDS = RECORD // 8
MASK = (1 << 64) - 1


def number_in(data):
    """Number of the record, 0 for a slot that was never written, None for one that is not whole."""
    words = struct.unpack("<%dQ" % WORDS, data)
    n = words[0]
    if n == 0 and not any(words):
        return 0
    right = all(words[i] == (n * WORDS + i) * 0x9E3779B97F4A7C15 & MASK for i in range(1, WORDS))
    return n if right else None


def acknowledged(path):
    with open(path, "rb") as f:
        lines = f.read().split(b"\n")[:-1]
    return [int(line.split()[1]) for line in lines if line.startswith(b"ACK ")]


def look(image, least):
    """What is wrong with an image whose slots must have at least these records."""
    torn, wrong = 0, []
    with open(image, "rb") as f:
        for slot in range(SLOTS):
            found = number_in(f.read(RECORD))
            if found is None:
                torn += 1
            elif found % SLOTS != slot and found != 0:
                wrong.append("record %d is in slot %d" % (found, slot))
            elif found < least[slot]:
                wrong.append("record %d is lost, %d is in its place" % (least[slot], found))
    # Only what was being written may be half there.
    if torn > BATCH:
        wrong.append("%d records are not whole" % torn)
    return wrong


def one_kill(tmp, image, options, first, least, delay):
    """Returns the last number acknowledged, and an error."""
    acks = tmp + "/serial"
    open(acks, "w").close()
    command = [LULL, "run", "--mem", "64", "--timeout", "60", "--debug-exit", "raw", "--serial", "file=" + acks,
               "--cmdline", "first=%d" % first] + options + [GUEST]
    with open(tmp + "/err", "w") as err:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
    end = time.monotonic() + 30
    while not acknowledged(acks) and p.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(delay)
    p.kill()
    rc = p.wait()
    with open(tmp + "/err") as err:
        said = err.read()[:300]
    if rc != -9:
        return 0, "lull ended by itself with %d: %s" % (rc, said)
    numbers = acknowledged(acks)
    if not numbers:
        return 0, "nothing was acknowledged: " + said
    for n in range(first, numbers[-1] + 1):
        least[n % SLOTS] = n
    wrong = look(image, least)
    return numbers[-1], "; ".join(wrong[:3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    args = parser.parse_args()
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        print("1..0 # SKIP no access to /dev/kvm")
        return 0
    kinds = [("user", "io_uring"), ("user", "io_uring,direct"), ("kernel", "io_uring"), ("user", "sync")]
    print("1..%d" % len(kinds))
    print("# seed %d" % args.seed)
    rng = random.Random(args.seed)
    failed = 0
    for i, (chip, engine) in enumerate(kinds, 1):
        title = "killed %d times while it writes: irqchip %s, engine %s" % (args.rounds, chip, engine)
        error, first, count, least = "", BATCH, 0, [0] * SLOTS
        # Not in a memory file system if that can be: direct is for disks.
        with tempfile.TemporaryDirectory(dir=TOP + "/build") as tmp:
            image = tmp + "/disk"
            with open(image, "wb") as f:
                f.truncate(SLOTS * RECORD)
            options = ["--irqchip", chip, "--disk", "path=%s,engine=%s" % (image, engine)]
            for turn in range(args.rounds):
                last, error = one_kill(tmp, image, options, first, least, rng.random() * 0.15)
                if error:
                    error = "round %d: %s" % (turn + 1, error)
                    break
                count += last - first + 1
                # Behind whatever was written and not acknowledged.
                first = (last // BATCH + 1000) * BATCH
        if error:
            failed += 1
            print("not ok %d - %s\n# %s" % (i, title, error))
        else:
            print("ok %d - %s (%d records acknowledged)" % (i, title, count))
        sys.stdout.flush()
    return failed > 0


sys.exit(main())
