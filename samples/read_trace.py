#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a memreel trace with nothing but its schema: counts events by kind and finds the peak of live bytes.

    read_trace.py TRACE.reel

Needs protoc, python3-protobuf and python3-zstandard. docs/trace-format.md explains the format; this is the whole of it
that a simple reader needs. Checksums are not verified: Python has no CRC-32C of its own.
"""
import collections
import importlib
import pathlib
import subprocess
import sys
import tempfile

try:
    import google.protobuf  # noqa: F401
    import zstandard
except ImportError as missing:
    sys.exit(f"read_trace.py: {missing}: install python3-protobuf and python3-zstandard")

SYNC = b"\x09MEMREEL\n"
SYNC_OFFSET = 5  # after the packet's tag and its length of four bytes


def load_schema():
    """Generates the classes of formats/proto/memreel/trace.proto and returns their module."""
    proto = pathlib.Path(__file__).resolve().parent.parent / "formats" / "proto"
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["protoc", f"-I{proto}", f"--python_out={out}", "memreel/trace.proto"], check=True)
        sys.path.insert(0, out)
        return importlib.import_module("memreel.trace_pb2")


def packets(data, schema):
    """Yields every complete packet; skips to the next sync word if there is none."""
    at = 0
    while (found := data.find(SYNC, at + SYNC_OFFSET)) >= 0:
        at = found - SYNC_OFFSET
        size = sum((data[at + 1 + i] & 0x7F) << 7 * i for i in range(4))
        body = data[at + SYNC_OFFSET : at + SYNC_OFFSET + size]
        try:
            packet = schema.Packet.FromString(body)
        except google.protobuf.message.DecodeError:
            at += 1
            continue
        if len(body) == size:
            yield packet
        at += SYNC_OFFSET + size


def unpack(message, frame, size):
    return message.FromString(zstandard.ZstdDecompressor().decompress(frame, max_output_size=size))


def column(values, count):
    """An iterator over `count` values, stored as all of them, one for all, or none for zeros."""
    return iter(values if len(values) == count else [values[0] if values else 0] * count)


def events(block, schema, sizes):
    """Yields (kind, bytes, freed): `freed` is the ordinal of the allocation that a free names, or None. Appends the
    sizes of allocations to `sizes`, which is indexed by ordinal."""
    kind_of = schema.EventKind
    c = unpack(schema.EventColumns, block.columns_zstd, block.columns_size)
    kinds = list(column(c.kind, block.count))
    has_size = {kind_of.ALLOC, kind_of.SEGMENT_ALLOC, kind_of.SEGMENT_FREE, kind_of.SEGMENT_MAP, kind_of.SEGMENT_UNMAP,
                kind_of.ALLOC_FAILED, kind_of.MEMORY_INFO}  # fmt: skip
    size = column(c.size, sum(kind in has_size for kind in kinds))
    requested = column(c.requested_back, kinds.count(kind_of.FREE_REQUESTED))
    completed = column(c.completed_back, kinds.count(kind_of.FREE_COMPLETED))
    latest = None  # named by the latest FREE_REQUESTED of this block
    for kind in kinds:
        freed = None
        if kind == kind_of.FREE_REQUESTED:
            back = next(requested)
            freed = latest = len(sizes) - back if back else None
        elif kind == kind_of.FREE_COMPLETED:
            code = next(completed)
            freed = latest if code == 0 else None if code == 1 else len(sizes) - (code - 1)
        bytes_ = next(size) if kind in has_size else 0 if freed is None else sizes[freed]
        if kind == kind_of.ALLOC:
            sizes.append(bytes_)
        yield kind, bytes_, freed


def main(path):
    schema = load_schema()
    counts, sizes, live, live_bytes, peak = collections.Counter(), [], set(), 0, 0
    for packet in packets(pathlib.Path(path).read_bytes(), schema):
        if packet.HasField("header"):
            sizes, live = [], set()  # in a concatenation, numbering of allocations restarts
        if not packet.HasField("events"):
            continue
        sizes += [0] * (packet.events.first_allocation - len(sizes))  # for lost blocks
        for kind, size, freed in events(packet.events, schema, sizes):
            counts[kind] += 1
            if kind == schema.EventKind.ALLOC:
                live.add(len(sizes) - 1)
                live_bytes += size
                peak = max(peak, live_bytes)
            elif freed in live:
                live.remove(freed)
                live_bytes -= size
    for kind, count in sorted(counts.items()):
        print(f"{schema.EventKind.Name(kind).lower():16}{count:>12,}")
    print(f"{'peak_live_bytes':16}{peak:>12,}")


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
