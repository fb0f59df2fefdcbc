# SPDX-License-Identifier: Apache-2.0
"""Histories with the patterns of common bug reports, as PyTorch's allocator makes them: every request is so large that it gets a segment of
its own or all of a cached one.

PATTERNS: functions that return a snapshot, by name."""

import snapshot

MIB, GIB = 1 << 20, 1 << 30


class Program:
    """Requests of at least 10 MiB, multiples of 2 MiB, each reusing only a cached segment of its size."""

    def __init__(self):
        self.recorder = snapshot.Recorder()
        self.segments, self.live, self.marks = {}, {}, []
        self.next = snapshot.BASE

    def now(self):
        return 1_700_000_000_000_000 + len(self.recorder.entries)

    def alloc(self, size, line):
        address = next((a for a, s in self.segments.items() if s == size and a not in self.live), None)
        if address is None:
            address, self.next = self.next, self.next + size + GIB
            self.segments[address] = size
            self.recorder.add("segment_alloc", address, size, line)
        self.live[address] = line
        self.recorder.add("alloc", address, size, line)
        return address

    def free(self, address):
        del self.live[address]
        self.recorder.free(address, self.segments[address])

    def fail(self, size, device_free, line):
        """Cached segments go back first, and the request is refused all the same."""
        for address in [a for a in self.segments if a not in self.live]:
            self.recorder.add("segment_free", address, self.segments.pop(address), line)
        self.recorder.add("oom", 0, size, line)
        self.recorder.entries[-1]["device_free"] = device_free
        del self.recorder.entries[-1]["addr"]

    def step(self, body):
        begin = self.now()
        body()
        self.marks += [(begin, "START"), (self.now() - 1, "END")]

    def document(self):
        segments = []
        for address, size in self.segments.items():
            used = size if address in self.live else 0
            state = "active_allocated" if used else "inactive"
            segments.append({"device": 0, "address": address, "total_size": size, "allocated_size": used, "active_size": used,
                             "requested_size": used, "stream": 0, "segment_type": "large", "is_expandable": False,
                             "blocks": [snapshot.block(address, size, used, state)]})
        marks = [{"name": "step", "stage": stage, "device": 0, "time_us": time} for time, stage in self.marks]
        return snapshot.snapshot() | {"segments": segments, "device_traces": [self.recorder.entries], "external_annotations": marks}


def kept_graph():
    """losses.append(loss): each step keeps its graph."""
    program = Program()
    program.alloc(200 * MIB, 3)

    def step():
        temporary = program.alloc(40 * MIB, 11)
        program.alloc(16 * MIB, 12)
        program.free(temporary)

    for _ in range(24):
        program.step(step)
    return program.document()


def growing_cache():
    """A cache of keys and values that grows by torch.cat: no old segment fits."""
    program = Program()
    cache = program.alloc(20 * MIB, 5)
    for i in range(1, 40):
        longer = program.alloc((20 + 2 * i) * MIB, 9)
        program.free(cache)
        cache = longer
    return program.document()


def other_process():
    """Somebody else holds most of the device."""
    program = Program()
    for _ in range(16):
        program.alloc(GIB, 8)
    program.fail(8 * GIB, 6 * GIB, 9)
    return program.document()


def own_limit():
    """A memory fraction refuses, while the device has enough."""
    program = Program()
    for _ in range(20):
        program.alloc(GIB, 8)
    program.fail(GIB, 58 * GIB, 9)
    return program.document()


def larger_batch():
    """A step asks far more than any before."""
    program = Program()
    program.alloc(4 * GIB, 3)

    def step(rows):
        kept = [program.alloc(rows * 10 * MIB, line) for line in (21, 22, 23, 24, 25, 26, 27, 28)]
        for address in reversed(kept):
            program.free(address)

    for rows in (10, 12, 9, 11, 12, 10):
        program.step(lambda: step(rows))  # noqa: B023
    for line in (21, 22, 23, 24, 25):
        program.alloc(450 * MIB, line)
    program.fail(450 * MIB, 300 * MIB, 26)
    return program.document()


def held_by_traceback():
    """Each failed attempt is tried again with less, and the traceback of the first keeps its frames."""
    program = Program()
    program.alloc(60 * GIB, 4)
    for size in (40, 30, 20):
        program.fail(size * GIB, 19 * GIB, 7)
    return program.document()


def loading():
    """Weights fill the card, which has nothing left."""
    program = Program()
    for _ in range(80):
        program.alloc(GIB, 8)
    program.fail(GIB, 0, 8)
    return program.document()


def bursts():
    """Reference cycles wait for Python's collector."""
    program = Program()
    program.alloc(100 * MIB, 3)
    waiting = []

    def step():
        waiting.append(program.alloc(32 * MIB, 11))
        if len(waiting) == 16:
            while waiting:
                program.free(waiting.pop())

    for _ in range(70):
        program.step(step)
    return program.document()


PATTERNS = {function.__name__: function for function in (kept_graph, growing_cache, other_process, own_limit, larger_batch, held_by_traceback, loading, bursts)}
