# SPDX-License-Identifier: Apache-2.0
"""The errors of `memreel predict`, from the three smallest sizes of a program to each larger one, against recordings.

predict_errors.py [--from smallest|two|upper] DIRECTORY...      with PROGRAM-SIZE.pickle.xz and truth.jsonl

Prints a row for each prediction: the errors of the live and reserved peaks against those that PyTorch reported, the
predicted range of the reserved peak, and how the written trace compares with the recording of that size: the steps
with as many requests as recorded (or the largest difference), and the share of recorded bytes in requests of the same
sizes, over all steps. Then a row for each program with its largest errors, medians, 90th percentiles, and how often
the truth is in the predicted range."""

import argparse
import collections
import csv
import json
import os
import subprocess
import tempfile
from pathlib import Path

MEMREEL = os.environ.get("MEMREEL", str(Path(__file__).resolve().parents[2] / "build/release/bin/memreel"))
SINGLE_OPERATORS = "operators_count"  # made to find rules, not a real program; left out unless requested
CHOICES = {
    "smallest": lambda sizes: (sizes[:3], sizes[3:]),
    "two": lambda sizes: (sizes[:2], sizes[2:]),
    "upper": lambda sizes: (sizes[len(sizes) // 2 - 1:][:3], sizes[len(sizes) // 2 - 1:][3:]),
}


def programs(directories):
    """{program and its setting: {size: (file, truth)}}"""
    found = collections.defaultdict(dict)
    for directory in directories:
        for line in (directory / "truth.jsonl").read_text().splitlines():
            truth = json.loads(line)
            file = directory / (truth["name"] + ".pickle.xz")
            if truth["limit_gib"] is None and file.exists():
                found[f"{truth['program']} {truth['conf']}".strip()][truth["x"]] = (file, truth)
    return found


def predict(recordings, targets, *options):
    process = subprocess.run(
        [MEMREEL, "predict", *(f"x={x}:{file}" for x, (file, _) in recordings), "--to", "x=" + ",".join(map(str, targets)), "--json",
         *options], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(process.stdout)["predictions"]


def steps(trace):
    """The request sizes of a trace with their counts, step by step."""
    found = [collections.Counter()]
    with subprocess.Popen([MEMREEL, "export", trace, "--format", "csv"], stdout=subprocess.PIPE, text=True) as process:
        for row in csv.DictReader(process.stdout):
            if row["kind"] == "alloc":
                found[-1][int(row["size"])] += 1
            elif row["kind"] == "mark" and row["mark"] == "begin step":
                found.append(collections.Counter())
    return found


def compare(predicted, recorded):
    """The largest difference of steps in requests, and the share of recorded bytes in requests of the same sizes."""
    if len(predicted) != len(recorded):
        return None, 0
    most = max((p.total() - r.total() for p, r in zip(predicted, recorded)), key=abs)
    equal = sum(size * count for p, r in zip(predicted, recorded) for size, count in (p & r).items())
    return most, equal / max(1, sum(size * count for r in recorded for size, count in r.items()))


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def percent(value, digits=2):
    return f"{0.0 if abs(value) < 0.5 * 10 ** -digits / 100 else 100 * value:+.{digits}f} %"


def result_of(sizes, small, target):
    """The errors of one prediction, as shares of the recorded values."""
    file, truth = sizes[target]
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "predicted.reel"
        prediction = predict([(x, sizes[x]) for x in small], [target], "-o", trace)[0]
        most, equal = compare(steps(trace), steps(file))
    low, high = (prediction[f"peak_reserved_{end}_bytes"] / truth["peak_reserved"] - 1 for end in ("low", "high"))
    return {"target": target, "live": prediction["peak_live_bytes"] / truth["peak_requested"] - 1,
            "reserved": prediction["peak_reserved_bytes"] / truth["peak_reserved"] - 1, "low": low, "high": high,
            "covered": low <= 0 <= high, "requests": most, "equal": equal}


def print_result(program, small, r):
    requests = "other steps" if r["requests"] is None else "equal" if r["requests"] == 0 else f"{r['requests']:+}"
    print(f"| {program} | {', '.join(map(str, small))} | {r['target']} | {percent(r['live'])} | {percent(r['reserved'])} | "
          f"{percent(r['low'], 1)} to {percent(r['high'], 1)}{'' if r['covered'] else ', MISSED'} | {requests} | "
          f"{100 * r['equal']:.2f} % |", flush=True)


def print_program(program, small, results):
    """The program's largest errors."""
    def of(key):
        return [r[key] for r in results]
    print(f"| {program} | {', '.join(map(str, small))} | {', '.join(map(str, of('target')))} | {percent(max(of('live'), key=abs))} | "
          f"{percent(max(of('reserved'), key=abs))} | {sum(of('covered'))} of {len(results)} | "
          f"{of('requests').count(0)} of {len(results)} | {100 * min(of('equal')):.2f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="choice", choices=CHOICES, default="smallest")
    parser.add_argument("--program", help="only programs with this name prefix")
    parser.add_argument("directories", nargs="+", type=Path)
    args = parser.parse_args()
    results = {}
    print("| program | from | to | live | reserved | range | requests a step | bytes in equal sizes |\n|---|---|---|---|---|---|---|---|")
    for program, sizes in programs(args.directories).items():
        small, large = CHOICES[args.choice](sorted(sizes))
        chosen = program.startswith(args.program) if args.program else program != SINGLE_OPERATORS
        if not chosen or not large or len(small) < 2:
            continue
        results[program] = small, []
        for target in large:
            results[program][1].append(result_of(sizes, small, target))
            print_result(program, small, results[program][1][-1])
    print("\n| program | from | to | live | reserved | actual value in range | as many requests in every step | bytes in equal sizes |\n"
          "|---|---|---|---|---|---|---|---|")
    for program, (small, of_program) in results.items():
        print_program(program, small, of_program)
    every = [result for _, of_program in results.values() for result in of_program]
    print()
    for name in ("live", "reserved"):
        errors = [abs(result[name]) for result in every]
        print(f"{name}: median {percentile(errors, 0.5):.2%}, 90th percentile {percentile(errors, 0.9):.2%}")
    print(f"truth in the stated range: {sum(r['covered'] for r in every)} of {len(every)}")
    print(f"as many requests in every step: {sum(r['requests'] == 0 for r in every)} of {len(every)}; at least 99 % of the bytes in requests "
          f"of equal sizes: {sum(r['equal'] >= 0.99 for r in every)}")


if __name__ == "__main__":
    main()
