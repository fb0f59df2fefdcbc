#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon memreel browse shows a trace, beside memreel report of it: browse.py MEMREEL TRACE [TIMES]. Seconds by the clock, and in brackets
of a processor, each the best of TIMES (default 3), which take turns."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

program, trace = (str(Path(argument).resolve()) for argument in sys.argv[1:3])
times = int(sys.argv[3]) if len(sys.argv) > 3 else 3
os.environ["MEMREEL"] = program
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import terminal  # noqa: E402


def spent(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def browse(directory):
    """When the first events, the first verdict and everything were on the screen."""
    begin = time.monotonic()
    shown = terminal.Terminal(directory, f"$MEMREEL browse {trace}", (120, 40))
    is_there = {"first events": lambda screen: " live" in screen,
                "first verdict": lambda screen: "at the peak:" in screen,
                "everything": lambda screen: not any(word in line for word in terminal.BUSY for line in screen.split("\n")[:2])}
    result = {}
    for name, is_true in is_there.items():
        shown.until(is_true)
        result[name] = time.monotonic() - begin, spent(shown.process())
    shown.close()
    return result


def report():
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "report", trace], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"report": (time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)}


best = {}
with tempfile.TemporaryDirectory() as folder:
    for _ in range(times):
        for name, pair in (browse(Path(folder)) | report()).items():
            best[name] = tuple(map(min, pair, best.get(name, pair)))
for name, (clock, processor) in best.items():
    print(f"{name:14} {clock:6.2f} ({processor:.2f})")
