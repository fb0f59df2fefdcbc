#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares recordings of JAX with what JAX says: its pool is named, and holds what the driver gave; tensors of the profile are in it.
A pool of cudaMallocAsync has no tensors in the profile: the driver's calls show each of them.

compare_jax.py MEMREEL DIR NAME: DIR has the traces run-*.reel, and what record_jax.py wrote."""

import json
import pathlib
import subprocess
import sys


def document(memreel, *arguments):
    done = subprocess.run([memreel, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit((done.stderr.strip() or "no answer").splitlines()[-1])
    return json.loads(done.stdout)


def device_of(report):
    return next((tree for tree in report["device_trees"] if tree["device"] == 0), None)


def live_series(memreel, trace):
    """The bytes that the driver's allocations of device 0 hold after each event, without those that the pool takes and gives back at once."""
    done = subprocess.run([memreel, "export", "--format", "jsonl", str(trace)], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    events = [event for event in events if event.get("heap") == "cuda.driver" and event["device"] == 0 and
              event["kind"] in ("alloc", "free_requested")]
    live, series = 0, []
    for i, event in enumerate(events):
        live += event["size"] if event["kind"] == "alloc" else -event["size"]
        preallocates = i + 1 < len(events) and event["kind"] == "alloc" and events[i + 1]["kind"] == "free_requested" and \
            event["address"] == events[i + 1]["address"]
        series.append(0 if preallocates else live)
    return series


def compare_async(memreel, trace, stats):
    """What the driver's calls say of a pool of cudaMallocAsync, as XLA's allocator counts it."""
    ours, theirs = max(live_series(memreel, trace)), stats["peak_bytes_in_use"]
    if ours != theirs:
        sys.exit(f"{ours} B in use at the peak, {theirs} B by JAX")
    print(f"{theirs} B in use at the peak, as by JAX, in {stats['num_allocs']} allocations")


def main():
    memreel, directory, name = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    stats = json.loads((directory / "truth.jsonl").read_text().splitlines()[0])["stats"]
    recordings = [path for path in directory.glob("run-*.reel") if device_of(document(memreel, "report", path, "--json"))]
    if len(recordings) != 1:
        sys.exit(f"{len(recordings)} recordings with memory of the device")
    report = document(memreel, "report", recordings[0], "--json")
    held_by = report["verdict"]["held_by"]["parts"]
    if not held_by or held_by[0]["label"] != "XLA's pool":
        sys.exit(f"held by {held_by[:1]}, not XLA's pool")
    if stats is None:  # of the allocator "platform", a call of the driver for each request
        print(f"held by XLA's pool, {max(live_series(memreel, recordings[0]))} B at the peak by the driver's calls; JAX counts nothing")
        return
    if "peak_pool_bytes" not in stats:
        compare_async(memreel, recordings[0], stats)
        return
    joined = directory / "joined.reel"
    document(memreel, "import", recordings[0], "--profile", directory / f"{name}_s1.xplane.pb.gz", "-o", joined, "--json")
    tree = device_of(document(memreel, "report", joined, "--json"))
    pool = next(heap for heap in tree["heaps"] if heap["heap"] in ("GPU_0_bfc", "XLA_backend_0_bfc"))
    expected = stats["peak_pool_bytes"]
    if pool["peak_bytes"] != expected:
        sys.exit(f"the pool held {pool['peak_bytes']} B, {expected} B by JAX")
    verified = next(device for device in document(memreel, "verify", joined, "--json")["devices"] if device["device"] == 0)
    if not verified["exact"]:
        sys.exit(f"{verified['address_matches']} of {verified['allocations']} addresses")
    of_nobody = tree["samples"]["of_nobody_bytes"] if tree["samples"] else 0
    print(f"pool {expected} B as by JAX, {verified['allocations']} of {verified['allocations']} addresses; {of_nobody} B of nobody's")


main()
