"""How far predictions are from what was recorded: `memreel predict` from the three smallest sizes of a program to each
larger one.

  predict_errors.py DIRECTORY      with PROGRAM-SIZE.pickle.xz and truth.jsonl

Prints each error, then the median, the 90th percentile, and how often the truth is in the stated range."""

import json
import os
import subprocess
import sys
from pathlib import Path

MEMREEL = os.environ.get("MEMREEL", str(Path(__file__).resolve().parents[2] / "build/release/bin/memreel"))


def programs(directory):
    """{program with its setting: {size: (file, truth)}}"""
    found = {}
    for line in (directory / "truth.jsonl").read_text().splitlines():
        truth = json.loads(line)
        file = directory / (truth["name"] + ".pickle.xz")
        if truth["limit_gib"] is None and file.exists():
            found.setdefault((truth["program"], truth["conf"]), {})[truth["x"]] = (file, truth)
    return found


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def main():
    live, reserved, covered = [], [], []
    print(f"{'program':44} {'size':>6} {'live':>8} {'reserved':>9}   range")
    for (program, conf), sizes in programs(Path(sys.argv[1])).items():
        if len(sizes) < 4:
            continue
        small, large = sorted(sizes)[:3], sorted(sizes)[3:]
        process = subprocess.run(
            [MEMREEL, "predict", *(f"x={x}:{sizes[x][0]}" for x in small), "--to", "x=" + ",".join(map(str, large)), "--json"],
            stdout=subprocess.PIPE, text=True, check=True)
        for prediction in json.loads(process.stdout)["predictions"]:
            truth = sizes[prediction["value"]][1]
            live.append(prediction["peak_live_bytes"] / truth["peak_requested"] - 1)
            reserved.append(prediction["peak_reserved_bytes"] / truth["peak_reserved"] - 1)
            low, high = prediction["peak_reserved_low_bytes"], prediction["peak_reserved_high_bytes"]
            covered.append(low <= truth["peak_reserved"] <= high)
            print(f"{(program + ' ' + conf).strip():44} {prediction['value']:6} {live[-1]:+8.2%} {reserved[-1]:+9.2%}   "
                  f"{low / truth['peak_reserved'] - 1:+.1%} to {high / truth['peak_reserved'] - 1:+.1%}"
                  f"{'' if covered[-1] else '  MISSED'}")
    for name, errors in (("live", live), ("reserved", reserved)):
        absolute = [abs(error) for error in errors]
        print(f"{name}: median {percentile(absolute, 0.5):.2%}, 90th percentile {percentile(absolute, 0.9):.2%}")
    print(f"truth in the stated range: {sum(covered)} of {len(covered)}")


if __name__ == "__main__":
    main()
