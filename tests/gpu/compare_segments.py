#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares PyTorch's segments with the driver calls recorded in the same run:

compare_segments.py MEMREEL TRACE SNAPSHOT.pickle.xz

Every segment_alloc and segment_free of PyTorch's history must be a cuMemAlloc and cuMemFree of the trace, in the same
order on each device; every segment_map and segment_unmap must be a run of mappings that make up its range. Calls by
others in the process (cuBLAS, NCCL) are counted separately. Prints one line; exit code 1 on a mismatch."""

import lzma
import os
import pickle
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ground_truth import read_trace

ACTIONS = {"segment_alloc": "alloc", "segment_free": "free_requested", "segment_map": "segment_map",
           "segment_unmap": "segment_unmap"}


def history(snapshot):
    """For each device that has segments."""
    with lzma.open(snapshot) as file:
        traces = pickle.load(file)["device_traces"]
    for device, trace in enumerate(traces):
        rows = [(device, ACTIONS[entry["action"]], entry["addr"], entry["size"]) for entry in trace
                if entry["action"] in ACTIONS]
        if rows:
            yield rows


def driver_calls(rows):
    for row in rows:
        is_linear = row["heap"] == "cuda.driver" and row["kind"] in ("alloc", "free_requested") and "pool" not in row
        if is_linear or row["heap"] == "cuda.mapped":
            yield [row["device"], row["kind"], row["address"], row["size"]]


def match(entries, calls):
    """The number of calls that match no entry; raises at the first entry without a matching call."""
    position = others = 0
    for device, kind, address, size in entries:
        reached, end = address, address + size
        start = position
        while reached < end:
            if position == len(calls):
                raise ValueError(f"PyTorch's {kind} of {size} bytes at {address:#x} is not in the trace behind event {start}")
            if calls[position][:3] == [device, kind, reached] and reached + calls[position][3] <= end:
                reached += calls[position][3]
            else:
                others += 1
            position += 1
    return others + len(calls) - position


def main(memreel, trace, snapshot):
    devices, calls = list(history(snapshot)), list(driver_calls(read_trace(memreel, trace)))
    others = sum(not any(call[0] == entries[0][0] for entries in devices) for call in calls)
    try:
        for entries in devices:
            others += match(entries, [call for call in calls if call[0] == entries[0][0]])
    except ValueError as problem:
        print(problem)
        return 1
    count = sum(map(len, devices))
    print(f"{count} of {count} segment events found, in order; {others} driver calls of others")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
