#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a recording with PyTorch's own history of the same run, as imported by memreel:

compare_history.py MEMREEL TRACE SNAPSHOT.pickle.xz LOG

LOG is the program's output: a line of JSON with its "stats", torch.cuda.memory_stats(). Compared for each device:
every request, free, completion and segment, one to one; the results of `verify` on both; the peak reserved bytes of
torch.native on both; and the allocator's accounting with memory_stats(). Prints one line; exit code 1 on any
difference."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ground_truth import read_trace

KINDS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
         "alloc_failed")
BOOKS = ("allocated_bytes", "requested_bytes", "active_bytes", "reserved_bytes")


def document(memreel, *arguments):
    done = subprocess.run([memreel, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout)


def rows(memreel, trace):
    """PyTorch's heaps, by device."""
    devices = {}
    for row in read_trace(memreel, trace):
        if row["heap"].startswith("torch") and row["kind"] in KINDS:
            key = (row["kind"], row.get("address"), row["size"], row["stream"])
            devices.setdefault(row["device"], []).append(key)
    return devices


def is_ending(rows):
    """Whether they are frees made while the program ends, after its history was taken."""
    return all(row[0] in ("free_requested", "free_completed", "segment_free", "segment_unmap") for row in rows)


def difference(mine, theirs):
    """The first difference between a device's rows as recorded and in PyTorch's history; None if there is none. And
    the number of extra rows recorded while the program ended."""
    count = len(theirs)
    if mine[:count] == theirs and is_ending(mine[count:]):
        return None, len(mine) - count
    first = next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), count))
    return (f"row {first} of {count} ({len(mine)} recorded) differs: {mine[first:first + 1]} for {theirs[first:first + 1]}", 0)


def pools(memreel, trace):
    """The pool of each allocation, by address and order."""
    return [row.get("pool") for row in read_trace(memreel, trace)
            if row["heap"].startswith("torch") and row["kind"] == "alloc"]


def partition(names):
    """Traces name pools differently; only the contents of each pool matter."""
    numbers = {}
    return [numbers.setdefault(json.dumps(name), len(numbers)) for name in names]


def of_devices(rows, figure):
    return [row[figure] for row in sorted(rows, key=lambda row: row["device"])]


def text(figures):
    """For each device."""
    return " and ".join(map(str, figures))


def main(memreel, trace, snapshot, log):
    with open(log, encoding="utf-8") as file:
        stats = next(json.loads(line) for line in file if line.startswith('{"file"'))["devices"]
    ours, theirs = rows(memreel, trace), rows(memreel, snapshot)
    problems, later = [], 0
    for device in theirs:
        problem, more = difference(ours.get(device, []), theirs[device])
        later += more
        if problem:
            problems.append(problem)
    same_pools = partition(pools(memreel, trace)) == partition(pools(memreel, snapshot))
    verified = [document(memreel, "verify", file)["exact"] for file in (trace, snapshot)]
    peaks = [of_devices(document(memreel, "replay", file, "--policy", "torch.native")["policies"][0]["devices"],
                        "peak_reserved_bytes") for file in (trace, snapshot)]
    recorded = [of_devices(document(memreel, "verify", file)["devices"], "recorded_peak_reserved_bytes")
                for file in (trace, snapshot)]
    allocated = []
    for row in document(memreel, "report", trace)["summary"]["devices"]:
        summary, books = row["memory_summary"], stats[row["device"]]
        if not summary:
            continue
        allocated.append(summary["allocated_bytes"]["all"]["peak"])
        for book in BOOKS:
            for what in ("current", "peak") if not later else ("peak",):
                if summary[book]["all"][what] != books[f"{book}.all.{what}"]:
                    problems.append(f"device {row['device']}, {book}.all.{what}: {summary[book]['all'][what]} for "
                                    f"{books[f'{book}.all.{what}']}")
    if len(allocated) != len(theirs):
        problems.append(f"{len(allocated)} devices in the report, {len(theirs)} in the history")
    if not all(verified):
        problems.append(f"exact: {verified[0]} recorded, {verified[1]} imported")
    if peaks[0] != peaks[1]:
        problems.append(f"replayed peak reserved {peaks[0]} recorded, {peaks[1]} imported")
    if recorded[0] != recorded[1]:
        problems.append(f"recorded peak reserved {recorded[0]}, imported {recorded[1]}")
    if problems:
        print("; ".join(problems))
        return 1
    count = sum(map(len, theirs.values()))
    print(f"{count} of {count} events equal, both exact, replayed peak {text(peaks[0])} = {text(peaks[1])}, "
          f"allocated_bytes.all.peak {text(allocated)} equal; "
          f"pools {'the same' if same_pools else 'not told the same way'}"
          + (f"; {later} frees while the program ended" if later else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
