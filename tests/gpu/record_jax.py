#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records ground truth: runs small JAX programs under jax.profiler.trace and keeps what the real BFC allocator did.

record_jax.py OUT_DIR [--runs mlp_growth,churn_fraction,...] [--seeds 1,2] [--jobs 4]

Every run has its own process and writes OUT_DIR/RUN_sSEED.xplane.pb.gz and a line of OUT_DIR/truth.jsonl: the
allocator's own final statistics. Needs a GPU and JAX.
"""

import argparse
import concurrent.futures
import ctypes
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile


def mlp(jax, rng):
    """Training of a small network with random batch sizes."""
    import numpy

    jnp = jax.numpy

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x * x).mean()

    @jax.jit
    def step(weights, x):
        return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights, x))]

    width = rng.choice([512, 768, 1024])
    weights = [jax.device_put(numpy.full((width, width), 0.01, numpy.float32)) for _ in range(4)]
    batches = [rng.randint(16, 2000) for _ in range(4)]
    for i in range(40):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            weights = step(weights, jax.device_put(numpy.ones((rng.choice(batches), width), numpy.float32)))
    jax.block_until_ready(weights)


def churn(jax, rng, steps=1500, largest=25, most=60):
    """Arrays of random sizes, dropped in random order."""
    import numpy

    held = []
    for _ in range(steps):
        held.append(jax.device_put(numpy.empty(int(2 ** rng.uniform(2, largest)), numpy.uint8)))
        while len(held) > most:
            held.pop(rng.randrange(len(held)))
    jax.block_until_ready(held)


def large(jax, rng):
    """Few arrays, up to a gigabyte: the remainders of whole chunks exceed the limit for splitting."""
    import numpy

    buffer = numpy.zeros(1 << 30, numpy.uint8)
    held = []
    for _ in range(120):
        held.append(jax.device_put(buffer[: int(2 ** rng.uniform(20, 30))]))
        while len(held) > 6:
            held.pop(rng.randrange(len(held)))
    jax.block_until_ready(held)


def oom(jax, rng, most_failures=3):
    """Fills memory until a request fails, drops some, and continues."""
    import numpy

    buffer = numpy.zeros(1 << 30, numpy.uint8)
    held, failures = [], 0
    for _ in range(400):
        try:
            held.append(jax.device_put(buffer[: int(2 ** rng.uniform(10, 30))]))
            jax.block_until_ready(held[-1])
        except Exception as error:  # XlaRuntimeError
            print(str(error).splitlines()[0], file=sys.stderr)
            failures += 1
            for _ in range(rng.randint(1, 8)):
                held.pop(rng.randrange(len(held)))
            if failures == most_failures:  # each retried for 10 seconds
                break


def late(jax, rng):
    """Holds memory before the recording begins: see record()."""
    churn(jax, rng, steps=400)


def crowded(jax, rng):
    """Other processes hold most of the device: it refuses regions that the allocator's limit allows. See record()."""
    oom(jax, rng, most_failures=1)


def leave_free(size):
    """Takes all but `size` bytes of the device's memory for the lifetime of the process."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, free, total, address = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
                   cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
                   cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(free.value - size))):
        if status != 0:
            raise RuntimeError(f"CUDA driver error {status}")


GROWTH = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


ASYNC = {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}


def fraction(value):
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": value}


# name: program, environment, whether Python's own calls are recorded
RUNS = {
    "mlp_growth": (mlp, GROWTH, True),
    "mlp_fraction": (mlp, fraction(".05"), True),
    "churn_growth": (churn, GROWTH, False),
    "churn_fraction": (churn, fraction(".05"), False),
    "large_growth": (large, GROWTH, False),
    "large_fraction": (large, fraction(".10"), False),
    "oom_growth": (oom, {**GROWTH, **fraction(".03")}, False),
    "oom_fraction": (oom, fraction(".02"), False),
    "late_growth": (late, GROWTH, False),
    "crowded_growth": (crowded, GROWTH, False),  # alone on its device
    "churn_async": (churn, {**GROWTH, **ASYNC}, False),
    "churn_async_fraction": (churn, {**ASYNC, **fraction(".05")}, False),
    "churn_platform": (churn, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, False),
}


def record(name, seed, path):
    """Returns the allocator's own statistics at the end."""
    import jax
    import numpy

    program, _, python_calls = RUNS[name]
    if program is crowded:
        leave_free(7 << 30)
    rng = random.Random(seed)
    device = jax.local_devices()[0]
    held = []
    if program is late:
        held = [jax.device_put(numpy.zeros(int(2 ** rng.uniform(8, 22)), numpy.uint8)) for _ in range(40)]
        del held[::3]
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 1 if python_calls else 0
    options.device_tracer_level = 0
    with tempfile.TemporaryDirectory() as directory:
        with jax.profiler.trace(directory, profiler_options=options):
            program(jax, rng)
            stats = device.memory_stats()
        (written,) = pathlib.Path(directory).rglob("*.xplane.pb")
        path.write_bytes(gzip.compress(written.read_bytes(), 9, mtime=0))
    print(json.dumps({"file": path.name, "jax": jax.__version__, "device": device.device_kind, "stats": stats}))
    return stats


def run_one(out, name, seed):
    command = [sys.executable, __file__, str(out), "--one", "--runs", name, "--seeds", str(seed)]
    done = subprocess.run(command, env={**os.environ, **RUNS[name][1]}, capture_output=True, text=True, check=False)
    print(name, seed, "ok" if done.returncode == 0 else f"failed ({done.returncode})\n{done.stderr[-2000:]}",
          file=sys.stderr)
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--jobs", type=int, default=1, help="runs in parallel")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [(name, int(seed)) for seed in args.seeds.split(",") for name in args.runs.split(",")]
    if args.one:
        ((name, seed),) = jobs
        record(name, seed, args.out / f"{name}_s{seed}.xplane.pb.gz")
        return
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        truths = list(pool.map(lambda job: run_one(args.out, *job), jobs))
    (args.out / "truth.jsonl").write_text("".join(truths), encoding="utf-8")


if __name__ == "__main__":
    main()
