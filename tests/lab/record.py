#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random programs with random settings on this Python's PyTorch, and dumps their histories.

record.py OUT --count N [--seed S]
record.py OUT --only LINE            the program of one such line, in this process

Prints a JSON line per program: file, series, program, seed, conf, limit, and, after a crash, crashed: the signal.
PyTorch is imported once; each program runs in a fork of this process, which has not used CUDA yet. What a release
rejects (an unknown setting, a program that needs a missing API) is drawn anew.

The series `usual` has --count programs, the same for every release except for what it rejects. Later additions to the
releases, or to this program, have series a fifth as long: `emptied` caches during captures, MemPools with `no_split`,
`pinned` host memory (2.14), and `reserve`, the address range of an expandable segment (2.15).
"""

import argparse
import gzip
import inspect
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

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
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

PINNED_SETTINGS = [
    (0.5, "pinned_max_round_threshold_mb", [0, 1, 4, 16]),
    (0.4, "pinned_max_cached_size_mb", [0, 1, 8, 32]),
    (0.3, "pinned_reserve_segment_size_mb", [1, 16, 64, 256]),
    (0.2, "pinned_use_cuda_host_register", ["True"]),
]
RESERVE_SETTINGS = [(1, "expandable_segments", ["True"]), (1, "expandable_segments_reserve", ["0.06G", "0.1G", "0.25G", "0.5G", "1G"]),
                    *SETTINGS[1:]]
RECORDER = getattr(torch.cuda.memory, "_record_memory_history_impl", torch.cuda.memory._record_memory_history)
CAN_KEEP_WHOLE = "no_split" in inspect.signature(getattr(torch.cuda, "MemPool", print)).parameters
RECORDS_HOST = "record_pinned_host_memory" in inspect.signature(RECORDER).parameters


def programs_of(series):
    if series == "pinned":
        return ["pinned"] if RECORDS_HOST else []
    if series == "no_split":
        return ["unsplit"] if CAN_KEEP_WHOLE else []
    if series == "emptied":
        return ["emptied_captures"]
    return EVERYWHERE + (WITH_POOLS if hasattr(torch.cuda, "use_mem_pool") else [])


def drawn(rng, series):
    settings = {"usual": SETTINGS, "pinned": PINNED_SETTINGS, "reserve": RESERVE_SETTINGS, "no_split": SETTINGS, "emptied": SETTINGS}[series]
    conf = ",".join(f"{key}:{rng.choice(values)}" for often, key, values in settings if rng.random() < often)
    return rng.choice(programs_of(series)), rng.randrange(1000, 100_000), conf, rng.choice(LIMITS)


def record(path, program, seed, conf, limit_bytes):
    """Runs the program. Returns the number of recorded events."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = conf
    os.environ["FAKE_CUDA_GPUS"] = "2" if program in ("devices", "peers") else "1"
    os.environ["FAKE_CUDA_EVENT_DELAY"] = str(seed % 60)
    torch.empty(0, device="cuda")  # PyTorch 2.3 looks for NumPy now; in a thread, its warning would hang
    if limit_bytes:
        limit(torch, limit_bytes)
    rng = random.Random(seed)
    torch.cuda.memory._record_memory_history(context=None, **({"record_pinned_host_memory": True} if program == "pinned" else {}))
    PROGRAMS[program](torch, rng)
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    # Before 2.2, snapshots did not contain the allocator settings.
    snapshot.setdefault("allocator_settings", {"PYTORCH_CUDA_ALLOC_CONF": conf})
    with gzip.open(path, "wb", compresslevel=1) as out:  # xz takes five times as long as everything else
        pickle.dump(snapshot, out, protocol=4)
    traces = [*snapshot["device_traces"], snapshot.get("host_traces", [])]
    return sum(map(len, traces)) if any(event["action"] == "alloc" for trace in traces for event in trace) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=json.loads, metavar="LINE")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only:
        row = args.only
        return 0 if record(args.out / row["file"], row["program"], row["seed"], row["conf"], row["limit"]) else 1
    made = {"usual": record_series(args, "usual", args.count, random.Random(args.seed))}
    for number, series in enumerate(("pinned", "reserve", "no_split", "emptied"), 1):
        made[series] = record_series(args, series, (args.count + 4) // 5, random.Random(args.seed + number)) if programs_of(series) else 0
    return 0 if made["usual"] else 1


def record_series(args, series, count, rng):
    """The number of its programs that ran."""
    made = refused = 0
    while made < count and refused < (10 * count if made else 20):
        program, seed, conf, memory = drawn(rng, series)
        row = {"file": f"{program}-{seed}.pickle.gz", "series": series, "program": program, "seed": seed, "conf": conf, "limit": memory}
        path = args.out / row["file"]
        try:
            if not forked.run(lambda: record(path, program, seed, conf, memory)):
                refused += 1
                path.unlink(missing_ok=True)
                continue
        except forked.Crashed as crash:
            row["crashed"] = str(crash)
        made += 1
        print(json.dumps(row), flush=True)
    print(f"{series}: {made} recorded, {refused} refused by this release", file=sys.stderr)
    return made


sys.exit(main())
