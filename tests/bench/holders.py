#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of memreel.holders() over many objects, next to a loop over gc.get_objects().

holders.py [OBJECTS]      prints the median seconds of each, in processor time
"""
import gc
import statistics
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
    times = []
    for _ in range(5):
        began = time.process_time()
        what()
        times.append(time.process_time() - began)
    return statistics.median(times)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    kept = [Sample(i) for i in range(count // 4)] + [(i, []) for i in range(count // 8)] + [Buffer(i) for i in range(1000)]
    gc.collect()
    plain = seconds(loop)
    walk = seconds(lambda: memreel.holders(seconds=60))
    print(f"Python {sys.version.split()[0]}, {len(gc.get_objects()):,} objects: holders() {walk:.3f} s, loop {plain:.3f} s, "
          f"{walk / plain:.1f} times; kept {len(kept):,}")


if __name__ == "__main__":
    main()
