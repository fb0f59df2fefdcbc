#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a job with many ranks: time per file as their number grows, memory, and the gain from a second process.

fleet.py MEMREEL HISTORIES [--ranks 1024] [--setting]: copies of the sixteen recordings in HISTORIES/fleet16, named
rank0 and so on. With --distinct, the search for a common setting where no two ranks make the same requests: snapshots with
--steps steps, each of other sizes; HISTORIES is not read. Times are processor times, which other load on the machine hardly changes; memory is that of the
largest process.
"""

import argparse
import json
import os
import pickle
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": "sh",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                   "OMPI_MCA_mpi_yield_when_idle": "1"}


def make_job(directory, histories, ranks):
    sources = [histories / f"fleet16/rank{rank}.reel" for rank in range(16)]
    for rank in range(ranks):
        shutil.copyfile(sources[rank % 16], directory / f"rank{rank}.reel")
    return [directory / f"rank{rank}.reel" for rank in range(ranks)]


def make_distinct(directory, ranks, steps):
    """A snapshot of each rank: weights that stay, and activations whose sizes differ from step to step and rank to rank."""
    for rank in range(ranks):
        draw = random.Random(rank)
        entries, live, address, time_us = [], {}, 0x7F0000000000, 1_700_000_000_000_000
        frames = [[{"name": "step", "filename": "train.py", "line": line}] for line in range(64)]

        def add(action, at, size, line):
            entries.append({"action": action, "addr": at, "size": size, "stream": 0, "time_us": time_us + len(entries), "frames": frames[line]})

        def alloc(size, line):
            nonlocal address
            address += 64 << 20
            add("segment_alloc", address, size, line)
            add("alloc", address, size, line)
            live[address] = size
            return address

        def free(at):
            size = live.pop(at)
            for action in ("free_requested", "free_completed", "segment_free"):
                add(action, at, size, 0)
        for layer in range(24):
            alloc((16 << 20) + layer * 4096, layer)
        for _ in range(steps):
            tokens = draw.randrange(256, 1024)
            blocks = [alloc(tokens * (8 << 10) + 512 * draw.randrange(64), 24 + layer) for layer in range(24)]
            for at in reversed(blocks):
                free(at)
        segments = [{"device": 0, "address": at, "total_size": size, "allocated_size": size, "active_size": size, "requested_size": size,
                     "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                     "blocks": [{"address": at, "size": size, "requested_size": size, "state": "active_allocated", "frames": []}]}
                    for at, size in live.items()]
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                    "expandable_segments": False, "roundup_power2_divisions": {}}
        (directory / f"rank{rank}.pickle").write_bytes(pickle.dumps(
            {"segments": segments, "device_traces": [entries], "allocator_settings": settings, "external_annotations": []}))


def measure_distinct(memreel, directory, ranks, steps):
    make_distinct(directory / "job", ranks, steps)
    out = directory / "out"
    used, clock, _, _ = measure(memreel, "fleet", "map", directory / "job", "-o", out, "--shard", "0/1")
    print(f"map: {used:.1f} processor s, {1000 * used / ranks:.1f} ms a rank; {clock:.1f} s", flush=True)
    used, clock, memory, output = measure(memreel, "fleet", "settings", out)
    print(f"settings: {used:.1f} processor s, {1000 * used / ranks:.1f} ms a rank; {clock:.1f} s, {memory:.0f} MiB: {output.strip()}", flush=True)
    used, clock, memory, output = measure(memreel, "fleet", "merge", out, "--json")
    document = json.loads(output)
    events = sum(row["events"] for row in document["ranks"])
    print(f"merge: {used:.1f} processor s; {clock:.1f} s, {memory:.0f} MiB; {len(document['classes'])} classes, {events:,} events\n"
          f"{document['setting']['recommended']}: {document['setting']['why']}")


def measure(*command, environment=None):
    """Processor seconds, wall seconds, MiB of the largest process, and its output."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(environment or {})})
    output, errors = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in (0, 1):
        sys.exit(errors)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - began, after.ru_maxrss / 1024, output


# Starts a program and writes the processor time of it and all its descendants to a file.
TIMED = ["bash", "-c", '"$@"; code=$?; times >"$MEMREEL_TIMES.$$"; exit $code', "timed"]


def seconds_of(times):
    """Parses the second line of a shell's `times`: "1m2.345s 0m0.678s"."""
    parts = re.findall(r"(\d+)m([\d.]+)s", times.splitlines()[1])
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts)


def measure_mpi(program, job, directory, processes, options):
    """Wall seconds, and processor seconds of each process."""
    times = directory / f"times{processes}"
    environment = {**MPI_ENVIRONMENT, "MEMREEL_TIMES": str(times)}
    _, clock, _, _ = measure("mpirun", "-n", processes, *TIMED, program, job, "-o", directory / f"mpi{processes}", *options,
                             "--", "--json", environment=environment)
    return clock, sorted(seconds_of(file.read_text()) for file in directory.glob(times.name + ".*"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memreel", type=Path)
    parser.add_argument("histories", type=Path)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--only-mpi", action="store_true", help="measure only the gain from a second process")
    parser.add_argument("--setting", action="store_true", help="also search for the common setting")
    parser.add_argument("--distinct", action="store_true", help="measure the common setting of ranks of which each is a class")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    options = ["--json"] if arguments.setting else ["--json", "--no-setting"]
    with tempfile.TemporaryDirectory(prefix="memreel-bench-fleet-") as name:
        directory = Path(name)
        (directory / "job").mkdir()
        if arguments.distinct:
            measure_distinct(arguments.memreel, directory, arguments.ranks, arguments.steps)
            return
        files = make_job(directory / "job", arguments.histories, arguments.ranks)
        print(f"{'ranks':>6} {'events':>12} {'processor s':>12} {'ms/file':>8} {'clock s':>8} {'largest process MiB':>20}")
        counts = [count for count in (16, 64, 256, 1024, 4096) if count < arguments.ranks] + [arguments.ranks]
        if arguments.only_mpi:
            counts = []
        for count in counts:
            used, clock, memory, output = measure(arguments.memreel, "fleet", *files[:count], *options)
            events = sum(row["events"] for row in json.loads(output)["ranks"])
            print(f"{count:6} {events:12,} {used:12.2f} {1000 * used / count:8.1f} {clock:8.2f} {memory:20.1f}", flush=True)
        program = arguments.memreel.with_name("memreel-fleet-mpi")
        if program.exists() and shutil.which("mpirun"):
            clocks, longest = [], []
            for processes in (1, 2):
                clock, used = measure_mpi(program, directory / "job", directory, processes, options[1:])
                clocks.append(clock)
                longest.append(max(used))
                print(f"MPI, {processes} processes: {clock:.2f} clock s; processor s of each: "
                      + ", ".join(f"{seconds:.2f}" for seconds in used), flush=True)
            print(f"two processes of MPI are {clocks[0] / clocks[1]:.2f} times as fast as one by the clock, "
                  f"{longest[0] / longest[1]:.2f} times by processor time")


if __name__ == "__main__":
    main()
