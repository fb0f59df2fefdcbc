#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memreel plan beside google/minimalloc on its eleven instances: both in one run, alternating, seconds of wall clock and of processor.

The rows are shuffled anew in each round but the first, for both.

usage: MINIMALLOC=PATH tests/bench/plan_peer.py MEMREEL [ROUNDS]
"""

import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

INSTANCES = sorted(pathlib.Path(__file__).resolve().parents[1].glob("data/minimalloc/*.1048576.csv"))
CAPACITY = 1048576


def seconds_of(command):
    """Of wall clock and of processor time, and whether it succeeded."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, processor, process.returncode == 0


def main():
    peer = os.environ.get("MINIMALLOC")
    if len(sys.argv) < 2 or not peer:
        sys.exit(__doc__)
    memreel, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    ratios = []
    print("| instance | memreel plan: wall, processor | minimalloc: wall, processor | ratio of wall: median, highest |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        out, shuffled = f"{directory}/plan.csv", f"{directory}/rows.csv"
        for instance in INSTANCES:
            ours, theirs = [], []
            header, *rows = instance.read_text().splitlines()
            for round_number in range(rounds):
                pathlib.Path(shuffled).write_text("\n".join([header, *rows]) + "\n")
                random.Random(round_number + 1).shuffle(rows)
                ours.append(seconds_of([memreel, "plan", shuffled, "--capacity", str(CAPACITY), "-o", out]))
                theirs.append(seconds_of([peer, f"--capacity={CAPACITY}", f"--input={shuffled}", f"--output={out}"]))
            if not all(success for *_, success in ours):
                sys.exit(f"memreel found no plan of {instance.name}")
            (wall, processor), (peer_wall, peer_processor) = ([statistics.median(run[i] for run in runs) for i in (0, 1)]
                                                              for runs in (ours, theirs))
            ratios += (each := [one[0] / other[0] for one, other in zip(ours, theirs)])
            print(f"| {instance.name[0]} | {wall:.2f}, {processor:.2f} s | {peer_wall:.2f}, {peer_processor:.2f} s | {statistics.median(each):.2f}, {max(each):.2f} |", flush=True)
    print(f"\nmemreel takes {min(ratios):.2f} to {max(ratios):.2f} of minimalloc's time, {statistics.median(ratios):.2f} in the median")


if __name__ == "__main__":
    main()
