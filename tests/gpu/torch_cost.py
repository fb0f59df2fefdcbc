"""What recording adds to a loop that allocates a tensor and frees it: torch_cost.py MEMREEL DIRECTORY TURNS.

In each turn one process runs the loop bare and under PyTorch's own recorder, by turns; that recorder begins anew each
time, in memory that the process has used before. One leaves it on, as who looks for a mistake does: it grows. And for
each kind of recording one runs under `memreel record`. What counts of a process is the least of its rounds. Processes
differ by about as much as is to be measured here, as their libraries happen to lie and as the machine's other users
come and go; so there are many turns, and of them medians, with the quartiles in brackets. Prints a line for each call
depth and kind of recording.
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


def measure(kinds):
    """Runs the loop in this process; prints ns for each pair, {kind: {depth: ns}}."""
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

    rounds = {kind: {depth: [] for depth in DEPTHS} for kind in kinds}
    for _ in range(ROUNDS):
        for kind in kinds:
            if kind.startswith("history"):
                torch.cuda.memory._record_memory_history(stacks="all")
            for depth in DEPTHS:
                at_depth(depth, WARM_UP)
                rounds[kind][depth].append(at_depth(depth, PAIRS))
            if kind == "history anew":
                torch.cuda.memory._record_memory_history(enabled=None)
    print(json.dumps({kind: {depth: min(ns) for depth, ns in depths.items()} for kind, depths in rounds.items()}))


def turn(memreel, directory):
    """What measure() says of all kinds, each in a process that suits it."""
    trace = directory / "cost.reel"
    itself = [sys.executable, __file__, "measure"]
    commands = [[*itself, "bare", "history anew"], [*itself, "history"]]
    for kind, options in RECORDED.items():
        commands.append([memreel, "record", "-q", *options, "-o", str(trace), "--", *itself, kind])
    found = {}
    for command in commands:
        found |= json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        trace.unlink(missing_ok=True)
    return found


def spread(values, form):
    lower, middle, upper = statistics.quantiles(values, n=4)
    return f"{middle:{form}} ({lower:{form}} to {upper:{form}})"


def compare(memreel, directory, turns):
    found = []
    with open(directory / "turns.jsonl", "w") as kept:
        for _ in range(turns):
            found.append(turn(memreel, directory))
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
    measure(sys.argv[2:])
else:
    compare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
