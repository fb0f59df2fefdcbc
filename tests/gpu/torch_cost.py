# SPDX-License-Identifier: Apache-2.0
"""What recording adds to a loop that allocates a tensor and frees it: torch_cost.py TURNS DIRECTORY RECORD...

RECORD is `memreel record` with the options common to all. In each turn one process runs the loop bare; one runs it
under PyTorch's own recorder, restarted each time in memory that the process has already touched; one leaves that
recorder on, as in debugging, so that it grows; and one runs for each kind of recording, whose trace must be complete.
A process counts with the minimum of its rounds, in its thread's own time: memreel's writer thread is not included.
Processes differ by about as much as the effect to measure, because of library placement and other load on the machine;
so there are many turns, reported as medians with the quartiles in brackets. Prints a line for each call depth and kind
of recording.
"""
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

DEPTHS = 0, 20, 60
RECORDED = {"no stacks": ["--depth", "0", "--no-python"], "native and Python stacks": []}
ROUNDS, PAIRS, WARM_UP = 7, 10_000, 1_000


def measure(kind):
    """Runs the loop in this process; prints ns per pair, {kind: {depth: ns}}."""
    import torch

    device = torch.device("cuda")
    empty, size = torch.empty, (1000,)
    empty(1, device=device)

    def loop(count):
        begin = time.perf_counter_ns()
        for _ in range(count):
            tensor = empty(size, device=device)
            del tensor
        return (time.perf_counter_ns() - begin) / count

    def at_depth(depth, count):
        return loop(count) if depth == 0 else at_depth(depth - 1, count)

    rounds = {depth: [] for depth in DEPTHS}
    for _ in range(ROUNDS):
        if kind.startswith("history"):
            torch.cuda.memory._record_memory_history(stacks="all")
        for depth in DEPTHS:
            at_depth(depth, WARM_UP)
            rounds[depth].append(at_depth(depth, PAIRS))
        if kind == "history anew":
            torch.cuda.memory._record_memory_history(enabled=None)
    print(json.dumps({kind: {depth: min(ns) for depth, ns in rounds.items()}}))


def check(trace, memreel, with_stacks):
    """Exits unless `trace` has everything that measure() did: unrecorded events would cost nothing."""

    def ask(*command):
        return subprocess.run([memreel, *command], stdout=subprocess.PIPE, check=True, text=True).stdout

    info = json.loads(ask("info", "--json", str(trace)))
    pairs = ROUNDS * len(DEPTHS) * (PAIRS + WARM_UP)
    lost = {cause: count for cause, count in info["losses"].items() if count}
    if lost or min(info["kinds"].get(kind, 0) for kind in ("alloc", "free_completed")) < pairs:
        sys.exit(f"{pairs} pairs, but the trace has {info['kinds']} and lost {lost}")
    if with_stacks and "at_depth" not in ask("report", "--json", str(trace)):
        sys.exit("there are no Python frames in the trace")


def turn(number, directory, record):
    """The results of measure() for all kinds, each in its own process, starting with a different one each time."""
    trace = directory / "cost.reel"
    itself = [sys.executable, __file__, "measure"]
    commands = {kind: [*itself, kind] for kind in ("bare", "history anew", "history")}
    for kind, options in RECORDED.items():
        commands[kind] = [*record, "-q", *options, "-o", str(trace), "--", *itself, kind]
    found = {}
    kinds = list(commands)
    first = number % len(kinds)
    for kind in kinds[first:] + kinds[:first]:
        found |= json.loads(subprocess.run(commands[kind], stdout=subprocess.PIPE, check=True).stdout)
        if kind in RECORDED:
            check(trace, record[0], with_stacks=not RECORDED[kind])
            trace.unlink()
    return found


def spread(values, form):
    lower, middle, upper = statistics.quantiles(values, n=4)
    return f"{middle:{form}} ({lower:{form}} to {upper:{form}})"


def compare(turns, directory, record):
    found = []
    with open(directory / "turns.jsonl", "w") as kept:
        for number in range(turns):
            found.append(turn(number, directory, record))
            print(json.dumps(found[-1]), file=kept, flush=True)
    for depth in map(str, DEPTHS):
        bare = [ns["bare"][depth] for ns in found]
        for kind in RECORDED:
            ours = [ns[kind][depth] - ns["bare"][depth] for ns in found]
            text = f"bare {spread(bare, ',.0f')}, recorded {spread(ours, '+,.0f')}"
            for theirs, when in ("history", "left on"), ("history anew", "begun anew"):
                added = [ns[theirs][depth] - ns["bare"][depth] for ns in found]
                parts = [our / their for our, their in zip(ours, added)]
                text += f"; by PyTorch, {when}, {spread(added, '+,.0f')}: {spread(parts, '.2f')} of it"
            print(f"{kind}, depth {depth}\t{text}")


if sys.argv[1] == "measure":
    measure(sys.argv[2])
else:
    compare(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
