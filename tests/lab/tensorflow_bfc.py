#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random programs on this Python's TensorFlow, on a fake GPU, and keeps the profiles in which its allocator reports
what it did.

tensorflow_bfc.py OUT --count N [--seed S]
tensorflow_bfc.py OUT --pool

Prints a JSON line per program: file, program, seed, conf, limit, and, after a crash, crashed: the signal. Programs copy
arrays to the GPU and drop them: they launch no kernels. Profiles begin before the device is initialized; its allocator
has scratch memory from then on.

--pool runs one program, with the allocator that the environment asks for, for `memreel record`. Prints TensorFlow's own
statistics: peak, the bytes in use at most.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys

import forked

PROGRAMS = ["churn_growth", "churn_limit", "large_growth", "large_limit"]
GPU_MEMORY = 80 << 30


def arrays(rng, steps, smallest, largest, most):
    """Copies arrays to the GPU, and drops them in random order. Returns TensorFlow's statistics."""
    import numpy
    import tensorflow

    buffer = numpy.zeros(1 << largest, numpy.uint8)
    held = []
    with tensorflow.device("/GPU:0"):
        for step in range(steps):
            with tensorflow.profiler.experimental.Trace("train", step_num=step, _r=1):
                held.append(tensorflow.constant(buffer[:int(2 ** rng.uniform(smallest, largest))]))
            while len(held) > most:
                held.pop(rng.randrange(len(held)))
    return tensorflow.config.experimental.get_memory_info("GPU:0")


def profiled(out, program, seed, conf):
    """Runs the program with a profile in the directory `out`. Returns TensorFlow's statistics."""
    import tensorflow

    gpu = tensorflow.config.list_physical_devices("GPU")[0]
    if conf.startswith("limit "):
        limit = tensorflow.config.LogicalDeviceConfiguration(memory_limit=int(conf.split()[1]))  # in MiB
        tensorflow.config.set_logical_device_configuration(gpu, [limit])
    elif program.endswith("growth"):
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    shape = {"churn": (400, 2, 25, 40), "large": (60, 20, 29, 4), "pool": (60, 2, 24, 10)}[program.split("_")[0]]
    tensorflow.profiler.experimental.start(str(out))
    stats = arrays(random.Random(seed), *shape)
    tensorflow.profiler.experimental.stop()
    return stats


def record(path, program, seed, conf):
    directory = path.with_suffix(".d")
    profiled(directory, program, seed, conf)
    (written,) = directory.rglob("*.xplane.pb")
    written.rename(path)
    shutil.rmtree(directory)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pool", action="store_true")
    args = parser.parse_args()
    if args.pool:
        growth = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
        print(json.dumps(profiled(args.out, "pool_growth" if growth else "pool", args.seed, "")))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    made = 0
    for _ in range(args.count):
        program, seed = rng.choice(PROGRAMS), rng.randrange(1000, 100_000)
        conf = f"limit {rng.choice([3000, 5000, 9000])}" if program.endswith("limit") else ""
        row = {"file": f"{program}-{seed}.xplane.pb", "program": program, "seed": seed, "conf": conf, "limit": GPU_MEMORY}
        try:
            if not forked.run(lambda: record(args.out / row["file"], program, seed, conf)):
                row["crashed"] = "an error"
        except forked.Crashed as crash:
            row["crashed"] = str(crash)
        made += "crashed" not in row
        print(json.dumps(row), flush=True)
    return 0 if made else 1


sys.exit(main())
