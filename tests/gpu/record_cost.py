"""What recording adds to a loop that allocates a tensor and frees it: record_cost.py [--history STACKS] [--label TEXT].

Prints, for call depths 0, 20 and 60, nanoseconds for each allocation with its free: the least of several rounds. Run it
bare, with PyTorch's own recorder (--history all, python), and under `memreel record`; compare within one run only.
"""
import argparse
import json
import time

import torch


def loop(count):
    empty, size = torch.empty, (1000,)
    device = torch.device("cuda")
    begin = time.perf_counter_ns()
    for _ in range(count):
        tensor = empty(size, device=device)
        del tensor
    return (time.perf_counter_ns() - begin) / count


def at_depth(depth, count):
    return loop(count) if depth == 0 else at_depth(depth - 1, count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--history")
    parser.add_argument("--label", default="")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.empty(1, device="cuda")
    if arguments.history:
        torch.cuda.memory._record_memory_history(stacks=arguments.history)
    times = {}
    for depth in 0, 20, 60:
        at_depth(depth, 2000)
        times[depth] = min(at_depth(depth, arguments.count) for _ in range(arguments.rounds))
        if arguments.history:  # an unbounded history would slow down as it grows
            torch.cuda.memory._record_memory_history(enabled=None)
            torch.cuda.memory._record_memory_history(stacks=arguments.history)
    print(json.dumps({"label": arguments.label, "ns": {depth: round(ns) for depth, ns in times.items()}}), flush=True)


main()
