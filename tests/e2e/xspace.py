# SPDX-License-Identifier: Apache-2.0
"""Makes profiles in the format of jax.profiler.trace(), for cases that no available recording covers.

As a program, writes some into the given directory, as seeds for the fuzzers."""

import gzip
import struct
import sys
from pathlib import Path

BASE = 0x302000000
MIB = 1 << 20


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def real(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def chunk(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


class Plane:
    """Collects timelines; names of events and statistics become numbers, as in an XPlane."""

    def __init__(self, name):
        self.name = name
        self.lines = []
        self.events, self.stats = {}, {}

    def stat(self, name, value):
        key = number(1, self.stats.setdefault(name, len(self.stats) + 1))
        if isinstance(value, float):
            return key + real(2, value)
        if isinstance(value, int):
            return key + number(3, value)
        return key + chunk(5, value)

    def event(self, name, begin_ns, duration_ns=0, **stats):
        message = number(1, self.events.setdefault(name, len(self.events) + 1))
        message += number(2, begin_ns * 1000) + number(3, duration_ns * 1000)
        return message + b"".join(chunk(4, self.stat(*stat)) for stat in stats.items())

    def line(self, id, name, events):
        self.lines.append(number(1, id) + chunk(2, name) + number(3, 1000) + b"".join(chunk(4, e) for e in events))

    def encode(self):
        def names(field, table):
            return b"".join(chunk(field, number(1, id) + chunk(2, number(1, id) + chunk(2, name)))
                            for name, id in table.items())
        return (chunk(2, self.name) + b"".join(chunk(3, line) for line in self.lines) + names(4, self.events) +
                names(5, self.stats))


def memory(plane, kind, begin_ns, address, requested, allocated, in_use, fragmentation, limit=64 * MIB):
    return plane.event(kind, begin_ns, allocator_name="GPU_0_bfc", bytes_reserved=0, bytes_allocated=in_use,
                       bytes_available=limit - in_use, fragmentation=fragmentation, peak_bytes_in_use=in_use,
                       requested_bytes=requested, allocation_bytes=allocated, addr=address)


def profile(second_offset=256):
    """Two small allocations, one of them freed. The allocator would put the second 256 bytes after the first: any other
    `second_offset` makes a history that it can't have produced."""
    plane = Plane("/host:CPU")
    gap = second_offset - 256  # between the two
    plane.line(7, "python3", [
        plane.event("train", 5, 200, step_num=0),
        plane.event("$train.py:12 step", 6, 100),
        memory(plane, "MemoryAllocation", 10, BASE, 4, 256, 256, 0.0),
        memory(plane, "MemoryAllocation", 20, BASE + second_offset, 100, 256, 512, gap / (2 * MIB - 512)),
        memory(plane, "MemoryDeallocation", 150, BASE, 4, 256, 256, second_offset / (2 * MIB - 256))])
    return chunk(1, plane.encode())


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "profile.xplane.pb").write_bytes(profile())
    (directory / "impossible.xplane.pb").write_bytes(profile(second_offset=4096))
    (directory / "profile.xplane.pb.gz").write_bytes(gzip.compress(profile(), mtime=0))
