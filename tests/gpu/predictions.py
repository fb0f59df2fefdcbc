"""Compares predictions with what PyTorch did: replays the run of each program under default settings with the settings
that other runs of the same program and seed were recorded under, and prints the table of docs/measurements.md.

usage: predictions.py MEMREEL DIRECTORY      DIRECTORY holds what record_matrix.py wrote (truth.jsonl and the histories)
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def policy_of(conf):
    """PYTORCH_CUDA_ALLOC_CONF as a policy of memreel."""
    depth, text = 0, ""
    for c in conf:
        depth += (c == "[") - (c == "]")
        text += "=" if c == ":" and depth == 0 else c
    return "torch.native{" + text + "}"


def main(memreel, directory):
    runs = defaultdict(list)
    for line in (directory / "truth.jsonl").read_text().splitlines():
        run = json.loads(line)
        runs[run["program"], run["seed"]].append(run)
    print("| program | setting | predicted peak | real peak | difference |\n|---|---|---|---|---|")
    for (program, seed), group in sorted(runs.items()):
        default = next((run for run in group if run["conf"] == "" and not run["limit"]), None)
        if default is None:
            continue
        for run in group:
            if run is default or not (directory / run["file"]).exists():
                continue
            capacity = str(run["limit"]) if run["limit"] else "unlimited"
            process = subprocess.run([memreel, "replay", directory / default["file"], "--policy", policy_of(run["conf"]),
                                      "--capacity", capacity, "--json"], capture_output=True, text=True)
            if process.returncode:
                print(program, run["conf"], process.stderr, file=sys.stderr)
                continue
            predicted = json.loads(process.stdout)["policies"][0]
            real = run["stats"]["reserved_bytes.all.peak"]
            difference = predicted["peak_reserved_bytes"] / real - 1
            print(f"| {program} {seed} | `{run['conf']}`{' at ' + capacity if run['limit'] else ''} "
                  f"| {predicted['peak_reserved_bytes']:,} | {real:,} | {100 * difference:+.2f} % "
                  f"{predicted['failed_allocations'] or ''} |")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
