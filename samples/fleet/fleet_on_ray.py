# SPDX-License-Identifier: Apache-2.0
"""Judges the recordings of a job on the Ray cluster that ran it: python fleet_on_ray.py OUT FILES|DIRS...

OUT is a directory that every node sees. The same as `memreel fleet --engine ray -o OUT FILES`, for those who have a
driver program already; ray.init() may have been called with whatever address the cluster has.
"""

import sys
from pathlib import Path

import memreel.on_ray


def recordings(names):
    for name in map(Path, names):
        yield from sorted(name.rglob("*.reel")) if name.is_dir() else [name]


if __name__ == "__main__":
    out, *names = sys.argv[1:]
    files = [str(file.resolve()) for file in recordings(names)]
    sys.exit(memreel.on_ray.main(["--out", str(Path(out).resolve()), "--resume", "--", *files]))
