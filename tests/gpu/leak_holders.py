#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the labelled programs of leak_programs.py, and compares what memreel.growing() names with what they leak.

leak_holders.py [--programs a,b] [--seeds 1,2]    a line for each; exit code 1 if a leak's holder is not named, or one of a clean program is

Needs a GPU and PyTorch. Each program runs in its own process.
"""
import argparse
import pathlib
import random
import subprocess
import sys

from leak_programs import PROGRAMS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collector/python_module"))


def run(name, seed):
    import memreel
    import torch

    rng = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    program = PROGRAMS[name](torch, rng)
    walks = []
    for i in range(program.steps):
        program.step(i)
        if i + 1 in (program.steps // 3, program.steps * 2 // 3, program.steps):
            walks.append(memreel.holders(seconds=60))
    grown = memreel.growing(*walks)
    leaks = len(program.held) > 0
    named = any("held" in one.text for one in grown)
    right = named if leaks else not grown
    print(f"{name}: {'leak' if leaks else 'clean'}, {'right' if right else 'WRONG'}, {walks[-1].objects:,} objects in {walks[-1].seconds:.2f} s: "
          f"{'; '.join(map(repr, grown)) or 'nothing grows'}", *walks[-1].notes)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        sys.exit(not run(arguments.one[0], int(arguments.one[1])))
    failed = 0
    for name in arguments.programs.split(","):
        for seed in arguments.seeds.split(","):
            failed += subprocess.run([sys.executable, "-B", __file__, "--one", name, seed]).returncode != 0
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
