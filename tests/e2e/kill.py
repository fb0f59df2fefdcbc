#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills recorded programs and checks the traces they leave: kill.py MEMREEL PROGRAM COUNT [JOBS] [--json]

A trace must open and lack nothing older than 100 ms at the time of the kill: that is what a recording promises."""

import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ground_truth import driver_events, expected, read_trace, read_truth

PROMISE = 100_000_000  # ns


def kill_after(memreel, program, seconds, environment):
    """Starts `program` under `memreel record` and kills it with SIGKILL this long after its first event. Returns the number
    of events in the trace and the age, in ns, of the oldest missing one; raises if the trace is wrong."""
    with tempfile.TemporaryDirectory(prefix="memreel-kill-") as directory:
        truth_file, trace = Path(directory, "truth"), Path(directory, "run.reel")
        process = subprocess.Popen([memreel, "record", "-q", "-o", trace, "--", *program], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**environment, "MEMREEL_TRUTH": str(truth_file)})
        deadline = time.monotonic() + 60
        while not truth_file.exists() or truth_file.stat().st_size == 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the program did not start: {process.communicate()[1]}")
            time.sleep(0.001)
        time.sleep(seconds)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        killed = time.time_ns()
        os.kill(int(children[0]), signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            raise AssertionError(f"the launcher ended with {process.returncode}")
        return compare(read_truth(truth_file.read_text()), read_trace(memreel, trace), killed)


def compare(truth, rows, killed):
    found = {}
    for thread, event in driver_events(rows, truth):
        found.setdefault(thread, []).append(event)
    oldest_missing = 0
    for thread in {line.thread for line in truth}:
        said = [line for line in truth if line.thread == thread]
        recorded = found.get(thread, [])
        # A call in progress may be recorded but not yet reported by the program.
        if recorded[:len(said)] != [expected(line) for line in said][:len(recorded)]:
            raise AssertionError(f"thread {thread}: the trace is not what the program did")
        if len(recorded) < len(said):
            oldest_missing = max(oldest_missing, killed - said[len(recorded)].time)
    return len(rows), oldest_missing


def main():
    as_json = "--json" in sys.argv
    memreel, program, count, jobs, *_ = [a for a in sys.argv[1:] if a != "--json"] + ["1"]
    chance = random.Random(1)
    moments = [0.02 + 0.4 * chance.random() for _ in range(int(count))]
    results, problems = [], []

    def kill(moment):
        try:
            results.append(kill_after(memreel, program.split(), moment, dict(os.environ)))
        except (AssertionError, subprocess.CalledProcessError, OSError) as problem:
            problems.append(f"killed after {moment:.3f} s: {problem}")

    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        list(pool.map(kill, moments))
    late = [age for _, age in results if age > PROMISE]
    for problem in problems[:5]:
        print(problem, file=sys.stderr)
    worst = max((age for _, age in results), default=0)
    text = (f"{len(results)} of {count} traces open and are right, {sum(n for n, _ in results)} events; oldest missing "
            f"event {worst / 1e6:.0f} ms, {len(late)} above 100 ms")
    print(json.dumps({"kills": int(count), "right": len(results), "worst_ms": worst / 1e6}) if as_json else text)
    return 1 if problems or late else 0


if __name__ == "__main__":
    sys.exit(main())
