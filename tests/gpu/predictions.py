# SPDX-License-Identifier: Apache-2.0
"""Compares predictions with what PyTorch did: replays each program's runs under default settings with the settings of
other recorded runs of the same program and seed, and prints the table of docs/measurements.md.

usage: predictions.py MEMREEL DIRECTORY      DIRECTORY holds the output of record_matrix.py (truth.jsonl and
histories)

Repeated runs show how much PyTorch's own peak varies from run to run: both columns are then ranges, and the difference
is that of the nearest ends.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def policy_of(conf):
    """PYTORCH_CUDA_ALLOC_CONF as a memreel policy."""
    depth, text = 0, ""
    for c in conf:
        depth += (c == "[") - (c == "]")
        text += "=" if c == ":" and depth == 0 else c
    return "torch.native{" + text + "}"


def predict(memreel, history, conf, capacity):
    command = [memreel, "replay", history, "--policy", policy_of(conf), "--capacity", capacity, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{history.name} {conf}: {process.stderr}")
    return json.loads(process.stdout)["policies"][0]["peak_reserved_bytes"]


def text_of(values):
    ends = f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"
    return ends + (f" ({len(values)} runs)" if len(values) > 1 else "")


def difference(predicted, real):
    if max(predicted) < min(real):
        return max(predicted) / min(real) - 1
    return max(0, min(predicted) / max(real) - 1)


def main(memreel, directory):
    runs = defaultdict(lambda: defaultdict(list))
    for line in (directory / "truth.jsonl").read_text().splitlines():
        run = json.loads(line)
        if (directory / run["file"]).exists():
            runs[run["program"], run["seed"]][run["conf"], run["limit"]].append(run)
    print("| program | setting | predicted peak | real peak | difference |\n|---|---|---|---|---|")
    for (program, seed), by_setting in sorted(runs.items()):
        defaults = by_setting.get(("", 0), [])
        for (conf, limit), group in by_setting.items() if defaults else ():
            real = [run["stats"]["reserved_bytes.all.peak"] for run in group]
            predicted = [predict(memreel, directory / run["file"], conf, str(limit or "unlimited")) for run in defaults]
            at = f" at {limit:,}" if limit else ""
            print(f"| {program} {seed} | {'`' + conf + '`' if conf else 'default'}{at} | {text_of(predicted)} "
                  f"| {text_of(real)} | {100 * difference(predicted, real):+.2f} % |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
