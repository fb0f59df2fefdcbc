#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the memory of a rank not requested by PyTorch is on the rank's own device.

compare_ranks.py MEMREEL TRACE RANK.json RANK

All driver allocations must be on the rank's own device; the driver must count little more there than these and a
context, and nothing elsewhere. Prints one line; exit code 1 on a mismatch."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ground_truth import read_trace

MIB = 1 << 20
MOST_CONTEXT = 2048 * MIB  # including the libraries' code


def main(memreel, trace, said, rank):
    with open(said, encoding="utf-8") as file:
        truth = json.load(file)
    rank = int(rank)
    live, peak, by_library, imported, devices = {}, {}, {}, {}, set()
    held = {}
    for row in read_trace(memreel, trace):
        device = row["device"]
        if row["heap"] == "cuda.driver" and row["kind"] == "alloc":
            devices.add(device)
            libraries = " ".join(frame["function"] for frame in row.get("stack", ()))
            own = "pytorch" if "CUDACachingAllocator" in libraries or "DeviceCachingAllocator" in libraries else "others"
            held[row["allocation"]] = row["size"], own
            live[device] = live.get(device, 0) + row["size"]
            by_library[own] = by_library.get(own, 0) + row["size"]
            peak[device] = max(peak.get(device, 0), live[device])
        elif row["heap"] == "cuda.driver" and row["kind"] == "free_requested" and row["allocation"] in held:
            size, own = held.pop(row["allocation"])
            live[device] -= size
        elif row["heap"] == "cuda.imported" and row["kind"] == "segment_map":
            imported[device] = imported.get(device, 0) + row["size"]
    problems = []
    if not truth["right"]:
        problems.append("the sum was wrong")
    if devices != {rank}:
        problems.append(f"memory on devices {sorted(devices)}")
    used = {int(device): size for device, size in truth["used"].items()}
    if used and (set(used) != {rank} or used[rank] > peak.get(rank, 0) + MOST_CONTEXT):
        problems.append(f"the driver says {used}")
    figures = ", ".join(f"{own} asked for {size / MIB:.1f} MiB" for own, size in sorted(by_library.items()))
    others = ", ".join(f"{size / MIB:.1f} MiB of device {device}" for device, size in sorted(imported.items())) or "none"
    known = f"; the driver counts {used[rank] / MIB:.0f} MiB" if rank in used else "; the driver does not count processes"
    line = (f"NCCL {truth['nccl']}: all on device {rank}, peak {peak.get(rank, 0) / MIB:.1f} MiB ({figures}){known}; "
            f"imported: {others}")
    print("; ".join(problems) + "; " + line if problems else line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
