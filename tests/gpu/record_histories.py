#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records ground truth: runs small PyTorch programs (programs.py) and dumps what the real allocator did.

record_histories.py OUT_DIR [--programs gpt,decode,...] [--seeds 1,2] [--conf "max_split_size_mb:128"]

Every program runs in its own process, with history recorded from its first allocation on, and writes
OUT_DIR/PROGRAM_sSEED[_NAME].pickle.xz and a line of OUT_DIR/truth.jsonl: the setting, the memory limit, and the final
torch.cuda.memory_stats(). Needs a GPU and PyTorch; `gpt` and `decode` need transformers.
"""

import argparse
import json
import lzma
import os
import pathlib
import pickle
import random
import subprocess
import sys

from programs import PROGRAMS, limit


def shorten_paths(snapshot):
    """Strips each file name to what does not depend on the machine."""
    for trace in snapshot["device_traces"]:
        for event in trace:
            for frame in event.get("frames", []):
                for marker in ("site-packages/", "dist-packages/", "lib/python3"):
                    if marker in frame["filename"]:
                        frame["filename"] = frame["filename"][frame["filename"].index(marker):]
                frame["filename"] = frame["filename"].replace(os.path.dirname(os.path.abspath(__file__)) + "/", "")


def record(program, seed, late, memory, stacks, path):
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    if memory:
        limit(torch, memory)
    rng = random.Random(seed)
    if late:
        held = [torch.empty(int(2 ** rng.uniform(8, 24)), dtype=torch.uint8, device="cuda") for _ in range(200)]
        del held[::3]
    torch.cuda.memory._record_memory_history(context="all" if stacks else None, stacks="python")
    PROGRAMS[program](torch, rng)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    shorten_paths(snapshot)
    with lzma.open(path, "wb", preset=6) as out:
        pickle.dump(snapshot, out, protocol=4)
    print(json.dumps({"file": path.name, "program": program, "seed": seed,
                      "conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""), "limit": memory, "device_total": total,
                      "events": sum(len(t) for t in snapshot["device_traces"]), "stats": stats,
                      "devices": [torch.cuda.memory_stats(i) for i in range(torch.cuda.device_count())]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--conf", default="", help="PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument("--limit", type=int, default=0, help="memory limit of the process in bytes, set as a memory fraction")
    parser.add_argument("--name", default="", help="added to the file names, to distinguish settings")
    parser.add_argument("--late", action="store_true", help="begin recording while memory is already allocated")
    parser.add_argument("--no-stacks", action="store_true", help="record no stacks: smaller files, where only sizes matter")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [(p, int(s)) for p in args.programs.split(",") for s in args.seeds.split(",")]
    if args.one:
        (program, seed), = jobs
        record(program, seed, args.late, args.limit, not args.no_stacks,
               args.out / f"{program}_s{seed}{args.name}.pickle.xz")
        return
    for program, seed in jobs:
        command = [sys.executable, __file__, str(args.out), "--one", "--programs", program, "--seeds", str(seed),
                   "--name", args.name, "--limit", str(args.limit)] + (["--late"] if args.late else [])
        command += ["--no-stacks"] if args.no_stacks else []
        done = subprocess.run(command, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": args.conf}, stdout=subprocess.PIPE,
                              text=True, check=False)
        print(program, seed, "ok" if done.returncode == 0 else f"failed ({done.returncode})", file=sys.stderr)
        with open(args.out / "truth.jsonl", "a", encoding="utf-8") as truth:
            truth.write(done.stdout)


if __name__ == "__main__":
    main()
