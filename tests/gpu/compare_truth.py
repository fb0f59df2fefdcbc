#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a program's ground truth with its traces: compare_truth.py MEMREEL TRUTH TRACE...

Each trace is compared with what its threads logged. Prints one line; exit code 1 on a difference."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from ground_truth import differences, driver_events, read_trace, read_truth


def main(memreel, truth_file, *traces):
    with open(truth_file, encoding="utf-8") as file:
        truth = read_truth(file.read())
    texts, compared = [], 0
    for trace in traces:
        rows = read_trace(memreel, trace)
        threads = {thread for thread, _ in driver_events(rows, truth)}
        own = [line for line in truth if line.thread in threads]
        texts += differences(own, rows)
        compared += len(own)
    if compared != len(truth):
        texts.append(f"{len(truth) - compared} of {len(truth)} events are in no trace")
    print(f"{compared} of {len(truth)} events equal" if not texts else "; ".join(texts[:3]))
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
