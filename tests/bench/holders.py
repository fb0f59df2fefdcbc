#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of memreel.holders() over many objects, next to a loop over gc.get_objects().

holders.py [OBJECTS]      prints the best of five of each
"""
import gc
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collector/python_module"))
import memreel  # noqa: E402


class Sample:
    def __init__(self, number):
        self.values, self.more = [number], {"next": self}


class Buffer:
    def __init__(self, number):
        self.__cuda_array_interface__ = {"data": (number << 20, False), "shape": (256,), "typestr": "<f4", "version": 3}


def loop():
    for _ in gc.get_objects():
        pass


def seconds(what):
    """The best of five, in processor time and by the clock."""
    times = []
    for _ in range(5):
        began = time.process_time(), time.perf_counter()
        what()
        times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return [min(column) for column in zip(*times)]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    kept = [Sample(i) for i in range(count // 4)] + [(i, []) for i in range(count // 8)] + [Buffer(i) for i in range(1000)]
    gc.collect()
    plain = seconds(loop)
    walk = seconds(lambda: memreel.holders(seconds=60))
    print(f"Python {sys.version.split()[0]}, {len(gc.get_objects()):,} objects: holders() {walk[0]:.3f} s of a processor, {walk[1]:.3f} s by the "
          f"clock; loop {plain[0]:.3f} s, {plain[1]:.3f} s; kept {len(kept):,}")


if __name__ == "__main__":
    main()
