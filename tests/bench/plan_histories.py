#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close memreel plan comes to the bound on real programs: one step of each recording, as memreel info counts them, or all of it if there are none.

usage: tests/bench/plan_histories.py MEMREEL RECORDING... [-- ARGUMENTS of memreel plan]
"""

import json
import pathlib
import re
import subprocess
import sys
import time


def planned(command):
    process = subprocess.run(command, capture_output=True, text=True)
    return process.stdout, process.stderr


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    memreel, *files = sys.argv[1:]
    more = files[files.index("--") + 1:] if "--" in files else []
    files = files[:files.index("--")] if "--" in files else files
    print("| recording | step | buffers | bound | plan | gap | method | seconds, with reading |\n|---|---|---|---|---|---|---|---|")
    for file in map(pathlib.Path, files):
        steps = re.search(r"has ([\d,]+) step", planned([memreel, "plan", file, "--step", "0"])[1])
        middle = (int(steps[1].replace(",", "")) + 1) // 2 if steps else 0
        begin = time.monotonic()
        out, error = planned([memreel, "plan", file, "--json", *(["--step", str(middle)] if middle else []), *more])
        seconds = time.monotonic() - begin
        if not out:
            print(f"| {file.name.split('.')[0]} | | {error.strip()} | | | | | |")
            continue
        plan = json.loads(out)
        print(f"| {file.name.split('.')[0]} | {middle or 'all'} | {plan['buffers']:,} | {plan['bound_bytes']:,} | {plan['peak_bytes']:,} "
              f"| {100 * plan['gap']:.2f} % | {plan['method']} | {plan['seconds']:.2f}, {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
