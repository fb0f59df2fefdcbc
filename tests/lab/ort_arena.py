#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the arena of this Python's ONNX Runtime through the C API, with random requests and settings.

LD_PRELOAD=ort_upstream.so ort_arena.py OUT --count N [--seed S]

Writes what the arena did as pool.jsonl (docs/pool-log.md): each request with its address, and each call to the parent,
which ort_upstream.c simulates. Prints a JSON line per program: file, program, conf, limit. The arena is the CPU's;
those of the other execution providers differ only in their streams. A session with a one-node model provides it;
unused memory is returned at the end of a run of that model.
"""

import argparse
import ctypes
import gzip
import json
import os
import pathlib
import random
import sys

import forked

CAPACITIES = [1 << 60, 1 << 60, 1 << 60, 3 << 30, 500 << 20]
SETTINGS = [  # how often a setting is drawn, ONNX Runtime's key, memreel's ort.arena key, its values
    (0.5, "arena_extend_strategy", "extend", [0, 1, 1]),
    (0.3, "initial_chunk_size_bytes", "first", [4096, 100_000, 1 << 18, 1_000_000, 1 << 24, 1 << 28]),
    (0.3, "max_dead_bytes_per_chunk", "largest_rest", [256, 1 << 16, 1 << 20, 3_000_000, 1 << 24]),
    (0.3, "initial_growth_chunk_size_bytes", "regrowth", [4096, 1 << 19, 3_000_064, 1 << 23]),
    (0.3, "max_power_of_two_extend_bytes", "largest", [1 << 20, 1 << 24, 100_000_000, 1 << 28, 1 << 32]),
    (0.3, "max_mem", "max_mem", [200 << 20, 1 << 30, 5_000_000_000]),
]
STRATEGIES = ["power_of_two", "same_as_requested"]
SIZES = {  # how a program draws a size
    "small": lambda rng: rng.randrange(1, 20_000),
    "wide": lambda rng: int(2 ** rng.uniform(0, 26)),
    "tensors": lambda rng: rng.choice([4, 16, 64, 100, 768, 1024, 3072]) * rng.choice([1, 7, 32, 197, 512, 4096]) * 4,
    "huge": lambda rng: int(2 ** rng.uniform(16, 32)),
}

Pointer = ctypes.c_void_p
OutPointer = ctypes.POINTER(Pointer)
Text, Size = ctypes.c_char_p, ctypes.c_size_t
# The index of each function in OrtApi, which only grows at its end, and its parameters.
FUNCTIONS = {
    "GetErrorMessage": (2, [Pointer], Text),
    "CreateEnv": (3, [ctypes.c_int, Text, OutPointer], Pointer),
    "CreateSessionFromArray": (8, [Pointer, Text, Size, Pointer, OutPointer], Pointer),
    "Run": (9, [Pointer, Pointer, ctypes.POINTER(Text), OutPointer, Size, ctypes.POINTER(Text), Size, OutPointer], Pointer),
    "CreateSessionOptions": (10, [OutPointer], Pointer),
    "CreateRunOptions": (39, [OutPointer], Pointer),
    "CreateTensorWithDataAsOrtValue": (49, [Pointer, Pointer, Size, ctypes.POINTER(ctypes.c_int64), Size, ctypes.c_int, OutPointer], Pointer),
    "CreateMemoryInfo": (68, [Text, ctypes.c_int, ctypes.c_int, ctypes.c_int, OutPointer], Pointer),
    "AllocatorAlloc": (75, [Pointer, Size, OutPointer], Pointer),
    "AllocatorFree": (76, [Pointer, Pointer], Pointer),
    "ReleaseStatus": (93, [Pointer], None),
    "AddSessionConfigEntry": (130, [Pointer, Text, Text], Pointer),
    "CreateAllocator": (131, [Pointer, Pointer, OutPointer], Pointer),
    "CreateAndRegisterAllocator": (144, [Pointer, Pointer, Pointer], Pointer),
    "CreateArenaCfgV2": (164, [ctypes.POINTER(Text), ctypes.POINTER(Size), Size, OutPointer], Pointer),
    "AddRunConfigEntry": (165, [Pointer, Text, Text], Pointer),
}
API_VERSION = 16
ARENA, FLOAT = 1, 1


def identity_model():
    """An ONNX model of one node that copies a float, in protobuf wire format."""
    def number(field, value):
        return bytes([field << 3, value])

    def message(field, content):
        return bytes([field << 3 | 2, len(content)]) + content

    def a_float(name):
        shape = message(2, message(1, number(1, 1)))
        return message(1, name) + message(2, message(1, number(1, FLOAT) + shape))

    node = message(1, b"x") + message(2, b"y") + message(4, b"Identity")
    graph = message(1, node) + message(2, b"g") + message(11, a_float(b"x")) + message(12, a_float(b"y"))
    return number(1, 8) + message(7, graph) + message(8, number(2, 13))


class Refused(Exception):
    """An error returned by the C API."""


class Api:
    """The functions of OrtApi; returns the object that a call creates."""

    def __init__(self, library):
        library.OrtGetApiBase.restype = ctypes.POINTER(Pointer)
        get_api = ctypes.CFUNCTYPE(Pointer, ctypes.c_uint32)(library.OrtGetApiBase()[0])
        table = ctypes.cast(get_api(API_VERSION), ctypes.POINTER(Pointer))
        self.functions = {name: ctypes.CFUNCTYPE(result, *takes)(table[i]) for name, (i, takes, result) in FUNCTIONS.items()}

    def call(self, name, *arguments):
        if status := self.functions[name](*arguments):
            message = self.functions["GetErrorMessage"](status).decode()
            self.functions["ReleaseStatus"](status)
            raise Refused(message)

    def make(self, name, *arguments):
        made = Pointer()
        self.call(name, *arguments, ctypes.byref(made))
        return made


class Arena:
    """A session's arena, created with `settings`."""

    def __init__(self, api, settings):
        self.api = api
        env = api.make("CreateEnv", 3, b"lab")
        memory = api.make("CreateMemoryInfo", b"Cpu", ARENA, 0, 0)
        keys = (Text * len(settings))(*(key.encode() for key in settings))
        values = (Size * len(settings))(*settings.values())
        api.call("CreateAndRegisterAllocator", env, memory, api.make("CreateArenaCfgV2", keys, values, len(settings)))
        options = api.make("CreateSessionOptions")
        api.call("AddSessionConfigEntry", options, b"session.use_env_allocators", b"1")
        model = identity_model()
        self.session = api.make("CreateSessionFromArray", env, model, len(model), options)
        self.allocator = api.make("CreateAllocator", self.session, memory)
        self.run_options = api.make("CreateRunOptions")
        api.call("AddRunConfigEntry", self.run_options, b"memory.enable_memory_arena_shrinkage", b"cpu:0")
        self.data = (ctypes.c_float * 2)()  # the model's input and output are not in the arena
        shape = (ctypes.c_int64 * 1)(1)
        self.tensors = [api.make("CreateTensorWithDataAsOrtValue", memory, ctypes.byref(self.data, at), 4, shape, 1, FLOAT)
                        for at in (0, 4)]

    def allocate(self, size):
        """The address; None: the arena has no memory left."""
        try:
            return self.api.make("AllocatorAlloc", self.allocator, size).value
        except Refused:
            return None

    def free(self, address):
        self.api.call("AllocatorFree", self.allocator, address)

    def shrink(self):
        one_in, one_out = ((Pointer * 1)(tensor) for tensor in self.tensors)
        self.api.call("Run", self.session, self.run_options, (Text * 1)(b"x"), one_in, 1, (Text * 1)(b"y"), 1, one_out)


class Upstream:
    """The arena's requests to its parent, see ort_upstream.c."""

    class Call(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint64), ("address", ctypes.c_uint64)]

    def __init__(self):
        self.library = ctypes.CDLL(None)
        self.calls = (self.Call * 4096)()
        self.sizes = {}  # of the arena's regions

    def watched(self, capacity, what):
        """The result of `what`, and log lines for the parent calls it made."""
        self.library.ort_upstream_watch(1, ctypes.c_uint64(capacity))
        answer = what()
        self.library.ort_upstream_watch(0, ctypes.c_uint64(capacity))
        return answer, [self.line(self.calls[i]) for i in range(self.library.ort_upstream_calls(self.calls))]

    def line(self, call):
        if call.size == 0:
            return {"op": "down", "size": self.sizes.pop(call.address), "ptr": call.address}
        if call.address:
            self.sizes[call.address] = call.size
        return {"op": "up", "size": call.size, "ptr": call.address or None}


def drawn(rng):
    settings, config = {"max_mem": 0}, {}
    for often, key, ours, values in SETTINGS:
        if rng.random() < often:
            settings[key] = rng.choice(values)
            config[ours] = STRATEGIES[settings[key]] if ours == "extend" else settings[key]
    return rng.choice(list(SIZES)), rng.randrange(1000, 100_000), settings, config, rng.choice(CAPACITIES)


def record(path, library, program, seed, settings, config, capacity):
    """Runs in the forked child: returns the number of requests."""
    rng = random.Random(seed)
    arena, upstream = Arena(Api(ctypes.CDLL(library)), settings), Upstream()
    live, requests = {}, rng.randrange(200, 2000)
    most_live = rng.choice([10, 100, 1000])
    with gzip.open(path, "wt") as out:
        def log(**line):
            print(json.dumps(line), file=out)

        log(op="config", kind="ort.arena", limit=capacity, **config)
        for number in range(requests):
            size = SIZES[program](rng)
            address, calls = upstream.watched(capacity, lambda: arena.allocate(size))
            for call in calls:
                log(**call)
            log(op="alloc", id=number, size=size, ptr=address)
            if address is not None:
                live[number] = address
            fewer = len(live) // 2 if address is None else most_live
            while live and (len(live) > fewer or rng.random() < 0.45):
                freed = rng.choice([max(live), min(live), rng.choice(list(live))])
                log(op="free", id=freed)
                arena.free(live.pop(freed))
            if rng.random() < 0.005:
                _, calls = upstream.watched(capacity, arena.shrink)
                log(op="trim")
                for call in calls:
                    log(**call)
    return requests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    package = next(pathlib.Path(folder) / "onnxruntime" for folder in sys.path if (pathlib.Path(folder) / "onnxruntime").is_dir())
    library = next((package / "capi").glob("libonnxruntime.so.*"))
    rng = random.Random(args.seed)
    made = 0
    for _ in range(args.count):
        program, seed, settings, config, capacity = drawn(rng)
        path = args.out / f"{program}-{seed}.jsonl.gz"
        if not forked.run(lambda: record(path, library, program, seed, settings, config, capacity)):
            path.unlink(missing_ok=True)
            continue
        made += 1
        print(json.dumps({"file": path.name, "program": program, "conf": json.dumps(config), "limit": capacity}), flush=True)
    return 0 if made else 1


if __name__ == "__main__":
    os.environ.setdefault("ORT_LOGGING_LEVEL", "4")
    sys.exit(main())
