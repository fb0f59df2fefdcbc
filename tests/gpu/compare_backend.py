# SPDX-License-Identifier: Apache-2.0
"""compare_backend.py MEMREEL TRACE SAID: checks that the trace has each tensor of torch_backends.py as a driver
call."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ground_truth import read_trace


def main(memreel, trace, said):
    with open(said, encoding="utf-8") as file:
        tensors = next(json.loads(line) for line in file if line.startswith("[["))
    rows = read_trace(memreel, trace)
    notes = [row["mark"] for row in rows if row["kind"] == "mark" and "PyTorch's tensors" in row["mark"]]
    calls = iter([row["address"], row["size"]] for row in rows if row["kind"] == "alloc" and row["level"] == "driver")
    found = sum(any(call[0] == address and call[1] >= size for call in calls) for address, size in tensors)
    framework = sum(row["level"] == "framework" for row in rows)
    print(f"{found} of {len(tensors)} tensors are calls to the driver, {framework} events of a framework; marked: {notes}")
    return 0 if found == len(tensors) and not framework and len(notes) == 1 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
