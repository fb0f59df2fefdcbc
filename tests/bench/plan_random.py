#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close memreel plan comes to the bound on 100,000 random buffers, and how long the command takes, for several kinds of random.

usage: tests/bench/plan_random.py MEMREEL [ALIGNMENT [ARGUMENTS of memreel plan...]]
"""

import random
import re
import subprocess
import sys
import tempfile
import time

COUNT = 100_000


def lifetimes(live, buffer):
    """One begins in every unit of time."""
    return [(begin, begin + 1 + length, size) for begin in range(COUNT) for length, size in [buffer(live)]]


def uniform(live):
    """Lifetimes of up to twice the mean and sizes of up to 1 MiB, each as likely."""
    return lifetimes(live, lambda live: (random.randrange(2 * live), random.randint(1, 1 << 20)))


def at_any_time(live):
    """As uniform, and several may begin at a time, or none for long."""
    return [(begin, begin + 1 + random.randrange(2 * live), size)
            for begin, size in ((random.randrange(COUNT), random.randint(1, 1 << 20)) for _ in range(COUNT))]


def geometric(live):
    """Lifetimes and sizes (512 B to 16 MiB) that differ by orders of magnitude: exponential, and uniform logarithms."""
    return lifetimes(live, lambda live: (int(random.expovariate(1 / live)), int(2 ** random.uniform(9, 24))))


def exponential(live):
    """Lifetimes and sizes (32 KiB in the mean), both exponential."""
    return lifetimes(live, lambda live: (int(random.expovariate(1 / live)), 1 + int(random.expovariate(1 / (32 << 10)))))


def powers_of_two(live):
    return lifetimes(live, lambda live: (random.randrange(2 * live), 1 << random.randint(9, 20)))


def few_sizes(live):
    sizes = (1000, 3000, 7168, 40_000, 100_000, 262_144, 700_000, 1_000_000)
    return lifetimes(live, lambda live: (random.randrange(2 * live), random.choice(sizes)))


def heavy_tails(live):
    """Of both: few buffers last most of the time, and few take most of the memory (at most 100 MB)."""
    return lifetimes(live, lambda live: (int(min(COUNT, live / 3 * random.paretovariate(1.5))),
                                         int(min(1e8, 4096 * random.paretovariate(1.3)))))


def training(layers):
    """Steps that keep some of what a forward pass allocates until the backward pass comes back to it, beside temporaries."""
    buffers, now = [], 0
    sizes = [int(2 ** random.uniform(14, 24)) for _ in range(layers)]
    while len(buffers) < COUNT:
        scale, kept = random.uniform(0.5, 1), []
        for size in sizes:
            kept.append((now, int(size * scale)))
            buffers += [(now + i, now + i + random.randint(1, 8), int(size * scale * random.random()) + 1) for i in range(4)]
            now += 5
        for begin, size in reversed(kept):
            buffers += [(now + i, now + i + random.randint(1, 8), int(size * random.random()) + 1) for i in range(4)]
            now += 5
            buffers.append((begin, now, size))
    return buffers[:COUNT]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    memreel, alignment, arguments = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "512", sys.argv[3:]
    print("| buffers | alive | above the bound | method | wall clock, processor |\n|---|---|---|---|---|")
    for kind in (uniform, at_any_time, geometric, exponential, powers_of_two, few_sizes, heavy_tails, training):
        for live in (50, 500, 5000) if kind is not training else (100,):
            random.seed(1)
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file, tempfile.NamedTemporaryFile(suffix=".csv") as plan:
                file.write("id,lower,upper,size,alignment\n")
                file.writelines(f"{i},{lower},{upper},{size},{alignment}\n" for i, (lower, upper, size) in enumerate(kind(live)))
                file.flush()
                begin = time.monotonic()
                process = subprocess.run(["bash", "-c", 'time "$@"', "bash", memreel, "plan", file.name, "-o", plan.name, *arguments],
                                         check=True, capture_output=True, text=True, env={"TIMEFORMAT": "%U %S"})
                wall = time.monotonic() - begin
                peak, bound = (int(re.search(pattern, process.stdout)[1].replace(",", "")) for pattern in (r"\(([\d,]+) bytes\)", r"bound: ([\d,]+) bytes"))
                method = re.search("method: (.*)", process.stdout)[1]
                processor = sum(map(float, process.stderr.split()[-2:]))
                print(f"| {kind.__name__.replace('_', ' ')} | {live} | {100 * (peak / bound - 1):.2f} % | {method} | {wall:.2f}, {processor:.2f} s |",
                      flush=True)


if __name__ == "__main__":
    main()
