#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a job with many ranks: time per file as their number grows, memory, and the gain from a second process.

fleet.py MEMREEL HISTORIES [--ranks 1024] [--setting]: copies of the sixteen recordings in HISTORIES/fleet16, named
rank0 and so on. Times are processor times, which other load on the machine hardly changes; memory is that of the
largest process.
"""

import argparse
import json
import os
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
    arguments = parser.parse_args()
    options = ["--json"] if arguments.setting else ["--json", "--no-setting"]
    with tempfile.TemporaryDirectory(prefix="memreel-bench-fleet-") as name:
        directory = Path(name)
        (directory / "job").mkdir()
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
