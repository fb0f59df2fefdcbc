# SPDX-License-Identifier: Apache-2.0
"""How long `memreel predict` takes on one core, from three recordings of 100 k events each.

predict_speed.py

Prints the event counts of the recordings and the shortest of three runs: for larger batches (sizes grow), more layers
and more tokens (requests repeat), and convolutions (sizes follow no formula, so many hypotheses are replayed)."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMREEL = os.environ.get("MEMREEL", str(ROOT / "build/release/bin/memreel"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
from scaled_program import convolutions, generation, training  # noqa: E402

PROGRAMS = {
    "batch": (lambda n: training(batch=n, layers=64, steps=74), (1, 2, 4), 16),
    "layers": (lambda n: training(layers=n, steps=74), (56, 60, 64), 96),
    "tokens": (lambda n: generation(tokens=n, layers=16, steps=12), (64, 72, 80), 256),
    "convolutions": (lambda n: convolutions(batch=n, steps=2800), (2, 4, 5), 16),
}


def main():
    core = min(os.sched_getaffinity(0))
    for name, (program, values, target) in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as directory:
            events, arguments = [], []
            for value in values:
                made = program(value)
                events.append(len(made.entries))
                file = Path(directory) / f"{value}.pickle"
                file.write_bytes(made.pickle())
                arguments.append(f"x={value}:{file}")
            seconds = []
            for _ in range(3):
                begin = time.perf_counter()
                subprocess.run([MEMREEL, "predict", *arguments, "--to", f"x={target}"], stdout=subprocess.DEVNULL, check=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, {core}))
                seconds.append(time.perf_counter() - begin)
            print(f"{name:14} {' + '.join(f'{n:,}' for n in events)} events: {min(seconds):.2f} s")


if __name__ == "__main__":
    main()
