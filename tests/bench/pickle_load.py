#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The baseline of bench_import: the time of Python's own pickle.load.

pickle_load.py FILE              prints the seconds that pickle.load(FILE) takes
pickle_load.py --generate FILE   writes a snapshot of random allocations to FILE
"""
import pickle
import random
import sys
import time


def load(path):
    with open(path, "rb") as file:
        start = time.perf_counter()
        pickle.load(file)
        print(time.perf_counter() - start)


def generate(path, allocations=200_000):
    """Entries as PyTorch 2.11 dumps them: shared keys and frames, but each with its own frame list and strings."""
    chance = random.Random(1)
    frames = [{"name": f"function_{i}", "filename": "site-packages/model.py", "line": i} for i in range(200)]
    base, size_of, entries, live, now = 1 << 46, {}, [], [], 1_700_000_000_000_000

    def add(action, address, size, stack):
        nonlocal now
        now += chance.randrange(20)
        entries.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": now,
                        "compile_context": "".join(["N", "/A"]), "user_metadata": "", "frames": stack})

    add("segment_alloc", base, 64 << 30, [])
    for i in range(allocations):
        address, size = base + (i << 20), chance.randrange(8, 1 << 20)
        size_of[address] = size
        live.append(address)
        add("alloc", address, size, chance.sample(frames, 2))
        if len(live) > 1000:
            address = live.pop(chance.randrange(len(live)))
            stack = chance.sample(frames, 2)
            add("free_requested", address, size_of[address], stack)
            add("free_completed", address, size_of[address], stack)
    with open(path, "wb") as file:
        pickle.dump({"segments": [], "device_traces": [entries]}, file, protocol=4)


if __name__ == "__main__":
    if sys.argv[1] == "--generate":
        generate(sys.argv[2])
    else:
        load(sys.argv[1])
