# SPDX-License-Identifier: Apache-2.0
"""What a command costs grows about as its input does, however hard the input: its peak memory, and the instructions that
it executes, are counted at three sizes. The processor counts instructions where the system lets it (perf_event_open),
else valgrind, for reports. MEMREEL_COST_N: the smallest size; the default finds what is grossly worse."""

import ctypes
import math
import os
import pickle
import platform
import random
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import MEMREEL, SANITIZED, ProgramTest, run

N = int(os.environ.get("MEMREEL_COST_N", "1000"))
MOST_GROWTH = 2.6  # per doubling; sorting takes 2.2
MOST_MEMORY = 1 << 30
UNMEASURED = 1_000_000, 24 << 20  # instructions; bytes: a table that doubles, an arena of another thread
FORKED_COMMANDS = os.environ.get("MEMREEL_FORKED_COMMANDS")
COMMANDS = {
    "info": lambda file: ("info", file),
    "report": lambda file: ("report", file),
    "verify": lambda file: ("verify", file),
    "export": lambda file: ("export", file, "--format", "csv", "-o", "/dev/null"),
    "diff": lambda file: ("diff", file, file),
}
BASE = 1 << 40
SEGMENT = 2 << 20
PERF_EVENT_OPEN = 298  # x86-64


def frames(i):
    return [{"name": f"f{i}", "filename": "train.py", "line": i % 100000 + 1}]


def event(action, address, size, time, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": [], **more}


def freed(address, size, time):
    return [event("free_requested", address, size, time), event("free_completed", address, size, time)]


def pools(n):
    return ([event("segment_alloc", BASE + i * SEGMENT, SEGMENT, i, pool_id=(0, i + 1)) for i in range(n)]
            + [event("alloc", BASE + i * SEGMENT, 512, n + i, pool_id=(0, i + 1), frames=frames(i)) for i in range(n)])


def streams(n):
    return [e for i in range(n) for e in (event("segment_alloc", BASE + i * SEGMENT, SEGMENT, i, stream=i),
                                          event("alloc", BASE + i * SEGMENT, 512, i, stream=i))]


def scattered(n, stride):
    """Addresses of n pieces beside each other, in an order that is of one pattern for every n: a share of them apart."""
    step = next(step for step in range(round(stride * n), 2 * n) if math.gcd(step, n) == 1)
    return [BASE + i * step % n * SEGMENT for i in range(n)]


def mapped_pieces(n):
    made, gone = scattered(n, 0.71), scattered(n, 0.43)
    return ([event("segment_map", address, SEGMENT, i) for i, address in enumerate(made)]
            + [event("alloc", address, SEGMENT, n + i, frames=frames(i % 20)) for i, address in enumerate(made)]
            + [e for i, address in enumerate(gone) for e in (*freed(address, SEGMENT, 2 * n + i),
                                                             event("segment_unmap", address, SEGMENT, 2 * n + i))])


def reused_pieces(n):
    """Pieces far from each other are mapped, used, and used again, the last first: each is the best only by its address."""
    addresses = [BASE + i * 10 * SEGMENT for i in range(n)]
    return ([e for i, address in enumerate(addresses) for e in (
                event("segment_map", address, SEGMENT, i), event("alloc", address, SEGMENT, i, frames=frames(i % 20)))]
            + [e for i, address in enumerate(addresses) for e in freed(address, SEGMENT, n + i)]
            + [event("alloc", address, SEGMENT, 2 * n + i) for i, address in enumerate(reversed(addresses))]
            + [e for i, address in enumerate(addresses) for e in (*freed(address, SEGMENT, 3 * n + i),
                                                                  event("segment_unmap", address, SEGMENT, 3 * n + i))])


def sites(n):
    return [event("alloc", BASE + i * 512, 512 * (1 + i % 7), i, frames=frames(i)) for i in range(n)]


def steps(n):
    return [e for i in range(n) for e in (event("alloc", BASE + i * 512, 512, 3 * i, frames=frames(0)),
                                          event("alloc", BASE + (1 << 36), 512, 3 * i + 1, frames=frames(1)),
                                          *freed(BASE + (1 << 36), 512, 3 * i + 2))]


def holes(n):
    return ([event("segment_alloc", BASE, n * 1024, 0)]
            + [event("alloc", BASE + i * 512, 512, i + 1, frames=frames(i % 100)) for i in range(2 * n)]
            + [e for i in range(0, 2 * n, 2) for e in freed(BASE + i * 512, 512, 2 * n + i)]
            + [event("oom", 0, 4096, 5 * n + i, device_free=0, frames=frames(i)) for i in range(10)])


def failures(n):
    return [e for i in range(n // 2) for e in (
        event("segment_alloc", BASE + i * 2 * SEGMENT, SEGMENT, 4 * i),
        event("alloc", BASE + i * 2 * SEGMENT, 1 << 20, 4 * i + 1, frames=frames(i)),
        event("oom", 0, (20 << 20) + i * 512, 4 * i + 2, device_free=SEGMENT * (i % 13), frames=frames(i)))]


def awaiting(n):
    return ([event("alloc", BASE + i * 512, 512, i, stream=i % 3) for i in range(n)]
            + [event("free_requested", BASE + i * 512, 512, n + i) for i in range(n)]
            + [event("free_completed", BASE + (n - 1 - i) * 512, 512, 2 * n + i) for i in range(n)])


def failures_of_many_segments(n):
    segments = [event("segment_alloc", BASE + i * SEGMENT, SEGMENT, i) for i in range(200)]
    blocks = [event("alloc", BASE + i * SEGMENT, 1 << 20, 300 + i, frames=frames(i)) for i in range(200)]
    return segments + blocks + [event("oom", 0, SEGMENT + i * 512, 600 + i, device_free=i * 1000, frames=frames(i))
                                for i in range(n)]


def segments(n):
    return ([event("segment_alloc", BASE + i * 2 * SEGMENT, SEGMENT, 2 * i) for i in range(n)]
            + [e for i in range(n) for e in (event("alloc", BASE + i * 2 * SEGMENT, 1 << 20, 2 * n + i, frames=frames(i % 9)),
                                             *freed(BASE + i * 2 * SEGMENT, 1 << 20, 3 * n + i))])


def metadata(n):
    return [event("alloc", BASE + i * 512, 512, i, user_metadata=f"m{i}", compile_context=f"{i}/{i}") for i in range(n)]


def overlapping_lives(n):
    draw = random.Random(1)
    moments = []
    for i in range(n // 2):
        begin = draw.randrange(10**6)
        moments += [(begin, 0, i), (begin + draw.randrange(1, 10**6), 1, i)]
    def place(i):
        return BASE + i * 2 * SEGMENT, 512 * (1 + i * 7919 % 5000)

    return [e for time, ends, i in sorted(moments)
            for e in (freed(*place(i), time) if ends else [event("alloc", *place(i), time, frames=frames(i))])]


def sizes_that_all_differ(n):
    draw = random.Random(2)
    events, live = [], []
    for i in range(n):
        live.append((BASE + (i << 26), 512 * draw.randrange(1, 100000)))
        events.append(event("alloc", *live[-1], i, frames=frames(i % 500)))
        if len(live) > 200:
            events += freed(*live.pop(draw.randrange(len(live))), i)
    return events


def one_at_a_time(n):
    return [e for i in range(n) for e in (event("alloc", BASE, 512 * (1 + i * 31 % 997), i, frames=frames(i * 17 % 5003)),
                                          *freed(BASE, 0, i))]


def deep_stacks(n):
    shared = [{"name": f"g{i}", "filename": "a.py", "line": i} for i in range(200)]
    return [event("alloc", BASE + i * 512, 512, i, frames=frames(i) + shared[i % 100:]) for i in range(n // 4)]


def layers(n):
    def stack(i):
        return [{"name": "forward", "filename": f"m{i % 300}.py", "line": 3}] + [
            frame for depth in range(20) for frame in (
                {"name": "_call_impl", "filename": "torch/nn/modules/module.py", "line": 1},
                {"name": "forward", "filename": f"l{(i * 7 + depth) % 1000}.py", "line": depth})]
    return [event("alloc", BASE + i * 512, 512, i, frames=stack(i)) for i in range(n // 4)]


def one_address(n):
    return [event("alloc", BASE, 512, i, frames=frames(i)) for i in range(n)]


def marks(n):
    """Ranges in each other, and of steps."""
    return [{"device": 0, "name": f"n{i}", "stage": "START", "time_us": 2 * i} for i in range(n)] + [
        {"device": 0, "name": f"ProfilerStep#{i}", "stage": stage, "time_us": 3 * i + (stage == "END") * 2}
        for i in range(n) for stage in ("START", "END")]


SNAPSHOTS = (pools, streams, mapped_pieces, reused_pieces, sites, steps, holes, failures, failures_of_many_segments, segments,
             metadata, overlapping_lives, sizes_that_all_differ, one_at_a_time, deep_stacks, layers, awaiting, one_address)


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))


def run_and_wait(arguments, meanwhile=lambda process: None, **options):
    """The peak memory of a command in bytes, and what it wrote to standard error."""
    child = subprocess.Popen(list(map(str, arguments)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             preexec_fn=limit_time, **options)
    meanwhile(child.pid)
    errors = child.stderr.read()
    child.stderr.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        raise AssertionError(f"{arguments}: {child.returncode}: {errors}")
    return usage.ru_maxrss * 1024, errors


class Counter:
    """Counts instructions, and peak memory in bytes, of commands."""

    def prepare(self, arguments):
        """Before the first of several that are compared."""

    def close(self):
        pass


class Processor(Counter):
    """Counts what a child process executes in user mode, from its exec on. See perf_event_open(2)."""

    commands, n = tuple(COMMANDS), N

    def __init__(self):
        hardware, instructions = 0, 1
        disabled, inherit, exclude_kernel, exclude_hypervisor, on_exec = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 12
        flags = disabled | inherit | exclude_kernel | exclude_hypervisor | on_exec
        self.attributes = struct.pack("IIQQQQQ", hardware, 112, instructions, 0, 0, 0, flags).ljust(112, b"\0")
        self.system_call = ctypes.CDLL(None, use_errno=True).syscall

    def open(self, process):
        return self.system_call(PERF_EVENT_OPEN, self.attributes, process, -1, -1, 0)

    def works(self):
        if platform.machine() != "x86_64":
            return False
        counter = self.open(0)
        if counter >= 0:
            os.close(counter)
        return counter >= 0

    def count(self, arguments):
        begin_read, begin_write = os.pipe()
        counters = []

        def begin(process):
            counters.append(self.open(process))
            os.write(begin_write, b"\n")

        memory, _ = run_and_wait(["sh", "-c", f'read go <&{begin_read}; exec "$@"', "sh", *arguments], begin,
                                 pass_fds=[begin_read])
        count = struct.unpack("Q", os.read(counters[0], 8))[0]
        for file in (counters[0], begin_read, begin_write):
            os.close(file)
        return count, memory


class Valgrind(Counter):
    """Takes fifty times as long, so it counts less. Below 500 some inputs are too short to be judged."""

    commands, n = ("report",), min(N, 500)

    def __init__(self):
        self.folder, self.process, self.answers = None, None, None

    @staticmethod
    def works():
        return shutil.which("valgrind") is not None and FORKED_COMMANDS is not None

    def start(self):
        """One process for all commands: most of what valgrind does for the first is done for the others, too."""
        self.folder = Path(tempfile.mkdtemp())
        program = self.folder / "program"  # without symbols, which valgrind would read
        subprocess.run(["strip", "-o", program, FORKED_COMMANDS], check=True)
        answers, answered = os.pipe()
        self.process = subprocess.Popen(
            ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
             f"--log-file={self.folder}/%p.log", program, str(answered)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, pass_fds=[answered])
        os.close(answered)
        self.answers = os.fdopen(answers)

    def close(self):
        if self.process is None:
            return
        self.process.stdin.close()
        self.process.wait()
        self.answers.close()
        shutil.rmtree(self.folder)

    def prepare(self, arguments):
        if self.process is None:
            self.start()
        self.run("here", arguments)

    def run(self, where, arguments):
        """The process that ran it."""
        self.process.stdin.write("\t".join([where, *map(str, arguments[1:])]) + "\n")
        self.process.stdin.flush()
        answer = self.answers.readline().split()
        if not answer or os.waitstatus_to_exitcode(int(answer[1])) not in (0, 1):
            raise AssertionError(f"{arguments}: {answer}")
        return answer[0]

    def count(self, arguments):
        memory, _ = run_and_wait(arguments)
        said = (self.folder / f"{self.run('fork', arguments)}.log").read_text()
        return int(re.search(r"I +refs: +([\d,]+)", said)[1].replace(",", "")), memory


class MemoryOnly(Counter):
    commands, n = tuple(COMMANDS), N

    @staticmethod
    def works():
        return True

    @staticmethod
    def count(arguments):
        return 0, run_and_wait(arguments)[0]


@unittest.skipIf(SANITIZED, "counts the sanitizer's instructions")
class Growth(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ways = [way() for way in (Processor, Valgrind, MemoryOnly)]
        cls.counter = next(way for way in ways if way.works())
        cls.addClassCleanup(cls.counter.close)
        cls.sizes = [cls.counter.n << doubling for doubling in range(3)]

    def assert_linear(self, files, commands=tuple(COMMANDS)):
        """`files`: of sizes N, 2N and 4N. What a program costs whatever it reads cancels out of the differences."""
        for name in commands:
            if name not in self.counter.commands:
                continue
            with self.subTest(name):
                lines = [(MEMREEL, *COMMANDS[name](file)) for file in files]
                self.counter.prepare(lines[0])
                counts = [self.counter.count(line) for line in lines]
                for (small, middle, large), unmeasured in zip(zip(*counts), UNMEASURED):
                    self.assertLess(large - middle, MOST_GROWTH * max(middle - small, 0) + unmeasured, counts)
                self.assertLess(counts[-1][1], MOST_MEMORY)
        if self.counter is MemoryOnly:
            self.skipTest("only memory was measured: no perf events here, and no valgrind with MEMREEL_FORKED_COMMANDS")

    def test_nested_ranges(self):
        self.assert_linear([self.snapshot(n, sites(n), marks(n)) for n in self.sizes])

    def test_rows_of_one_call(self):
        self.assert_linear([self.database(n) for n in self.sizes], ("info", "report", "export", "diff"))

    def test_devices(self):
        files = [self.file(f"{n}.pickle", pickle.dumps({"segments": [], "device_traces": [
            [event("segment_alloc", BASE, SEGMENT, i), event("alloc", BASE, 512, i), event("oom", 0, 1 << 30, i)]
            for i in range(n)]})) for n in (200, 400, 800)]
        self.assert_linear(files, ("info", "verify", "export"))
        many = self.file("many.pickle", pickle.dumps(
            {"segments": [], "device_traces": [[event("alloc", BASE, 512, i)] for i in range(1001)]}))
        self.assert_refused(run("info", many), "more than 1000 devices")

    def snapshot(self, n, entries, annotations=()):
        return self.file(f"{n}.pickle", pickle.dumps(
            {"segments": [], "device_traces": [entries], "external_annotations": list(annotations),
             "allocator_settings": {"expandable_segments": False}}, protocol=4))

    def database(self, n):
        """Nsight Systems: n events and n calls with the same correlation, which don't overlap."""
        path = self.directory / f"{n}.sqlite"
        file = sqlite3.connect(path)
        columns = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "correlationId")
        file.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({', '.join(columns)})")
        file.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId, globalTid, start, end, callchainId)")
        file.execute("CREATE TABLE StringIds (id, value)")
        process = 5 << 24
        file.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, 0, ?, 512, 2, 0, 7)",
                         ((10**9 + i, process, BASE + 512 * i) for i in range(n)))
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (7, ?, 1, 2, NULL)", ((process | 9,) for _ in range(n)))
        file.commit()
        file.close()
        return path


def add_test(kind):
    def test(self):
        self.assert_linear([self.snapshot(n, kind(n)) for n in self.sizes])
    setattr(Growth, "test_" + kind.__name__, test)


for kind in SNAPSHOTS:
    add_test(kind)


if __name__ == "__main__":
    unittest.main()
