#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the labelled programs of leak_programs.py with PyTorch's own recorder.

record_leaks.py OUT_DIR [--programs a,b] [--seeds 1,2] [--jobs 6]

Each program runs in its own process and writes OUT_DIR/NAME_sSEED.pickle.xz and OUT_DIR/NAME_sSEED.truth.json: the
allocations freed when the program's `held` was dropped after the recording. Needs a GPU and PyTorch.
"""

import argparse
import concurrent.futures
import contextlib
import gc
import json
import lzma
import pathlib
import pickle
import random
import subprocess
import sys

from leak_programs import PROGRAMS
from record_histories import shorten_paths


def live(torch):
    """Address -> requested bytes of every allocation."""
    return {block["address"]: block["requested_size"]
            for segment in torch.cuda.memory._snapshot()["segments"] for block in segment["blocks"]
            if block["state"] == "active_allocated"}


def record(name, seed, out):
    import torch

    rng = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    torch.cuda.memory._record_memory_history(stacks="python")
    program = PROGRAMS[name](torch, rng)
    for i in range(program.steps):
        with torch.profiler.record_function("step") if program.marked else contextlib.nullcontext():
            program.step(i)
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    before = live(torch)
    program.held.clear()
    if gc.isenabled():
        gc.collect()
    after = live(torch)
    leaked = [{"address": address, "bytes": size} for address, size in sorted(before.items()) if address not in after]
    shorten_paths(snapshot)
    with lzma.open(out / f"{name}_s{seed}.pickle.xz", "wb", preset=6) as file:
        pickle.dump(snapshot, file, protocol=4)
    (out / f"{name}_s{seed}.truth.json").write_text(json.dumps(
        {"case": name, "seed": seed, "steps": program.steps, "marked": program.marked,
         "live_allocations": len(before), "live_bytes": sum(before.values()), "leaked_allocations": len(leaked),
         "leaked_bytes": sum(entry["bytes"] for entry in leaked), "leaked": leaked}) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--jobs", type=int, default=6, help="programs in parallel")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [(p, s) for p in args.programs.split(",") for s in args.seeds.split(",")]
    if args.one:
        (name, seed), = jobs
        record(name, int(seed), args.out)
        return

    def run(job):
        name, seed = job
        done = subprocess.run([sys.executable, __file__, str(args.out), "--one", "--programs", name, "--seeds", seed],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            print(name, seed, "failed:", done.stdout[-400:], file=sys.stderr)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, jobs))


if __name__ == "__main__":
    main()
