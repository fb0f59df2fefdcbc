#!/usr/bin/env python3
"""Runs programs drawn at random on the PyTorch that this Python has, with settings drawn at random, and dumps their histories.

    record.py OUT --count N [--seed S]
    record.py OUT --only LINE            the program of one such line, in this process

A JSON line for each: file, program, seed, conf, limit. PyTorch is imported once; each program runs in a fork of this process, which
has not used CUDA yet. What a release refuses (a setting that it does not know, a program that it has no API for) is drawn anew.
"""

import argparse
import gzip
import json
import os
import pathlib
import pickle
import random
import sys
import warnings

import forked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
from programs import PROGRAMS, limit  # noqa: E402

import torch  # noqa: E402

EVERYWHERE = ["streams", "oom", "threads", "churn", "pressure", "captures", "capture_streams", "devices"]
WITH_POOLS = ["mempools", "mixed", "borrow", "peers"]
LIMITS = [0, 0, 0, 1 << 30, 2 << 30]
SETTINGS = [  # how often a setting is drawn, its key, its values
    (0.4, "expandable_segments", ["True"]),
    (0.4, "max_split_size_mb", [21, 24, 32, 48, 64, 100, 200, 512]),
    (0.2, "max_non_split_rounding_mb", [21, 32, 64, 128]),
    (0.3, "garbage_collection_threshold", [0.2, 0.4, 0.5, 0.6, 0.8, 0.9]),
    (0.3, "roundup_power2_divisions", [2, 4, 8, 16, "[256:1,512:2,1024:4,>:8]", "[1:2,16:8,>:4]", "[64:16,>:1]"]),
    (0.2, "large_segment_size_mb", [20, 24, 32, 40, 64, 128]),
    (0.1, "graph_capture_record_stream_reuse", ["True"]),
]


def drawn(rng):
    programs = EVERYWHERE + (WITH_POOLS if hasattr(torch.cuda, "use_mem_pool") else [])
    conf = ",".join(f"{key}:{rng.choice(values)}" for often, key, values in SETTINGS if rng.random() < often)
    return rng.choice(programs), rng.randrange(1000, 100_000), conf, rng.choice(LIMITS)


def record(path, program, seed, conf, limit_bytes):
    """Runs the program. Returns the number of events recorded."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = conf
    os.environ["FAKE_CUDA_GPUS"] = "2" if program in ("devices", "peers") else "1"
    os.environ["FAKE_CUDA_EVENT_DELAY"] = str(seed % 60)
    torch.empty(0, device="cuda")  # PyTorch 2.3 looks for NumPy now, and not in a thread, where its warning would hang
    if limit_bytes:
        limit(torch, limit_bytes)
    rng = random.Random(seed)
    torch.cuda.memory._record_memory_history(context=None)
    PROGRAMS[program](torch, rng)
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    # Before 2.2 a snapshot did not say with which settings its allocator ran.
    snapshot.setdefault("allocator_settings", {"PYTORCH_CUDA_ALLOC_CONF": conf})
    with gzip.open(path, "wb", compresslevel=1) as out:  # xz takes five times as long as all the rest
        pickle.dump(snapshot, out, protocol=4)
    events = sum(len(trace) for trace in snapshot["device_traces"])
    return events if any(event["action"] == "alloc" for trace in snapshot["device_traces"] for event in trace) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=json.loads, metavar="LINE")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    if args.only:
        row = args.only
        return 0 if record(args.out / row["file"], row["program"], row["seed"], row["conf"], row["limit"]) else 1
    made = refused = 0
    while made < args.count and refused < 10 * args.count:
        program, seed, conf, memory = drawn(rng)
        path = args.out / f"{program}-{seed}.pickle.gz"
        events = forked.run(lambda: record(path, program, seed, conf, memory))
        if not events:
            refused += 1
            path.unlink(missing_ok=True)
            continue
        made += 1
        print(json.dumps({"file": path.name, "program": program, "seed": seed, "conf": conf, "limit": memory}), flush=True)
    print(f"{made} recorded, {refused} refused by this release", file=sys.stderr)
    return 0 if made else 1


sys.exit(main())
