#!/usr/bin/env python3
"""How close memreel plan comes to the bound on 100,000 random buffers, and how long it plans, for several kinds of random.

usage: tests/bench/plan_random.py MEMREEL [EFFORT...]
"""

import json
import random
import subprocess
import sys
import tempfile

COUNT = 100_000


def uniform(live):
    """Lifetimes of up to twice the mean and sizes of up to 1 MiB, each as likely."""
    return [(begin, begin + random.randint(1, 2 * live), random.randint(1, 1 << 20)) for begin in range(COUNT)]


def geometric(live):
    """Lifetimes and sizes (512 B to 16 MiB) that differ by orders of magnitude: exponential, and uniform logarithms."""
    return [(begin, begin + 1 + int(random.expovariate(1 / live)), int(2 ** random.uniform(9, 24))) for begin in range(COUNT)]


def training(layers):
    """Steps that keep some of what a forward pass allocates until the backward pass comes back to it, beside temporaries."""
    buffers, time = [], 0
    sizes = [int(2 ** random.uniform(14, 24)) for _ in range(layers)]
    while len(buffers) < COUNT:
        scale, kept = random.uniform(0.5, 1), []
        for size in sizes:
            kept.append((time, int(size * scale)))
            buffers += [(time + i, time + i + random.randint(1, 8), int(size * scale * random.random()) + 1) for i in range(4)]
            time += 5
        for begin, size in reversed(kept):
            buffers += [(time + i, time + i + random.randint(1, 8), int(size * random.random()) + 1) for i in range(4)]
            time += 5
            buffers.append((begin, time, size))
    return buffers[:COUNT]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    efforts = sys.argv[2:] or ["100000000"]
    print("| buffers | alive | effort | peak / bound | method | seconds |\n|---|---|---|---|---|---|")
    for kind in (uniform, geometric, training):
        for live in (500, 5000) if kind is not training else (100,):
            random.seed(1)
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write("id,lower,upper,size,alignment\n")
                file.writelines(f"{i},{lower},{upper},{size},512\n" for i, (lower, upper, size) in enumerate(kind(live)))
                file.flush()
                for effort in efforts:
                    plan = json.loads(subprocess.run([sys.argv[1], "plan", file.name, "--effort", effort, "--json"],
                                                     check=True, stdout=subprocess.PIPE).stdout)
                    print(f"| {kind.__name__} | {live} | {effort} | {1 + plan['gap']:.4f} | {plan['method']} | {plan['seconds']:.2f} |",
                          flush=True)


if __name__ == "__main__":
    main()
