# SPDX-License-Identifier: Apache-2.0
"""Makes the recordings of a job of any size, as an operator's folder has them: 8 GPUs a host, each rank on the GPU of its
local rank, some files damaged, begun late, dumped, or of another attempt or job.

As a program: fleet_job.py DIRECTORY RANKS [SEED] writes the job and prints what is true of it."""

import json
import pickle
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import snapshot
from program import MEMREEL

GPUS = 8  # of a host
MIB = 1 << 20
SECOND = 1_000_000_000
START = 1_700_000_000_000_000  # microseconds, as in snapshot.Recorder


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def table():
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        yield value


TABLE = list(table())


def varint(number):
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def packets(trace):
    """(field number, content) of each packet: docs/trace-format.md."""
    at = 0
    while at < len(trace):
        length = sum((trace[at + 1 + i] & 0x7F) << 7 * i for i in range(4))
        body = trace[at + 19:at + 5 + length]
        size, shift, skip = 0, 0, 1
        while True:
            size |= (body[skip] & 0x7F) << shift
            shift, skip = shift + 7, skip + 1
            if body[skip - 1] < 0x80:
                break
        yield body[0] >> 3, body[skip:skip + size]
        at += 5 + length


def packet(number, content):
    body = field(number, content)
    rest = b"\x09MEMREEL\n\x15" + struct.pack("<I", crc32c(body)) + body
    length = bytes([len(rest) >> 7 * i & 0x7F | (0x80 if i < 3 else 0) for i in range(4)])
    return b"\x0a" + length + rest


def with_header(trace, host, process, start_ns, environment):
    """The trace, as if recorded by that process. Without the footer, which lists sizes: a new one is appended."""
    header = (field(1, 1) + field(2, b"memreel 0.1.0") + field(3, b"cupti") + field(4, b"python train.py") + field(5, host.encode()) +
              field(6, process) + field(7, start_ns << 1))
    for name, value in environment.items():
        header += field(8, field(1, name.encode()) + field(2, str(value).encode()))
    parts = [packet(3, header)]
    footer = b""
    for number, content in packets(trace):
        if number == 8:
            footer = content
        elif number != 3:
            parts.append(packet(number, content))
    sizes = b"".join(varint(len(part)) for part in parts)
    at, kept = 0, b""
    while at < len(footer):  # all fields but the sizes of packets (2) and of the footer (15)
        tag, begin = footer[at], at
        at += 1
        if tag & 7 == 5:
            at += 4
        elif tag & 7 == 2:
            at += 1 + footer[at]  # short in such small files
        else:
            while footer[at] > 0x7F:
                at += 1
            at += 1
        if tag >> 3 not in (2, 15):
            kept += footer[begin:at]
    kept += field(2, sizes) + b"\x7d"
    size = len(packet(8, kept + bytes(4)))
    return b"".join(parts) + packet(8, kept + struct.pack("<I", size))


class History:
    """What PyTorch's allocator recorded: every block in a segment of its own."""

    def __init__(self, device, start=START):
        self.device, self.start, self.recorder = device, start, snapshot.Recorder()
        self.live, self.next = {}, snapshot.BASE + (device << 40)

    def alloc(self, size, line):
        address = self.next
        self.next += size + 64 * MIB
        self.recorder.add("segment_alloc", address, size, line)
        self.recorder.add("alloc", address, size, line)
        self.live[address] = size
        return address

    def free(self, address):
        size = self.live.pop(address)
        self.recorder.free(address, size)
        self.recorder.add("segment_free", address, size)

    def snapshot(self, skip=0):
        """`skip`: this many of its first entries were before the recording."""
        entries = [dict(entry, time_us=entry["time_us"] - START + self.start) for entry in self.recorder.entries[skip:]]
        segments = [{"device": self.device, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
                     "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                     "frames": [], "blocks": [snapshot.block(address, size, size, "active_allocated")]}
                    for address, size in self.live.items()]
        settings = snapshot.snapshot()["allocator_settings"]
        return {"segments": segments, "device_traces": [[] for _ in range(self.device)] + [entries],
                "allocator_settings": settings, "external_annotations": []}


def history(stage, device, more=0, start=START, weights=6, steps=6):
    """A stage of a pipeline: weights, then steps with activations. `more`: MiB that only this rank keeps."""
    h = History(device, start)
    for layer in range(weights):
        h.alloc((20 + 4 * stage + 2 * layer) * MIB, line=10 + layer)
    if more:
        h.alloc(more * MIB, line=30)
    for _ in range(steps):
        blocks = [h.alloc((24 + 6 * stage + 2 * layer) * MIB, line=40 + layer) for layer in range(weights)]
        for block in reversed(blocks):
            h.free(block)
    return h


class Job:
    """Writes the recordings; `truth` says what `memreel fleet` should find."""

    def __init__(self, directory, ranks, seed=1, stages=8):
        self.directory, self.ranks, self.stages = Path(directory), ranks, stages
        self.random, self.imported = random.Random(seed), {}
        special = self.random.sample(range(ranks), 9)
        self.outlier, self.unreadable, self.bad_block, self.cut = special[:4]
        self.late, self.dumped, self.again = special[4:6], special[6], special[7]
        self.gibibyte = 256 + 8 * self.random.randrange(32)  # MiB more on the outlier
        self.write()

    def stage(self, rank):
        return rank * self.stages // self.ranks

    def trace(self, *key, **options):
        """The imported history, made once for each stage, GPU and kind."""
        at = (key, tuple(options.items()))
        if at not in self.imported:
            with tempfile.TemporaryDirectory() as scratch:
                source, out = Path(scratch) / "in.pickle", Path(scratch) / "out.reel"
                source.write_bytes(pickle.dumps(history(*key, **options).snapshot()))
                subprocess.run([MEMREEL, "import", source, "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.imported[at] = out.read_bytes()
        return self.imported[at]

    def recording(self, rank, job="4711", attempt=1, world=None, process=None, **options):
        device = rank % GPUS
        start = options.get("start", START)
        return with_header(self.trace(self.stage(rank), device, **options), f"node{100 + rank // GPUS}",
                           process or 20_000 + rank, start * 1000,
                           {"RANK": rank, "WORLD_SIZE": world or self.ranks, "LOCAL_RANK": device, "SLURM_JOB_ID": job,
                            "TORCHELASTIC_RESTART_COUNT": attempt})

    def write(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks):
            name = f"run_{100 + rank // GPUS}_rank{rank}.reel"  # the host's number comes first
            if rank in self.late:
                content = pickle.dumps(history(self.stage(rank), rank % GPUS).snapshot(skip=12))
                name = f"run_{100 + rank // GPUS}_rank{rank}.pickle"
            else:
                content = self.recording(rank, more=self.gibibyte if rank == self.outlier else 0)
            if rank == self.unreadable:
                content = b"nothing of the kind"
            elif rank == self.bad_block:
                content = damaged(content)
            elif rank == self.cut:
                content = content[:-40]  # in the footer
            (self.directory / name).write_bytes(content)
        self.put(f"run_{100 + self.dumped // GPUS}_rank{self.dumped}-dump-1.reel", self.recording(self.dumped, steps=2))
        self.put(f"old/run_{100 + self.again // GPUS}_rank{self.again}.reel",
                 self.recording(self.again, attempt=0, process=9, start=START - 3_600_000_000))
        for rank in range(3):
            self.put(f"debug_{100 + rank // GPUS}_rank{rank}.reel",
                     self.recording(rank, job="4712", world=4, process=50 + rank, weights=3))

    def put(self, name, content):
        file = self.directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)

    def truth(self):
        whole = [rank for rank in range(self.ranks)
                 if rank not in (self.unreadable, self.bad_block, self.outlier, *self.late)]
        stages = [[rank for rank in whole if self.stage(rank) == stage] for stage in range(self.stages)]
        return {"world_size": self.ranks, "missing_ranks": sorted([self.unreadable, self.bad_block]), "outlier": self.outlier,
                "outlier_bytes": self.gibibyte * MIB, "classes": [ranks for ranks in stages if ranks],
                "in_part": sorted([self.cut, *self.late]), "duplicates": sorted([self.dumped, self.again])}


class JobFolder:
    """Of a test, which has a directory: an empty folder for recordings."""

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()

    def put(self, name, history, skip=0):
        (self.job / f"{name}.pickle").write_bytes(pickle.dumps(history.snapshot(skip)))


def assert_told(test, fleet, truth):
    """The answer names the truth's classes, outlier, duplicates and ranks that are known in part."""
    classes = [one["ranks"] for one in fleet["classes"]]
    for ranks in truth["classes"]:
        test.assertIn(ranks, classes)
    test.assertEqual([(o["rank"], o["bytes"]) for o in fleet["outliers"]], [(truth["outlier"], truth["outlier_bytes"])])
    unsure = {fleet["decides"]["rank"], *fleet["decides"]["may_decide_instead"]}
    test.assertLessEqual(set(truth["in_part"]), unsure)
    test.assertEqual([row["rank"] for row in fleet["ranks"] if row["status"] == "duplicate"], truth["duplicates"])


def damaged(trace):
    """One byte of the last block of events is wrong."""
    at = 0
    last = 0
    while at < len(trace):
        length = sum((trace[at + 1 + i] & 0x7F) << 7 * i for i in range(4))
        if trace[at + 19] >> 3 == 5:
            last = at
        at += 5 + length
    content = bytearray(trace)
    content[last + 40] ^= 0x5A
    return bytes(content)


if __name__ == "__main__":
    print(json.dumps(Job(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1).truth()))
