# SPDX-License-Identifier: Apache-2.0
"""Compares a recording with what PyTorch recorded of the same run: compare_torch.py MEMREEL TRACE SNAPSHOT STATS.

The trace must include the allocator's own trace (docs/frameworks.md). Prints one line for each required property; exit
code 1 when one does not hold.
"""
import gzip
import json
import pickle
import subprocess
import sys


def read_events(memreel, trace):
    lines = subprocess.run([memreel, "export", trace, "--format", "jsonl", "--all-frames"], check=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in lines.splitlines()]


def short(name):
    """PyTorch's name of a code object, which may or may not be the qualified name."""
    return name.rsplit(".", 1)[-1]


def python_frames(row):
    """The thread's own frames, without the forward frames linked to the backward pass."""
    frames = row.get("stack", ())
    names = [frame["function"] for frame in frames]
    frames = frames[:names.index("[backward of]")] if "[backward of]" in names else frames
    return [(frame["file"], frame["line"], short(frame["function"])) for frame in frames
            if frame["file"].endswith((".py", ">"))]


def compare(events, history, stats, summary):
    """(property, number that agree, total, first difference)"""
    recorded = [row for row in events if row["heap"] == "torch.cuda" and row["kind"] in ("alloc", "free_requested")]
    expected = [row for row in history if row["action"] in ("alloc", "free_requested")]
    kinds = {"alloc": "alloc", "free_requested": "free_requested"}
    pairs = list(zip(recorded, expected))

    def check(name, agrees, chosen=lambda row: True):
        some = [(ours, theirs) for ours, theirs in pairs if chosen(theirs)]
        wrong = [(ours, theirs) for ours, theirs in some if not agrees(ours, theirs)]
        return name, len(some) - len(wrong), len(some), wrong[0] if wrong else None

    def same_stack(ours, theirs):
        frames = [(f["filename"], f["line"], short(f["name"])) for f in theirs.get("frames", ())]
        return python_frames(ours) == frames

    peak = summary["allocated_bytes"]["all"]["peak"]
    failures = [row["size"] for row in events if row["heap"] == "torch.cuda" and row["kind"] == "alloc_failed"]
    ooms = [row["size"] for row in history if row["action"] == "oom"]
    alloc = lambda row: row["action"] == "alloc"
    with_frames = lambda row: bool(row.get("frames"))
    yield "events (recorded, in the history)", min(len(recorded), len(expected)), len(expected), None
    yield check("kind and order", lambda o, t: o["kind"] == kinds[t["action"]])
    yield check("address", lambda o, t: o["address"] == t["addr"])
    yield check("requested size", lambda o, t: o["size"] == t["size"])
    yield check("stream of allocations", lambda o, t: o["stream"] == t["stream"], alloc)
    yield check("Python stacks of allocations", same_stack, lambda r: alloc(r) and with_frames(r))
    yield check("Python stacks of frees", same_stack, lambda r: not alloc(r) and with_frames(r))
    yield check("no Python stack where PyTorch has none", lambda o, t: not python_frames(o), lambda r: not with_frames(r))
    yield "failures", sum(a == b for a, b in zip(failures, ooms)), len(ooms), (failures, ooms)
    wanted = stats["allocated_bytes.all.peak"]
    yield f"peak {peak} == allocated_bytes.all.peak {wanted}", int(peak == wanted), 1, None

    segments = {"segment_alloc": "alloc", "segment_free": "free_requested", "segment_map": "segment_map",
                "segment_unmap": "segment_unmap"}
    theirs = joined((segments[row["action"]], row["addr"], row["size"]) for row in history if row["action"] in segments)
    known = {row[1] for row in theirs}
    ours = joined((row["kind"], row["address"], row["size"]) for row in events if row["level"] == "driver"
                  and row["heap"] in ("cuda.driver", "cuda.mapped") and row["kind"] in segments.values()
                  and (row["heap"] == "cuda.mapped" or row["address"] in known))
    ours = [row for row in ours if row[1] in known]
    wrong = [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
    yield "segments at the driver", len(theirs) - len(wrong) - max(0, len(theirs) - len(ours)), len(theirs), wrong[:1]


def joined(rows):
    """PyTorch maps a segment's pages one by one but records them as one: merges adjacent pages into one row."""
    rows = list(rows)
    result = []
    for kind, address, size in rows:
        if result and kind.startswith("segment") and result[-1][0] == kind and sum(result[-1][1:]) == address:
            result[-1] = (kind, result[-1][1], result[-1][2] + size)
        else:
            result.append((kind, address, size))
    return result


def main():
    memreel, trace, snapshot, stats = sys.argv[1:]
    with gzip.open(snapshot) as file:
        history = pickle.load(file)["device_traces"][0]
    with open(stats) as file:
        stats = json.load(file)
    print(stats["gpu"], "PyTorch", stats["torch"], "Python", stats["python"].split()[0])
    failed = False
    report = subprocess.run([memreel, "report", trace, "--json"], check=True, stdout=subprocess.PIPE).stdout
    summary = next(row["memory_summary"] for row in json.loads(report)["summary"]["devices"] if row["memory_summary"])
    for name, agree, of, first in compare(read_events(memreel, trace), history, stats, summary):
        print(f"{'ok  ' if agree == of else 'DIFF'} {name}: {agree} of {of}")
        if agree != of:
            failed = True
            print("     first:", str(first)[:3000])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
