# SPDX-License-Identifier: Apache-2.0
"""Compares a program's own account (samples/cuda/ground_truth.h) with memreel's trace of it."""

import collections
import json
import subprocess

# One line of the ground truth.
Truth = collections.namedtuple("Truth", "time thread event heap address size device", defaults=(None,))

# One event of either side. `address` is None if there is nothing to compare: for failures, and for physical memory, which
# is named by its handle. `device` is None if the program does not report it.
Event = collections.namedtuple("Event", "kind heap address size device", defaults=(None,))

HEAPS = {"linear": "cuda.driver", "managed": "cuda.driver", "array": "cuda.driver", "ordered": "cuda.driver", "ordered-host": "cuda.host",
         "physical": "cuda.driver", "pinned": "cuda.host", "registered": "cuda.host", "mapped": "cuda.mapped",
         "addresses": "cuda.addresses", "graph": "cuda.graph", "imported": "cuda.imported"}
KINDS = {"alloc": "alloc", "free": "free_requested", "alloc_failed": "alloc_failed", "map": "segment_map",
         "unmap": "segment_unmap", "reserve": "segment_alloc", "release": "segment_free", "node": "segment_alloc",
         "free_node": "segment_free"}


def read_truth(text):
    """Events in the order in which the program wrote them. The last line may be cut off."""
    events = []
    for line in text.splitlines():
        words = line.split()
        if len(words) in (7, 8) and words[0] == "truth":
            events.append(Truth(int(words[1]), int(words[2]), words[3], words[4], int(words[5], 16), int(words[6]),
                                *map(int, words[7:])))
    return events


def expected(truth):
    address = truth.address if truth.event != "alloc_failed" and truth.heap != "physical" else None
    return Event(KINDS[truth.event], HEAPS[truth.heap], address, truth.size, truth.device)


def read_trace(memreel, trace):
    """All events with all frames, as `memreel export --format jsonl` writes them."""
    process = subprocess.run([memreel, "export", trace, "--format", "jsonl", "--all-frames"], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    if process.returncode:
        raise AssertionError(process.stderr)
    return [json.loads(line) for line in process.stdout.splitlines()]


def driver_events(rows, truth):
    """(thread, Event) for the rows that the ground truth covers."""
    with_physical = any(line.heap == "physical" for line in truth)
    with_device = any(line.device is not None for line in truth)
    result = []
    for row in rows:
        if row["heap"] not in HEAPS.values() or row["kind"] not in KINDS.values():
            continue
        is_physical = with_physical and row["heap"] == "cuda.driver" and row.get("pool") == [0, 0]
        address = None if row["kind"] == "alloc_failed" or is_physical else row["address"]
        device = row["device"] if with_device and row["device"] >= 0 else None
        result.append((row["thread"], Event(row["kind"], row["heap"], address, row["size"], device)))
    return result


def differences(truth, rows):
    """The differences as text, at most a few; empty if the trace matches the program, thread by thread and with every
    address used by one owner at a time."""
    wanted, found = collections.defaultdict(list), collections.defaultdict(list)
    for line in truth:
        wanted[line.thread].append(expected(line))
    for thread, event in driver_events(rows, truth):
        found[thread].append(event)
    texts = []
    for thread in sorted(set(wanted) | set(found)):
        for i in range(max(len(wanted[thread]), len(found[thread]))):
            want = wanted[thread][i] if i < len(wanted[thread]) else None
            got = found[thread][i] if i < len(found[thread]) else None
            if want != got:
                texts.append(f"thread {thread}, event {i}: the program says {want}, the trace {got}")
                break
    return texts + ownership(rows)


def ownership(rows):
    """Addresses that the trace gives to two owners at once, or frees without an owner."""
    texts, live = [], {}
    for row in rows:
        if row["heap"] not in ("cuda.driver", "cuda.host"):
            continue
        place = row["heap"], row.get("address")
        if row["kind"] == "alloc":
            if place in live:
                texts.append(f"event {row['event']}: {place} is given out, but event {live[place]} has it")
            live[place] = row["event"]
        elif row["kind"] == "free_requested" and live.pop(place, None) is None:
            texts.append(f"event {row['event']}: {place} is freed, but nobody has it")
    return texts[:5]
