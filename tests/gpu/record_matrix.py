#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records every program under settings that exercise its rules: record_matrix.py OUT_DIR [NAME_PREFIX...]

The programs at the end run under each setting with the same seed, so that their requests are equal, and without
stacks; the memory limit of the last setting derives from their peak under the defaults.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXPANDABLE = "expandable_segments:True"
GIB = 1 << 30

# (program, seed, name, conf, limit)
RULES = [
    ("pressure", 1, "_gc", "garbage_collection_threshold:0.5", 0),
    ("pressure", 2, "_gc", "garbage_collection_threshold:0.7", 0),
    ("pressure", 3, "_maxsplit_gc", "max_split_size_mb:32,garbage_collection_threshold:0.6", 0),
    ("pressure", 4, "_expandable_gc", EXPANDABLE + ",garbage_collection_threshold:0.6", 0),
    ("pressure", 5, "_expandable", EXPANDABLE, 0),
    ("pressure", 6, "_default", "", 0),
    ("pressure", 7, "_expandable_maxsplit", EXPANDABLE + ",max_split_size_mb:32", 0),
    ("oom", 11, "_expandable", EXPANDABLE, 0),
    ("oom", 12, "_expandable_gc", EXPANDABLE + ",garbage_collection_threshold:0.5", 0),
    ("oom", 13, "_maxsplit_gc", "max_split_size_mb:64,garbage_collection_threshold:0.5", 0),
    ("oom", 14, "_nonsplit", "max_split_size_mb:40,max_non_split_rounding_mb:64", 0),
    ("churn", 21, "_expandable", EXPANDABLE, 0),
    ("churn", 22, "_expandable_pow2", EXPANDABLE + ",roundup_power2_divisions:[4:2,8:4,>:8]", 0),
    ("churn", 23, "_segment", "large_segment_size_mb:64", 0),
    ("churn", 24, "_expandable_segment", EXPANDABLE + ",large_segment_size_mb:32", 0),
    ("streams", 31, "_expandable", EXPANDABLE, 0),
    ("streams", 32, "_expandable_pow2", EXPANDABLE + ",roundup_power2_divisions:4", 0),
    ("threads", 41, "_expandable", EXPANDABLE, 0),
    ("settings", 51, "", "", 0), ("settings", 52, "", "max_split_size_mb:64", 0),
    ("captures", 61, "_default", "", 0), ("captures", 62, "_default", "", 0), ("captures", 63, "_default", "", 0),
    ("captures", 61, "_expandable", EXPANDABLE, 0), ("captures", 64, "_expandable", EXPANDABLE, 0),
    ("captures", 65, "_maxsplit", "max_split_size_mb:24", 0),
    ("capture_streams", 71, "_default", "", 0), ("capture_streams", 72, "_default", "", 0),
    ("capture_streams", 71, "_expandable", EXPANDABLE, 0), ("capture_streams", 73, "_expandable", EXPANDABLE, 0),
    ("capture_streams", 74, "_reuse", "graph_capture_record_stream_reuse:True", 0),
    ("mempools", 81, "_default", "", 0), ("mempools", 82, "_default", "", 0),
    ("mempools", 81, "_expandable", EXPANDABLE, 0), ("mempools", 83, "_expandable", EXPANDABLE, 0),
    ("borrow", 91, "_default", "", 0), ("borrow", 92, "_default", "", 0), ("borrow", 91, "_expandable", EXPANDABLE, 0),
    ("unsplit", 95, "_default", "", 0), ("unsplit", 96, "_expandable", EXPANDABLE, 0),
    ("leak", 97, "_expandable", EXPANDABLE, 0),
]

# All but the greedy programs run in parallel: these take more than 50 GiB under some settings, which the others then
# could not get.
GREEDY = "convnet"
COMPARED = [("convnet", 2), ("transformer", 1), ("server", 3), ("gpt", 7), ("decode", 8), ("transformer", 4), ("server", 6),
            ("convnet", 5), ("gpt", 9)]
SETTINGS = [("_expandable", EXPANDABLE), ("_maxsplit", "max_split_size_mb:128"), ("_maxsplit32", "max_split_size_mb:32"),
            ("_pow2", "roundup_power2_divisions:4"), ("_pow2list", "roundup_power2_divisions:[1:2,16:8,>:4]"),
            ("_segment", "large_segment_size_mb:64")]


def record(out, program, seed, name, conf, limit, stacks=True):
    part = out / f"{program}_{seed}{name}.part"
    subprocess.run([sys.executable, HERE / "record_histories.py", part, "--programs", program, "--seeds", str(seed),
                    "--name", name, "--conf", conf, "--limit", str(limit)] + ([] if stacks else ["--no-stacks"]), check=False)
    line = (part / "truth.jsonl").read_text() if (part / "truth.jsonl").exists() else ""
    for file in part.glob("*.xz"):
        file.rename(out / file.name)
    for file in part.iterdir():
        file.unlink()
    part.rmdir()
    return line


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    wanted = tuple(sys.argv[2:]) or ("",)
    with concurrent.futures.ThreadPoolExecutor(14) as workers, open(out / "truth.jsonl", "a", encoding="utf-8") as truth:

        def all_of(jobs):
            lines = list(workers.map(lambda job: record(out, *job), jobs))
            truth.write("".join(lines))
            truth.flush()
            return lines

        compared = [job for job in COMPARED if job[0].startswith(wanted)]
        jobs = [(program, seed, "_default", "", 0, False) for program, seed in compared]
        jobs += [(program, seed, name, conf, 0, False) for program, seed in compared for name, conf in SETTINGS
                 if program != GREEDY]
        defaults = all_of(jobs)[: len(compared)]
        for program, seed in compared:
            if program == GREEDY:
                truth.writelines(record(out, program, seed, name, conf, 0, False) for name, conf in SETTINGS)
        jobs = []
        for (program, seed), line in zip(compared, defaults):
            peak = json.loads(line)["stats"]["reserved_bytes.all.peak"] if line else GIB
            jobs.append((program, seed, "_gc", "garbage_collection_threshold:0.8", int(peak * 1.02), False))
        all_of(jobs + [job for job in RULES if job[0].startswith(wanted)])


if __name__ == "__main__":
    main()
