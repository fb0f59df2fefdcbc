#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records programs with random settings and verifies each history: verify_random.py MEMREEL OUT [SECONDS [SEED]]

Prints a line for each history that is not exact, and keeps it in OUT. The last line has the totals. Excluded are
programs whose history is always incomplete: settings that change during the run, and a MemPool that never splits
(docs/policies.md).
"""

import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["streams", "oom", "threads", "leak", "churn", "pressure", "captures", "capture_streams", "mempools", "borrow",
            "mixed", "mixed", "devices", "peers"]
LIMITS = [0, 0, 0, 1 << 30, 2 << 30]
AT_ONCE = 12

# How often a setting is drawn, its key, and its values.
SETTINGS = [
    (0.5, "expandable_segments", ["True"]),
    (0.5, "max_split_size_mb", [21, 24, 32, 48, 64, 100, 200, 512]),
    (0.25, "max_non_split_rounding_mb", [21, 32, 64, 128]),
    (0.35, "garbage_collection_threshold", [0.2, 0.4, 0.5, 0.6, 0.8, 0.9]),
    (0.35, "roundup_power2_divisions", [2, 4, 8, 16, "[256:1,512:2,1024:4,>:8]", "[1:2,16:8,>:4]", "[64:16,>:1]"]),
    (0.25, "large_segment_size_mb", [20, 24, 32, 40, 64, 128]),
    (0.1, "graph_capture_record_stream_reuse", ["True"]),
]


def drawn(rng):
    conf = ",".join(f"{key}:{rng.choice(values)}" for often, key, values in SETTINGS if rng.random() < often)
    return rng.choice(PROGRAMS), rng.randrange(1000, 100_000), conf, rng.choice(LIMITS)


def judge(memreel, out, program, seed, conf, limit):
    """The verdict on one history: exact, different, or not recorded, for instance when PyTorch rejects the
    settings."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, HERE / "record_histories.py", directory, "--one", "--programs", program, "--seeds", str(seed)]
        if limit:
            command += ["--limit", str(limit)]
        command = ["timeout", "300", *command]
        ran = subprocess.run(command, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf}, capture_output=True)
        histories = list(pathlib.Path(directory).glob("*.pickle.xz"))
        if ran.returncode or not histories:
            return "not recorded"
        if subprocess.run([memreel, "verify", histories[0]], capture_output=True).returncode == 0:
            return "exact"
        shutil.copy(histories[0], out)
        print(f"{histories[0].name} differs: {conf or 'default'}, limit {limit}", flush=True)
        return "different"


def main():
    memreel, out = sys.argv[1], pathlib.Path(sys.argv[2])
    end = time.time() + float(sys.argv[3] if len(sys.argv) > 3 else 120)
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    out.mkdir(parents=True, exist_ok=True)
    counts = {"exact": 0, "different": 0, "not recorded": 0}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = set()
        while waiting or time.time() < end:
            while time.time() < end and len(waiting) < AT_ONCE:
                waiting.add(pool.submit(judge, memreel, out, *drawn(rng)))
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for verdict in done:
                counts[verdict.result()] += 1
    print(f"{counts['exact']} exact, {counts['different']} different, {counts['not recorded']} not recorded")
    return 1 if counts["different"] or not counts["exact"] else 0


sys.exit(main())
