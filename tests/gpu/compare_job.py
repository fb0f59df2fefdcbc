#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what memreel says of a job of torch_job.py with what its ranks said themselves.

  compare_job.py judge MEMREEL DIR PROGRAM    DIR/job has the recordings, DIR the ranks' files; DIR/setting gets a setting
  compare_job.py again DIR AGAIN              AGAIN has the files of a second run, without memreel, with that setting

Prints lines of "what was compared<tab>result"; a result that does not hold begins with FAILED."""

import json
import pathlib
import re
import subprocess
import sys

MIB = 1 << 20


def document(memreel, *arguments):
    return json.loads(subprocess.run([memreel, *arguments, "--json"], stdout=subprocess.PIPE, check=False).stdout)


def said(directory):
    """What each rank said, by rank."""
    files = sorted(pathlib.Path(directory).glob("rank_*.json"), key=lambda file: int(file.stem[5:]))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def row(what, holds, result):
    print(f"{what}\t{'' if holds else 'FAILED: '}{result}", flush=True)


def of(value, truth):
    return f"{value / MIB:.1f} of {truth / MIB:.1f} MiB ({100 * (value - truth) / truth:+.2f} %)"


def near(value, truth, share):
    return abs(value - truth) <= share * truth


def communicators(memreel, trace, seconds):
    """Bytes of each communicator by its number, and NCCL's in no communicator, on the device that long after the start."""
    found, of_none = {}, 0
    for heap in document(memreel, "report", trace, "--by", "library", "--at", f"{seconds:.9f}s")["live_at"]["heaps"]:
        if heap["device"] < 0 or heap["heap"] == "cuda.imported":
            continue
        for group in heap["groups"]:
            number = re.search(r"communicator (\d+)", group["label"])
            if number:
                found[int(number[1])] = found.get(int(number[1]), 0) + group["bytes"]
            elif "nccl" in group["label"]:
                of_none += group["bytes"]
    return found, of_none


def start_of(memreel, trace):
    """The time of the first event, in ns."""
    with subprocess.Popen([memreel, "export", trace, "--format", "jsonl"], stdout=subprocess.PIPE) as export:
        return json.loads(export.stdout.readline())["time_ns"]


def judge_communicators(memreel, directory, ranks):
    holds, texts = True, {}
    for rank, truth in enumerate(ranks):
        trace = directory / "job" / f"{rank}.reel"
        for communicator in truth["communicators"]:
            name, fell = communicator["name"], truth["fell"][communicator["name"]]
            if name.startswith("code"):
                continue
            found, of_none = communicators(memreel, trace, (communicator["time_ns"] - start_of(memreel, trace)) / 1e9)
            bytes_of = found.get(communicator["number"], 0)
            holds &= near(bytes_of, fell, 0.05) and not of_none
            texts.setdefault(name, []).append(of(bytes_of, fell) + (f", {of_none / MIB:.1f} MiB in none" if of_none else ""))
    if texts:
        row("bytes of each communicator, for the fall of free memory at its first use", holds,
            "; ".join(f"{name}: {', '.join(sorted(set(figures)))}" for name, figures in texts.items()))


def judge(memreel, directory, program):
    directory = pathlib.Path(directory)
    ranks = said(directory)
    n = len(ranks)
    axes = {"fsdp": f"dp={n}", "ddp": f"dp={n}", "mesh": f"dp={n // 2},tp=2", "pipeline": f"pp={n}"}[program]
    job = ["fleet", str(directory / "job"), "--mesh", axes]
    fleet = document(memreel, *job)
    (directory / "fleet.json").write_text(json.dumps(fleet), encoding="utf-8")
    (directory / "fleet.txt").write_bytes(subprocess.run([memreel, *job], stdout=subprocess.PIPE, check=False).stdout)
    row("recordings", [r["rank"] for r in fleet["ranks"]] == list(range(n)) and all(r["status"] == "ok" for r in fleet["ranks"]),
        ", ".join(f"{r['rank']} {r['status']}" for r in fleet["ranks"]))

    reserved = [r["devices"][i]["reserved_bytes.all.peak"] for i, r in enumerate(ranks)]
    peaks = [r["peak_reserved_bytes"] for r in fleet["ranks"]]
    row("peak of reserved memory of each rank, for memory_stats()", peaks == reserved, ", ".join(f"{p / MIB:.0f}" for p in peaks) + " MiB")
    driver = [r["driver_peak"] for r in ranks]
    held = [r["capacity_bytes"] - r["headroom_bytes"] for r in fleet["ranks"]]
    row("the device's peak, for the driver's", all(near(a, b, 0.01) for a, b in zip(held, driver)), ", ".join(map(of, held, driver)))

    classes = sorted(sorted(c["ranks"]) for c in fleet["classes"])
    expected = {"fsdp": [list(range(n))], "ddp": [list(range(n))], "mesh": [list(range(n // 2)), list(range(n // 2, n))],
                "pipeline": [[rank] for rank in range(n)]}[program]
    row("classes are the replicas", classes == expected, str(classes))
    decider = fleet["decides"]["rank"]
    most = max(range(n), key=lambda rank: driver[rank])
    alike = next(c for c in expected if most in c)
    row("who decides is the rank that used most of its device", decider in alike, f"rank {decider}: {fleet['decides']['why']}")
    if program == "pipeline":
        pp = fleet["imbalance"]["axes"][0]
        means = pp["mean_peak_reserved_bytes"]
        row("the heavy stage", means.index(max(means)) == reserved.index(max(reserved)) == n // 2,
            f"max over mean {pp['max_over_mean']:.2f}; " + ", ".join(f"{m / MIB:.0f}" for m in means) + " MiB")
        with open(pathlib.Path(__file__).parent / "torch_job.py", encoding="utf-8") as file:
            line = next(number for number, text in enumerate(file, 1) if text.rstrip().endswith("# the leak"))
        named = {(leak["rank"], any(frame.get("line") == line for frame in leak["stack"])) for leak in fleet["leaks"]}
        row("the leaking rank and its line", named == {(1, True)},
            "; ".join(f"rank {leak['rank']}: {leak['growth_bytes_per_step'] / MIB:.1f} MiB a step, {leak['verdict']}"
                      for leak in fleet["leaks"]))
    judge_communicators(memreel, directory, ranks)

    capacity = max(held) * 5 // 4 // MIB
    judged = document(memreel, *job, "--capacity", f"{capacity}MiB")
    setting = judged["setting"]
    chosen = setting["recommended"]
    if not chosen:  # any that changes much
        outcomes = [(abs(o["peak_reserved_bytes"] - c["recorded"]["peak_reserved_bytes"]), o["setting"])
                    for c in setting["classes"] for o in c["outcomes"]]
        chosen = max(outcomes)[1] if outcomes else ""
    predicted = [None] * n
    for c in setting["classes"]:
        for outcome in c["outcomes"] + [c["recorded"]]:
            if outcome["setting"] == chosen:
                for rank in c["ranks"]:
                    predicted[rank] = outcome["peak_reserved_bytes"]
    (directory / "fleet-setting.json").write_text(json.dumps(judged), encoding="utf-8")
    (directory / "predicted.json").write_text(json.dumps({"setting": chosen, "recorded": reserved, "predicted": predicted}),
                                              encoding="utf-8")
    (directory / "setting").write_text(chosen, encoding="utf-8")
    row(f"the common setting with {capacity} MiB", bool(chosen), setting["why"])


def again(directory, second):
    told = json.loads((pathlib.Path(directory) / "predicted.json").read_text(encoding="utf-8"))
    peaks = [r["devices"][i]["reserved_bytes.all.peak"] for i, r in enumerate(said(second))]
    row(f"predicted peaks with {told['setting']}, for a second run's",
        all(p is not None and near(p, q, 0.01) for p, q in zip(told["predicted"], peaks)),
        ", ".join("not predicted" if p is None else of(p, q) for p, q in zip(told["predicted"], peaks))
        + "; as recorded " + ", ".join(f"{p / MIB:.0f}" for p in told["recorded"]) + " MiB")


if __name__ == "__main__":
    {"judge": judge, "again": again}[sys.argv[1]](*sys.argv[2:])
