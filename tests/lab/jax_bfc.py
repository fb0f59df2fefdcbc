#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random programs on this Python's JAX, on a fake GPU, and keeps the profiles in which its allocator
reports what it did.

jax_bfc.py OUT --count N [--seed S]
jax_bfc.py OUT --pool

Prints a JSON line per program: file, program, seed, conf, limit, and, after a crash, crashed: the signal. The programs
are those of tests/gpu/record_jax.py that launch no kernels: to the allocator all arrays are alike, however they were
made.

--pool runs one program, with the allocator that the environment asks for, for `memreel record`. Prints JAX's own
statistics: peak, the bytes in use at most, and pool, those that the pool held.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import sys

import forked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
import record_jax  # noqa: E402

from jax._src import hardware_utils  # noqa: E402

# Failed requests retry for 10 seconds.
PROGRAMS = ["churn_growth", "churn_fraction", "large_growth", "large_fraction"] * 5 + ["oom_growth", "oom_fraction", "crowded_growth"]
FRACTIONS = {"churn_fraction": [".02", ".03", ".05", ".1", ".3"], "large_fraction": [".1", ".2", ".3"],  # of the device
             "oom_fraction": [".01", ".02", ".03"], "oom_growth": [".02", ".03", ".05"]}
GPU_MEMORY = 80 << 30


def record(path, program, seed, fraction):
    """Runs the program. Returns the number of allocations."""
    os.environ.update(record_jax.RUNS[program][1])
    if fraction:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = fraction
    hardware_utils.has_visible_nvidia_gpu = lambda: True  # it checks for /dev/nvidia0
    with contextlib.redirect_stdout(None):
        return record_jax.record(program, seed, path)["num_allocs"]


def pool(out, seed):
    """Runs the program with a profile in the directory `out`. Returns the statistics of the allocator."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.device_tracer_level = options.python_tracer_level = 0
    with jax.profiler.trace(str(out), profiler_options=options):
        record_jax.churn(jax, random.Random(seed), steps=60, largest=24, most=10)
        stats = jax.local_devices()[0].memory_stats()
    return {"peak": stats["peak_bytes_in_use"]} | ({"pool": stats["peak_pool_bytes"]} if "peak_pool_bytes" in stats else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pool", action="store_true")
    args = parser.parse_args()
    if args.pool:
        hardware_utils.has_visible_nvidia_gpu = lambda: True  # it checks for /dev/nvidia0
        print(json.dumps(pool(args.out, args.seed)))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    made = 0
    for _ in range(args.count):
        program, seed = rng.choice(PROGRAMS), rng.randrange(1000, 100_000)
        fraction = rng.choice(FRACTIONS.get(program, [""]))
        row = {"file": f"{program}-{seed}.xplane.pb.gz", "program": program, "seed": seed, "conf": fraction and f"fraction {fraction}",
               "limit": GPU_MEMORY}
        try:
            if not forked.run(lambda: record(args.out / row["file"], program, seed, fraction)):
                row["crashed"] = "an error"
        except forked.Crashed as crash:
            row["crashed"] = str(crash)
        made += 1
        print(json.dumps(row), flush=True)
    return 0 if made else 1


sys.exit(main())
